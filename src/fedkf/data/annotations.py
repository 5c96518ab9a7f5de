"""Annotations: what an .npz file says of its samples beside inputs and labels.

`client` says who holds a sample (`client_names` what those are called), `label_names` what the
labels are called, `split` which samples train and which test. `data.site` and `data.target` name
other arrays for the first and for the labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.data.groups import with_groups
from fedkf.data.reading import Reading
from fedkf.data.source import Say, Source
from fedkf.data.targets import Targets

Arrays = Mapping[str, NDArray[Any]]
SIDES = {"train": False, "training": False, "test": True, "testing": True}
LABELS, CLIENT = "labels", "client"


@dataclass(frozen=True)
class Annotations:
    """What the arrays of a file are called that say something of its samples."""

    labels: Sequence[str] = (LABELS,)
    client: str = CLIENT
    split_by: str | None = None
    groups: Sequence[str] = ()
    missing: Sequence[str] = ()
    """What stands for no label; where nothing does, all samples must have one."""

    @staticmethod
    def of(reading: Reading) -> Annotations:
        """As a configuration has it: `data.target` and `data.site` name other arrays."""
        labels = tuple(reading.targets) or (LABELS,)
        site, missing = reading.site or CLIENT, reading.missing_values
        return Annotations(labels, site, reading.split_by, reading.groups, missing)

    @property
    def others(self) -> tuple[str, ...]:
        """The arrays to look for beside inputs and labels."""
        named = (*self.groups, *([self.split_by] if self.split_by else ()))
        return (self.client, "client_names", "label_names", "split", *named)

    def targets(self, arrays: Arrays) -> NDArray[Any]:
        """The labels; of time and event, if there are two arrays, a row for each sample."""
        found = [arrays[name] for name in self.labels]
        return found[0] if len(found) == 1 else np.stack([a.reshape(-1) for a in found], axis=1)

    def lacking(self, arrays: Arrays) -> NDArray[np.bool_]:
        """Which samples have no label: an empty text, NaN or what else stands for it."""
        found = [unlabelled(arrays[name], self.missing) for name in self.labels]
        return np.logical_or.reduce(found) if len({len(a) for a in found}) == 1 else found[0]

    def named(self, targets: Targets, arrays: Arrays) -> Targets:
        """The targets with the file's names for its classes, unless there are others."""
        if targets.class_names is not None:
            return targets
        return replace(targets, class_names=self.called(arrays))

    def called(self, arrays: Arrays) -> list[str] | None:
        """The file's names for classes that are numbers, if it has any."""
        names, labels = arrays.get("label_names"), arrays[self.labels[0]]
        if names is None or names.ndim != 1 or names.dtype.kind != "U":
            return None
        return [str(name) for name in names] if labels.dtype.kind in "iu" else None


def unlabelled(labels: NDArray[Any], missing: Sequence[str]) -> NDArray[np.bool_]:
    """Which labels are none, by what stands for that."""
    readable = labels.ndim in (1, 2) and labels.size and labels.dtype.kind in "iufSU"
    if not missing or not readable:
        return np.zeros(labels.shape[:1] or 1, bool)
    absent: NDArray[np.bool_]
    if labels.dtype.kind == "f":
        absent = np.isnan(labels)
    else:
        texts = np.char.decode(labels, "utf-8", "replace") if labels.dtype.kind == "S" else labels
        absent = np.isin(np.char.strip(texts.astype(np.str_)), list(missing))
    return np.asarray(absent.reshape(len(labels), -1).any(1))


def labelled(arrays: Arrays, inputs: str, where: str, asked: Annotations, say: Say) -> Arrays:
    """The arrays without samples that have no label, whose number is told."""
    lacking = asked.lacking(arrays)
    owned = (inputs, *asked.labels, asked.client, "split", asked.split_by, *asked.groups)
    each = {name for name in owned if name is not None and name in arrays}
    if not lacking.any() or any(arrays[name].shape[:1] != lacking.shape for name in each):
        return arrays
    if lacking.all():
        raise UserError(f"{where}: no sample has a label ({', '.join(asked.labels)})")
    count = int(lacking.sum())
    out = "has no label and is" if count == 1 else "have no label and are"
    say(f"{count} of {len(lacking)} samples {out} left out")
    if asked.client in each:
        held = arrays[asked.client]
        left = {str(name) for name in np.unique(held[~lacking])}
        if gone := [str(name) for name in np.unique(held) if str(name) not in left]:
            say(f"no sample is left of {', '.join(gone[:5])}{' …' if len(gone) > 5 else ''}")
    return {name: a[~lacking] if name in each else a for name, a in arrays.items()}


def annotated(
    source: Source,
    arrays: Arrays,
    where: str,
    asked: Annotations = Annotations(),  # noqa: B008
) -> Source:
    """The source with what the file says of each sample."""
    count, split_by, groups = len(source.labels), asked.split_by, asked.groups
    for name in (asked.client, "split", *groups, *([split_by] if split_by else ())):
        if name in arrays and arrays[name].shape != (count,):
            raise UserError(f"{where}: {count} labels but {name} has shape {arrays[name].shape}")
    for key, wanted in (("data.split_by", split_by), ("data.site", asked.client)):
        if wanted not in (None, CLIENT) and wanted not in arrays:
            raise UserError(f"{key}: {where.removeprefix('data.path: ')} has no array {wanted!r}")
    if split_by is not None:
        units = np.unique(arrays[split_by], return_inverse=True)[1]
        source = replace(source, units=units.astype(np.int64), units_by=split_by)
    source = with_groups(source, {name: arrays[name] for name in groups if name in arrays}, groups)
    source = replace(source, tested=sides(arrays.get("split")))
    if asked.client not in arrays:
        return source
    found, owners = np.unique(arrays[asked.client], return_inverse=True)
    names = owner_names(found, arrays.get("client_names"))
    return replace(source, owners=owners.astype(np.int64), owner_names=names)


def owner_names(found: NDArray[Any], names: NDArray[Any] | None) -> list[str]:
    """What clients are called: by the file's names, where it numbers them from 0."""
    numbered = found.dtype.kind in "iu" and len(found) and int(found.min()) >= 0
    if names is None or not numbered or names.ndim != 1 or int(found.max()) >= len(names):
        return [str(name) for name in found]
    return [str(names[number]) for number in found]


def sides(split: NDArray[Any] | None) -> NDArray[np.bool_] | None:
    """Which samples test, if the array says that; another division is none of training and test."""
    if split is None:
        return None
    if split.dtype.kind == "b":
        return split
    if split.dtype.kind == "U":
        known = np.isin(split, list(SIDES))
        return np.isin(split, ["test", "testing"]) if known.all() else None
    return split.astype(bool) if np.isin(split, (0, 1)).all() else None
