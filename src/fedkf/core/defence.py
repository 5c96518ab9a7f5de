"""Defence: which uploads a round takes, and how it averages them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from fedkf.core.arithmetic import distance, squared_norm
from fedkf.core.payload import Payload, weighted_mean
from fedkf.core.robust import CENTRES

if TYPE_CHECKING:
    from fedkf.core.payload import Weights

FACTOR = 10.0
"""How many times the median distance an upload may have moved, once many are known."""
FEW = 4
"""So many known distances double the factor: with little evidence more is allowed."""
HARMLESS = 0.5
"""A move of up to so many times the sent model's own norm is never refused."""
WINDOW = 10
"""How many former rounds count beside the present one."""
MANY = 10
"""So many weights are not the same by chance."""
LARGEST = (2 - 2**-23) * 2.0**127


class Defence:
    """Refuses uploads that went absurdly far; averages as `kind` says.

    An upload is judged by its distance from the model that was sent, next to the median distance
    of its round and of what was accepted in the rounds before. So a lone liar is caught as well,
    and many liars in one round do not shift the measure. `none` refuses nothing.
    """

    def __init__(self, kind: str = "norm", min_clients: int = 1) -> None:
        self.kind, self.min_clients = kind, min_clients
        """`min_clients` is how many usable uploads a round needs."""
        self.centre = CENTRES.get(kind)
        """The robust mean, if `kind` names one: for ACA and for T1."""
        self._known: dict[str, list[tuple[int, float]]] = {}

    def mean(self, items: Iterable[tuple[float, Weights]]) -> Weights:
        """The mean of models with their weights; a robust one counts all alike."""
        return self.centre([w for _, w in items]) if self.centre else weighted_mean(items)

    def judge(
        self,
        round: int,
        sent: Payload,
        uploads: Mapping[int, Payload],
        work: Mapping[int, float],
    ) -> dict[int, str]:
        """Why uploads are not to be used, by client; what is not refused is remembered.

        `work` is each client's number of steps, next to the median client's: who takes more may
        go as much further.
        """
        if self.kind == "none":
            return {}
        refused = {k: why for k, upload in uploads.items() if (why := absurd(upload, sent))}
        sound = {k: upload for k, upload in uploads.items() if k not in refused}
        moved = {group: movements(group, sent, sound) for group in sent}
        for group, far in moved.items():
            pool = [value for _, value in self._recent(group, round)] + list(far.values())
            middle = statistics.median_low(pool) if pool else 0.0
            floor = HARMLESS * math.sqrt(squared_norm(sent[group]))
            for client, value in far.items():
                most = FACTOR * (1 + FEW / len(pool)) * middle * max(1.0, work[client])
                if middle and value > max(most, floor):
                    refused.setdefault(client, too_far(group, value, middle, most))
        for group, far in moved.items():
            fine = [(round, value) for client, value in far.items() if client not in refused]
            if fine:
                self._known[group] = self._recent(group, round) + fine
        return refused

    def _recent(self, group: str, round: int) -> list[tuple[int, float]]:
        return [item for item in self._known.get(group, []) if item[0] >= round - WINDOW]

    # -- checkpoints ----------------------------------------------------------------------------

    def state(self) -> Payload:
        """What a checkpoint keeps: the distances of the last rounds."""
        kept = Payload()
        for group, known in self._known.items():
            rounds, values = zip(*known, strict=True)
            far = torch.tensor(values, dtype=torch.float64)
            kept.add(group, {"rounds": torch.tensor(rounds), "distances": far}, "private")
        return kept

    def restore(self, state: Payload) -> None:
        for group in state:
            columns = state[group]["rounds"].tolist(), state[group]["distances"].tolist()
            self._known[group] = list(zip(*columns, strict=True))


def movements(group: str, sent: Payload, uploads: Mapping[int, Payload]) -> dict[int, float]:
    """How far each upload's weights are from those sent; of further groups, their norm."""
    if sent.kinds[group] != "weights":
        return {}
    found = {k: u[group] for k, u in sorted(uploads.items()) if u.kinds.get(group) == "weights"}
    if group == "weights":
        return {k: distance(sent[group], weights) for k, weights in found.items()}
    return {k: math.sqrt(squared_norm(weights)) for k, weights in found.items()}


def too_far(group: str, value: float, middle: float, most: float) -> str:
    """The sentence of a refusal, with its numbers."""
    what = f"it moved {value:.4g} from the model that was sent"
    if group != "weights":
        what = f"the norm of its {group} is {value:.4g}"
    return (
        f"{what}, {value / middle:.4g} times the median of {middle:.4g}; "
        f"up to {most / middle:.4g} times is taken"
    )


def absurd(upload: Payload, sent: Payload) -> str:
    """Why no training can have made an upload, or nothing."""
    for group in upload:
        if not squared_norm(upload[group]) <= LARGEST:
            largest = max(float(t.abs().max()) for t in floats(upload[group]))
            return f"{group} holds values up to {largest:.4g}, too large to compute with"
    if upload.kinds.get("weights") == "weights" and "weights" in sent:
        value, count = constant(upload["weights"]), sum(t.numel() for t in floats(sent["weights"]))
        if value is not None and count >= MANY and constant(sent["weights"]) is None:
            return f"all its {count} weights are {value:.4g}"
    return ""


def constant(weights: Weights) -> float | None:
    """The one value that all of a model's weights have, or None."""
    ends = [float(end) for t in floats(weights) for end in (t.min(), t.max())]
    return ends[0] if ends and min(ends) == max(ends) else None


def floats(weights: Weights) -> Sequence[torch.Tensor]:
    return [t for t in weights.values() if t.is_floating_point() and t.numel()]


def relative_work(sizes: Mapping[int, int], batch_size: int | None) -> dict[int, float]:
    """How many batches each client has, next to the median client; None means all the same."""
    batches = {k: math.ceil(size / batch_size) if batch_size else 1 for k, size in sizes.items()}
    middle = max(1, statistics.median_low(batches.values()) if batches else 1)
    return {client: count / middle for client, count in batches.items()}
