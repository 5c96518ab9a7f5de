"""MIFA (Gu et al., 2021): every client's latest update counts in every round, active or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedkf.core.algorithm import Algorithm, State, option, with_mean_buffers
from fedkf.core.arithmetic import combine, subtract, zeros_like

if TYPE_CHECKING:
    from fedkf.core.server import Server, Upload


@dataclass(frozen=True)
class MIFA(Algorithm):
    """w ← w − η Σ_k G_k / K with G_k the client's latest w − w_k; clients not seen yet hold 0.

    Under a schedule G_k is over the learning rate of its round, times that of this one.
    """

    name: ClassVar[str] = "mifa"
    server_lr: float = option(1.0, "learning rate of the server", above=0)

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        start, updates = state["weights"], server.memory("updates", weighted=False)
        pace = server.task.training.pace(server.round)
        for upload in uploads:
            updates.put(upload.client, subtract(start, upload["weights"], pace))
        mean = updates.mean("all", zeros_like(start))
        assert mean is not None
        new = combine(lambda w, g: w - self.server_lr * pace * g, start, mean)
        return state.replace(weights=with_mean_buffers(server, uploads, new))
