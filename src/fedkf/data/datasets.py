"""Samples from torch Datasets: one per client, or one for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from fedkf.core.errors import UserError, printable
from fedkf.core.objective import find
from fedkf.data.arrays import Unusable, decoded
from fedkf.data.reading import composed
from fedkf.data.source import Source, check, named
from fedkf.data.targets import Targets


def from_object(
    given: Any,
    where: str = "clients",
    targets: Targets = Targets(),  # noqa: B008
) -> Source:
    """A Dataset, a mapping from client names to Datasets, or a function that returns either."""
    if callable(given) and not isinstance(given, Mapping) and not hasattr(given, "__getitem__"):
        try:
            given = given()
        except Exception as error:
            raise UserError(f"{where} raised {type(error).__name__}: {error}") from error
    if not isinstance(given, Mapping):
        inputs, labels, names = arrays_of(given, where, targets.task)
        found = check(where, inputs, labels, replace(targets, class_names=names))
        return named(found, targets.class_names)
    if not given:
        raise UserError(f"{where} holds no clients")
    names = [str(composed(str(name))) for name in given]
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        raise UserError(f"{where} has two names that are written {twice!r}; give each its own")
    given = dict(zip(names, given.values(), strict=True))
    divided = divided_by_user(given, where)
    parts: dict[str, tuple[Any, Any, list[str] | None]] = {}
    tested: list[Any] = []
    for name, data in given.items():
        sides = data if divided else (data,)
        read = [arrays_of(side, f"{where}[{name!r}]", targets.task) for side in sides]
        parts[name] = joined(read, f"{where}[{name!r}]")
        tested += [np.full(len(labels), bool(k)) for k, (_, labels, _) in enumerate(read)]
    shapes = {inputs.shape[1:] for inputs, _, _ in parts.values()}
    if len(shapes) > 1:
        raise UserError(f"{where}: samples differ in shape between clients: {sorted(shapes)}")
    orders = [names for _, _, names in parts.values() if names]
    if any(names != orders[0] for names in orders):
        # Sites that number their own classes: what counts is the name, not the number.
        if len(orders) < len(parts):
            raise UserError(f"{where}: some clients name their classes and others do not")
        parts = {k: (x, np.array(names)[y], names) for k, (x, y, names) in parts.items()}
        orders = [sorted({name for names in orders for name in names})]
    source = check(
        where,
        np.concatenate([inputs for inputs, _, _ in parts.values()]),
        np.concatenate([labels for _, labels, _ in parts.values()]),
        replace(targets, class_names=orders[0] if orders else None),
    )
    source = named(source, targets.class_names)
    owners = np.repeat(np.arange(len(parts)), [len(labels) for _, labels, _ in parts.values()])
    sides = np.concatenate(tested) if divided else None
    return replace(source, owners=owners, owner_names=list(parts), tested=sides)


def divided_by_user(given: Mapping[str, Any], where: str) -> bool:
    """Whether clients come as pairs of training and test samples; all of them, or none."""
    pairs = [
        isinstance(data, tuple) and len(data) == 2 and not is_pair_of_arrays(data)
        for data in given.values()
    ]
    if any(pairs) and not all(pairs):
        odd = next(name for name, pair in zip(given, pairs, strict=True) if not pair)
        raise UserError(
            f"{where}: some clients are (training, test) pairs and {odd!r} is not; give pairs for "
            "all of them, or for none"
        )
    return all(pairs)


def joined(parts: Sequence[tuple[Any, Any, list[str] | None]], where: str) -> tuple[Any, Any, Any]:
    """A client's training and test samples, one after the other."""
    shapes = {inputs.shape[1:] for inputs, _, _ in parts}
    orders = [names for _, _, names in parts if names]
    if len(shapes) > 1 or any(names != orders[0] for names in orders):
        raise UserError(f"{where}: training and test samples differ in shape or in class names")
    inputs, labels = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    return inputs, labels, orders[0] if orders else None


def arrays_of(
    data: Any, where: str, task: str = "classification"
) -> tuple[np.ndarray[Any, Any], Any, list[str] | None]:
    """All samples and labels of a Dataset, and its classes' names if it has them."""
    if is_pair_of_arrays(data):
        return as_array(data[0], where), as_labels(data[1], where), None
    classes = find(task).labelled()
    label: Callable[[Any], Any] = whole_number if classes else number
    try:
        count = len(data)
    except TypeError:
        raise UserError(
            f"{where} is a {type(data).__name__}, not a Dataset with a length"
        ) from None
    if count == 0:
        raise UserError(f"{where} holds no samples")
    inputs, labels = [], []
    for index in range(count):
        try:
            x, y = data[index]
            labels.append(y if isinstance(y, str) else label(y))
        except Exception as error:
            raise UserError(
                f"{where}: sample {index} could not be read as an (input, label) pair "
                f"({type(error).__name__}: {printable(error)})"
            ) from error
        inputs.append(as_array(x, where))
    if len({x.shape for x in inputs}) > 1:
        shapes = sorted({x.shape for x in inputs})[:2]
        raise UserError(f"{where}: samples differ in shape, such as {shapes[0]} and {shapes[1]}")
    names = getattr(data, "classes", None) if classes else None
    return np.stack(inputs), np.array(labels), [str(n) for n in names] if names else None


def is_pair_of_arrays(data: Any) -> bool:
    """Whether these are inputs and labels, rather than a Dataset with two samples."""
    arrays = (torch.Tensor, np.ndarray)
    return isinstance(data, tuple) and len(data) == 2 and all(isinstance(d, arrays) for d in data)


def whole_number(y: Any) -> int:
    if int(y) != y:
        raise ValueError(f"the label {y!r} is not a whole number")
    return int(y)


def number(y: Any) -> Any:
    """A number, or several, such as a time and an event."""
    return np.asarray(y, dtype=np.float64)


def as_labels(y: Any, where: str) -> np.ndarray[Any, Any]:
    """Labels of an array, those that are bytes as texts."""
    try:
        return decoded(as_array(y, where), "labels")
    except Unusable as error:
        raise UserError(f"{where}: {error}") from None


def as_array(x: Any, where: str) -> np.ndarray[Any, Any]:
    if isinstance(x, torch.Tensor):
        return x.detach().cpu().numpy()
    if isinstance(x, np.ndarray):
        return x
    raise UserError(
        f"{where}: samples are {type(x).__name__}; they must be tensors or arrays (images as "
        "C×H×W in [0, 1])"
    )
