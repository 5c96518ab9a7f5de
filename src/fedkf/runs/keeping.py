"""Keeper: models of rounds before the last, as `output.keep` asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkf.core.payload import Weights
from fedkf.core.records import Round, best_round
from fedkf.runs.trained import read_card, write_models

BEST = "best"


class Keeper:
    """Writes RUN/kept/best and RUN/kept/round-N, each a folder that `fedkf.load` takes.

    It is asked before a round is committed: whatever a crash undoes is written again, the same.
    """

    def __init__(
        self,
        folder: Path,
        wanted: Sequence[str | int],
        about: Mapping[str, Any],
        past: Sequence[Round],
    ) -> None:
        self.folder, self.about = folder, about
        self.best = BEST in wanted
        self.every = [item for item in wanted if isinstance(item, int)]
        found = {name: best_round(past, name) for name in ("aca", "oca")}
        self.highest = {name: b["amp"] or 0.0 for name, b in found.items() if b is not None}

    def __call__(self, record: Round, readouts: Mapping[str, Weights]) -> None:
        if any(record.round % every == 0 for every in self.every):
            folder = self.folder / f"round-{record.round}"
            write_models(folder, readouts, {**self.about, "round": record.round})
        if not self.best:
            return
        better = {}
        for name, weights in readouts.items():
            score = (record.readouts or {}).get(name)
            amp = None if score is None else score["amp"]
            if amp is not None and amp > self.highest.get(name, -1.0):
                self.highest[name] = amp
                better[name] = weights
        if better:
            self._write_best(record.round, better)

    def _write_best(self, round: int, better: Mapping[str, Weights]) -> None:
        """The readouts that are better than before; those of the others stay."""
        folder = self.folder / BEST
        there = (folder / "model.json").exists()
        before = read_card(folder) if there else {}
        rounds = {**before.get("rounds", {}), **dict.fromkeys(better, round)}
        kept = {"sha256": before.get("sha256", {}), "rounds": rounds}
        write_models(folder, better, {**self.about, **kept})
