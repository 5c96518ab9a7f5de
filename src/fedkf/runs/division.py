"""How the samples of a configuration are read, divided and scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fedkf.core.errors import UserError
from fedkf.core.objective import Regression
from fedkf.core.payload import Payload
from fedkf.core.random import Streams
from fedkf.data.partition import Division, Indices, partition
from fedkf.data.reading import Reading, spelled
from fedkf.data.scaling import KIND, Moments, joined, merged, moments, scale
from fedkf.data.split import check_trained, split

if TYPE_CHECKING:
    from fedkf.core.ledger import Ledger
    from fedkf.data.source import Source
    from fedkf.runs.data_keys import Data
    from fedkf.runs.schema import Config


def listed(names: str | Sequence[str] | None) -> list[str]:
    """One name, several or none, as a list."""
    return [names] if isinstance(names, str) else list(names or ())


def reading_of(settings: Data, least_classes: int = 2) -> Reading:
    """What a configuration says of how its files are read."""
    return Reading(
        class_names=settings.class_names,
        image_size=settings.image_size,
        unreadable=settings.unreadable,
        least_classes=least_classes,
        task=settings.task,
        target=settings.target,
        positive=None if settings.positive is None else str(settings.positive),
        site=settings.site,
        split_by=settings.unit or settings.split_by,
        groups=listed(settings.groups),
        columns=settings.columns,
        ignore=settings.ignore,
        categorical=settings.categorical,
        categories=settings.categories,
        missing=settings.missing,
        indicators=settings.indicators,
        missing_values=spelled(settings.missing_values),
        decimal=settings.decimal,
        window=settings.window,
        stride=settings.stride,
    )


def divide(settings: Data, source: Source) -> list[Indices]:
    """Each client's samples; the settings are those of a settled configuration."""
    assert settings.partition is not None
    how = Division(
        settings.partition,
        settings.clients,
        settings.alpha,
        settings.classes_per_client,
        settings.min_samples,
    )
    random = Streams(settings.seed).numpy_generator("partition")
    parts = partition(how, source.strata, random, source.owners)
    natural = settings.partition == "natural"
    for name, part in zip(source.owner_names, parts, strict=False):
        if natural and not len(part):
            raise UserError(f"{name} holds no samples (data.limit may have taken them all)")
    return parts


def settled_layout(source: Source) -> dict[str, Any]:
    """What inputs are made of, a table's or a recording's, as keys of the configuration."""
    told = {} if source.decimal is None else {"decimal": source.decimal}
    if source.layout is None:
        return {**told, "columns": list(source.channels)} if source.channels else told
    return {
        **told,
        "columns": list(source.layout.columns),
        "categories": {k: list(v) for k, v in source.layout.categories.items()},
        "indicators": list(source.layout.indicators),
    }


def settled_scale(settings: Data, source: Source) -> dict[str, Any]:
    """How the samples are split and scaled; `settings` are settled otherwise.

    With federated scaling, `mean` and `std` become what the clients' training samples agree on,
    unless the configuration has them already.
    """
    scaling = settings.scaling
    if scaling not in (None, "none") and not source.measured:
        raise UserError(
            f"data.scaling is {scaling}, but {settings.source} has no columns or channels with "
            "units of their own; data.mean and data.std normalise it"
        )
    found: dict[str, Any] = {}  # nothing new is said of samples that have nothing of all this
    parts = divide(settings, source) if source.measured or source.tested is not None else []
    if source.measured or source.units is not None or source.tested is not None:
        ordered = source.measured or source.units is not None
        way = "stratified" if ordered else "random"
        if source.tested is not None and settings.split in (None, "given"):
            check_trained(source, source.tested, parts)
            way = "given"
        found["split"] = settings.split or way
    if source.measured:
        found["scaling"] = scaling = scaling or "federated"
    if open_inputs(known := settings.model_copy(update=found)):
        mean, std = scale(merged(client_moments(known, source, parts)))
        found |= {"mean": settings.mean or mean, "std": settings.std or std}
    return found


def settled_target(settings: Data, source: Source) -> dict[str, Any]:
    """By what a target that is a number is scaled, unless nothing is; `settings` are settled.

    It is agreed on as the inputs' scale is, also where sites scale these by themselves: a model for
    all can have one unit only.
    """
    if not open_target(settings):
        return {}
    sent = client_moments(settings, as_inputs(source), divide(settings, source))
    return target_scale(settings, *scale(merged(sent)))


def open_inputs(settings: Data) -> bool:
    """Whether a scale of the inputs has yet to be agreed on."""
    return settings.scaling == "federated" and (settings.mean is None or settings.std is None)


def open_target(settings: Data) -> bool:
    """Whether a scale of the target has yet to be agreed on."""
    if settings.task != Regression.name or settings.scaling == "none":
        return False
    return settings.target_mean is None or settings.target_std is None


def as_inputs(source: Source) -> Source:
    """The targets in the place of the inputs."""
    return replace(source, inputs=source.labels[:, None])


def target_scale(settings: Data, mean: list[float], std: list[float]) -> dict[str, Any]:
    """What of a target's scale is not given; the target is the last of what was summed up."""
    found = {"target_mean": mean[-1], "target_std": std[-1]}
    return {key: value for key, value in found.items() if getattr(settings, key) is None}


def client_moments(settings: Data, source: Source, parts: Sequence[Indices]) -> list[Moments]:
    """What each client would send of its training samples."""
    random = Streams(settings.seed).numpy_generator("split")
    way = settings.split or "random"
    train, _ = split(source, parts, settings.train_fraction, random, way)
    return [moments(source.inputs[part]) for part in train]


def site_moments(settings: Data, source: Source) -> Moments:
    """What a site sends of its training samples: all that is open, inputs first, then the target.

    The settings are those of a settled configuration, but for the scale.
    """
    parts, found = divide(settings, source), list[Moments]()
    if open_inputs(settings):
        found += client_moments(settings, source, parts)
    if open_target(settings):
        found += client_moments(settings, as_inputs(source), parts)
    return joined(found)


def agreed_scale(settings: Data, sent: Sequence[Moments]) -> dict[str, Any]:
    """The keys that were open, by what all sites sent."""
    mean, std = scale(merged(sent))
    found: dict[str, Any] = {}
    if open_target(settings):
        found = target_scale(settings, mean, std)
        mean, std = mean[:-1], std[:-1]
    if open_inputs(settings):
        found |= {"mean": settings.mean or mean, "std": settings.std or std}
    return found


@dataclass(frozen=True)
class Agreement:
    """What went up from each client, and down to it, before the first round."""

    up: Payload
    down: Payload

    def count(self, ledger: Ledger, clients: int) -> None:
        ledger.up(self.up, training=True, copies=clients)
        ledger.down(self.down, clients, training=True)


def agreement(before: Config, after: Config) -> Agreement | None:
    """How the clients came to the scale in `after`, where they had to agree on one."""
    given, settled = before.data, after.data
    inputs = 0
    if settled.scaling == "federated" and (given.mean is None or given.std is None):
        inputs = len(settled.mean or ())
    if (given.target_mean, given.target_std) != (settled.target_mean, settled.target_std):
        inputs += 1
    if not inputs:
        return None
    nothing = np.zeros(inputs)
    down = {"mean": torch.zeros(inputs, dtype=torch.float64), "std": torch.zeros(inputs).double()}
    return Agreement(Moments(nothing, nothing, nothing).payload(), Payload().add(KIND, down))
