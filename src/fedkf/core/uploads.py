"""Uploads: what a client may send up, and why one cannot be used."""

from __future__ import annotations

import math
import statistics as averages
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from fedkf.core.batches import batches_of
from fedkf.core.payload import HIDING, KINDS, Payload
from fedkf.core.personal import EVALUATIONS, STEP
from fedkf.core.tally import KIND, empty

if TYPE_CHECKING:
    from fedkf.core.algorithm import Algorithm
    from fedkf.core.task import Task, Training

ALWAYS_DISCLOSED = ("weights", "sizes", "monitoring")
"""Kinds that any client sends, whatever the algorithm."""
MOST_SAMPLES = 2**40
"""More than any client has."""
NUMBERS = ("sizes", "local_loss", "monitoring")
TENSORS = ("weights", "label_counts", *HIDING)
"""Kinds whose entries that an algorithm asks for by name are numbers, and those that are tensors;
of all others they may be either."""
LARGEST = 1e15
"""No weight, loss or statistic is that large."""
STEPS = "steps"
"""The group that says how many steps a client took."""
APART = 1e6
"""No client's loss is so many times the median one of its round, or of 1 where that is less."""
MOST_NAMES, LONGEST_NAME = 256, 64
"""So many losses a client may log, one for each of many classes too, under names of so many
characters."""
PERSONAL = "personal"
"""The readout that clients count beside those that they were sent, where they have models of
their own."""


@dataclass(frozen=True)
class Announced:
    """What is known of a client before it answers; None is what is not."""

    size: int | None = None
    """Its training samples."""
    steps: tuple[int, int] | None = None
    """How many steps its turn has at least and at most."""
    tested: int | None = None
    """Its test samples."""

    @classmethod
    def of(cls, size: int, training: Training, tested: int | None) -> Announced:
        """What follows from the sizes that a client told before the first round."""
        # A model with batch normalisation passes over a single sample at the end of an epoch.
        most = batches_of(size, training)
        return cls(size, (max(1, most - training.local_epochs), most), tested)


NOTHING = Announced()


def declared(algorithm: Algorithm, step: str) -> dict[str, tuple[str | None, set[str]]]:
    """What an upload of the step holds: each group's kind, if it is named, and its entries."""
    named = algorithm.client_steps.get("evaluate" if step == STEP else step, ())
    found: dict[str, tuple[str | None, set[str]]] = {}
    for name in algorithm.uploads if step == "local_update" else named:
        about, _, entry = name.partition("/")
        group, _, kind = about.partition(":")
        said, entries = found.get(group, (group if group in KINDS else None, set()))
        found[group] = kind or said, entries | {entry} - {""}
    return found


def trains(algorithm: Algorithm, step: str) -> bool:
    """Whether a step ends in a model, which T1 takes, and in losses."""
    return step not in EVALUATIONS and "weights" in declared(algorithm, step)


def counts_steps(algorithm: Algorithm, step: str) -> bool:
    """Whether an algorithm asks for as many steps as a turn has batches."""
    return declared(algorithm, step).get(STEPS, (None,))[0] == "sizes"


def missing(upload: Payload, algorithm: Algorithm, step: str) -> str:
    """What the algorithm needs of the step's upload and does not find, or what it must not hold."""
    for group, (kind, entries) in declared(algorithm, step).items():
        if group not in upload:
            return f"it lacks {group}"
        if kind is not None and upload.kinds[group] != kind:
            return f"{group} is of the kind {upload.kinds[group]!r}, not {kind!r}"
        for entry in sorted(entries):
            if not holds(upload, group, entry):
                return f"it lacks {entry!r} of {group}"
    return undeclared(upload, algorithm, step)


def undeclared(upload: Payload, algorithm: Algorithm, step: str, asked: Sequence[str] = ()) -> str:
    """What an upload holds that its step does not declare; `asked` is what the task asks for.

    Losses come with a model. A step that declares nothing may answer with numbers of the same kind.
    """
    known = declared(algorithm, step)
    more = {*asked} | ({"monitoring"} if "weights" in known or not known else set())
    if step == "local_update":  # what an algorithm discloses it may send with its model
        more |= {*algorithm.discloses}
    allowed = {*ALWAYS_DISCLOSED, *algorithm.discloses, *asked}
    for group, kind in upload.kinds.items():
        if kind not in allowed:
            return f"{group} is of the kind {kind!r}, which {algorithm.name} does not ask for"
        if group not in known and (group not in more or kind != group):
            where = "uploads" if step == "local_update" else f"client_steps[{step!r}]"
            return f"it holds {group!r} ({kind}), which {algorithm.name} does not name in {where}"
        entries = known[group][1] if group in known else set()
        if entries and (extra := sorted(entries ^ {*upload[group], *upload.numbers[group]})):
            return f"{group} hold {extra[0]!r}, which {algorithm.name} does not ask for"
    return ""


def holds(upload: Payload, group: str, entry: str) -> bool:
    """Whether an entry is there, as a number or a tensor, whichever its kind is."""
    kind = upload.kinds[group]
    number = entry in upload.numbers[group] and kind not in TENSORS
    return number or (entry in upload[group] and kind not in NUMBERS)


def fault(
    upload: Payload,
    down: Payload,
    classes: int | None = None,
    client: Announced = NOTHING,
) -> str:
    """Why an upload cannot be used, or nothing. Weights must match those sent by the same name, and
    counts what is known of the client."""
    for group, kind in upload.kinds.items():
        if group not in down or down.kinds[group] != "weights":
            continue
        if kind != "weights":
            return f"{group} is of the kind {kind!r}, not weights"
        if reason := mismatch(group, upload, down):
            return reason
    return next(implausible(upload, classes), "") or disagreement(upload, client)


def mismatch(group: str, upload: Payload, down: Payload) -> str:
    """In what a group differs from the one of its name that was sent, but for its values."""
    sent, got = down[group], upload[group]
    if absent := sorted(sent.keys() - got.keys()):
        return f"{group} lack {absent[0]!r}"
    if extra := sorted(got.keys() - sent.keys()):
        return f"{group} have {extra[0]!r}, which the model does not"
    for name, tensor in sent.items():
        if got[name].shape != tensor.shape:
            return f"{name!r} has shape {list(got[name].shape)}, not {list(tensor.shape)}"
        if got[name].dtype != tensor.dtype:
            return f"{name!r} is {got[name].dtype}, not {tensor.dtype}"
    return ""


def implausible(upload: Payload, classes: int | None) -> Iterator[str]:
    """Values that nothing honest has."""
    for group, kind in upload.kinds.items():
        if kind == "monitoring" and not nameable(upload.numbers[group]):
            yield f"{group} has more names than {MOST_NAMES}, or such that nobody gives"
        if kind in ("monitoring", KIND):  # only metrics depend on them, which may be missing
            continue
        for name, number in upload.numbers[group].items():
            if not math.isfinite(number) or abs(number) > LARGEST:
                yield f"{group} holds NaN or infinite numbers, or absurd ones"
            if kind in RULES and not RULES[kind](number):
                yield f"{name!r} of {group} is {number!r}, which cannot be"
        for name, tensor in upload[group].items():
            if tensor.is_complex():
                yield f"{group} {name!r} holds complex numbers"
            if tensor.is_floating_point() and not (tensor.abs() <= LARGEST).all():
                yield f"{group} {name!r} holds NaN or infinite values, or absurd ones"
            if kind == "label_counts" and not countable(tensor, classes):
                yield f"{group} {name!r} is no count of samples per class"


RULES: dict[str, Callable[[float], bool]] = {
    "sizes": lambda number: type(number) is int and 1 <= number <= MOST_SAMPLES,
    "label_counts": lambda number: type(number) is int and 0 <= number <= MOST_SAMPLES,
}
"""What the numbers of a kind may be."""


def nameable(names: Iterable[str]) -> bool:
    """Whether these could be the names of losses, which records, reports and figures show."""
    names = list(names)
    short = all(len(name) <= LONGEST_NAME and name.isprintable() for name in names)
    return short and len(names) <= MOST_NAMES


def countable(tensor: torch.Tensor, classes: int | None) -> bool:
    shaped = classes is None or list(tensor.shape) == [classes]
    return shaped and bool((tensor >= 0).all() and (tensor <= MOST_SAMPLES).all())


def disagreement(upload: Payload, client: Announced) -> str:
    """Which of an upload's counts are others than those that follow from what its client said."""
    for group, kind in upload.kinds.items():
        numbers, tensors = upload.numbers[group], upload[group]
        if kind == "sizes" and group == STEPS and client.steps is not None:
            least, most = client.steps
            for number in numbers.values():
                if not least <= number <= most:
                    return f"it took {number} steps, and its turn has {most}"
        if kind == "label_counts" and client.size is not None:
            counted = [float(tensor.double().sum()) for tensor in tensors.values()]
            counted += [float(sum(numbers.values()))] if numbers or not tensors else []
            for found in counted:
                if found != client.size:
                    return f"its {group} are of {found:.0f} samples, and it has {client.size}"
    return ""


def outlying(uploads: Mapping[int, Payload]) -> dict[int, str]:
    """Whose loss is so far above the others' of the round that a mixture would hang on it alone."""
    refused: dict[int, str] = {}
    groups = {g for u in uploads.values() for g, kind in u.kinds.items() if kind == "local_loss"}
    for group in sorted(groups):
        said = {k: u.numbers[group] for k, u in sorted(uploads.items()) if group in u}
        far = {k: max(map(abs, numbers.values()), default=0.0) for k, numbers in said.items()}
        most = APART * max(1.0, averages.median_low(far.values()))
        for client, loss in far.items():
            if loss > most:
                why = f"its {group} is {loss:.4g}, and up to {most:.4g} is taken in this round"
                refused.setdefault(client, why)
    return refused


def misjudged(
    upload: Payload,
    down: Payload,
    client: Announced,
    task: Task,
    algorithm: Algorithm | None,
    step: str,
) -> str:
    """Why the answer to an evaluation cannot be used, or nothing."""
    more = own_readouts(algorithm, step)
    known = client if more is not None else NOTHING  # who says what, may say of which samples
    reason = miscounted(upload, down, known, more)
    reason = reason or mistallied(upload, task.statistics, task.classes)
    asked = (KIND,) if task.statistics else ()
    return reason or (undeclared(upload, algorithm, step, asked) if algorithm else "")


def own_readouts(algorithm: Algorithm | None, step: str) -> Sequence[str] | None:
    """What clients may count beside the readouts sent; None where nobody says what."""
    if algorithm is None:
        return None
    for kind in type(algorithm).__mro__:
        if {"evaluate", STEP} & vars(kind).keys() and not kind.__module__.startswith("fedkf."):
            return None  # one of the user's own
    return (PERSONAL,) if step == STEP or algorithm.personal_models else ()


def miscounted(
    upload: Payload, down: Payload, client: Announced = NOTHING, more: Sequence[str] | None = None
) -> str:
    """Why an evaluation's counts cannot be used, or nothing.

    `more` are the readouts that may be counted beside those that were sent; None: any. A client may
    count on none of its test samples.
    """
    counts = upload.numbers.get("monitoring", {})
    if absent := sorted({"tested", *down} - counts.keys()):
        return f"it does not count {absent[0]!r}"
    for name, count in counts.items():
        if type(count) is not int or not 0 <= count <= counts["tested"] <= MOST_SAMPLES:
            return f"{name!r} is {count!r}, which is no count of its test samples"
    if more is not None and (extra := sorted(counts.keys() - {"tested", *down, *more})):
        return f"it counts {extra[0]!r}, which nobody asked for"
    if client.tested is not None and counts["tested"] not in (0, client.tested):
        return f"it tested on {counts['tested']} samples, and said that it has {client.tested}"
    return ""


def mistallied(upload: Payload, statistics: Sequence[str], classes: int) -> str:
    """Why the statistics of an evaluation cannot be used, or nothing.

    Those of classes must be of as many samples as were tested.
    """
    counts = upload.numbers.get("monitoring", {})
    found = upload.tensors.get(KIND, {})
    judged = [name for name in counts if name != "tested"]
    wanted = [f"{name}/{statistic}" for name in judged for statistic in statistics]
    if extra := sorted(found.keys() - set(wanted)):
        return f"it holds {extra[0]!r}, which nobody asked for"
    for name in wanted:
        if name not in found:
            return f"it lacks the statistic {name!r}"
        tensor, like = found[name], empty(name.rpartition("/")[2], classes)
        if tensor.shape != like.shape or tensor.dtype != like.dtype:
            return f"{name!r} is {tensor.dtype} of shape {list(tensor.shape)}"
        if miscount(name.rpartition("/")[2], tensor, int(counts["tested"])):
            return f"{name!r} is no statistic of its {counts['tested']} test samples"
    return ""


def miscount(statistic: str, tensor: torch.Tensor, tested: int) -> bool:
    """Whether a statistic is of another number of samples, or of none that there could be."""
    if statistic in ("errors", "pairs"):
        return float(tensor[0, 0]) != tested or not summable(statistic, tensor)
    sums = {
        "confusion": lambda: tensor.sum()[None],
        "scores": lambda: tensor.sum((1, 2)),
        "calibration": lambda: tensor[..., 0].sum()[None],
    }[statistic]()
    if statistic == "calibration" and (tensor[..., 1] > tensor[..., 0] * (1 + ROUNDED)).any():
        return True  # a confidence is 1 at most; of a model that came to nothing it is NaN
    return bool((tensor < 0).any() or (sums != tested).any())


ROUNDED = 1e-6
"""By how much the last bits of sums may differ, in shares of them."""
STEEPEST = 1e100
"""No squared errors are so many times the targets' own spread; no squares of them exceed its
square, so that variances over sites can be computed."""


def summable(statistic: str, sums: torch.Tensor) -> bool:
    """Whether these may be sums of products over samples (`tally.products`).

    Such a matrix is symmetric, and no entry exceeds the root of its two diagonal ones' product. The
    squared errors of a model that came to nothing are no numbers; it then has no metric there.
    """
    sums = sums.double()
    if statistic == "errors" and not sums[3].isfinite().all():
        sums = sums.clone()
        sums[3] = sums[:, 3] = 0
    if not (sums.abs() <= STEEPEST**2).all():
        return False
    diagonal = sums.diagonal()
    if (diagonal < 0).any():
        return False
    roots = diagonal.sqrt()
    most = roots[:, None] * roots
    bounded = (sums.abs() <= most * (1 + ROUNDED)).all()
    symmetric = ((sums - sums.T).abs() <= ROUNDED * most).all()
    gentle = statistic != "errors" or not 0 < STEEPEST * sums[0, 2] < sums[0, 3]
    return bool(bounded and symmetric and gentle)
