"""Unlabelled data on the server (`data.proxy`): where it comes from and how it is prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedkf.core.algorithm import Algorithm
from fedkf.core.errors import UserError
from fedkf.core.normalisation import normalise
from fedkf.core.random import Streams
from fedkf.data import proxy
from fedkf.data.scaling import moments, scale
from fedkf.data.source import Say, Source
from fedkf.runs.schema import Config

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


def divided(config: Config, source: Source) -> tuple[Source, NDArray[Any]]:
    """What the clients hold, and the inputs that are set aside for the server."""
    random = Streams(config.data.seed).numpy_generator("proxy")
    assert isinstance(config.data.proxy, float | int)
    return proxy.set_aside(source, config.data.proxy, random)


def check_proxy(config: Config, algorithm: Algorithm) -> None:
    """Refuse an algorithm whose proxy data is missing, before anything is loaded."""
    if algorithm.needs_proxy_data and config.data.proxy is None:
        name = algorithm.name or config.algorithm.name
        raise UserError(
            f"data.proxy is missing: {name} needs unlabelled data on the server; it may be "
            f"{proxy.WAYS}"
        )


def named_proxy(config: Config, shape: tuple[int, ...], say: Say = lambda text: None) -> Any:
    """The inputs of the source that `data.proxy` names, for clients whose inputs have `shape`."""
    name, settings = config.data.proxy, config.data
    if name == "python":
        raise UserError("data.proxy: this run's was given to fedkf.run in a program; give it again")
    assert isinstance(name, str)
    return proxy.load(name, (settings.source, settings.path), shape, say)


def prepare_proxy(
    config: Config, inputs: NDArray[Any] | None, shape: tuple[int, ...]
) -> torch.Tensor | None:
    """The server's inputs, as the clients' are prepared; the configuration is a settled one.

    Where clients fill and scale by statistics of their own the server does so too, as a site held
    out would.
    """
    if inputs is None:
        return None
    settings = config.data
    if settings.scaling is not None and inputs.shape[1:] == shape:
        agreed = settings.scaling == "federated" or config.privacy.on
        inputs = proxy.whole(inputs, (settings.mean or (0.0,)) if agreed else None)
    x = proxy.fit(inputs, shape, f"data.proxy: {settings.proxy}")
    if settings.scaling == "site":
        x = normalise(x, *scale(moments(x.numpy(), least=1)))
    return normalise(x, settings.mean or (0.0,), settings.std or (1.0,))
