"""Samples from signals: channels over time, from an .npz file or from recordings in CSV files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.data.annotations import Annotations, annotated
from fedkf.data.arrays import read_npz
from fedkf.data.files import find
from fedkf.data.reading import Reading
from fedkf.data.recordings import recordings
from fedkf.data.source import Say, Source
from fedkf.data.targets import LARGEST


def signals(path: str, reading: Reading, say: Say = lambda text: None) -> Source:
    """Signals N×channels×time of an .npz file, or windows of the recordings of CSV files."""
    if path.endswith(".npz"):
        source = from_npz(find(path), reading, say)
    else:
        given = Path(path).expanduser()
        folder = given.is_dir() or not given.suffix
        source = recordings(find(path, folder=folder), reading, say)
    tell_constant(source, say)
    return source


def tell_constant(source: Source, say: Say) -> None:
    """Channels that never change are told; nothing is learned from them."""
    names = source.channels or [str(k) for k in range(source.inputs.shape[1])]
    low, high = (
        np.asarray(end(source.inputs, axis=(0, 2))) for end in (np.fmin.reduce, np.fmax.reduce)
    )
    for name in (name for name, same in zip(names, low == high, strict=True) if same):
        say(f"channel {name} is the same everywhere, so that nothing is learned from it")


def from_npz(file: Path, reading: Reading, say: Say) -> Source:
    """`signals` (N×channels×time, or N×time for one channel) and `labels`; `scale` divides."""
    asked = Annotations.of(reading)
    arrays = read_npz(file, "signals", *asked.labels, also=("scale", *asked.others))
    where = f"data.path: {file}"
    inputs = in_units(arrays["signals"], arrays.get("scale"), where)
    labels = asked.targets(arrays)
    if len(labels) != len(inputs):
        raise UserError(f"{where}: {len(inputs)} signals but labels of shape {labels.shape}")
    channels, length = inputs.shape[1:]
    if channels > length:
        say(
            f"signals have {channels} channels and {length} moments each (N×channels×time); if it "
            "is the other way round, save signals.transpose(0, 2, 1)"
        )
    targets = asked.named(reading.asked, arrays)
    read, names = targets.read(labels, lambda reason: UserError(f"{where}: {reason}"))
    source = Source(inputs, read, names, task=reading.task, measured=True)
    source = annotated(source, arrays, where, asked)
    return replace(source, inputs=chosen_channels(source.inputs, reading, where))


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
        divisor = np.asarray(scale, dtype=np.float32).reshape(-1)
        if len(divisor) not in (1, values.shape[1]) or not (divisor > 0).all():
            raise UserError(f"{where}: scale must be one number above 0, or one per channel")
        found /= divisor[None, :, None]
    if np.isinf(found).any() or (np.abs(found[np.isfinite(found)]) > LARGEST).any():
        raise UserError(f"{where}: signals hold infinite or absurdly large numbers")
    return found


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
