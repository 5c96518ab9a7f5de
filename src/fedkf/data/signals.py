"""Samples from signals: channels over time, from an .npz file or from recordings in CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core import objective
from fedkf.core.errors import UserError
from fedkf.data.annotations import CLIENT, Annotations, Arrays, annotated, labelled
from fedkf.data.arrays import read_npz
from fedkf.data.cells import Cells
from fedkf.data.files import find
from fedkf.data.notes import constant_channels, lumped_note, unmeasured_channels
from fedkf.data.outcomes import targets_of
from fedkf.data.reading import Reading
from fedkf.data.source import Say, Source
from fedkf.data.tabular import Table
from fedkf.data.targets import BEYOND, LARGEST, absurd_inputs, whole
from fedkf.data.windows import windowed


def signals(path: str, reading: Reading, say: Say = lambda text: None) -> Source:
    """Signals N×channels×time of an .npz file, or windows of the recordings of CSV files."""
    if path.endswith(".npz"):
        source = from_npz(find(path), reading, say)
    else:
        given = Path(path).expanduser()
        folder = given.is_dir() or not given.suffix
        source = windowed(find(path, folder=folder), reading, say)
    for text in constant_channels(source):
        say(text)
    return source


def from_npz(file: Path, reading: Reading, say: Say) -> Source:
    """`signals` (N×channels×time, or N×time for one channel) and `labels`; `scale` divides."""
    asked = Annotations.of(reading)
    where = f"data.path: {file}"
    if reading.window is not None or reading.stride is not None:
        say(
            f"data.window and data.stride are for recordings in CSV files; the signals of "
            f"{file.name} are taken as they are"
        )
    given = read_npz(file, "signals", *asked.labels, also=("scale", *asked.others))
    if reading.lenient and asked.client not in given:
        asked = replace(asked, client=CLIENT)
    arrays = labelled(given, "signals", where, asked, say)
    inputs = in_units(arrays["signals"], arrays.get("scale"), where)
    labels = asked.targets(arrays, where)
    if labels.shape[:1] != inputs.shape[:1]:
        raise UserError(f"{where}: {len(inputs)} signals but labels of shape {labels.shape}")
    channels, length = inputs.shape[1:]
    if channels > length:
        say(
            f"signals have {channels} channels and {length} moments each (N×channels×time); if it "
            "is the other way round, save signals.transpose(0, 2, 1)"
        )
    read, names = outcome(arrays, asked, file, reading, say)
    source = Source(inputs, read, names, task=reading.task, measured=True)
    source = annotated(source, arrays, where, asked)
    inputs, chosen = chosen_channels(source.inputs, reading, where), reading.columns or ()
    source = replace(source, inputs=inputs, channels=list(chosen))
    for text in unmeasured_channels(source, chosen or [str(k) for k in range(channels)]):
        say(text)
    return source


def outcome(
    arrays: Arrays, asked: Annotations, file: Path, reading: Reading, say: Say
) -> tuple[NDArray[Any], list[str]]:
    """The labels as the task has them, and the classes' names; `data.positive` is heeded."""
    where, kind = f"data.path: {file}", objective.find(reading.task).targets
    labels, shape = asked.targets(arrays, where), (2,) if kind == "time" else ()
    if reading.positive is None or kind == "number" or labels.shape[1:] != shape:
        targets = asked.named(reading.asked, arrays)
        return targets.read(labels, lambda reason: UserError(f"{where}: {reason}"))
    if shape:
        both = asked.labels if len(asked.labels) == 2 else ("time", "event")
        cells = {name: labels[:, k].astype(np.str_) for k, name in enumerate(both)}
    else:
        cells = {asked.labels[0]: words(labels, asked.called(arrays), where)}
    places, files = np.arange(len(labels)), np.full(len(labels), file.name)
    table = Table(where, cells, files, places, unit="sample", counted="sample")
    own = replace(reading, target=table.names)
    found, names = targets_of(table, own)
    for text in lumped_note(table, own, found, names):
        say(text)
    return found, names


def words(labels: NDArray[Any], names: Sequence[str] | None, where: str) -> Cells:
    """Classes as texts: by the file's names, where it has some for numbers."""
    if names is None:
        return np.char.strip(whole(labels).astype(np.str_))
    if labels.min() < 0 or labels.max() >= len(names):
        raise UserError(
            f"{where}: label_names has {len(names)} names for labels from 0, but one "
            f"is {labels.min() if labels.min() < 0 else labels.max()}"
        )
    found: Cells = np.array(names, dtype=np.str_)[labels]
    return found


def in_units(values: NDArray[Any], scale: NDArray[Any] | None, where: str) -> NDArray[np.float32]:
    """Signals as floats N×channels×time, divided by their scale."""
    if values.ndim == 2:
        values = values[:, None]
    if values.ndim != 3 or 0 in values.shape or values.dtype.kind not in "biuf":
        raise UserError(
            f"{where}: signals are {values.dtype} of shape {values.shape}; they must be numbers, "
            "N×channels×time or N×time"
        )
    found = values.astype(np.float32)
    if scale is not None:
        numbers = scale.dtype.kind in "biuf" and scale.size in (1, values.shape[1])
        divisor = scale.astype(np.float32).reshape(-1) if numbers else np.zeros(1)
        if not (divisor > 0).all():
            raise UserError(f"{where}: scale must be one number above 0, or one per channel")
        found /= divisor[None, :, None]
    if np.isinf(found).any() or (np.abs(found[np.isfinite(found)]) > LARGEST).any():
        raise UserError(f"{where}: signals hold infinite or absurdly large numbers")
    if np.nanmax(np.abs(found), initial=0) > BEYOND:  # seldom, and looked at by channels
        check_sizes(found, where)
    return found


def check_sizes(signals: NDArray[np.float32], where: str) -> None:
    """Refuse numbers of a channel that are absurdly large beside its others."""
    for channel in range(signals.shape[1]):
        samples, moments = np.nonzero(~np.isnan(signals[:, channel]))
        values = signals[samples, channel, moments]
        if (odd := absurd_inputs(values)).any():
            first = int(np.flatnonzero(odd)[0])
            raise UserError(
                f"{where}: channel {channel} is {values[first]:g} in sample {samples[first]}, "
                "which is absurdly large beside the others; correct it, or write NaN"
            )


def chosen_channels(
    inputs: NDArray[np.float32], reading: Reading, where: str
) -> NDArray[np.float32]:
    """The channels that `data.columns` names by their number."""
    if reading.columns is None:
        return inputs
    count = inputs.shape[1]
    wrong = [c for c in reading.columns if not c.isdigit() or int(c) >= count]
    if wrong:
        raise UserError(f"data.columns: {where} has channels 0 to {count - 1}, not {wrong[0]!r}")
    return inputs[:, [int(c) for c in reading.columns]]
