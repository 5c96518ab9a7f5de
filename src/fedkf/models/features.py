"""The split of a classifier into features and classify, for any module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedkf.core.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor, nn


def features_and_logits(model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """A batch's features f and logits in one pass.

    A model may offer `features(x)` and `classify(f)`. For any other, the features are the input of
    the last `nn.Linear` to run.
    """
    split: Any = model
    if hasattr(model, "features") and hasattr(model, "classify"):
        features = split.features(x)
        return features, split.classify(features)
    import torch

    seen: list[Tensor] = []

    def remember(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        seen[:] = [inputs[0]]

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
    return seen[0], logits
