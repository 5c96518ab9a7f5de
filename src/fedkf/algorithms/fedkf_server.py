"""FedKF with its generator on the server: the design that the paper rejects, to be tested.

After aggregation the server trains one generator against the OCA; the clients get it as it is and
distil on its samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from fedkf.algorithms.fedkf import FedKF
from fedkf.core.algorithm import State, option
from fedkf.core.client import Client, ClientData
from fedkf.core.errors import UserError
from fedkf.core.payload import Payload, Weights
from fedkf.distillation.generators import FrozenGenerator, Generation, TrainedGenerator
from fedkf.distillation.losses import judge

if TYPE_CHECKING:
    from fedkf.core.samples import Samples
    from fedkf.core.server import Server


@dataclass(frozen=True)
class FedKFServer(FedKF):
    """The generator takes n steps of L_G a round on the server and stands still on the clients."""

    name: ClassVar[str] = "fedkf-server"
    continues: ClassVar[bool] = True
    fidelity: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        kind: {key: value for key, value in options.items() if key != "resample"}
        for kind, options in FedKF.fidelity.items()
    }
    tiny: ClassVar[Mapping[str, Any]] = dict(generator_steps=1)
    generator_steps: int = option(50, "n, steps of the server's generator a round", at_least=1)
    resample: bool = option(False, "draw twice a step, as FedKF does for its moving generator")
    adversarial: bool = option(False, "always false: the server holds no local model to oppose")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adversarial:
            raise UserError(
                "algorithm.adversarial is True; fedkf-server trains its generator where no local "
                "model is, so it must be false"
            )

    def start(self, server: Server) -> State:
        generator = server.task.part(Generation).initial(server.task)
        return super().start(server).add("generator", generator)

    def round(self, server: Server, state: State) -> State:
        if not self._plain(server.round):
            state = self.train_here(server, state)
        return super().round(server, state)

    def train_here(self, server: Server, state: State) -> State:
        """θ ← θ − β ∇L_G(θ), n times, against the OCA of the round before."""
        nothing = torch.empty(0, *server.task.shape), torch.empty(0, dtype=torch.long)
        kept = state if "adam" in state else None
        client = Client(-1, server.round, ClientData(*nothing, *nothing), server.task, kept)
        teacher = client.teacher(self._teacher(server, state))
        samples = TrainedGenerator(client)
        samples.every = 1  # every batch is for learning
        with server.own_work("server generator"):
            for _ in range(self.generator_steps):
                features, outputs = judge(teacher, samples.draw())
                logits = client.task.objective.logits(outputs)
                samples.learn(self.generator_loss(features, logits))
        made = samples.state()
        return state.replace(generator=made["generator"], adam=made["adam"])

    def _teacher(self, server: Server, state: State) -> Weights:
        return (server.overall if self.teacher == "oca" else None) or state["weights"]

    def broadcast(self, server: Server, state: State) -> Payload:
        down = super().broadcast(server, state)
        if not self._plain(server.round):
            down.add("generator", state["generator"], kind="weights")
        return down

    def samples(self, client: Client, down: Payload) -> Samples:
        return FrozenGenerator(client, down["generator"])
