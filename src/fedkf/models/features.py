"""The split of a classifier into features and classify, for any module."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedkf.core.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedkf.core.task import Task


def features_and_logits(model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """A batch's features f and logits in one pass.

    A model may offer `features(x)` and `classify(f)`. For any other, the features are the input of
    the last `nn.Linear` to run.
    """
    if offers_split(model):
        split: Any = model
        features = split.features(x)
        return features, split.classify(features)
    _, features, logits = last_linear(model, x)
    return features, logits


def predictor(model: nn.Module, x: Tensor) -> Callable[[Tensor], Tensor]:
    """What makes logits of features: the model's `classify`, else the last `nn.Linear` to run.

    `x` is any input; the model runs on it where that is needed to see which layer is the last.
    """
    split: Any = model
    found = split.classify if offers_split(model) else last_linear(model, x)[0]
    *_, last = model.parameters()
    return lambda features: found(features.to(last.dtype))  # a model may be of another precision


def feature_shape(task: Task) -> tuple[int, ...]:
    """The shape of one input's features."""
    import torch

    with torch.no_grad():
        x = torch.zeros(1, *task.shape, device=task.device)
        return tuple(features_and_logits(task.resident("teacher").eval(), x)[0].shape[1:])


def offers_split(model: nn.Module) -> bool:
    return hasattr(model, "features") and hasattr(model, "classify")


def last_linear(model: nn.Module, x: Tensor) -> tuple[nn.Module, Tensor, Tensor]:
    """The last `nn.Linear` to run on `x`, its input, and what the model returns."""
    import torch

    seen: list[tuple[nn.Module, Tensor]] = []

    def remember(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        seen[:] = [(module, inputs[0])]

    linear = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    handles = [m.register_forward_hook(remember) for m in linear]
    try:
        logits = model(x)
    finally:
        for handle in handles:
            handle.remove()
    if not seen:
        raise UserError(
            f"the model {type(model).__name__} runs no nn.Linear layer, so its features are "
            "unknown; give it methods features(x) and classify(f)"
        )
    return (*seen[0], logits)
