"""Runs on the same data compared, client by client."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkf import algorithms
from fedkf.core.errors import FedkfError, UserError
from fedkf.core.scores import performance_of
from fedkf.metrics.sites import ACCURACY
from fedkf.runs.store import RunFolder


def trained_alone(folder: RunFolder) -> bool:
    """Whether each client trained, and was judged by, a model of its own."""
    config = folder.config()
    return config is not None and not algorithms.shares_model(config.algorithm.name)


@dataclass(frozen=True)
class Gain:
    """What the clients are judged by, with and without the others, under one readout."""

    title: str
    names: Sequence[str]
    federated: Sequence[float | None]
    alone: Sequence[float | None]
    metric: str = ACCURACY


def gains(run: RunFolder) -> list[Gain]:
    """What federating gains each client, where a counterpart of the run lies beside it.

    The counterpart of a federated run is one in which every client trained alone, and the other way
    round. A damaged neighbour is none of this run's business.
    """
    alone = trained_alone(run)
    for path in sorted(p.parent for p in run.path.parent.glob("*/summary.json")):
        with contextlib.suppress(FedkfError, OSError, ValueError, LookupError, TypeError):
            other = RunFolder(path)
            if trained_alone(other) != alone and comparable(run, other):
                return _gains(run, other) if alone else _gains(other, run)
    return []


def comparable(a: RunFolder, b: RunFolder) -> bool:
    """The same data, seed and number of rounds."""
    one, two = (r.read_json("summary.json") for r in (a, b))
    same = all(one[key] == two[key] for key in ("seed", "rounds"))
    return same and a.provenance()["data_sha256"] == b.provenance()["data_sha256"]


def _gains(local: RunFolder, federated: RunFolder) -> list[Gain]:
    clients = federated.read_json("partition.json")["clients"]
    there = local.rounds()[-1]["readouts"]
    found = []
    for readout, score in federated.rounds()[-1]["readouts"].items():
        other, metric = there.get(readout), score.get("metric", ACCURACY)
        if other is None or other.get("metric", ACCURACY) != metric:
            continue  # an algorithm may judge models of its own, beside the two
        own = dict(zip(other["clients"], performance_of(other), strict=True))
        title = f"{federated.path.name} ({readout.upper()}) over {local.path.name}"
        names = [clients[k]["name"] for k in score["clients"]]
        alone = [own.get(k) for k in score["clients"]]
        found.append(Gain(title, names, performance_of(score), alone, metric))
    return found


def add_gain(result: dict[str, Any], run: Path, against: Path) -> None:
    """Each client's metric in an assessment less the same in another run on the same data."""
    other = RunFolder(against)
    rounds = other.rounds()
    if not rounds or not rounds[-1]["readouts"]:
        raise UserError(f"{other.path} holds no run with an evaluated round")
    if RunFolder(run).provenance().get("data_sha256") != other.provenance().get("data_sha256"):
        raise UserError(f"{other.path} is a run on other data; accuracies cannot be compared")
    readouts = rounds[-1]["readouts"]
    score = readouts.get(result["readout"]) or next(iter(readouts.values()))
    metric = result.get("metric", ACCURACY)
    if (by := score.get("metric", ACCURACY)) != metric:
        raise UserError(
            f"{other.path} is judged by {by}, this one by {metric}; they cannot be compared"
        )
    there = dict(zip(score["clients"], performance_of(score), strict=True))
    for k, client in enumerate(result["clients"]):
        own = client["accuracy"] if metric == ACCURACY else client["metrics"].get(metric)
        alone = there.get(k)
        client["against"] = alone
        client["gain"] = own - alone if own is not None and alone is not None else None
