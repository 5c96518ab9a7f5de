"""The engine that does everything in the calling process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from fedkf.core.client import Call, ClientHost, StepFailed
from fedkf.core.errors import FedkfError
from fedkf.core.payload import Payload, Weights
from fedkf.core.server import Accept, Counts
from fedkf.core.threads import threads as computing_with
from fedkf.engines.counting import Population, count_in_groups


class InProcessEngine:
    """Runs one client after the other, here; a client's error stops the run and says where.

    With a `population` it evaluates all clients in a few passes, else each for itself.
    """

    def __init__(
        self, host: ClientHost, population: Population | None = None, threads: int = 1
    ) -> None:
        self.host, self.population, self.threads = host, population, threads
        self._threads_before = torch.get_num_threads()
        # Between calls the server adds up weights, with one thread as beside workers.
        torch.set_num_threads(1)

    def exchange(self, calls: Sequence[Call], down: Payload, accept: Accept) -> None:
        for call in calls:
            try:
                with computing_with(self.threads):
                    reply = self.host.perform(call, down)
            except StepFailed as error:
                raise FedkfError(str(error)) from error.__cause__
            accept(reply)

    def evaluate(self, readouts: Mapping[str, Weights], clients: Sequence[int]) -> Counts | None:
        if self.population is None:
            return None

        def count(groups: Sequence[Sequence[int]], down: Payload) -> list[Payload]:
            with computing_with(self.threads):
                return [self.host.count(group, down) for group in groups]

        return count_in_groups(count, readouts, clients, self.population.test_sizes)

    def close(self) -> None:
        torch.set_num_threads(self._threads_before)
