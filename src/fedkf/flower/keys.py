"""Certificates of a coordinator and keys of sites."""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedkf.core.errors import UserError

YEARS = 5


def write_secret(path: Path, content: bytes) -> None:
    """A file that only its owner can read, from its first moment on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(descriptor, 0o600)  # it may have been there
    with open(descriptor, "wb") as file:
        file.write(content)


def make_node_key(folder: Path) -> None:
    """`node.key`, which never leaves the site, and `node.pub`, which the coordinator is given."""
    key = ec.generate_private_key(ec.SECP384R1())
    write_secret(
        folder / "node.key", key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    )
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    (folder / "node.pub").write_bytes(public + b"\n")


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


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


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
