"""The keys of the configuration about data, and the kinds of values that keys have."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from fedkf.data.reading import MISSING_VALUES, composed
from fedkf.metrics.sites import SITE_METRICS

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
OWN_CLIENTS = 10
"""The number of clients that runs on data of one's own begin with."""
LEAST_NOISE, MOST_NOISE = 1e-2, 1e6
"""What the arithmetic of accounts is good for; nobody needs more or is served by less."""
Noise = Annotated[float, Field(ge=LEAST_NOISE, le=MOST_NOISE)]
Clip = Annotated[float, Field(ge=1e-6, le=1e6)]
"""Whatever σ is, noise of σ·clip is then no smaller than float32 can tell from 0."""
TASKS = ("classification", "binary", "regression", "survival")
FILES = ("path", "proxy")
"""Keys that may name files, which are called as the disk has it."""
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
    unreadable: Literal["refuse", "skip"] = Field(
        "refuse", description="files of a folder that are no images: refuse, or skip and count them"
    )
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
    metrics: list[str] | None = Field(
        None,
        description="computed at each site: accuracy, balanced_accuracy, macro_f1, sensitivity, "
        "auroc, average_precision, ece, rmse, r2, concordance or package.module:object; none "
        "means the task's",
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
    unit: str | None = Field(
        None, description="column or array, such as a patient's id, that privacy protects as one"
    )
    scaling: Literal["federated", "site", "none"] | None = Field(
        None, description="of tables and signals: federated (agreed mean and std), site or none"
    )
    target: str | list[str] | None = Field(
        None, description="column of a table that is predicted; for survival [time, event]"
    )
    target_mean: Finite | None = Field(
        None, description="of a target that is a number; none: agreed as inputs are, where scaled"
    )
    target_std: Positive | None = Field(None, description="the same; what is told has its own unit")
    positive: str | None = Field(
        None, description="what of the target counts as 1: a value, or such as '>0'"
    )
    site: str | None = Field(
        None, description="column that names the site, or a pattern of file names"
    )
    columns: Columns | None = Field(None, description="inputs of a table; none means all others")
    ignore: Columns = Field(
        [], description="columns that are no inputs, such as a patient's number"
    )
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
    decimal: Literal["auto", "comma", "point"] = Field(
        "auto",
        description="what begins the decimals of numbers that semicolons or tabs divide, where "
        "their column does not tell: comma, point or auto (what the files show)",
    )
    window: Count | None = Field(None, description="rows of a recording that make one sample")
    stride: Count | None = Field(None, description="rows from one window to the next; none: window")
    groups: str | list[str] | None = Field(
        None, description="column or array, such as sex or age, by which models are judged as well"
    )
    holdout: str | list[str] | None = Field(
        None, description="sites that nothing is trained on; models are judged there all the same"
    )
    proxy: float | str | None = Field(
        None,
        description="unlabelled data for the server: a share of the source that no client gets, "
        "digits, an .npz, a folder or package.module:object",
    )

    @model_validator(mode="before")
    @classmethod
    def _as_read(cls, value: Any) -> Any:
        """Names as files' names are read; `data.positive` says which of two is the positive one,
        whatever their order."""
        if not isinstance(value, dict):
            return value
        value = {key: v if key in FILES else composed(v) for key, v in value.items()}
        names, positive = value.get("class_names"), value.get("positive")
        if isinstance(names, list) and len(names) == 2 and str(positive) == names[0]:
            return {**value, "class_names": names[::-1]}
        return value

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

    @field_validator("holdout", "positive", "missing_values", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        """Names and codes may be numbers, which a program may give as such."""
        if isinstance(value, list):
            return [cls._named(one) for one in value]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return str(value) if number else value

    @field_validator("holdout", "groups")
    @classmethod
    def _some(cls, value: str | list[str] | None) -> str | list[str] | None:
        if value in ("", []) or (isinstance(value, list) and len(set(value)) < len(value)):
            raise ValueError("must be a name, or a list of names that all differ")
        return value

    @field_validator("task")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in TASKS and ":" not in value:
            raise ValueError(f"must be {', '.join(TASKS)} or package.module:Class")
        return value

    @field_validator("metrics")
    @classmethod
    def _measured(cls, value: list[str] | None) -> list[str] | None:
        named = [name for name in value or () if ":" not in name]
        if value is not None and (not value or not SITE_METRICS.keys() >= set(named)):
            known = ", ".join(SITE_METRICS)
            raise ValueError(f"must be a list of {known} or package.module:object")
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
