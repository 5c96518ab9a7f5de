"""Annotations: what an .npz file says of its samples beside inputs and labels.

`client` says who holds a sample (`client_names` what those are called), `label_names` what the
labels are called, `split` which samples train and which test. `data.site` and `data.target` name
other arrays for the first and for the labels. `data.missing_values` stand for no label and no site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.core.limits import shown
from fedkf.data.cells import as_number
from fedkf.data.groups import with_groups
from fedkf.data.owners import refuse_unnamed
from fedkf.data.reading import Reading
from fedkf.data.source import Say, Source
from fedkf.data.targets import Targets

Arrays = Mapping[str, NDArray[Any]]
SIDES = {"train": False, "training": False, "test": True, "testing": True}
TESTED = [side for side, tests in SIDES.items() if tests]
MOST_SIDES = 5
LABELS, CLIENT = "labels", "client"


@dataclass(frozen=True)
class Annotations:
    """What the arrays of a file are called that say something of its samples."""

    labels: Sequence[str] = (LABELS,)
    client: str = CLIENT
    split_by: str | None = None
    groups: Sequence[str] = ()
    missing: Sequence[str] = ()
    """What stands for no label and no site; where nothing does, all samples must have both."""

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

    def targets(self, arrays: Arrays, where: str) -> NDArray[Any]:
        """The labels; of time and event, if there are two arrays, a row for each sample."""
        found = [arrays[name] for name in self.labels]
        if len(found) == 1:
            return found[0]
        if len({a.size for a in found}) > 1:
            sizes = " and ".join(f"{name} has {arrays[name].size} values" for name in self.labels)
            raise UserError(f"{where}: {sizes}; data.target names arrays of one value a sample")
        return np.stack([a.reshape(-1) for a in found], axis=1)

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
    readable = labels.ndim in (1, 2) and labels.size and labels.dtype.kind in "iufU"
    if not missing or not readable:
        return np.zeros(labels.shape[:1] or 1, bool)
    return np.asarray(absent(labels, missing).reshape(len(labels), -1).any(1))


def absent(values: NDArray[Any], missing: Sequence[str]) -> NDArray[np.bool_]:
    """Which values are none: NaN, and texts and numbers that stand for it."""
    if values.dtype.kind != "f":
        return np.isin(np.char.strip(values.astype(np.str_)), list(missing))
    with np.errstate(over="ignore"):  # of numbers that are none of so few digits
        known = np.array([as_number(text) for text in missing]).astype(values.dtype)
    found: NDArray[np.bool_] = np.isin(values, known[np.isfinite(known)]) | np.isnan(values)
    return found


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
    site = asked.client if asked.client != CLIENT else None
    for key, wanted in (("data.split_by", split_by), ("data.site", site)):
        if wanted is not None and wanted not in arrays:
            raise UserError(f"{key}: {where.removeprefix('data.path: ')} has no array {wanted!r}")
    if split_by is not None:
        units = np.unique(arrays[split_by], return_inverse=True)[1]
        source = replace(source, units=units.astype(np.int64), units_by=split_by)
    source = with_groups(source, {name: arrays[name] for name in groups if name in arrays}, groups)
    source = replace(source, tested=sides(arrays.get("split"), where))
    if asked.client not in arrays:
        return source
    if asked.missing:
        unnamed = absent(arrays[asked.client], asked.missing)
        refuse_unnamed(unnamed, where, lambda sample: f"sample {sample}", asked.client)
    found, owners = np.unique(arrays[asked.client], return_inverse=True)
    names = owner_names(found, arrays.get("client_names"))
    return replace(source, owners=owners.astype(np.int64), owner_names=names)


def owner_names(found: NDArray[Any], names: NDArray[Any] | None) -> list[str]:
    """What clients are called: by the file's names, where it numbers them from 0."""
    numbered = found.dtype.kind in "iu" and len(found) and int(found.min()) >= 0
    if names is None or not numbered or names.ndim != 1 or int(found.max()) >= len(names):
        return [str(name) for name in found]
    return [str(names[number]) for number in found]


def sides(split: NDArray[Any] | None, where: str) -> NDArray[np.bool_] | None:
    """Which samples test, if an array says it."""
    if split is None or split.dtype.kind == "b":
        return split
    if split.dtype.kind == "U":
        words = np.char.lower(np.char.strip(split))
        known, tested = np.isin(words, list(SIDES)), np.isin(words, TESTED)
    else:
        known, tested = np.isin(split, (0, 1)), split == 1
    if not known.all():
        found = [shown(value, 40) for value in np.unique(split).tolist()]
        more = ", …" if len(found) > MOST_SIDES else ""
        raise UserError(
            f"{where}: split holds {', '.join(found[:MOST_SIDES])}{more}; it takes train and test, "
            "or 1 for samples that test and 0 for others, so write one of these for every sample, "
            "or save the array under another name"
        )
    return tested
