"""Trial passes that find a model's mistakes before any training starts."""

from __future__ import annotations

import torch
from torch import nn

from fedkf.core.batches import normalises_batches
from fedkf.core.errors import UserError
from fedkf.models.features import features_and_logits


def check_model(model: nn.Module, shape: tuple[int, ...], outputs: int, features: bool) -> None:
    """One forward and one backward pass over two random inputs, or a sentence that says why not."""
    name = type(model).__name__
    if any(isinstance(p, nn.UninitializedParameter) for p in model.parameters()):
        raise UserError(
            f"model.name: {name} has lazy layers, whose sizes are not known before data comes; "
            "give their sizes (nn.Linear in place of nn.LazyLinear)"
        )
    x = torch.zeros(2, *shape) if looks_up(model) else torch.rand(2, *shape)
    before = x.clone()
    model.train()
    try:
        logits = model(x)
    except Exception as error:
        raise UserError(
            f"model.name: {name} cannot take a batch of shape {[2, *shape]} "
            f"({type(error).__name__}: {one_line(error)})"
        ) from error
    if not isinstance(logits, torch.Tensor) or logits.shape != (2, outputs):
        got = list(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        what = f"one number for each of the {outputs} classes" if outputs > 1 else "one number"
        raise UserError(
            f"model.name: {name} returns {got} for two inputs; it must return {what}, "
            f"[2, {outputs}]"
        )
    if not torch.equal(x, before):
        raise UserError(
            f"model.name: {name} changes its input in place; work on a copy (x = x.clone())"
        )
    if not any(p.requires_grad for p in model.parameters()):
        raise UserError(f"model.name: {name} has no parameters to train")
    try:
        if features:
            x.requires_grad_()
            found, logits = features_and_logits(model, x)
            (found.abs().sum() + logits.sum()).backward()
        else:
            logits.sum().backward()
    except RuntimeError as error:
        raise UserError(
            f"model.name: no gradient passes through {name} ({one_line(error)}); in-place "
            "operations are the usual cause"
        ) from error
    model.zero_grad(set_to_none=True)


def check_batch_size(model: nn.Module, size: int, survival: bool) -> None:
    """Refuse batches of one sample for a model, or a loss, that passes over them."""
    if size == 1 and survival:
        raise UserError(
            "federation.batch_size is 1, but data.task survival compares the samples of a batch "
            "with each other, and learns nothing from a single one; it must be 2 or more"
        )
    if size == 1 and normalises_batches(model):
        raise UserError(
            f"federation.batch_size is 1, but {type(model).__name__} has batch normalisation, "
            "which learns nothing from a single sample; it must be 2 or more, unless the model has "
            "group or layer normalisation instead"
        )


def check_single(key: str, module: nn.Module, shape: tuple[int, ...]) -> None:
    """Refuse one generated sample at a time where a module cannot take it, as with batch norm."""
    try:
        module.train()(torch.zeros(1, *shape))
    except Exception as error:
        raise UserError(
            f"{key} is 1, but {type(module).__name__} cannot take a single sample "
            f"({type(error).__name__}: {one_line(error)}); it must be 2 or more"
        ) from error


def looks_up(model: nn.Module) -> bool:
    """Whether a model takes whole numbers, such as those of words, and looks up what they mean."""
    return any(isinstance(part, nn.Embedding | nn.EmbeddingBag) for part in model.modules())


def check_samples(model: nn.Module, samples: str) -> None:
    """Refuse to make up inputs for a model that looks them up."""
    if looks_up(model) and samples != "own" and ":" not in samples:
        raise UserError(
            f"generator.samples is {samples}, but {type(model).__name__} looks up whole numbers "
            "(nn.Embedding), as of words, and nothing can make up such inputs; "
            "generator.samples=own distils on each client's own inputs"
        )


def check_generator(generator: nn.Module, noise: int, shape: tuple[int, ...]) -> None:
    """Two inputs from noise, of the data's shape."""
    name = type(generator).__name__
    try:
        dtype = next(generator.parameters()).dtype
        made = generator.train()(torch.randn(2, noise).to(dtype))
    except Exception as error:
        raise UserError(
            f"generator.name: {name} cannot take noise of shape {[2, noise]} "
            f"({type(error).__name__}: {one_line(error)})"
        ) from error
    if made.shape != (2, *shape):
        raise UserError(
            f"generator.name: {name} makes {list(made.shape)} of noise for two inputs; the data "
            f"has {[2, *shape]}"
        )


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())
