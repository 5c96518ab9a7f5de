"""Task: what is learned (model and loss) and how a client trains, the same for everyone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import torch

from fedkf.core.objective import Classification, Objective
from fedkf.core.optimizers import factor
from fedkf.core.random import GlobalStream, Streams

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.payload import Weights

Part = TypeVar("Part")


@dataclass(frozen=True)
class Training:
    """How a client trains its model; `steps_per_epoch` None means its own batches."""

    local_epochs: int = 1
    steps_per_epoch: int | None = None
    batch_size: int = 64
    lr: float = 0.01
    momentum: float = 0.0
    weight_decay: float = 0.0
    optimizer: str = "sgd"
    clip: float | None = None
    """The largest norm of a step's gradient."""
    schedule: str = "constant"
    rounds: int = 1
    """What the learning rate's schedule runs over."""
    precision: str = "float32"

    def rate(self, round: int) -> float:
        """The learning rate in a round, from 1 on."""
        return self.lr * self.pace(round)

    def pace(self, round: int) -> float:
        """The learning rate in a round, next to that of the first."""
        return factor(self.schedule, round, self.rounds)


@dataclass
class Task:
    """The learning task. One resident model per role and process; every client reuses it.

    `parts` are what only a kind of algorithm needs, such as settings of generators: objects of any
    type, each found by its type. `on_resident` is told of every resident module, with its role.
    """

    make_model: Callable[[], nn.Module]
    shape: tuple[int, ...]
    classes: int
    training: Training
    streams: Streams
    mean: Sequence[float] = (0.0,)
    std: Sequence[float] = (1.0,)
    device: str = "cpu"
    channels_last: bool = False
    parts: Sequence[object] = ()
    on_resident: Callable[[nn.Module, str], None] | None = None
    objective: Objective = field(default_factory=Classification)
    statistics: Sequence[str] = ()
    """What sites say of a model on their test samples, beside how many are right."""
    start: Weights | None = None
    """w⁰ where it is given, as a resumed run gives the one that it began with."""
    _residents: dict[str, nn.Module] = field(default_factory=dict, init=False, repr=False)

    def part(self, kind: type[Part]) -> Part:
        """The part of that type."""
        for part in self.parts_of(kind):
            return part
        raise ValueError(f"this task has no {kind.__name__}")

    def parts_of(self, kind: type[Part]) -> list[Part]:
        """The parts of that type, if there are any."""
        return [part for part in self.parts if isinstance(part, kind)]

    def __getstate__(self) -> dict[str, object]:
        """Another process makes modules of its own."""
        return {**self.__dict__, "_residents": {}}

    @cached_property
    def initial_weights(self) -> Weights:
        """w⁰: the one given, or one drawn from the run's seed."""
        return self.initial("model", self.make_model) if self.start is None else self.start

    @property
    def layout(self) -> torch.memory_format:
        """How images and convolutions lie in memory; the results differ in the last bits."""
        return torch.channels_last if self.channels_last else torch.contiguous_format

    @property
    def parameters(self) -> list[str]:
        """The names of what is learned; the other tensors of a model are buffers.

        A parameter that several layers share has as many names, each with a tensor in the weights.
        """
        return list(self.first_names)

    @property
    def distinct(self) -> list[str]:
        """One name of each parameter, for what must count none twice."""
        return list(dict.fromkeys(self.first_names.values()))

    @cached_property
    def first_names(self) -> dict[str, str]:
        """Every name of a parameter, and the first that the same one has."""
        named = self.resident("student").named_parameters(remove_duplicate=False)
        first: dict[int, str] = {}
        return {name: first.setdefault(id(p), name) for name, p in named}

    def initial(self, purpose: str, make: Callable[[], nn.Module]) -> Weights:
        """The first weights of a module, drawn from the run's seed: the same in any process."""
        with GlobalStream(self.streams.integer(purpose), "cpu").active():
            return copy_of(make())

    def resident(self, role: str, make: Callable[[], nn.Module] | None = None) -> nn.Module:
        """This process's module for `role`: "student", "teacher" or another.

        It is a model, or what `make` builds for a role that is none.
        """
        if role not in self._residents:
            # Its first weights are overwritten; drawing them must not move the caller's randomness.
            with GlobalStream(0, "cpu").active():
                module = (make or self.make_model)().to(self.device)
                layout = getattr(module, "preferred_format", self.layout)  # a model may know better
                self._residents[role] = module.to(memory_format=layout)  # type: ignore[call-overload]
            if self.on_resident is not None:
                self.on_resident(self._residents[role], role)
        return self._residents[role]

    def load(
        self, role: str, weights: Weights, make: Callable[[], nn.Module] | None = None
    ) -> nn.Module:
        """The resident module for `role`, with these weights and no gradients."""
        module = self.resident(role, make)
        module.load_state_dict(weights)
        module.zero_grad(set_to_none=True)
        return module

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """What a client's training descends; for classes cross entropy, L_CE (Eq. 7)."""
        return self.objective.loss(outputs, targets)

    def precision(self, training: bool) -> torch.autocast:
        """Forward passes of training in bfloat16 where the run asks for it; weights stay float32.

        Casts of weights are not kept, since an optimizer changes the weights under them.
        """
        low = training and self.training.precision == "bfloat16"
        kind = torch.device(self.device).type
        return torch.autocast(kind, torch.bfloat16, enabled=low, cache_enabled=False)

    @property
    def outputs(self) -> int:
        """How many numbers the model makes of an input."""
        return self.objective.outputs(self.classes)

    def of_client(self, targets: Tensor) -> Task:
        """The task as a client with these training targets has it; its models are the same."""
        objective = self.objective.of_client(targets, self.classes)
        if objective is self.objective:
            return self
        own = object.__new__(type(self))
        own.__dict__.update(self.__dict__, objective=objective)
        return own


def copy_of(module: nn.Module) -> Weights:
    """A module's parameters and buffers as tensors of their own on the CPU."""
    return {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in module.state_dict().items()
    }


def learned(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are to learn; a model may hold others fixed."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def everywhere(model: nn.Module, values: Weights) -> Weights:
    """Values in the place of parameters, under every name by which a module holds one."""
    first = {id(p): name for name, p in model.named_parameters()}
    found: Weights = {}
    for prefix, module in model.named_modules():  # a module with two names comes once
        for own, p in module.named_parameters(recurse=False, remove_duplicate=False):
            if first[id(p)] in values:
                found[f"{prefix}.{own}" if prefix else own] = values[first[id(p)]]
    return found
