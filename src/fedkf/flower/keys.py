"""Certificates and keys of a coordinator, and keys of sites."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
    load_ssh_private_key,
    load_ssh_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedkf.core.errors import UserError
from fedkf.core.payload import write_atomically
from fedkf.flower.private import write_secret

NodeKey = ec.EllipticCurvePrivateKey
YEARS = 5
SIGNING, SEALING = "signing.key", "sealing.key"
"""A coordinator's own keys: it signs what it asks of sites, and opens what they answer."""
PINNED = "coordinator.pub"
"""Of a site: the public parts of its coordinator's keys, which nothing that arrives can change."""


def make_node_key(folder: Path) -> None:
    """`node.key`, which never leaves the site, and `node.pub`, which the coordinator is given."""
    key = ec.generate_private_key(ec.SECP384R1())
    write_secret(
        folder / "node.key", key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    )
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    (folder / "node.pub").write_bytes(public + b"\n")


@dataclass(frozen=True)
class CoordinatorKeys:
    """What only the coordinator has."""

    signing: Ed25519PrivateKey
    sealing: X25519PrivateKey

    @classmethod
    def read(cls, folder: Path) -> CoordinatorKeys:
        if not (folder / SIGNING).is_file() or not (folder / SEALING).is_file():
            raise UserError(
                f"{folder} has no signing key (an earlier version made it); fedkf coordinator key "
                f"{folder} makes one, and every site must then be given its new ca.crt"
            )
        with contextlib.suppress(ValueError):
            signing = load_pem_private_key((folder / SIGNING).read_bytes(), None)
            sealing = load_pem_private_key((folder / SEALING).read_bytes(), None)
            if isinstance(signing, Ed25519PrivateKey) and isinstance(sealing, X25519PrivateKey):
                return cls(signing, sealing)
        raise UserError(f"{folder / SIGNING} or {SEALING} is damaged; put a copy back")


@dataclass(frozen=True)
class TrustedKeys:
    """What a site knows of its coordinator: whose orders it obeys, and who can read its answers."""

    signing: Ed25519PublicKey
    sealing: X25519PublicKey

    @classmethod
    def parse(cls, content: bytes, where: Path) -> TrustedKeys:
        """Of a coordinator's ca.crt, or of what a site has kept of it."""
        blocks = re.findall(
            rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", content, re.S
        )
        try:
            found = [load_pem_public_key(block) for block in blocks]
        except ValueError:
            found = []
        signing = [key for key in found if isinstance(key, Ed25519PublicKey)]
        sealing = [key for key in found if isinstance(key, X25519PublicKey)]
        if len(signing) != 1 or len(sealing) != 1:
            raise UserError(
                f"{where} does not hold the coordinator's keys; the coordinator's own ca.crt does "
                "(one that an earlier version made, after fedkf coordinator key)"
            )
        return cls(signing[0], sealing[0])

    def content(self) -> bytes:
        return public_pem(self.signing) + public_pem(self.sealing)

    @classmethod
    def read(cls, folder: Path) -> TrustedKeys:
        """Of a site's folder."""
        file = folder / PINNED
        if not file.is_file():
            raise UserError(f"{file} is not there; fedkf site trust {folder} ca.crt makes it")
        return cls.parse(file.read_bytes(), file)


def make_coordinator_keys(folder: Path) -> None:
    """Keys of a coordinator, in the place of those that it had; `ca.crt` takes them to sites."""
    signing, sealing = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
    for name, key in ((SIGNING, signing), (SEALING, sealing)):
        write_secret(folder / name, pem(key))
    public = TrustedKeys(signing.public_key(), sealing.public_key()).content()
    certificate = certificate_in((folder / "ca.crt").read_bytes(), folder / "ca.crt")
    write_atomically(folder / "ca.crt", certificate + public)


def certificate_in(content: bytes, where: Path) -> bytes:
    """The certificate in a file that may hold keys as well."""
    block = rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----"
    if not (found := re.search(block, content, re.S)):
        raise UserError(f"{where} holds no certificate; the coordinator's ca.crt does")
    return found.group() + b"\n"


def node_key(folder: Path) -> NodeKey:
    """A site's own key, with which it connects and signs."""
    file = folder / "node.key"
    if not file.is_file():
        raise UserError(f"{file} is not there; without it this is no site that is registered")
    try:
        key = load_ssh_private_key(file.read_bytes(), None)
    except ValueError:
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UserError(f"{file} is damaged; put a copy back, or make and register a new site")
    return key


def node_public_key(text: str, where: str) -> ec.EllipticCurvePublicKey:
    """The key in a site's node.pub."""
    try:
        key = load_ssh_public_key(text.encode())
    except Exception:  # of many kinds, as the text may be anything
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise UserError(f"{where} is no key of a site; its node.pub is")
    return key


def fingerprint(key: ec.EllipticCurvePublicKey) -> str:
    """The SHA-256 of a site's key, as 64 hexadecimal digits."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    return digest.finalize().hex()


def make_certificates(folder: Path, hosts: Sequence[str]) -> None:
    """A certificate authority of the coordinator's own, and its server's certificate."""
    authority, server = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedkf coordinator")])
    now = datetime.datetime.now(datetime.UTC)

    def builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), False
            )
        )

    ciphers = ("key_encipherment", "data_encipherment", "encipher_only", "decipher_only")
    usage = dict.fromkeys(("content_commitment", "key_agreement", *ciphers), False)
    own = (
        builder(issuer, authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=False, key_cert_sign=True, crl_sign=True, **usage),
            critical=True,
        )
        .sign(authority, hashes.SHA384())
    )
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    certificate = (
        builder(name, server)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=False, crl_sign=False, **usage),
            critical=True,
        )
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([alternative(h) for h in hosts]), critical=False)
        .sign(authority, hashes.SHA384())
    )
    write_secret(folder / "server.key", pem(server))
    (folder / "server.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / "ca.crt").write_bytes(own.public_bytes(Encoding.PEM))
    # The authority's own key is not kept: nobody can make another certificate that sites trust.


def pem(key: ec.EllipticCurvePrivateKey | Ed25519PrivateKey | X25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_pem(key: ec.EllipticCurvePublicKey | Ed25519PublicKey | X25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def check_host(host: str) -> None:
    """Refuse what is neither an address nor a name of a machine."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        label = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
        if not re.fullmatch(rf"{label}(\.{label})*", host) or len(host) > 253:
            raise UserError(
                f"--host {host!r} must be a name or an address alone, such as coord.example.org "
                "(no scheme, no port, letters without accents)"
            ) from None


def alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
