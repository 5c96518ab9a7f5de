"""Samples: where the inputs of distillation come from (T2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedkf.core.payload import Payload

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client
    from fedkf.core.task import Task


@dataclass(frozen=True)
class Sampling:
    """The part of a task that says who makes samples, how many at a time and for how many steps."""

    source: Callable[[Client], Samples]
    batch_size: int | None = None  # that of the data where it is None
    reuse: int = 1

    def count(self, task: Task) -> int:
        """Samples of a batch."""
        return self.batch_size or task.training.batch_size


class Samples:
    """A source of inputs on which a teacher is distilled into a student.

    A source that learns returns inputs that require gradients, and takes a loss on them in `learn`.
    What it must remember until the client is active again goes into `state`. A batch serves
    `reuse` steps of the model before the next one is drawn.
    """

    reuse = 1
    haste = 1.0
    """What a source that learns multiplies its learning rate by: for few steps, longer ones."""
    continues: ClassVar[bool] = False
    """Whether `progress` and the client's random streams are all that the next batch depends on; a
    class that overrides the methods of one that says so says it again."""
    private: ClassVar[bool] = False
    """Whether it touches none of the client's own samples; said again like `continues`."""

    def __init__(self, client: Client) -> None:
        settings = client.task.part(Sampling)
        self.count = settings.count(client.task)
        self.reuse = settings.reuse
        client.source = self

    def draw(self) -> Tensor:
        """A batch of `count` inputs, normalised as the data is."""
        raise NotImplementedError

    def learn(self, loss: Tensor) -> None:
        """One step down a loss computed on the last batch drawn; nothing for sources that don't."""

    def state(self) -> Payload | None:
        """What to keep for this client; private, it never leaves the client."""
        return None

    def progress(self) -> Payload:
        """What training in the middle of a turn must have to go on with these samples."""
        return Payload()

    def resume(self, kept: Payload) -> None:
        """Go on from what `progress` gave."""
