"""What the tests of secure sums share: an engine that loses clients and listens, small runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from torch import nn

from fedkf.core.algorithm import Algorithm
from fedkf.core.client import Call, Reply
from fedkf.core.payload import Payload, Weights
from fedkf.core.server import Accept
from fedkf.data.federated import FederatedData
from fedkf.engines.in_process import InProcessEngine
from fedkf.runs.assembly import Assembly
from fedkf.runs.config import resolve
from fedkf.runs.experiment import Experiment
from fedkf.runs.schema import Config
from fedkf.runs.setup import Objects, load_source, make_data, settle
from fedkf.runs.store import RunFolder

PHASES = ("secure_keys", "secure_shares", "secure_update", "secure_unmask")
Lost = Mapping[str, Sequence[int]]
"""Clients by the step that they are lost in: `secure_keys`, or only `secure_keys in 2`."""


def small() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


@dataclass
class Wire:
    """Everything that passed between the two sides."""

    messages: list[tuple[str, int, Payload]] = field(default_factory=list)
    """Step, client (-1 for what all of them are sent) and payload."""

    def up(self, step: str) -> dict[int, Payload]:
        """What each client sent in a step of the last round."""
        return {k: p for name, k, p in self.messages if name == step and k >= 0}

    def down(self, step: str) -> Payload:
        """What the clients were sent in a step of the last round."""
        return [p for name, k, p in self.messages if name == step and k < 0][-1]


class Listening(InProcessEngine):
    """The engine of this process, but for clients that are lost in a step, with open ears."""

    lost: Lost
    wire: Wire

    def exchange(self, calls: Sequence[Call], down: Payload, accept: Accept) -> None:
        self.wire.messages.append((calls[0].step, -1, Payload.from_bytes(down.to_bytes())))

        def heard(reply: Reply) -> bool:
            if reply.upload is not None:
                copy = Payload.from_bytes(reply.upload.to_bytes())
                self.wire.messages.append((reply.call.step, reply.call.client, copy))
            return accept(reply)

        step, now = calls[0].step, calls[0].round
        lost = {*self.lost.get(step, ()), *self.lost.get(f"{step} in {now}", ())}
        gone = [call for call in calls if call.client in lost]
        super().exchange([call for call in calls if call not in gone], down, heard)
        for call in gone:
            accept(Reply(call, error="it went away"))


@dataclass(frozen=True)
class Ended:
    """A run that is over."""

    models: dict[str, Weights]
    wire: Wire
    rounds: list[dict[str, Any]]


@cache
def divided() -> tuple[Config, FederatedData]:
    """Digits of 8×8 pixels over ten clients."""
    config = resolve({"data": {"source": "digits", "limit": 24, "clients": 10, "alpha": 1.0}})
    source = load_source(config)
    config = settle(config, source)
    return config, make_data(config, source)


def run(
    folder: Path,
    algorithm: str = "fedavg",
    lost: Lost | None = None,
    heard: Wire | None = None,
    change: Callable[[Algorithm], Algorithm] = lambda made: made,
    **keys: Any,
) -> Ended:
    """Two rounds of ten clients, all active, but for who is lost; a folder with a run goes on."""
    shown, data = divided()
    content = {
        "data": shown.data.model_dump(),
        "algorithm": {"name": algorithm},
        "federation": {"rounds": 2, "fraction": 1.0, "local_epochs": 1, "lr": 0.1},
        "generator": {"name": "mlp", "width": 4, "noise": 4},
    }
    config = resolve(content, {k.replace("__", "."): v for k, v in keys.items()})
    assembly = Assembly.of(config, data, Objects(model=small))
    assembly = Assembly(config, data, change(assembly.algorithm), assembly.task)
    run = RunFolder(folder)
    run.path.mkdir(parents=True, exist_ok=True)
    experiment = Experiment(assembly, run, {})
    with experiment.open(lambda: b"{}"):
        engine = Listening(experiment.assembly.host_of(data, experiment.states))
        engine.lost, engine.wire = lost or {}, heard or Wire()
        models = experiment.train(engine)
    return Ended(models, engine.wire, [r.as_json() for r in run.rounds()])


def apart(a: Ended, b: Ended) -> float:
    """The largest difference of any weight of either readout."""
    assert set(a.models) == set(b.models) == {"aca", "oca"}
    return max(
        float((a.models[readout][name] - tensor).abs().max())
        for readout, weights in b.models.items()
        for name, tensor in weights.items()
    )
