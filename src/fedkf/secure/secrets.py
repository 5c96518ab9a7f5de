"""What one client keeps to itself for one round, all of it made from a single random seed."""

from __future__ import annotations

import hashlib
import hmac
from functools import cached_property

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from numpy.typing import NDArray

from fedkf.core.errors import FedkfError
from fedkf.secure.shamir import PRIME

Words = NDArray[np.uint64]
SHARED = ("sum", "change", "pairing")
"""The secrets of which others get shares: the seeds of the masks that hide the two halves of an
upload once all pairwise masks are gone, and the key behind those."""
SEED = 32
"""Bytes of a seed, of a key and of a secret that is shared."""


class Tampered(FedkfError):
    """A message between two clients is not what one of them wrote."""


def derive(secret: bytes, purpose: str, about: bytes = b"") -> bytes:
    """32 bytes for one purpose, about one thing; other purposes tell nothing about them."""
    return hmac.new(secret, purpose.encode() + about, hashlib.sha256).digest()


def mask(seed: bytes, length: int, about: bytes) -> Words:
    """A stream of random 64-bit words that the seed gives to everybody who has it.

    It is about the message that asked for the upload: one that is asked for again in other words
    has other masks, or the difference of both would be bare.
    """
    key = derive(seed, "fedkf mask 2", about)
    cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes(16)))
    stream = cipher.encryptor().update(bytes(8 * length))
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64, copy=False)


class RoundSecrets:
    """Two key pairs, two masks of the client's own, and the polynomials that share them."""

    def __init__(self, seed: bytes) -> None:
        self.seed = seed
        self.shared = {name: derive(seed, f"fedkf {name} 1") for name in SHARED}

    @property
    def pairing(self) -> bytes:
        """The private key from which the pairwise masks follow."""
        return self.shared["pairing"]

    @cached_property
    def _sealing(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(derive(self.seed, "fedkf sealing 1"))

    def public(self) -> bytes:
        """The public halves: of the key for messages, then of the one for masks."""
        return self._sealing.public_key().public_bytes_raw() + public_half(self.pairing)

    def coefficients(self, which: str, threshold: int, about: bytes) -> list[int]:
        """The polynomial that shares one of `SHARED` among the clients of one roster."""
        purposes = (f"fedkf share {which} {k}" for k in range(1, threshold))
        random = (
            derive(self.seed, f"{purpose} high ", about) + derive(self.seed, f"{purpose} ", about)
            for purpose in purposes
        )
        return [
            int.from_bytes(self.shared[which], "big"),
            *(int.from_bytes(r, "big") % PRIME for r in random),
        ]

    def box(self, theirs: bytes, about: bytes) -> ChaCha20Poly1305:
        """What seals messages between this client and the one with that key, for one roster."""
        shared = self._sealing.exchange(X25519PublicKey.from_public_bytes(theirs[:SEED]))
        return ChaCha20Poly1305(derive(shared, "fedkf box 2", about))


def public_half(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def exchangeable(public: bytes) -> bool:
    """Whether a secret can be agreed on with both halves of a client's key.

    With a few points of the curve, zeros among them, everybody would agree on the same secret, so
    that the exchange fails at whoever tries it.
    """
    own = X25519PrivateKey.generate()
    try:
        for half in (public[:SEED], public[SEED:]):
            own.exchange(X25519PublicKey.from_public_bytes(half))
    except ValueError:
        return False
    return True


def pair_seed(private: bytes, theirs: bytes) -> bytes:
    """What two clients, and nobody else, have in common: the seed of their masks."""
    key = X25519PrivateKey.from_private_bytes(private)
    return derive(key.exchange(X25519PublicKey.from_public_bytes(theirs[SEED:])), "fedkf pair 1")


def seal(box: ChaCha20Poly1305, way: tuple[int, int], content: bytes, about: bytes) -> bytes:
    """A message for one peer. A box serves one roster and seals one message each way."""
    return box.encrypt(nonce(way), content, about)


def unseal(box: ChaCha20Poly1305, way: tuple[int, int], sealed: bytes, about: bytes) -> bytes:
    try:
        return box.decrypt(nonce(way), sealed, about)
    except InvalidTag:
        raise Tampered(f"the shares from client {way[0]} are not what it sent") from None


def nonce(way: tuple[int, int]) -> bytes:
    return b"".join(end.to_bytes(6, "big") for end in way)
