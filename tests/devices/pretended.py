"""A device that pretends: its tensors are not the CPU's, and what mixes the two fails, as on a GPU.

Its arithmetic is the CPU's, so that results can be compared. `register` changes PyTorch for the
whole process, so that only programs of their own use it (`on_pretended_device.py`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as tree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _setup_privateuseone_for_python_backend,
)

NAME = "pretended"
DEVICE = f"{NAME}:0"
MAY_MIX = {"aten::_to_copy", "aten::copy_", "aten::index", "aten::index_put_"}
"""What a GPU takes with tensors of the CPU beside its own: copies, and indices."""


class Far(torch.Tensor):
    """A tensor on the device."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Far:
        device = torch.device(DEVICE)
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=device
        )
        made.held = inner
        return made

    def tolist(self) -> Any:
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return perform(func, args, kwargs or {})


def near(value: Any) -> Any:
    return value.held if isinstance(value, Far) else value


def perform(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Do on the CPU what was asked of the device, if a device could do it."""
    tensors = [t for t in tree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    far = [t for t in tensors if isinstance(t, Far)]
    name, device = func._schema.name, kwargs.get("device")
    if far and name not in MAY_MIX and any(t.dim() and not isinstance(t, Far) for t in tensors):
        raise RuntimeError(f"{name} has tensors on {DEVICE} and on the CPU")
    if kwargs.get("generator") is not None and (far or there(device)):
        raise RuntimeError(f"{name} draws on {DEVICE} from a generator of the CPU")
    inside = {**tree.tree_map(near, kwargs), **({} if device is None else {"device": "cpu"})}
    within = tree.tree_map(near, args)
    if name.startswith("aten::_fused_"):
        # Such kernels walk through weights and gradients side by side. PyTorch lays gradients out
        # as the weights are, but not those of tensors like ours.
        pairs = zip(within[0], within[1], strict=True)
        laid = [torch.empty_like(weight).copy_(gradient) for weight, gradient in pairs]
        within = [within[0], laid, *within[2:]]
    result = func(*within, **inside)
    given = {id(near(tensor)): tensor for tensor in tensors}
    wanted = bool(far) if device is None else there(device)
    return tree.tree_map(lambda value: given_or(value, given, wanted), result)


def given_or(value: Any, given: dict[int, torch.Tensor], wanted: bool) -> Any:
    """An operation in place gives back what it was given; anything else is new."""
    if not isinstance(value, torch.Tensor) or isinstance(value, Far):
        return value
    return given[id(value)] if id(value) in given else Far(value) if wanted else value


def there(device: Any) -> bool:
    return device is not None and torch.device(device).type == NAME


class Pretending(TorchDispatchMode):
    """Sees every operation, those too that begin on the CPU and are to end on the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return perform(func, args, kwargs or {})


class Backend(_DummyBackendModule):
    """What PyTorch asks a device about itself."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


def register() -> None:
    """Make the device known; before the first gradient, when PyTorch counts its devices."""
    _setup_privateuseone_for_python_backend(NAME, Backend())
    # Gradients are formed on a thread of the device's own, which no mode sees.
    library = torch.library.Library("aten", "IMPL")
    library.impl("empty_strided", far_empty, "PrivateUse1")
    library.impl("_copy_from", far_copy, "PrivateUse1")
    KEPT.append(library)


KEPT: list[torch.library.Library] = []


def far_empty(size: Any, stride: Any, dtype: torch.dtype | None = None, **how: Any) -> Far:
    return Far(torch.empty_strided(size, stride, dtype=dtype))


def far_copy(value: torch.Tensor, into: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    near(into).copy_(near(value))
    return into
