"""Annotations: what an .npz file says of its samples beside inputs and labels.

`client` says who holds a sample (`client_names` what those are called), `label_names` what the
labels are called, `split` which samples train and which test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.data.groups import with_groups
from fedkf.data.source import Source
from fedkf.data.targets import Targets

Arrays = Mapping[str, NDArray[Any]]
NAMES = ("client", "client_names", "label_names", "split")
SIDES = {"train": False, "training": False, "test": True, "testing": True}


def annotation_names(split_by: str | None, groups: Sequence[str] = ()) -> tuple[str, ...]:
    """The arrays to look for."""
    return (*NAMES, *groups, *([split_by] if split_by else ()))


def with_names(targets: Targets, arrays: Arrays) -> Targets:
    """The targets with the file's names for its classes, unless the configuration has some."""
    names, labels = arrays.get("label_names"), arrays.get("labels")
    if targets.class_names is not None or names is None or labels is None:
        return targets
    if names.ndim != 1 or names.dtype.kind != "U" or labels.dtype.kind not in "iu":
        return targets
    return replace(targets, class_names=[str(name) for name in names])


def annotated(
    source: Source,
    arrays: Arrays,
    where: str,
    split_by: str | None = None,
    groups: Sequence[str] = (),
) -> Source:
    """The source with what the file says of each sample."""
    count = len(source.labels)
    for name in ("client", "split", *groups, *([split_by] if split_by else ())):
        if name in arrays and arrays[name].shape != (count,):
            raise UserError(f"{where}: {count} labels but {name} has shape {arrays[name].shape}")
    if split_by is not None:
        if split_by not in arrays:
            raise UserError(
                f"data.split_by: {where.removeprefix('data.path: ')} has no array {split_by!r}"
            )
        units = np.unique(arrays[split_by], return_inverse=True)[1]
        source = replace(source, units=units.astype(np.int64), units_by=split_by)
    source = with_groups(source, {name: arrays[name] for name in groups if name in arrays}, groups)
    source = replace(source, tested=sides(arrays.get("split")))
    if "client" not in arrays:
        return source
    found, owners = np.unique(arrays["client"], return_inverse=True)
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
