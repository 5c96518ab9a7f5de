"""Answers: what a site sends is for its coordinator's eyes alone, and signed by the site.

An answer is encrypted to the coordinator's key and bound to the order that it answers. Whoever
carries it, or takes it in the coordinator's place, can neither read it nor make another, nor pass
it off as the answer to something else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from flwr.app import ConfigRecord, Message, RecordDict

from fedkf.core.errors import FedkfError, UserError
from fedkf.flower.messages import packed, unpacked

if TYPE_CHECKING:
    from fedkf.runs.assembly import Assembly

PURPOSE = b"fedkf answer 1\n"
ONCE = bytes(12)
"""The nonce: every answer has a key of its own."""
HEAD = 8
"""Bytes that say how long the head is."""
LONGEST_HEAD = 1 << 16
"""Bytes of a head at most."""
ROOM = 1 << 17
"""Bytes for head, seal and format beside the payload."""
MOST = (1 << 31) - 1
"""Bytes that can be sealed at a time."""


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

    def open(
        self,
        reply: Message,
        order: str,
        site: ec.EllipticCurvePublicKey,
        largest: int = MOST,
    ) -> Any:
        """The content that a site sent, if it is its own answer to that order.

        One with a payload of more than `largest` bytes is not looked at.
        """
        try:
            head: dict[str, Any] = dict(reply.content.config_records["seal"])
            sealed = reply.content.array_records["sealed"]
        except Exception:  # it may hold anything
            raise Forgery("its answer is not sealed") from None
        if (size := sum(len(array.data) for array in sealed.values())) > largest + ROOM:
            raise Forgery(
                f"its answer has {size / 1e6:.1f} MB, and {largest / 1e6:.1f} MB are expected "
                "at most"
            )
        try:
            hidden = unpacked(sealed)
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
    length = int.from_bytes(content[:HEAD], "little")
    if length > LONGEST_HEAD:
        raise Forgery(f"its answer has a head of {length} bytes, and {LONGEST_HEAD} are the most")
    length += HEAD
    try:
        head = ConfigRecord(json.loads(content[HEAD:length]))
    except Exception:
        raise Forgery("its answer cannot be used") from None
    return RecordDict({"reply": head, "payload": packed(content[length:])})


def check_sealable(assembly: Assembly) -> None:
    """Refuse a model that no site could answer with, before anybody trains it."""
    settings = assembly.config.transport
    size = sum(tensor.nbytes for tensor in assembly.task.initial_weights.values())
    share = 4.0 if settings.secure else {"half": 0.5, "delta8": 0.25}.get(settings.uplink, 1.0)
    if size * share > MOST - ROOM:
        lighter = "" if settings.secure else ": transport.uplink=half or delta8 makes it lighter"
        raise UserError(
            f"model.name: an answer with this model has {size * share / 1e9:.1f} GB, and a sealed "
            f"one can have {MOST / 1e9:.1f} GB{lighter}"
        )
