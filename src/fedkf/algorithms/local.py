"""Each site alone: every client trains on its own data only, and is judged by its own model.

The clients take their turns as in any other run of the same seed, so a site's own model has seen
exactly the training that its part in a federated run would have had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedkf.core.algorithm import Algorithm
from fedkf.core.payload import Payload, Weights

if TYPE_CHECKING:
    from fedkf.core.client import Client


@dataclass(frozen=True)
class Local(Algorithm):
    """No federation: what the others are to be compared with, site by site."""

    name: ClassVar[str] = "local"
    continues: ClassVar[bool] = True
    shared_model: ClassVar[bool] = False

    def local_update(self, client: Client, down: Payload) -> Payload:
        upload = super().local_update(client, Payload(weights=own(client)))
        client.state = Payload(own=upload["weights"])
        return upload

    def evaluate(self, client: Client, down: Payload) -> Payload:
        mine = Payload()
        for name in down:
            mine.add(name, own(client))
        return super().evaluate(client, mine)

    def personal(self, client: Client, readouts: Payload) -> Weights:
        return own(client)


def own(client: Client) -> Weights:
    """The client's own model, as it left it; w⁰ before its first turn."""
    return client.state["own"] if client.state else client.task.initial_weights
