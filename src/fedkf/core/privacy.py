"""Privacy: the one way in which a private run touches a client's samples.

DP-SGD (Abadi et al., 2016): each step sums the clipped gradients of a Poisson sample and adds
normal noise. Whatever is computed from these sums alone needs no more protection, however often.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch

from fedkf.core.batches import batches_of
from fedkf.core.errors import FedkfError
from fedkf.core.task import learned

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.client import Client, ClientData
    from fedkf.core.payload import Payload
    from fedkf.core.records import Spent
    from fedkf.core.task import Training

CHANCE = ("privacy sampling", "privacy noise")
"""The purposes of the random streams that a private turn draws from."""


class Withheld(FedkfError):
    """Something asked for samples that a private run gives to its noisy gradients only."""

    def __init__(self) -> None:
        super().__init__("under privacy a client's samples are reached through client.loss alone")


@dataclass(frozen=True)
class Mechanism:
    """What a client does in a turn: `steps` noisy sums, each over a Poisson sample.

    A sample (or a unit, such as a patient) is in a step's batch with probability `rate`,
    whatever the others do; the noise is `noise` times the norm that gradients are clipped to.
    """

    noise: float
    rate: float
    steps: int

    @staticmethod
    def of(size: int, training: Training, noise: float) -> Mechanism:
        """That of a client with so many samples, a number which is public."""
        return Mechanism(noise, min(1.0, training.batch_size / size), batches_of(size, training))


@dataclass(frozen=True)
class Privacy:
    """The part of a task that says how gradients are made private."""

    clip: float
    mechanisms: Mapping[int, Mechanism]
    """By the number of a client's samples."""
    secret: bool = False
    """Chance comes from the operating system: nobody can repeat it, whoever knows the seed."""


class Budget(Protocol):
    """Who may still be asked, and what was spent."""

    def allows(self, client: int) -> bool:
        """Whether one more turn stays within the client's budget."""
        ...

    def charge(self, clients: Sequence[int]) -> None:
        """These take part in a round, whatever becomes of their uploads."""
        ...

    def spent(self, clients: Sequence[int]) -> Spent:
        """What these have spent so far."""
        ...

    def state(self) -> Payload: ...
    def restore(self, saved: Payload | None) -> None: ...


# -- chance ----------------------------------------------------------------------------------------


class Chance(Protocol):
    """Where the Poisson samples and the noise come from."""

    def uniform(self, count: int) -> Tensor: ...
    def normal(self, shape: torch.Size) -> Tensor: ...


@dataclass(frozen=True)
class SeededChance:
    """From the run's seed: for experiments, which are to be repeated."""

    sampling: torch.Generator
    noise: torch.Generator

    def uniform(self, count: int) -> Tensor:
        return torch.rand(count, generator=self.sampling, dtype=torch.float64)

    def normal(self, shape: torch.Size) -> Tensor:
        return torch.randn(shape, generator=self.noise)


class SecretChance:
    """From the operating system's entropy: for sites, whose seed the coordinator knows."""

    def uniform(self, count: int) -> Tensor:
        raw = np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(11)
        return torch.from_numpy((raw.astype(np.float64) + 0.5) / 2**53)

    def normal(self, shape: torch.Size) -> Tensor:
        count = shape.numel()
        half = (count + 1) // 2
        radius, angle = self.uniform(half).log().mul(-2).sqrt(), self.uniform(half) * 2 * torch.pi
        both = torch.cat([radius * angle.cos(), radius * angle.sin()])  # Box and Muller
        return both[:count].float().view(shape)


# -- the private step ------------------------------------------------------------------------------


class Sealed:
    """A batch that the private step alone can open, and only once."""

    def __init__(self, index: Tensor) -> None:
        self._index: Tensor | None = index

    def open(self) -> Tensor:
        if self._index is None:
            raise Withheld
        index, self._index = self._index, None
        return index


class WithheldData:
    """Stands in for a client's samples; `tests` are those that it is judged by, if it may be."""

    def __init__(self, tests: tuple[Tensor, Tensor] | None = None) -> None:
        self._tests = tests

    def __getattr__(self, name: str) -> Any:
        if self._tests is not None and name in ("test_images", "test_labels"):
            return self._tests[name == "test_labels"]
        raise Withheld


def tests_of(data: ClientData) -> Any:
    """The test samples alone, which no training sees."""
    return WithheldData((data.test_images, data.test_labels))


@dataclass(frozen=True)
class PrivateSamples:
    """A client's samples behind the mechanism."""

    inputs: Tensor
    targets: Tensor
    units: Tensor | None
    """To whom each sample belongs, from 0; None: every sample stands for itself."""
    privacy: Privacy
    chance: Chance
    released: dict[str, Tensor] = field(default_factory=dict)
    """The last noisy gradient."""
    opened: list[int] = field(default_factory=list)
    """The sizes of the batches that were opened in this turn, of which it pays for so many only."""

    @property
    def mechanism(self) -> Mechanism:
        return self.privacy.mechanisms[len(self.targets)]

    def batches(self) -> Iterator[tuple[Any, Any]]:
        """So many Poisson samples as a turn has; inputs and targets are one and the same seal."""
        size, rate = len(self.targets), self.mechanism.rate
        count = size if self.units is None else int(self.units.max()) + 1
        for _ in range(self.mechanism.steps):
            chosen = (self.chance.uniform(count) < rate).to(self.targets.device)
            index = (chosen if self.units is None else chosen[self.units]).nonzero().flatten()
            batch = Sealed(index)
            yield batch, batch

    def loss(self, model: nn.Module, function: Callable[..., Tensor], batch: object) -> Tensor:
        """A loss of value 0 whose gradient is the noisy one, however it is used further."""
        from fedkf.core.gradients import clipped_sum

        if not isinstance(batch, Sealed) or len(self.opened) == self.mechanism.steps:
            raise Withheld
        index = batch.open()
        self.opened.append(len(index))
        shares = None
        if self.units is not None:  # a unit counts once, as the mean of its clipped samples
            own = self.units[index]
            shares = 1 / own.bincount()[own] if len(own) else own.float()
        inputs, targets = self.inputs[index], self.targets[index]
        total = clipped_sum(model, function, (inputs, targets), self.privacy.clip, shares)
        whole = len(self.targets) if self.units is None else int(self.units.max()) + 1
        expected, deviation = whole * self.mechanism.rate, self.mechanism.noise * self.privacy.clip
        surrogate: Tensor = inputs.new_zeros(())
        for name, parameter in learned(model).items():
            noise = self.chance.normal(parameter.shape).to(parameter)
            gradient = self.released[name] = (total[name] + deviation * noise) / expected
            surrogate = surrogate + ((parameter - parameter.detach()) * gradient).sum()
        return surrogate

    def restrain(self, model: nn.Module) -> None:
        """Clip, to the same length, the gradient of whatever was added to the noisy one.

        Clipped gradients want long steps, which would throw a model off in other directions. Terms
        beside the loss have seen no samples, so that this costs nothing.
        """
        parameters = {name: p for name, p in learned(model).items() if p.grad is not None}
        rest = {name: p.grad - self.released[name] for name, p in parameters.items()}  # type: ignore[operator]
        norm = torch.stack([r.square().sum() for r in rest.values()]).sum().sqrt()
        if norm > self.privacy.clip:
            for name, parameter in parameters.items():
                parameter.grad = self.released[name] + rest[name] * (self.privacy.clip / norm)


def behind(privacy: Privacy, client: Client) -> PrivateSamples:
    """The client's samples; from now on nothing else can reach them."""
    chance: Chance = SecretChance()
    if not privacy.secret:
        chance = SeededChance(*(client.random(purpose) for purpose in CHANCE))
    data, client.data = client.data, cast("ClientData", WithheldData())
    return PrivateSamples(data.images, data.labels, data.units, privacy, chance)
