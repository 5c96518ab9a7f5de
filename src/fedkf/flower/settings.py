"""The settings of an experiment that travel to its clients. Whatever is not named here stays."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from fedkf import algorithms
from fedkf.core.errors import FedkfError, UserError
from fedkf.data.reading import OPEN
from fedkf.runs.config import parse
from fedkf.runs.data_keys import Data
from fedkf.runs.division import open_inputs, open_target
from fedkf.runs.privacy import check_scale, settled_turns
from fedkf.runs.schema import Config

TRAVELLING: Mapping[str, tuple[str, ...]] = {
    "data": (
        *("task", "metrics", "class_names", "class_weights", "image_size", "mean", "std"),
        *("train_fraction", "seed", "split", "split_by", "scaling", "target", "positive", "site"),
        *("columns", "categorical", "categories", "missing", "indicators", "missing_values"),
        *("window", "stride", "unit", "target_mean", "target_std", "ignore", "decimal"),
    ),
    "model": ("name",),
    "algorithm": ("name",),
    "federation": (
        "seed",
        "local_epochs",
        "steps",
        "batch_size",
        "lr",
        "momentum",
        "weight_decay",
        "optimizer",
        "schedule",
        "clip",
        "precision",
        "rounds",
    ),
    "generator": ("samples", "name", "width", "noise", "lr", "batch_size", "every", "reuse"),
    "engine": ("threads",),
    "transport": ("downlink", "uplink", "secure", "threshold", "exact"),
    "evaluation": ("metric", "personal", "personal_epochs"),
    "privacy": ("target", "epsilon", "delta", "clip", "noise", "turns"),
}
"""The sections of a configuration that are sent, and their keys. Beside an algorithm's name go the
hyperparameters that its class declares. No key may name a file or a program."""

CODE = (
    ("data", "task"),
    ("algorithm", "name"),
    ("model", "name"),
    ("generator", "name"),
    ("generator", "samples"),
    ("data", "metrics"),
    ("evaluation", "metric"),
)
"""The keys that may name code beyond the package, as package.module:object."""


class SiteRefusal(FedkfError):
    """Something that a site does not do; the sentence holds nothing private and may leave it."""


def outgoing(config: Config, steps: int | None = None) -> dict[str, Any]:
    """What the clients are told. `steps` stands for "equal", which one by itself cannot know."""
    refuse_rehearsal(config)
    if config.generator.start is not None:
        raise UserError("generator.start names a file, which clients on other machines do not have")
    config = deployed(config)
    config = config.model_copy(update=settled_turns(config, config.data.clients))
    content = config.model_dump(mode="json")
    content["federation"]["steps"] = steps or "own"
    sent = {name: {key: content[name][key] for key in keys} for name, keys in TRAVELLING.items()}
    # Sites refuse keys that are newer than they are, so these go only where they say something.
    if not config.privacy.on:
        del sent["privacy"], sent["data"]["unit"]
    if not config.data.ignore:
        del sent["data"]["ignore"]
    if config.data.decimal == OPEN:
        del sent["data"]["decimal"]
    if config.data.target_mean is None or config.data.target_std is None:
        del sent["data"]["target_mean"], sent["data"]["target_std"]
    return {**sent, "algorithm": content["algorithm"]}


MEASURED = ("table", "signals")
"""The sources whose inputs have units of their own, so that they are scaled by default."""


def deployed(config: Config) -> Config:
    """The configuration with what sites must be told, as none knows it by itself: how inputs are
    scaled, and what those of a table are made of."""
    settings = config.data
    if settings.scaling is None and settings.source in MEASURED:
        data = settings.model_copy(update={"scaling": "federated"})
        config = config.model_copy(update={"data": data})
    check_scale(config, config)
    if settings.source == "table" and (key := unsettled(settings)):
        raise UserError(
            f"{key} is missing: in a deployment no site sees the others' tables, so that the "
            "configuration says what they hold (config.yaml of a rehearsal has it)"
        )
    return config


def unsettled(settings: Data) -> str:
    """The key of a table that would be taken from its cells, and so be another at each site."""
    if settings.target is None:
        return "data.target"
    if settings.columns is None:
        return "data.columns"
    if settings.categories is None or not settings.categories.keys() >= set(settings.categorical):
        return "data.categories"
    if settings.missing == "indicator" and settings.indicators is None:
        return "data.indicators"
    return ""


def open_scale(config: Config) -> bool:
    """Whether the sites have yet to agree on a scale; under privacy they never do."""
    return not config.privacy.on and (open_inputs(config.data) or open_target(config.data))


def refuse_rehearsal(config: Config) -> None:
    """Nobody here has the samples of a site that takes no part, or knows whose samples are."""
    if config.data.groups is not None:
        raise UserError(
            "data.groups is for rehearsals: across sites, counts by group would tell more of a "
            "site's people than a coordinator is to know; judge the exported model there"
        )
    if config.data.holdout is not None:
        raise UserError(
            "data.holdout is for rehearsals: across sites, one that is to take no part is not "
            "registered, and judges the exported model with fedkf evaluate MODEL --data"
        )


def incoming(content: Any, allow: Container[str] | None = None) -> Config:
    """The configuration that came, if it holds nothing but what travels; the rest is by default.

    Code beyond the package may be named if it is in `allow`, or if that is None.
    """
    for section, values in content.items() if isinstance(content, dict) else [("all of it", {})]:
        if section not in TRAVELLING or not isinstance(values, dict):
            raise SiteRefusal(f"{section} is no section that a site takes from a configuration")
        for key in values:
            if key not in TRAVELLING[section] and section != "algorithm":
                raise not_taken(f"{section}.{key}")
    config = parse(content)
    for section, key in CODE:
        value = getattr(getattr(config, section), key) or ""
        for name in [value] if isinstance(value, str) else value:
            if allow is not None and ":" in name and name not in allow:
                refused = f"{section}.{key} {name!r}"
                raise SiteRefusal(f"{refused} is not among what its site file allows")
    known = ("name", *algorithms.get(config.algorithm.name).options())
    for key in config.algorithm.model_dump():
        if key not in known:
            raise not_taken(f"algorithm.{key}")
    return config


def not_taken(key: str) -> SiteRefusal:
    return SiteRefusal(f"{key} is no key that a site takes from a configuration")
