"""Gradients of single samples, clipped and summed: the costly part of a private step.

Any model can be asked for one sample at a time (`torch.func`). For layers that are known, a single
pass over many samples is enough: a layer's inputs and the gradients by its outputs give the length
of every sample's gradient, and the sum of the clipped ones without a second pass (Goodfellow, 2015;
Bu et al., 2023). That needs samples that do not meet in the model, which its class must promise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from fedkf.core.task import learned

if TYPE_CHECKING:
    from torch import nn

HELD = 1 << 23
"""Most numbers that gradients of single samples may hold at a time; MOST and LEAST bound how many
samples that is."""
MOST, LEAST = 128, 8
APART = "samples_apart"
"""The attribute of a model's own class that promises that no sample's output depends on others."""
Loss = Callable[..., Tensor]
Sums = dict[str, Tensor]


def clipped_sum(
    model: nn.Module,
    function: Loss,
    samples: tuple[Tensor, Tensor],
    clip: float,
    shares: Tensor | None = None,
) -> Sums:
    """Σ of every sample's gradient, none longer than `clip`, times its share.

    A gradient that is no number, as an absurd sample can give, counts as none.
    """
    parameters, (inputs, targets) = learned(model), samples
    total = {name: torch.zeros_like(p) for name, p in parameters.items()}
    together = bool(vars(type(model)).get(APART, False))
    # By the model alone, so that results do not depend on a machine's memory.
    chunk = max(LEAST, min(MOST, HELD // sum(p.numel() for p in parameters.values())))
    for start in range(0, len(targets), chunk):
        part = slice(start, start + chunk)
        some = Some(inputs[part], targets[part], clip, None if shares is None else shares[part])
        found = sum_together(model, function, some) if together else None
        if found is None:
            found = sum_one_by_one(model, function, some)
        for name, gradient in found.items():
            total[name] += gradient
    return total


@dataclass(frozen=True)
class Some:
    """Some of a batch's samples, and how long each one's gradient may be."""

    inputs: Tensor
    targets: Tensor
    clip: float
    shares: Tensor | None

    def factors(self, squares: Tensor) -> Tensor:
        """What each sample's gradient is multiplied by, of the square of its length."""
        kind = torch.promote_types(self.inputs.dtype, torch.float32)  # inputs may be whole numbers
        factor = (self.clip / squares.sqrt()).clamp(max=1.0).to(kind)
        return factor if self.shares is None else factor * self.shares


def sum_one_by_one(model: nn.Module, function: Loss, some: Some) -> Sums:
    """With a gradient of each sample, made as if it were alone; any model will do."""
    from torch.func import functional_call, grad, vmap

    buffers = dict(model.named_buffers())

    def one(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return function(functional_call(model, (weights, buffers), (x[None],)), y[None])

    gradients = vmap(grad(one), in_dims=(None, 0, 0), randomness="different")
    weights = {name: p.detach() for name, p in learned(model).items()}
    found = gradients(weights, some.inputs, some.targets)
    squares = torch.stack([g.flatten(1).square().sum(1) for g in found.values()]).sum(0)
    factor = some.factors(squares)
    if not squares.isfinite().all():
        factor = torch.where(squares.isfinite(), factor, torch.zeros_like(factor))
        found = {name: g.nan_to_num(0.0, 0.0, 0.0) for name, g in found.items()}
    return {name: torch.tensordot(factor.to(g.dtype), g, dims=1) for name, g in found.items()}


# -- all samples at once ---------------------------------------------------------------------------


def sum_together(model: nn.Module, function: Loss, some: Some) -> Sums | None:
    """The same from one pass; None where a layer is not known, or a gradient is no number."""
    from torch.func import vmap

    parameters = learned(model)
    uses = Uses(parameters)
    with uses:
        outputs = model(some.inputs)
    if not uses.known:
        return None
    losses = vmap(lambda out, y: function(out[None], y[None]), randomness="different")
    by_outputs = torch.autograd.grad(
        losses(outputs, some.targets).sum(), [use.output for use in uses.found]
    )
    with torch.no_grad():
        parts = [
            part
            for use, gradient in zip(uses.found, by_outputs, strict=True)
            for part in use.parts(gradient)
        ]
        squares = torch.stack([part.squares() for part in parts]).sum(0)
        if not squares.isfinite().all():
            return None
        factor = some.factors(squares)
        sums = [part.summed(factor) for part in parts]
    made = [part.weight for part in parts]
    back = torch.autograd.grad(made, list(parameters.values()), sums, allow_unused=True)
    pairs = zip(parameters.items(), back, strict=True)
    return {name: torch.zeros_like(p) if b is None else b for (name, p), b in pairs}


class Part:
    """What a layer's gradients by one of its weights are, one for each sample."""

    def __init__(self, weight: Tensor, each: Tensor) -> None:
        self.weight, self.each = weight, each

    def squares(self) -> Tensor:
        return self.each.flatten(1).square().sum(1).double()

    def summed(self, factor: Tensor) -> Tensor:
        found: Tensor = torch.tensordot(factor.to(self.each.dtype), self.each, dims=1)
        return found.view(self.weight.shape)


class Product(Part):
    """Those of a matrix: products of a sample's input and the gradient by its output."""

    def __init__(self, weight: Tensor, each: Tensor, inputs: Tensor) -> None:
        super().__init__(weight, each)
        self.inputs = inputs

    def squares(self) -> Tensor:
        lengths = (
            torch.linalg.vector_norm(t, dim=1, dtype=torch.float64)
            for t in (self.each, self.inputs)
        )
        return torch.stack([*lengths]).prod(0).square()

    def summed(self, factor: Tensor) -> Tensor:
        found: Tensor = (self.each * factor[:, None].to(self.each.dtype)).T @ self.inputs
        return found


@dataclass(frozen=True)
class Use:
    """One use of weights: `make` gives its parts of the gradient by its output."""

    output: Tensor
    make: Callable[[Tensor], list[Part]]

    def parts(self, gradient: Tensor) -> list[Part]:
        return self.make(gradient)


class Uses(TorchFunctionMode):
    """Watches a model's pass and notes where its parameters are used.

    `known` is whether all uses are of layers below, each parameter in one of them, as it is or laid
    out anew. Padding a parameter with zeros can only overestimate the length of a sample's
    gradient.
    """

    def __init__(self, parameters: dict[str, nn.Parameter]) -> None:
        super().__init__()
        self.roots = {id(p): id(p) for p in parameters.values()}
        self.seen: set[int] = set()
        self.kept: list[Tensor] = []  # or another tensor could get its id
        self.found: list[Use] = []
        self.known = True

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out, given = func(*args, **(kwargs or {})), (*args, *(kwargs or {}).values())
        own = [self.roots[id(t)] for t in given if id(t) in self.roots]
        if not own or not isinstance(out, Tensor):
            return out
        name, others = func.__name__, len([t for t in given if isinstance(t, Tensor)]) - len(own)
        if not others:
            self.known &= len(own) == 1 and (name in LAID_OUT or (name == "pad" and len(args) == 2))
            self.roots[id(out)] = own[0]
            self.kept.append(out)
            return out
        make = None
        if others == 1 and id(args[0]) not in self.roots and name in LAYERS:
            make = LAYERS[name](*args, **(kwargs or {}))
        self.known &= make is not None and not self.seen & {*own} and len({*own}) == len(own)
        self.seen |= {*own}
        if make is not None:
            self.found.append(Use(out, make))
        return out


LAID_OUT = ("flatten", "view", "reshape")
"""What may be done to a parameter before it is used: none of its numbers is used twice."""
Maker = Callable[[Tensor], list[Part]] | None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Maker:
    if x.ndim != 2:
        return None
    more = [] if bias is None else [bias]
    return lambda g: [Product(weight, g, x), *(Part(b, g) for b in more)]


def convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *settings: Any, **named: Any
) -> Maker:
    """Along any dimensions; the pixels under the kernel are a matrix for each sample."""
    how = dict(zip(("stride", "padding", "dilation", "groups"), settings, strict=False)) | named
    sides = weight.ndim - 2
    if how.get("groups", 1) != 1 or isinstance(how.get("padding"), str):
        return None
    stride, padding, dilation = (
        [value] * sides if isinstance(value, int) else [*value]
        for value in (how.get("stride", 1), how.get("padding", 0), how.get("dilation", 1))
    )
    if dilation != [1] * sides:
        return None

    def parts(g: Tensor) -> list[Part]:
        pixels = F.pad(x, [p for p in reversed(padding) for _ in range(2)])
        for k in range(sides):
            pixels = pixels.unfold(2 + k, weight.shape[2 + k], stride[k])
        order = [0, 1, *range(2 + sides, 2 + 2 * sides), *range(2, 2 + sides)]
        pixels = pixels.permute(order).reshape(len(x), -1, g[0, 0].numel())
        g = g.flatten(2)
        found = [Part(weight, g @ pixels.transpose(1, 2))]
        return found if bias is None else [*found, Part(bias, g.sum(2))]

    return parts


def group_norm(
    x: Tensor,
    groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Maker:
    if x.ndim < 3:
        return None

    def parts(g: Tensor) -> list[Part]:
        normal = F.group_norm(x, groups, eps=eps)
        found = [] if weight is None else [Part(weight, (g * normal).flatten(2).sum(2))]
        return found if bias is None else [*found, Part(bias, g.flatten(2).sum(2))]

    return parts


def addition(x: Tensor, bias: Tensor, **more: Any) -> Maker:
    """Of a bias, the same for all samples."""
    if more or bias.ndim >= x.ndim:
        return None

    def parts(g: Tensor) -> list[Part]:
        first = g.ndim - bias.ndim
        wide = [k for k in range(1, g.ndim) if k < first or bias.shape[k - first] == 1]
        return [Part(bias, g.sum(wide, keepdim=True) if wide else g)]

    return parts


LAYERS: dict[str, Callable[..., Maker]] = {
    "linear": linear,
    "conv1d": convolution,
    "conv2d": convolution,
    "group_norm": group_norm,
    "add": addition,
}
