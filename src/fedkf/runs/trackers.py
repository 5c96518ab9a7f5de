"""Trackers: observers that tell a run's numbers to where people already look."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedkf.core.errors import UserError, nearest
from fedkf.core.federation import Observer
from fedkf.core.objects import import_object
from fedkf.core.records import Round

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

TRACKERS = {
    "tensorboard": "fedkf.runs.trackers:TensorBoard",
    "mlflow": "fedkf.runs.services:MLflow",
    "wandb": "fedkf.runs.services:WandB",
}


def check_tracker(name: str | None) -> None:
    """Refuse a name that is neither known nor of the form `package.module:factory`."""
    if name is not None and name not in TRACKERS and ":" not in name:
        raise UserError(
            f"output.log: no {name!r}; {nearest(name, TRACKERS)} (or package.module:factory)"
        )


def make_tracker(name: str, folder: Path, settings: Mapping[str, Any]) -> Observer:
    """The tracker of that name, made with the run's folder and its settings by dotted key."""
    check_tracker(name)
    factory = import_object(TRACKERS.get(name, name), "output.log")
    try:
        tracker = factory(folder, settings)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"output.log: {name} raised {type(error).__name__}: {error}; it is called with the "
            "run's folder and its settings"
        ) from error
    if not isinstance(tracker, Observer):
        raise UserError(
            f"output.log: {name} returned a {type(tracker).__name__}, not a fedkf.Observer"
        )
    return tracker


def scalars(record: Round) -> Iterator[tuple[str, float]]:
    """A finished round as flat names and numbers, as most trackers want them.

    >>> from fedkf.core.scores import Score
    >>> score = Score({"amp": 0.9, "fm": 0.01, "wlp": None}, [0], [0.9])
    >>> dict(scalars(Round(1, readouts={"oca": score}, losses={"loss": 0.5})))
    {'oca/amp': 0.9, 'oca/fm': 0.01, 'loss/loss': 0.5, 'refused': 0}
    """
    for readout, score in (record.readouts or {}).items():
        for metric, value in score.values.items():
            if value is not None:
                yield f"{readout}/{metric}", value
        for metric, values in score.sites.values.items():
            known = [value for value in values if value is not None]
            if known:
                yield f"{readout}/mean {metric} of clients", math.fsum(known) / len(known)
    parts = {"loss": record.losses, "bytes": record.bytes, "seconds": record.seconds}
    for name, part in parts.items():
        for key, value in part.items():
            yield f"{name}/{key}", value
    yield "refused", len(record.refused)
    if record.privacy is not None and record.privacy.epsilon:
        yield "privacy/epsilon", max(record.privacy.epsilon)


class TensorBoard(Observer):
    """Writes RUN/tensorboard for `tensorboard --logdir`; needs no network."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: F401
        except ImportError:
            raise UserError(
                "logging to TensorBoard needs one more package: pip install 'fedkf[tensorboard]'"
            ) from None
        self.folder, self.settings = folder / "tensorboard", settings
        self.writer: SummaryWriter | None = None

    def round_started(self, round: int, active: Sequence[int]) -> None:
        if self.writer is None:
            from torch.utils.tensorboard import SummaryWriter

            # What a run that is resumed does again replaces what it had logged before.
            self.writer = SummaryWriter(str(self.folder), purge_step=round)
            text = "\n".join(f"    {key}: {value}" for key, value in self.settings.items())
            self.writer.add_text("configuration", text, round)

    def round_finished(self, record: Round) -> None:
        assert self.writer is not None
        for name, value in scalars(record):
            self.writer.add_scalar(name, value, record.round)
        for readout, score in (record.readouts or {}).items():
            for metric, values in {"accuracy": score.accuracy, **score.sites.values}.items():
                known = np.array([value for value in values if value is not None])
                if len(known):
                    self.writer.add_histogram(f"{readout}/{metric} of clients", known, record.round)
        self.writer.flush()

    def run_ended(self) -> None:
        if self.writer is not None:
            self.writer.close()
