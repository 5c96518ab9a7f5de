"""What an algorithm costs and discloses, measured by running it on a tiny task."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedkf import algorithms
from fedkf.core.algorithm import Algorithm
from fedkf.core.payload import LEAKAGE
from fedkf.runs.config import resolve

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.client import Client
    from fedkf.core.payload import Payload, Weights
    from fedkf.core.server import Server
    from fedkf.core.task import Task

TINY: dict[str, Any] = {
    "fidelity": "released",
    "federation": {"rounds": 2, "fraction": 1.0, "local_epochs": 1, "steps": 2, "batch_size": 4},
    "generator": {"width": 4, "noise": 4},
}
"""Two rounds (the first may differ), two steps for each client."""


@dataclass
class Passes:
    """Forward and backward passes in batches of B samples, counted by hooks.

    A pass counts half at the first layer and half at the last, so one through the predictor alone
    counts half, and one over 2B samples counts twice.
    """

    batch: int
    counts: dict[str, float] = field(default_factory=dict)
    steps: int = 0
    counting: bool = False
    finish: dict[str, int] = field(default_factory=dict)
    """Bytes exchanged once, after the last round."""

    def watch(self, module: nn.Module, role: str, only_training: bool) -> None:
        """Count passes through a module; `only_training` leaves out those of evaluation mode."""
        layers = [
            m for m in module.modules() if next(m.parameters(recurse=False), None) is not None
        ]
        for layer in (layers[0], layers[-1]):
            layer.register_forward_hook(
                lambda m, inputs, output: (
                    self._forward(role, output) if m.training or not only_training else None
                )
            )

    def _forward(self, role: str, output: Tensor) -> None:
        if not self.counting:
            return
        share = len(output) / self.batch / 2
        self._count(f"{role}_forward", share)
        if output.requires_grad:
            output.register_hook(lambda gradient: self._count(f"{role}_backward", share))

    def _count(self, name: str, share: float) -> None:
        self.counts[name] = self.counts.get(name, 0.0) + share

    def per_step(self) -> dict[str, float]:
        names = ("classifier_forward", "classifier_backward", "generator_forward")
        return {n: self.counts.get(n, 0.0) / self.steps for n in (*names, "generator_backward")}


def measure(algorithm: Algorithm, fidelity: str = "released") -> dict[str, Any]:
    """One row of the table: what `algorithm` discloses, sends and computes."""
    from fedkf.core.federation import Observer
    from fedkf.runs import experiment
    from fedkf.runs.setup import Objects

    proxy = tiny_source().inputs if algorithm.needs_proxy_data else None
    config = resolve(
        {
            **TINY,
            "data": {"proxy": None if proxy is None else "python"},
            "fidelity": fidelity,
            "algorithm": {"name": algorithm.name},
        }
    )
    passes = Passes(config.federation.batch_size)
    records: list[dict[str, Any]] = []

    class Keep(Observer):
        def round_started(self, round: int, active: object) -> None:
            passes.counts, passes.steps = {}, 0

        def round_finished(self, record: dict[str, Any]) -> None:
            records.append(record)

    with tempfile.TemporaryDirectory(prefix="fedkf-") as folder:
        result = experiment.execute(
            config.model_copy(update={"engine": config.engine.model_copy(update={"workers": 0})}),
            Path(folder),
            observers=[Keep()],
            given=Objects(
                counting(algorithm, passes), tiny_model, source=tiny_source(), proxy=proxy
            ),
        )
        one_model = sum(t.nbytes for t in result.weights["aca"].values())
    active = len(records[-1]["active"])
    extra = [k for k in result.summary["disclosed"] if k in (*LEAKAGE, "local_loss")]
    return {
        "name": algorithm.name,
        "fairness_aware": algorithm.fairness_aware,
        "needs_proxy_data": algorithm.needs_proxy_data,
        "discloses": ["weights", *extra],
        **{
            f"bytes_{way}": round(
                (records[-1]["bytes"][way] - passes.finish[way]) / one_model / active, 2
            )
            for way in ("down", "up")
        },
        "passes": passes.per_step(),
    }


def counting(algorithm: Algorithm, passes: Passes) -> Algorithm:
    """The same algorithm, with hooks on the models that it trains with."""

    class Counting(type(algorithm)):  # type: ignore[misc]
        def local_update(self, client: Client, down: Payload) -> Payload:
            watch_residents(client.task, passes)
            passes.counting = True
            upload: Payload = super().local_update(client, down)
            passes.counting = False
            passes.steps += client.steps
            return upload

        def finish(self, server: Server, readouts: dict[str, Weights]) -> dict[str, Weights]:
            before = server._ledger.bytes()
            final: dict[str, Weights] = super().finish(server, readouts)
            passes.finish = {way: n - before[way] for way, n in server._ledger.bytes().items()}
            return final

    options = {name: getattr(algorithm, name) for name in algorithm.options()}
    return Counting(**options)


class Watched(dict[str, "nn.Module"]):
    """Residents whose passes are counted, whatever roles an algorithm has."""

    def __init__(self, passes: Passes) -> None:
        self.passes = passes

    def __setitem__(self, role: str, module: nn.Module) -> None:
        kind = "generator" if "generator" in role else "classifier"
        # A pass outside the steps, such as a loss of the starting model, is not one of them.
        self.passes.watch(module, kind, only_training=role == "student")
        super().__setitem__(role, module)


def watch_residents(task: Task, passes: Passes) -> None:
    if not isinstance(task._residents, Watched):
        residents, task._residents = task._residents, Watched(passes)
        for role, module in residents.items():
            task._residents[role] = module


def tiny_model() -> nn.Module:
    from fedkf.models.lenet import LeNet5

    return LeNet5((1, 16, 16), 3)


def tiny_source() -> Any:
    from fedkf.data.sources import Source

    images = np.random.default_rng(0).random((24, 1, 16, 16), dtype=np.float32)
    return Source(images, np.arange(24) % 3, ["a", "b", "c"], np.arange(24) // 12, ["x", "y"])


def table(progress: Callable[[str], None] = lambda name: None) -> list[dict[str, Any]]:
    """A row for every algorithm."""
    rows = []
    for name in algorithms.names():
        progress(name)
        kind = algorithms.get(name)
        rows.append(measure(kind.create({**kind.fidelity.get("released", {}), **kind.tiny})))
    return rows
