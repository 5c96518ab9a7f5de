"""RunStorage: the server's memories as files of a run's checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fedkf.core.federation import OVERALL
from fedkf.core.memory import Memory, SlotFiles
from fedkf.core.overall import FreshMemory
from fedkf.core.server import Storage
from fedkf.runs.checkpoint import CheckpointFolder


class RunStorage(Storage):
    """What the server keeps of each client, as files that take part in every checkpoint."""

    def __init__(self, checkpoint: CheckpointFolder, oldest: int | None) -> None:
        super().__init__(checkpoint.states)
        self.checkpoint, self.oldest = checkpoint, oldest

    def memory(self, name: str, sizes: Mapping[int, int], now: Callable[[], int]) -> Memory:
        slots = SlotFiles(self.checkpoint.versions(f"slots-{name}"), lambda: str(now()))
        if name != OVERALL or self.oldest is None:
            return Memory(slots, sizes)
        return FreshMemory(slots, sizes, now, self.oldest)
