"""Objective: what a task asks of a model: outputs, loss, prediction, and what a teacher teaches.

`OBJECTIVES` is the table of them; `data.task` names one, or a class of your own as
package.module:Class, or a loss for classification as package.module:function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import torch

from fedkf.core.errors import UserError, nearest
from fedkf.core.objects import import_object

if TYPE_CHECKING:
    from torch import Tensor

Targets = Literal["classes", "two classes", "number", "time"]
"""What a sample's target is: a class from 0, a number, or a time with whether an event ended it."""


@dataclass(frozen=True)
class Objective:
    """One kind of task. Outputs are [N, outputs]; targets as `targets` says, a row for each."""

    name: ClassVar[str] = ""
    targets: ClassVar[Targets] = "number"
    separable: ClassVar[bool] = False
    """The loss of a batch is the mean of its samples' losses, so that each has its own gradient."""

    weights: Sequence[float] | None = None
    """How much a sample counts in the loss by its class; None: all alike."""
    balanced: bool = False
    """Every client weighs classes by its own counts, which stay with it."""

    @classmethod
    def labelled(cls) -> bool:
        """Whether targets are classes."""
        return cls.targets in ("classes", "two classes")

    @property
    def averages(self) -> bool:
        """Whether the loss of many samples is the mean of each one's, all of them alike."""
        return self.separable and self.weights is None

    def outputs(self, classes: int) -> int:
        """How many numbers a model makes of an input."""
        return 1

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """What training descends: a mean over the batch."""
        raise NotImplementedError

    def predict(self, outputs: Tensor) -> Tensor:
        """What a user is told of each sample: a class, a probability, a number or a risk."""
        return outputs[:, 0]

    def told(self, outputs: Tensor) -> Tensor:
        """Outputs as whoever takes the model home reads them."""
        return outputs

    def distil(self, teacher: Tensor, student: Tensor) -> Tensor:
        """How far a student's outputs are from a teacher's, averaged over the batch."""
        return torch.nn.functional.mse_loss(student, teacher)

    def logits(self, outputs: Tensor) -> Tensor:
        """A logit for each class; for tasks without classes the outputs as they are."""
        return outputs

    def of_client(self, targets: Tensor, classes: int) -> Objective:
        """The same for a client with these training targets."""
        if not self.balanced:
            return self
        return replace(self, weights=balanced_weights(targets, classes), balanced=False)


def balanced_weights(targets: Tensor, classes: int) -> list[float]:
    """n / (C n_c) for each of the C classes that there are; 1 for the others, which are not met.

    >>> balanced_weights(torch.tensor([0, 0, 0, 2]), 3)
    [0.6666666666666666, 1.0, 2.0]
    """
    counts = targets.cpu().bincount(minlength=classes).double()
    present = int((counts > 0).sum())
    fair = counts.sum() / (max(1, present) * counts.clamp_min(1))
    return [float(w) for w in torch.where(counts > 0, fair, torch.ones_like(fair))]


class Classification(Objective):
    """One of several classes: cross entropy (Eq. 7), KL between teacher and student (Eq. 6)."""

    name: ClassVar[str] = "classification"
    targets: ClassVar[Targets] = "classes"
    separable: ClassVar[bool] = True

    def outputs(self, classes: int) -> int:
        return classes

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        weights = None if self.weights is None else outputs.new_tensor(self.weights)
        return torch.nn.functional.cross_entropy(outputs, targets, weights)

    def predict(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(1)

    def distil(self, teacher: Tensor, student: Tensor) -> Tensor:
        return kl_loss(teacher.softmax(1), student)


class Binary(Objective):
    """Yes or no: one logit z with σ(z) the probability of class 1, binary cross entropy.

    Where classes are asked about, its logits are (0, z): the softmax of these is (1 − σ(z), σ(z)).
    """

    name: ClassVar[str] = "binary"
    targets: ClassVar[Targets] = "two classes"
    separable: ClassVar[bool] = True

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        z, y = outputs[:, 0], targets.to(outputs.dtype)
        if self.weights is None:
            return torch.nn.functional.binary_cross_entropy_with_logits(z, y)
        counted = outputs.new_tensor(self.weights)[targets.long()]
        total = torch.nn.functional.binary_cross_entropy_with_logits(z, y, counted, reduction="sum")
        return total / counted.sum()

    def predict(self, outputs: Tensor) -> Tensor:
        return outputs[:, 0].sigmoid()

    def distil(self, teacher: Tensor, student: Tensor) -> Tensor:
        return kl_loss(self.logits(teacher).softmax(1), self.logits(student))

    def logits(self, outputs: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(outputs), outputs], 1)


@dataclass(frozen=True)
class Regression(Objective):
    """A number: mean squared error, also between teacher and student.

    A model's output is (target − centre) / spread, so that euros and millions of them are learned
    at the same pace; what a user is told is in the target's own unit.
    """

    name: ClassVar[str] = "regression"
    targets: ClassVar[Targets] = "number"
    separable: ClassVar[bool] = True

    centre: float = 0.0
    spread: float = 1.0

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        wanted = (targets.to(outputs.dtype) - self.centre) / self.spread
        return torch.nn.functional.mse_loss(outputs[:, 0], wanted)

    def predict(self, outputs: Tensor) -> Tensor:
        return self.told(outputs)[:, 0]

    def told(self, outputs: Tensor) -> Tensor:
        return outputs * self.spread + self.centre


class Survival(Objective):
    """A time to an event, or to the end of observation: Cox's model, outputs are log risks.

    A log risk means something next to others only, so that a student learns how far a sample's is
    from the batch's mean.
    """

    name: ClassVar[str] = "survival"
    targets: ClassVar[Targets] = "time"

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return cox_loss(outputs[:, 0], targets[:, 0], targets[:, 1])

    def distil(self, teacher: Tensor, student: Tensor) -> Tensor:
        return torch.nn.functional.mse_loss(student - student.mean(), teacher - teacher.mean())


def kl_loss(soft: Tensor, logits: Tensor) -> Tensor:
    """L_KL (Eq. 6): KL(teacher ‖ student), summed over classes, averaged over the batch."""
    return torch.nn.functional.kl_div(logits.log_softmax(1), soft, reduction="batchmean")


def cox_loss(risks: Tensor, times: Tensor, events: Tensor) -> Tensor:
    """Minus Cox's log partial likelihood with Breslow's handling of ties, over the events.

    The mean over events i of log Σ_{t_j ≥ t_i} e^{r_j} − r_i; 0 for a batch without events.
    """
    happened = events > 0
    if not happened.any():
        return (risks * 0).sum()
    order = torch.argsort(times, descending=True, stable=True)
    risks, late = risks[order], -times[order]
    # Whoever is still at risk at t_i comes before the last of those with the same time.
    last = torch.searchsorted(late, late, right=True) - 1
    at_risk = risks.logcumsumexp(0)[last]
    return (at_risk - risks)[happened[order]].mean()


def uncommon(objective: Objective, targets: Tensor) -> int | None:
    """The samples that are not of the commonest class, or those with an event; None for numbers."""
    if objective.targets == "number" or not len(targets):
        return None
    if objective.targets == "time":
        return int((targets[:, 1] > 0).sum())
    return len(targets) - int(targets.long().bincount().max())


OBJECTIVES: dict[str, type[Objective]] = {
    kind.name: kind for kind in (Classification, Binary, Regression, Survival)
}


def find(name: str) -> type[Objective]:
    """The objective of that name, or the one that `package.module:Class` points to."""
    if ":" not in name:
        if name not in OBJECTIVES:
            raise UserError(f"data.task: no {name!r}; {nearest(name, OBJECTIVES)}")
        return OBJECTIVES[name]
    value = import_object(name, "data.task")
    if callable(value) and not isinstance(value, type):
        return with_loss(name, value)
    if not (isinstance(value, type) and issubclass(value, Objective)):
        raise UserError(f"data.task: {name} is not a subclass of fedkf.core.objective.Objective")
    return value


def with_loss(name: str, loss: Callable[[Tensor, Tensor], Tensor]) -> type[Objective]:
    """Classification with a loss of the user's own, a function of outputs and targets."""

    class OwnLoss(Classification):
        def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
            if self.weights is not None:
                raise UserError("data.class_weights: a loss of your own weighs classes itself")
            return loss(outputs, targets)

    OwnLoss.name = name
    return OwnLoss
