"""The keys of the configuration, with their defaults, limits and documentation."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from fedkf.engines.registry import ENGINES
from fedkf.metrics.sites import SITE_METRICS
from fedkf.runs.data_keys import (
    Count,
    Data,
    Fraction,
    Length,
    NotNegative,
    Partition,
    Positive,
    Processors,
    Section,
    Seed,
)
from fedkf.runs.privacy import PrivacySettings

Fidelity = Literal["text", "released"]


def _device(value: str) -> str:
    if not re.fullmatch(r"cpu|cuda(:\d+)?", value):
        raise ValueError("must be cpu, cuda or cuda:N")
    return value


Device = Annotated[str, AfterValidator(_device)]


class Model(Section):
    """The classifier that is learned."""

    name: str = Field(
        "lenet5",
        description="lenet5, resnet8, resnet8-quarter, cnn1d, mlp, linear or "
        "package.module:factory",
    )


class AlgorithmChoice(BaseModel):
    """The algorithm and its own hyperparameters, which its class checks."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    name: str = Field("fedkf", description="`fedkf algorithms` lists the names")


class FederationSettings(Section):
    """Rounds, participation and local training."""

    rounds: Count = Field(100, description="T, the number of rounds")
    fraction: Fraction = Field(0.2, description="C, the share of clients active in a round")
    local_epochs: Count = Field(10, description="E, epochs of local training in a round")
    steps: Literal["own", "equal"] | Count = Field(
        "own", description="steps per local epoch: own batches, equal for all clients, or a number"
    )
    batch_size: Count = Field(64, description="B, local batch size")
    lr: Positive = Field(0.01, description="η, learning rate of the local model")
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.0, description="of local SGD")
    weight_decay: NotNegative = Field(0.0, description="of the local optimizer")
    optimizer: Literal["sgd", "adam", "adamw"] = Field(
        "sgd", description="of local training, new in every round: sgd, adam or adamw"
    )
    schedule: Literal["constant", "cosine", "linear", "step"] = Field(
        "constant",
        description="of lr over the rounds: constant, cosine or linear (towards 0), or step (a "
        "tenth from half on, a hundredth from three quarters on)",
    )
    clip: Positive | None = Field(
        None, description="largest norm of a local step's gradient; none means any"
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="of passes in training; weights and evaluation stay float32"
    )
    seed: Seed = Field(0, description="of initial weights, selection, batches and noise")
    evaluate_every: Count = Field(1, description="rounds; the last one is always evaluated")
    evaluate_clients: Count | None = Field(
        None, description="evaluate on a sample of so many clients; none means all"
    )
    oversample: Annotated[float, Field(ge=1, le=100)] = Field(
        1.0,
        description="ask so many times the clients, take the first answers; who is first depends "
        "on timing",
    )
    availability: float | str = Field(
        "always",
        description="who can be chosen: always, a rate (each client's in a round), or a trace",
    )
    patience: Count | None = Field(
        None,
        description="end when OCA's AMP was not higher for so many evaluated rounds; none: never",
    )
    min_clients: Count = Field(1, description="usable uploads that a round needs")
    defence: Literal["norm", "none", "median", "trimmed", "krum", "multikrum", "geometric"] = Field(
        "norm",
        description="norm (absurd uploads are refused), none, or a robust mean beside it: median, "
        "trimmed, krum, multikrum or geometric",
    )
    round_timeout: Positive | None = Field(
        None,
        description="seconds that a client's turn may take (over Flower: a round); none means no "
        "limit",
    )

    @field_validator("availability", mode="before")
    @classmethod
    def _availability(cls, value: Any) -> Any:
        rate = isinstance(value, int | float) and not isinstance(value, bool)
        if rate and 0 < value <= 1:
            return float(value)
        if isinstance(value, str) and (value == "always" or value.endswith((".csv", ".json"))):
            return value
        raise ValueError("must be always, a rate above 0 up to 1, or the path of a .csv or .json")


class Overall(Section):
    """T1, the mean over every client's latest model."""

    scope: Literal["all", "seen"] = Field(
        "all", description="all (clients not seen yet stand in with w⁰) or seen"
    )
    inactive: Literal["slot", "global"] = Field(
        "slot",
        description="inactive clients count by their slot, or as the last global model",
    )
    max_staleness: Annotated[int, Field(ge=0, le=10**9)] | None = Field(
        None, description="slots filled more rounds ago count as empty; none means never"
    )

    @model_validator(mode="after")
    def _slots_only(self) -> Overall:
        if self.inactive == "global" and self.max_staleness is not None:
            raise ValueError("must be without max_staleness when inactive is global: no slots")
        return self


class Generator(Section):
    """The generator of algorithms that have one; accepted and unused by the others."""

    preset: Literal["paper", "lite"] = Field(
        "lite", description="paper (exact) or lite (cheap); what is given beside it wins"
    )
    samples: str = Field(
        "trained",
        description="what is distilled on: trained, noise, field, warp, own or module:object",
    )
    name: str = Field("dcgan", description="dcgan, released, signal, mlp or package.module:factory")
    width: Length = Field(16, description="channels: width, width, width/2; the paper's is 128")
    noise: Length = Field(100, description="length of the noise vector")
    lr: Positive = Field(0.001, description="β, learning rate of its Adam")
    start: str | None = Field(
        None, description="a .safetensors file that all generators start from; none means random"
    )
    batch_size: Length | None = Field(16, description="generated samples a batch; none means B")
    every: Count = Field(1, description="the generator learns from every so many-th batch")
    reuse: Count = Field(1, description="steps of the model that one generated batch serves")


class Evaluation(Section):
    """How models are judged."""

    metric: str | None = Field(
        None,
        description="of data.metrics, what AMP, FM, WLP and the rest are over, or "
        "package.module:object; none means the task's: accuracy, auroc (binary), r2 (regression) "
        "or concordance (survival)",
    )
    personal: Literal["none", "finetune", "head", "interpolate"] = Field(
        "none",
        description="after the last round, each client's own model: none, the shared one trained "
        "on (finetune), its last layers only (head), or a mixture chosen on held-out training "
        "samples (interpolate)",
    )
    personal_epochs: Count = Field(5, description="of local training for personal models")

    @field_validator("metric")
    @classmethod
    def _one_number(cls, value: str | None) -> str | None:
        allowed = [name for name, about in SITE_METRICS.items() if not about.per_class]
        if value is not None and value not in allowed and ":" not in value:
            raise ValueError(f"must be {', '.join(allowed)} or package.module:object")
        return value


class EngineSettings(Section):
    """Where the clients' work is done; workers have no influence on results."""

    name: str = Field(
        "local", description="local (worker processes on this machine) or flower (its simulation)"
    )
    workers: Annotated[int, Field(ge=0, le=1024)] | None = Field(
        None, description="processes; none means one a core, 0 everything in this process"
    )
    threads: Processors = Field(1, description="of PyTorch in each process; results depend on it")
    device: Device = Field("cpu", description="cpu, cuda or cuda:N")
    address: str | None = Field(
        None, description="of a running Ray cluster for flower; none starts one on this machine"
    )

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if value not in ENGINES and ":" not in value:
            raise ValueError(f"must be {', '.join(ENGINES)} or package.module:object")
        return value


class Transport(Section):
    """How weights are sent; bytes are counted as sent, algorithms see decoded values."""

    downlink: Literal["full", "delta8", "delta4"] = Field(
        "full", description="a second model down: full, or its difference in 8 or 4 bits"
    )
    uplink: Literal["full", "half", "delta8"] = Field(
        "full", description="the model up: full, in float16, or its difference in 8 bits"
    )
    secure: bool = Field(False, description="the server sees sums of uploads only, never one")
    threshold: Fraction = Field(
        0.6, description="share of a round's clients that a secure sum needs to the end"
    )
    exact: bool = Field(
        False, description="T1 of secure sums counts all, even if sums of rounds then bare one"
    )


class Output(Section):
    """What is written where."""

    dir: str | None = Field(None, description="the run's folder")
    checkpoint_every: Count = Field(1, description="rounds between two checkpoints")
    log: str | None = Field(
        None, description="also log to: tensorboard, mlflow, wandb or package.module:factory"
    )
    keep: list[Literal["best"] | Count] = Field(
        [],
        description="also keep models in RUN/kept: best (the round with the highest AMP), those of "
        "every so many-th round, or both",
    )

    @field_validator("keep", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        items = value if isinstance(value, list | tuple) else [] if value is None else [value]
        for item in items:
            whole = isinstance(item, int) and not isinstance(item, bool) and item >= 1
            if item != "best" and not whole:
                raise ValueError("must be best, a number of rounds, or a list of these")
        return list(items)


class Config(Section):
    """A whole experiment."""

    fidelity: Fidelity = Field(
        "text", description="follow the paper's text, or its authors' released program"
    )
    data: Data = Data()
    model: Model = Model()
    algorithm: AlgorithmChoice = AlgorithmChoice()
    federation: FederationSettings = FederationSettings()
    overall: Overall = Overall()
    generator: Generator = Generator()
    evaluation: Evaluation = Evaluation()
    engine: EngineSettings = EngineSettings()
    transport: Transport = Transport()
    privacy: PrivacySettings = PrivacySettings()
    output: Output = Output()


def kinds(annotation: Any) -> set[Any]:
    """The types of the values that an annotation takes, in lists and mappings, too."""
    if get_origin(annotation) is Literal:
        return {type(value) for value in get_args(annotation)}
    inner = get_args(annotation)
    inner = inner[:1] if get_origin(annotation) is Annotated else inner
    return set().union(*map(kinds, inner)) if inner else {annotation}


TEXTS = frozenset(
    f"{name}.{key}"
    for name, section in Config.model_fields.items()
    for key, field in getattr(section.annotation, "model_fields", {}).items()
    if kinds(field.rebuild_annotation()) <= {str, type(None)}
)
"""The keys that take nothing but texts."""

FIDELITY: dict[str, dict[str, dict[str, Any]]] = {
    "text": {
        "federation": {"steps": "own"},
        "overall": {"scope": "all"},
        "generator": {"name": "dcgan"},
    },
    "released": {
        "federation": {"steps": "equal"},
        "overall": {"scope": "seen"},
        "generator": {"name": "released"},
    },
}
"""Where the paper's text and its authors' program differ; algorithms add their own options."""

GENERATOR_PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"samples": "trained", "width": 128, "batch_size": None, "every": 1, "reuse": 1},
    "lite": {"samples": "trained", "width": 16, "batch_size": 16, "every": 1, "reuse": 1},
}
"""What distillation costs: as the paper has it, or the cheapest that is as good on `letters`."""

FIDELITY_PARTITION: dict[str, Partition] = {"text": "dirichlet", "released": "dirichlet-balanced"}
"""The partition of a source that does not come with clients of its own."""
