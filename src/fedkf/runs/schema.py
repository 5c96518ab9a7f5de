"""The keys of the configuration, with their defaults, limits and documentation."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from fedkf.data.reading import MISSING_VALUES
from fedkf.engines.registry import ENGINES

Fidelity = Literal["text", "released"]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=1, le=10**9)]
Population = Annotated[int, Field(ge=1, le=10**6)]
Length = Annotated[int, Field(ge=1, le=10**5)]
"""Of something that is held in memory, such as a side of an image or a layer."""
Processors = Annotated[int, Field(ge=1, le=1024)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
TASKS = ("classification", "binary", "regression", "survival")
Columns = Annotated[list[str], Field(max_length=10**5)]
Partition = Literal["iid", "dirichlet", "dirichlet-balanced", "classes", "quantity", "natural"]


class Section(BaseModel):
    """A part of the configuration: frozen, strict about types, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Data(Section):
    """The samples and how they are divided over clients."""

    source: str = Field(
        "digits",
        description="digits (embedded), npz, folder, table, signals, a name of "
        "`fedkf data list` or module:object",
    )
    path: str | None = Field(None, description="file or folder, also looked for in FEDKF_DATA")
    limit: Count | Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None, description="at most so many samples of each class, or below 1 that share of them"
    )
    image_size: Length | None = Field(None, description="resize images to this many pixels square")
    mean: list[Finite] | None = Field(
        None, description="normalisation, a number or one per channel; images 0.5, else 0"
    )
    std: list[Positive] | None = Field(
        None, description="normalisation, a number or one per channel; images 0.5, else 1"
    )
    task: str = Field(
        "classification",
        description="classification, binary, regression, survival or package.module:Class",
    )
    class_names: list[str] | None = Field(None, description="in the order of the labels")
    class_weights: Literal["none", "balanced"] | list[Positive] = Field(
        "none", description="in the loss: none, balanced (by a client's own counts) or numbers"
    )
    partition: Partition | None = Field(
        None, description="iid, dirichlet, dirichlet-balanced, classes, quantity or natural"
    )
    alpha: Positive = Field(0.1, description="concentration of the Dirichlet; smaller is harder")
    clients: Population = Field(20, description="K, the number of clients")
    classes_per_client: Population = Field(2, description="for the partition `classes`")
    shift: list[Literal["rotate", "noise", "contrast"]] = Field(
        [], description="what differs between clients beside labels: rotate, noise, contrast"
    )
    shift_strength: Fraction = Field(0.5, description="of the shift, up to 1")
    min_samples: Count = Field(1, description="a client with fewer takes from the largest one")
    train_fraction: Fraction = Field(0.8, description="of each client's samples; the rest tests")
    seed: Seed = Field(0, description="of the partition and the split")
    split: Literal["random", "stratified", "given"] | None = Field(
        None, description="into training and test: random, stratified or given (by the source)"
    )
    split_by: str | None = Field(
        None, description="column or array, such as a patient's id, of which none is on both sides"
    )
    scaling: Literal["federated", "site", "none"] | None = Field(
        None, description="of tables and signals: federated (agreed mean and std), site or none"
    )
    target: str | list[str] | None = Field(
        None, description="column of a table that is predicted; for survival [time, event]"
    )
    positive: str | int | None = Field(
        None, description="what of the target counts as 1: a value, or such as '>0'"
    )
    site: str | None = Field(
        None, description="column that names the site, or a pattern of file names"
    )
    columns: Columns | None = Field(None, description="inputs of a table; none means all others")
    categorical: Columns = Field([], description="columns whose numbers are categories")
    categories: dict[str, list[str]] | None = Field(
        None, description="values of each categorical column, the same at all sites"
    )
    missing: Literal["indicator", "mean", "drop"] = Field(
        "indicator", description="the mean and a column that tells, the mean, or drop the row"
    )
    indicators: Columns | None = Field(
        None, description="columns that tell what was missing; none means where anything is"
    )
    missing_values: list[str] = Field(
        [*MISSING_VALUES], description="cells of a table that stand for nothing measured"
    )
    window: Count | None = Field(None, description="rows of a recording that make one sample")
    stride: Count | None = Field(None, description="rows from one window to the next; none: window")
    proxy: float | str | None = Field(
        None,
        description="unlabelled data for the server: a share of the source that no client gets, "
        "digits, an .npz, a folder or package.module:object",
    )

    @field_validator("proxy", mode="before")
    @classmethod
    def _share_or_name(cls, value: Any) -> Any:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (value is None or isinstance(value, str) or (number and 0 < value < 1)):
            raise ValueError(
                "must be a share between 0 and 1, digits, the path of an .npz file or a folder, "
                "or package.module:object"
            )
        return value

    @field_validator("task")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in TASKS and ":" not in value:
            raise ValueError(f"must be {', '.join(TASKS)} or package.module:Class")
        return value

    @field_validator("class_names")
    @classmethod
    def _distinct(cls, value: list[str] | None) -> list[str] | None:
        if value is not None and len(set(value)) < len(value):
            raise ValueError("must be names that all differ")
        return value

    @field_validator("mean", "std", mode="before")
    @classmethod
    def _one_number(cls, value: Any) -> Any:
        return [value] if isinstance(value, int | float) and not isinstance(value, bool) else value


class Model(Section):
    """The classifier that is learned."""

    name: str = Field("lenet5", description="lenet5, resnet8, cnn1d, mlp or package.module:factory")


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
    weight_decay: NotNegative = Field(0.0, description="of local SGD")
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
    min_clients: Count = Field(1, description="usable uploads that a round needs")
    defence: Literal["norm", "none", "median", "trimmed", "krum", "multikrum", "geometric"] = Field(
        "norm",
        description="norm (absurd uploads are refused), none, or a robust mean beside it: median, "
        "trimmed, krum, multikrum or geometric",
    )
    round_timeout: Positive | None = Field(
        None, description="seconds that flower waits for a round's clients; none means no limit"
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
        "trained", description="what is distilled on: trained, noise, field, warp or module:object"
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
    """How models are judged beyond every round's readouts."""

    personal: Literal["none", "finetune", "head", "interpolate"] = Field(
        "none",
        description="after the last round, each client's own model: none, the shared one trained "
        "on (finetune), its last layers only (head), or a mixture chosen on held-out training "
        "samples (interpolate)",
    )
    personal_epochs: Count = Field(5, description="of local training for personal models")


class EngineSettings(Section):
    """Where the clients' work is done; workers have no influence on results."""

    name: str = Field(
        "local", description="local (worker processes on this machine) or flower (its simulation)"
    )
    workers: Annotated[int, Field(ge=0, le=1024)] | None = Field(
        None, description="processes; none means one a core, 0 everything in this process"
    )
    threads: Processors = Field(1, description="of PyTorch in each process; results depend on it")
    device: str = Field("cpu", description="cpu, cuda or cuda:N")
    address: str | None = Field(
        None, description="of a running Ray cluster for flower; none starts one on this machine"
    )

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if value not in ENGINES and ":" not in value:
            raise ValueError(f"must be {', '.join(ENGINES)} or package.module:object")
        return value

    @field_validator("device")
    @classmethod
    def _device(cls, value: str) -> str:
        if not re.fullmatch(r"cpu|cuda(:\d+)?", value):
            raise ValueError("must be cpu, cuda or cuda:N")
        return value


class Transport(Section):
    """How weights are sent; bytes are counted as sent, algorithms see decoded values."""

    downlink: Literal["full", "delta8", "delta4"] = Field(
        "full", description="a second model down: full, or its difference in 8 or 4 bits"
    )
    uplink: Literal["full", "half", "delta8"] = Field(
        "full", description="the model up: full, in float16, or its difference in 8 bits"
    )


class Output(Section):
    """What is written where."""

    dir: str | None = Field(None, description="the run's folder")
    checkpoint_every: Count = Field(1, description="rounds between two checkpoints")
    log: str | None = Field(None, description="also log to: tensorboard or package.module:factory")


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
    output: Output = Output()


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
