"""What a site's answers on record tell of its account, should the account itself be lost.

Every line of sent.jsonl is signed by the site, and says what had been spent when the answer left. A
turn whose answer is not on record never left, so that an account may be ahead of the last line, and
never behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from fedkf.flower.logs import SENT, SentLog

KEY, ORDERS = "account", "orders.json"
LOST: Mapping[str, Any] = {"lost": True}
"""What is known where the record itself is gone, and with it what it told."""
Told = Mapping[str, Any]
Witness = Callable[[], Told | None]
"""What was last told of the account; None if nothing ever was."""


class Evidence:
    """What SITE/sent.jsonl tells. A site that has obeyed orders and has no such file lost it."""

    def __init__(self, folder: Path, key: ec.EllipticCurvePublicKey) -> None:
        self.folder, self.key = folder, key

    def __call__(self) -> Told | None:
        log = SentLog(self.folder / SENT)
        if not log.file.exists():
            return LOST if (self.folder / ORDERS).exists() else None
        try:
            found = log.last(KEY, self.key)
        except ValueError:
            return LOST
        return found if found is None or isinstance(found, dict) else LOST

    def begin(self) -> None:
        """Make the file before the first order is obeyed: from then on it is missed."""
        if not (self.folder / ORDERS).exists():
            (self.folder / SENT).touch(0o600)


def summary(content: Mapping[str, Any]) -> Told:
    """An account in short: its turns are counted, each sort of an experiment once."""
    counts = Counter(row(turn) for turn in content["turns"])
    turns = [[*about, count] for about, count in counts.items()]
    return {"turns": turns, "promises": content["promises"], "reading": content["reading"]}


def row(turn: Mapping[str, Any]) -> tuple[str, float, float, int]:
    return str(turn["experiment"]), float(turn["noise"]), float(turn["rate"]), int(turn["steps"])


def behind(content: Mapping[str, Any], told: Told) -> bool:
    """Whether an account has fewer turns, or larger promises, than was told of it."""
    return completed(content, told) != content


def completed(content: Mapping[str, Any], told: Told) -> dict[str, Any]:
    """The account with whatever was told of it and is not in it."""
    have = Counter(row(turn) for turn in content["turns"])
    turns = list(content["turns"])
    for *about, count in told["turns"]:
        names = dict(zip(("experiment", "noise", "rate", "steps"), about, strict=True))
        turns += [names] * (int(count) - have[row(names)])
    promises = dict(content["promises"])
    for experiment, most in told["promises"].items():
        kept = promises.get(experiment, most)
        promises[experiment] = [min(pair) for pair in zip(kept, most, strict=True)]
    return {**content, "turns": turns, "promises": promises}
