"""What a configuration says of privacy, and what it refuses for its sake.

It fails closed: whatever touches samples outside the noisy gradients is refused, and so is whatever
does not say that it does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from fedkf.core.errors import UserError
from fedkf.core.extras import check_installed
from fedkf.data.reading import MISSING_VALUES
from fedkf.runs.data_keys import Clip, Count, Noise, Positive, Section

if TYPE_CHECKING:
    from torch import nn

    from fedkf.core.algorithm import Algorithm
    from fedkf.core.privacy import Privacy
    from fedkf.core.task import Task, Training
    from fedkf.data.source import Source
    from fedkf.runs.accounting import Accounts
    from fedkf.runs.data_keys import Data
    from fedkf.runs.schema import Config

SPARE = 1.25
"""Times the rounds that a client is in on average: how many the noise is calibrated for."""
OF_CLIENTS = (
    *("local_update", "local_loss", "samples", "train_generator", "generator_loss"),
    *("evaluate", "personal", "evaluate_personal", "start", "round", "finish"),
)
"""The methods of an algorithm that run where the samples are, or ask clients for a turn."""


class PrivacySettings(Section):
    """How little the weights tell of any one sample (differential privacy); off by default."""

    target: Literal["example"] = Field(
        "example", description="what is protected: a sample, or all samples of a data.unit"
    )
    epsilon: Positive | None = Field(
        None, description="ε that no client exceeds; sets the noise, unless that is given"
    )
    delta: Annotated[float, Field(gt=0, lt=1)] = Field(
        1e-5, description="δ, below one divided by any client's number of samples"
    )
    clip: Clip = Field(1.0, description="length that each sample's gradient is clipped to")
    noise: Noise | None = Field(
        None, description="σ, the noise's deviation in times of clip; none means by epsilon"
    )
    turns: Count | None = Field(
        None, description="rounds of a client that epsilon is to last for; none means 1.25·C·T"
    )

    @property
    def on(self) -> bool:
        return self.epsilon is not None or self.noise is not None

    @model_validator(mode="after")
    def _needs_either(self) -> PrivacySettings:
        if not self.on and self.turns is not None:
            raise ValueError("must have epsilon or noise if it has turns")
        return self


# -- what is refused -------------------------------------------------------------------------------


def refused(what: str, why: str) -> UserError:
    return UserError(f"under privacy {what} is refused: {why}")


def check_private(config: Config, kind: type[Algorithm]) -> None:
    """Refuse what would touch samples outside of the private step, before anything is read."""
    from fedkf.core import objective

    settings = config.data
    if not config.privacy.on:
        if settings.unit is not None:
            raise UserError("data.unit is what privacy protects; set privacy.epsilon, too")
        return
    if settings.unit is not None and settings.split_by not in (None, settings.unit):
        raise UserError("data.split_by must be none or the data.unit that privacy protects")
    check_installed("privacy", "privacy", "dp_accounting")
    name = config.algorithm.name
    check_algorithm(name, kind)
    made = kind.create(config.algorithm.model_dump(exclude={"name"}))
    if beside := made.beside_loss():
        told = [f"algorithm.{key} {getattr(made, key):g}" for key in beside]
        raise refused(
            f"{name} with {' and '.join(told)}",
            "samples would be used beside the noisy gradients; 0 turns that off",
        )
    check_samples(config, kind)
    if settings.class_weights != "none":
        raise refused("data.class_weights", "a sample's gradient may not depend on the others")
    if not objective.find(settings.task).separable:
        raise refused(f"data.task {settings.task}", "its loss is not a sum over samples")
    if settings.scaling == "site":
        raise refused("data.scaling site", "it scales samples by each other; give mean and std")
    check_reading(settings)
    if config.evaluation.personal != "none":
        raise refused("evaluation.personal", "personal models learn from samples without noise")
    check_choice(config)


def check_choice(config: Config) -> None:
    """Refuse models that are picked by test samples, and samples of the source on the server."""
    by_tests = "which model is handed on would be picked by test samples, without noise"
    if config.federation.patience is not None:
        raise refused("federation.patience", by_tests)
    if "best" in config.output.keep:
        raise refused("output.keep best", by_tests)
    if isinstance(config.data.proxy, float | int):
        raise refused(
            "data.proxy as a share",
            "samples of the source would be used without noise; name public ones",
        )


def check_reading(settings: Data) -> None:
    """Refuse ways to read a table that count cells, or take from them what inputs there are.

    Whether the cells have anything of the kind is not looked at: the answer would tell of them.
    """
    if settings.missing == "drop":
        raise refused("data.missing drop", "the number of rows left would tell what they lack")
    if list(settings.missing_values) != list(MISSING_VALUES):
        raise refused("data.missing_values", "how rows fare with cells of choice tells of them")
    if settings.source != "table":
        return
    if settings.categories is None or not settings.categories.keys() >= set(settings.categorical):
        raise refused(
            "a table without data.categories",
            "they would be taken from its cells; give those of every categorical column, or {}",
        )
    if settings.missing == "indicator" and settings.indicators is None:
        raise refused(
            "a table without data.indicators",
            "they would tell where anything is missing; name columns, or give []",
        )


def check_algorithm(name: str, kind: type[Algorithm]) -> None:
    """Refuse an algorithm unless it says that samples only pass through `client.loss`."""
    from fedkf.core import algorithm
    from fedkf.core.turn import continues

    if kind.discloses:
        raise refused(name, f"it sends {' and '.join(kind.discloses)} without noise")
    if kind.client_steps != algorithm.Algorithm.client_steps:
        raise refused(name, "it asks clients for more than training and evaluation")
    if not continues(kind, OF_CLIENTS, "private") or not kind.shared_model:
        raise refused(name, "it does not promise that samples pass through the local loss alone")


def check_samples(config: Config, kind: type[Algorithm]) -> None:
    """Refuse to distil on samples made of the client's own."""
    from fedkf.core.objects import import_object
    from fedkf.core.turn import OF_SAMPLES, continues
    from fedkf.distillation import SAMPLES

    if not kind.uses_generator:
        return
    name = config.generator.samples
    source = import_object(SAMPLES.get(name, name), "generator.samples")
    if not isinstance(source, type) or not continues(source, OF_SAMPLES, "private"):
        raise refused(
            f"generator.samples {name}", "it does not promise to make samples of none of the data"
        )


def check_scale(asked: Config, settled: Config) -> None:
    """Refuse a scale that was taken from the samples; one that is given is public."""
    given = asked.data.mean is not None and asked.data.std is not None
    if settled.privacy.on and settled.data.scaling is not None and not given:
        raise refused(
            f"data.scaling {settled.data.scaling}",
            "means and deviations of the samples would leave without noise; give data.mean and "
            "data.std from public knowledge",
        )


def check_private_model(model: nn.Module) -> None:
    """Refuse layers that mix the samples of a batch, or keep something of them."""
    for name, module in model.named_modules():
        if (
            getattr(module, "running_mean", None) is not None
            or "BatchNorm" in type(module).__name__
        ):
            raise refused(
                f"the layer {name} ({type(module).__name__})",
                "it mixes samples and keeps their statistics; take group or layer normalisation",
            )


# -- what is made of it ----------------------------------------------------------------------------


def settled_turns(config: Config, clients: int) -> dict[str, Any]:
    """The rounds of a client that the noise is made for, spelled out where there is noise."""
    from fedkf.core.schedule import active_clients, asked_clients

    privacy, federation = config.privacy, config.federation
    if not privacy.on or privacy.turns is not None:
        return {}
    active = active_clients(federation.fraction, clients)
    share = asked_clients(active, federation.oversample, clients) / clients
    planned = min(federation.rounds, math.ceil(round(SPARE * share * federation.rounds, 9)))
    return {"privacy": privacy.model_copy(update={"turns": planned})}


def protects_units(settings: Data, source: Source) -> bool:
    """Whether all samples of a unit are protected as one; the source must know them."""
    if settings.unit is None:
        return False
    if source.units_by != settings.unit:
        raise UserError(
            f"data.unit is {settings.unit!r}, which data.source {settings.source} cannot tell; it "
            "is a column of a table or an array of an .npz file"
        )
    return True


def make_privacy(config: Config, sizes: Mapping[int, int], training: Training) -> list[Privacy]:
    """The part of the task that makes gradients private, if anything does."""
    from fedkf.core.privacy import Mechanism, Privacy
    from fedkf.runs.accounting import calibrated

    settings = config.privacy
    if not settings.on:
        return []
    largest = max(sizes.values(), default=1)
    if settings.delta >= 1 / largest:
        raise UserError(
            f"privacy.delta is {settings.delta:g}; it must be below 1/{largest}, where {largest} "
            "is the largest number of samples that a client has"
        )
    made = {}
    for size in sorted(set(sizes.values())):
        plain = Mechanism.of(size, training, settings.noise or 0.0)
        if settings.noise is None:
            assert settings.epsilon is not None
            planned = settings.turns or 1
            plain = calibrated(settings.epsilon, settings.delta, plain, planned)
        made[size] = plain
    return [Privacy(settings.clip, made)]


def try_private(task: Task) -> None:
    """One private gradient of two inputs, or a sentence that says why the model gives none."""
    import torch

    from fedkf.core.gradients import clipped_sum
    from fedkf.models.check import looks_up

    model = task.make_model().train()
    check_private_model(model)
    check_whole_precision(model)
    targets = torch.zeros(2, dtype=torch.long if task.objective.labelled() else torch.float32)
    try:
        inputs = (torch.zeros if looks_up(model) else torch.rand)(2, *task.shape)
        clipped_sum(model, task.loss, (inputs, targets), 1.0)
    except Exception as error:
        raise UserError(
            f"model.name: {type(model).__name__} gives no gradient of each single sample, which "
            f"privacy needs ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
        ) from error


def check_whole_precision(model: nn.Module) -> None:
    """Half precision rounds sums of clipped gradients so coarsely that the clip no longer holds."""
    for name, parameter in model.named_parameters():
        if parameter.dtype.itemsize < 4:
            kind = str(parameter.dtype).removeprefix("torch.")
            raise UserError(
                f"model.name: {type(model).__name__} has {name!r} in {kind}; privacy needs float32 "
                "or float64, since coarser numbers round away what bounds each sample"
            )


def make_accounts(config: Config, task: Task, sizes: Mapping[int, int]) -> Accounts | None:
    """Who has spent what, before the first round; None without privacy."""
    from fedkf.core.privacy import Privacy
    from fedkf.runs.accounting import Accounts

    settings, parts = config.privacy, task.parts_of(Privacy)
    if not parts:
        return None
    mechanisms = {client: parts[0].mechanisms[size] for client, size in sizes.items()}
    accounts = Accounts(mechanisms, settings.delta, settings.epsilon)
    if not any(accounts.allows(client) for client in sizes):
        least = min(accounts.epsilon(client, 1) for client in sizes)
        raise UserError(
            f"privacy.epsilon is {settings.epsilon:g}, which is spent before the first round is "
            f"over: with privacy.noise {settings.noise} one round costs {least:.3g} at least"
        )
    return accounts
