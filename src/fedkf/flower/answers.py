"""Answers: what a site sends is for its coordinator's eyes alone, and signed by the site.

An answer is encrypted to the coordinator's key and bound to the order that it answers. Whoever
carries it, or takes it in the coordinator's place, can neither read it nor make another, nor pass
it off as the answer to something else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from flwr.app import ConfigRecord, Message, RecordDict

from fedkf.core.errors import FedkfError
from fedkf.flower.messages import packed, unpacked

PURPOSE = b"fedkf answer 1\n"
ONCE = bytes(12)
"""The nonce: every answer has a key of its own."""
HEAD = 8
"""Bytes that say how long the head is."""


class Forgery(FedkfError):
    """An answer that is not the site's, or not to what was asked."""


def sealed(reply: Message, order: str, key: ec.EllipticCurvePrivateKey, to: X25519PublicKey) -> Any:
    """The content of a reply that only the coordinator can read, signed by the site."""
    ephemeral = X25519PrivateKey.generate()
    public = ephemeral.public_key().public_bytes_raw()
    shared = derived(ephemeral.exchange(to), public, to, order)
    hidden = ChaCha20Poly1305(shared).encrypt(ONCE, plain(reply), order.encode())
    signature = key.sign(bound(order, public, hidden), ec.ECDSA(hashes.SHA384()))
    head = ConfigRecord({"ephemeral": public, "signature": signature})
    return RecordDict({"seal": head, "sealed": packed(hidden)})


@dataclass(frozen=True)
class Opener:
    """Opens the answers of sites with the coordinator's key."""

    key: X25519PrivateKey

    def open(self, reply: Message, order: str, site: ec.EllipticCurvePublicKey) -> Any:
        """The content that a site sent, if it is its own answer to that order."""
        try:
            head: dict[str, Any] = dict(reply.content.config_records["seal"])
            hidden = unpacked(reply.content.array_records["sealed"])
            public = bytes(head["ephemeral"])
            signed = bound(order, public, hidden)
            site.verify(head["signature"], signed, ec.ECDSA(hashes.SHA384()))
            theirs = X25519PublicKey.from_public_bytes(public)
            shared = derived(self.key.exchange(theirs), public, self.key.public_key(), order)
            content = ChaCha20Poly1305(shared).decrypt(ONCE, hidden, order.encode())
        except InvalidSignature:
            raise Forgery("its answer is not signed by it, or answers something else") from None
        except InvalidTag:
            raise Forgery("its answer cannot be opened with the coordinator's key") from None
        except Exception:  # it may hold anything
            raise Forgery("its answer is not sealed") from None
        return read(content)


def derived(secret: bytes, public: bytes, to: X25519PublicKey, order: str) -> bytes:
    about = PURPOSE + public + to.public_bytes_raw() + order.encode()
    return HKDF(hashes.SHA256(), 32, salt=None, info=about).derive(secret)


def bound(order: str, public: bytes, hidden: bytes) -> bytes:
    """What a site signs."""
    return PURPOSE + order.encode() + public + hidden


def plain(reply: Message) -> bytes:
    """The content of a reply as bytes: its head, and the payload if there is one."""
    head = json.dumps(dict(reply.content.config_records["reply"])).encode()
    payload = reply.content.array_records.get("payload")
    return len(head).to_bytes(HEAD, "little") + head + (unpacked(payload) if payload else b"")


def read(content: bytes) -> RecordDict:
    """The content of a reply of these bytes; they are the site's own, who may send anything."""
    length = HEAD + int.from_bytes(content[:HEAD], "little")
    try:
        head = ConfigRecord(json.loads(content[HEAD:length]))
    except Exception:
        raise Forgery("its answer cannot be used") from None
    return RecordDict({"reply": head, "payload": packed(content[length:])})
