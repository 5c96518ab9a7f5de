"""Ledger: bytes up and down per kind of payload, counted where they pass, not claimed."""

from __future__ import annotations

from typing import Any

from fedkf.core.payload import LEAKAGE, Payload


class Ledger:
    """Counts what is exchanged. Evaluation is counted apart from training."""

    def __init__(self) -> None:
        self.counts: dict[str, dict[str, dict[str, int]]] = {
            "training": {"down": {}, "up": {}},
            "evaluation": {"down": {}, "up": {}},
        }
        self.privacy: dict[str, Any] = {}
        """What of each client's privacy budget was planned and spent, where there is one."""

    def _count(self, payload: Payload, way: str, copies: int, training: bool) -> None:
        table = self.counts["training" if training else "evaluation"][way]
        for kind, size in payload.nbytes().items():
            table[kind] = table.get(kind, 0) + copies * size

    def down(self, payload: Payload, clients: int, training: bool) -> None:
        self._count(payload, "down", clients, training)

    def up(self, payload: Payload, training: bool, copies: int = 1) -> None:
        self._count(payload, "up", copies, training)

    def bytes(self) -> dict[str, int]:
        """Bytes of training so far, each way."""
        return {way: sum(kinds.values()) for way, kinds in self.counts["training"].items()}

    def disclosed(self) -> list[str]:
        """Every kind that left a client."""
        return sorted({k for part in self.counts.values() for k in part["up"]})

    def summary(self) -> dict[str, Any]:
        disclosed = self.disclosed()
        return {
            **self.counts,
            "disclosed": disclosed,
            "leakage": [kind for kind in disclosed if kind in LEAKAGE],
            **({"privacy": self.privacy} if self.privacy else {}),
        }
