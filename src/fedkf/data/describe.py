"""How different the clients' data are, in numbers and in warnings."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkf.data.federated import FederatedData

FEW_TESTS = 10
LISTED = 5
OUTSIZED = 20
"""So many times the median size ask for an explanation."""


Differences = Mapping[str, Any] | None
"""What `data/heterogeneity.py` measured, if anything."""


def describe(
    data: FederatedData, differences: Differences = None, holdout: FederatedData | None = None
) -> dict[str, Any]:
    """Per-client sizes and class counts, and heterogeneity in two numbers.

    `total_variation` is the mean distance of a client's label distribution from the pooled one: 0
    if all are alike, near 1 if nobody shares a class. `effective_classes` is exp(entropy) of a
    client's labels: how many equally large classes would be as varied.
    """
    about, clients = _described(data, differences, holdout)
    return {**about, "clients": list(clients)}


def as_json(
    data: FederatedData, differences: Differences = None, holdout: FederatedData | None = None
) -> bytes:
    """The same as a file, a line for each client; a million of them are never held at a time."""
    about, clients = _described(data, differences, holdout)
    head = json.dumps(about, indent=2).removesuffix("\n}")
    rows = ",\n    ".join(map(json.dumps, clients))
    return f'{head},\n  "clients": [\n    {rows}\n  ]\n}}\n'.encode()


def _described(
    data: FederatedData, differences: Differences, holdout: FederatedData | None
) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """What is said of all clients, and of each."""
    counts = data.class_counts()
    shares = counts / counts.sum(1, keepdims=True)
    pooled = counts.sum(0) / counts.sum()
    distance = 0.5 * np.abs(shares - pooled).sum(1)
    logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    effective = np.exp(-(shares * logs).sum(1))
    clients = (
        {
            "id": k,
            "name": name,
            "train": data.sizes[k],
            "test": data.test_sizes[k],
            "classes": counts[k].tolist(),
            "total_variation": round(float(distance[k]), 4),
            "effective_classes": round(float(effective[k]), 3),
        }
        for k, name in enumerate(data.names)
    )
    about = {
        "classes": len(data.strata_names),
        "class_names": data.strata_names,
        "total_variation": round(float(distance.mean()), 4),
        "effective_classes": round(float(effective.mean()), 3),
    }
    if data.targets != "classes":
        about["targets"] = data.targets
    if differences is not None:
        about["differences"] = differences
    if holdout is not None:
        rows = zip(holdout.names, holdout.test_sizes, holdout.class_counts(), strict=True)
        about["holdout"] = [{"name": n, "test": t, "classes": c.tolist()} for n, t, c in rows]
    return about, clients


def untested(tests: Iterable[tuple[str, int]]) -> list[str]:
    """Clients, named with their number of test samples, whose accuracy cannot be told."""
    none = [name for name, count in tests if count == 0]
    return [f"{listed(none)}: no test samples, left out of AMP, FM and WLP"] if none else []


def outsized(sizes: Sequence[tuple[str, int]]) -> list[str]:
    """Clients that say they hold far more training samples than the median one.

    >>> outsized([("a", 100), ("b", 120), ("c", 1000000)])[0][:58]
    'c says that it holds 1,000,000 training samples, where the'
    """
    middle = statistics.median_low(size for _, size in sizes) if sizes else 0
    return [
        f"{name} says that it holds {size:,} training samples, where the median is {middle:,}: if "
        "that is no mistake, it outweighs the others in every mean by size"
        for name, size in sizes
        if size > OUTSIZED * middle
    ]


def warnings(about: dict[str, Any]) -> list[str]:
    """What a practitioner would want to know before training."""
    clients = about["clients"]
    notes = untested((c["name"], c["test"]) for c in clients)
    few = [c["name"] for c in clients if 0 < c["test"] < FEW_TESTS]
    if few:
        notes.append(f"{listed(few)}: under {FEW_TESTS} test samples, which makes WLP and FM noisy")
    counts = np.array([c.get("classes", ()) for c in clients])
    what = "class " if about.get("targets", "classes") == "classes" else ""
    for index, name in enumerate(about["class_names"]):
        holders = np.flatnonzero(counts[:, index])
        if len(holders) == 0:
            notes.append(f"{what}{name}: nobody holds it")
        elif len(holders) == 1 and len(clients) > 1:
            notes.append(f"{what}{name}: only {clients[holders[0]]['name']} holds it")
    names, targets = [c["name"] for c in clients], about.get("targets", "classes")
    if targets == "classes":
        notes += lacking(names, counts, about["class_names"])
    if targets == "time":
        notes += eventless(names, counts)
    sizes = [c["train"] for c in clients]
    if max(sizes) > 20 * min(sizes):
        notes.append(
            f"sizes go from {min(sizes)} to {max(sizes)} training samples: the largest clients "
            "dominate the average"
        )
    return notes


def lacking(names: Sequence[str], counts: NDArray[Any], class_names: Sequence[str]) -> list[str]:
    """Clients that hold one class alone, or not all that most of the others hold.

    >>> lacking(["a", "b", "c"], np.array([[5, 5], [9, 0], [4, 6]]), ["well", "ill"])[0]
    'b: no ill; a model that always says well is right there, so look beyond accuracy'
    """
    if counts.ndim < 2 or not 1 < len(class_names) <= counts.shape[1]:
        return []
    there = counts > 0
    common = 2 * there.sum(0) > len(names)
    alone = there.sum(1) == 1
    partly = (common & ~there).any(1) & ~alone
    notes = []
    kinds = ((alone, "with one class alone"), (partly, "without a class that most others hold"))
    for group, kind in kinds:
        if 2 * group.sum() >= len(names):
            continue  # it is how the data was divided
        for k in np.flatnonzero(group)[:LISTED].tolist():
            absent = listed([class_names[c] for c in np.flatnonzero(common & ~there[k]).tolist()])
            only = class_names[int(there[k].argmax())]
            said = f"a model that always says {only} is right there, so look beyond accuracy"
            rest = f"; {said}" if alone[k] else ", which most others hold"
            notes.append(f"{names[k]}: no {absent}{rest}" if absent else f"{names[k]}: {said}")
        if (left := int(group.sum()) - LISTED) > 0:
            notes.append(f"and {left} more {kind}")
    return notes


def eventless(names: Sequence[str], counts: NDArray[Any]) -> list[str]:
    """Clients without an event, which the second column counts.

    >>> eventless(["a", "b"], np.array([[5, 5], [9, 0]]))
    ['b: no event, so that the concordance index cannot be said there']
    """
    none = [name for name, events in zip(names, counts[:, 1].tolist(), strict=True) if not events]
    said = "no event, so that the concordance index cannot be said there"
    return [f"{listed(none, LISTED)}: {said}"] if none else []


def listed(names: list[str], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
