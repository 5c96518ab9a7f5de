"""Keeper: models of rounds before the last, as `output.keep` asks for them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkf.core.payload import Weights
from fedkf.core.records import Round, best_round, better
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
        sign = next((better(s.metric) for r in past for s in (r.readouts or {}).values()), 1)
        self.highest = {k: sign * (b["amp"] or 0.0) for k, b in found.items() if b is not None}
        """By readout the best AMP so far, with the other sign where less is better."""

    def __call__(self, record: Round, readouts: Mapping[str, Weights]) -> None:
        if any(record.round % every == 0 for every in self.every):
            folder = self.folder / f"round-{record.round}"
            write_models(folder, readouts, {**self.about, "round": record.round})
        if not self.best:
            return
        found = {}
        for name, weights in readouts.items():
            score = (record.readouts or {}).get(name)
            if score is None or score["amp"] is None:
                continue
            value = better(score.metric) * score["amp"]
            if value > self.highest.get(name, -math.inf):
                self.highest[name] = value
                found[name] = weights
        if found:
            self._write_best(record.round, found)

    def _write_best(self, round: int, found: Mapping[str, Weights]) -> None:
        """The readouts that are better than before; those of the others stay."""
        folder = self.folder / BEST
        there = (folder / "model.json").exists()
        before = read_card(folder) if there else {}
        rounds = {**before.get("rounds", {}), **dict.fromkeys(found, round)}
        kept = {"sha256": before.get("sha256", {}), "rounds": rounds}
        write_models(folder, found, {**self.about, **kept})
