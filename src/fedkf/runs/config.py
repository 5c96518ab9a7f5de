"""The configuration: its keys, defaults and limits, and how presets, files and overrides combine.

Nothing here needs torch, so that a mistake is told in a fraction of a second.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from fedkf.core.errors import UserError, nearest

if TYPE_CHECKING:
    from fedkf.core.algorithm import Algorithm

Fidelity = Literal["text", "released"]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A part of the configuration: frozen, strict about types, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Data(Section):
    """The samples and how they are divided over clients."""

    source: Literal["digits", "npz"] = Field("digits", description="digits (embedded) or npz")
    path: str | None = Field(None, description="the .npz file, also looked for in FEDKF_DATA")
    limit: Count | None = Field(None, description="at most so many samples of each class")
    image_size: Count | None = Field(None, description="resize images to this many pixels square")
    mean: list[float] = Field([0.5], description="normalisation, one number or one per channel")
    std: list[Positive] = Field([0.5], description="normalisation, one number or one per channel")
    partition: Literal["iid", "dirichlet", "dirichlet-balanced"] = Field(
        "dirichlet", description="iid, dirichlet or dirichlet-balanced"
    )
    alpha: Positive = Field(0.1, description="concentration of the Dirichlet; smaller is harder")
    clients: Count = Field(20, description="K, the number of clients")
    min_samples: Count = Field(1, description="a client with fewer takes from the largest one")
    train_fraction: Fraction = Field(0.8, description="of each client's samples; the rest tests")
    seed: Seed = Field(0, description="of the partition and the split")

    @field_validator("mean", "std", mode="before")
    @classmethod
    def _one_number(cls, value: Any) -> Any:
        return [value] if isinstance(value, int | float) and not isinstance(value, bool) else value


class Model(Section):
    """The classifier that is learned."""

    name: str = Field("lenet5", description="lenet5, resnet8 or package.module:factory")


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
    min_clients: Count = Field(1, description="usable uploads that a round needs")


class Overall(Section):
    """T1, the mean over every client's latest model."""

    scope: Literal["all", "seen"] = Field(
        "all", description="all (clients not seen yet stand in with w⁰) or seen"
    )


class Generator(Section):
    """The generator of algorithms that have one; accepted and unused by the others."""

    name: str = Field("dcgan", description="dcgan, released or package.module:factory")
    width: Count = Field(128, description="channels: width, width, width/2")
    noise: Count = Field(100, description="length of the noise vector")
    lr: Positive = Field(0.001, description="β, learning rate of its Adam")


class EngineSettings(Section):
    """Where the clients' work is done; has no influence on results."""

    name: Literal["local"] = Field("local", description="local: worker processes on this machine")
    workers: Annotated[int, Field(ge=0)] | None = Field(
        None, description="processes; none means one a core, 0 everything in this process"
    )
    threads: Count = Field(1, description="of PyTorch in each process; results depend on it")
    device: str = Field("cpu", description="cpu, cuda or cuda:N")

    @field_validator("device")
    @classmethod
    def _device(cls, value: str) -> str:
        if not re.fullmatch(r"cpu|cuda(:\d+)?", value):
            raise ValueError("must be cpu, cuda or cuda:N")
        return value


class Output(Section):
    """What is written where."""

    dir: str | None = Field(None, description="the run's folder")
    checkpoint_every: Count = Field(1, description="rounds between two checkpoints")


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
    engine: EngineSettings = EngineSettings()
    output: Output = Output()


FIDELITY: dict[str, dict[str, dict[str, Any]]] = {
    "text": {
        "data": {"partition": "dirichlet"},
        "federation": {"steps": "own"},
        "overall": {"scope": "all"},
        "generator": {"name": "dcgan"},
    },
    "released": {
        "data": {"partition": "dirichlet-balanced"},
        "federation": {"steps": "equal"},
        "overall": {"scope": "seen"},
        "generator": {"name": "released"},
    },
}
"""Where the paper's text and its authors' program differ; algorithms add their own options."""

FREE_ON_RESUME = ("engine.name", "engine.workers", "output.")
"""Keys that may change when a run is resumed; federation.rounds may also grow."""


# -- reading -------------------------------------------------------------------------------------


class _Loader(yaml.SafeLoader):
    """YAML in which 1e-3 is a number, and a key given twice is a mistake."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key_node.value!r} is given twice", key_node.start_mark
                )
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+0123456789."),
)


def parse_yaml(text: str, where: str) -> Any:
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise UserError(f"{where} is not valid YAML: {' '.join(str(error).split())}") from None


def presets() -> list[str]:
    """The names of the presets that ship with the package."""
    folder = resources.files("fedkf.runs") / "presets"
    return sorted(
        p.name.removesuffix(".yaml") for p in folder.iterdir() if p.name.endswith(".yaml")
    )


def read(config: str | Path | None) -> tuple[dict[str, Any], str]:
    """What a preset or a file says, and a short name for it."""
    name = "digits" if config is None else str(config)
    if name in presets():
        text = (resources.files("fedkf.runs") / "presets" / f"{name}.yaml").read_text("utf-8")
        return parse_yaml(text, name), name
    path = Path(name)
    if not path.is_file():
        if path.suffix in (".yaml", ".yml") or "/" in name:
            raise UserError(f"no configuration file {name}")
        raise UserError(f"no preset or file {name!r}; {nearest(name, presets())}")
    try:
        content = parse_yaml(path.read_text("utf-8"), name)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{name} cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{name} must hold keys and values, such as `federation: {{rounds: 30}}`")
    content.pop("provenance", None)
    return content, path.stem


def parse_set(items: Iterable[str]) -> dict[str, Any]:
    """`--set federation.rounds=3` as a dictionary from dotted keys to values."""
    values: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set {item}: write it as KEY=VALUE, such as federation.rounds=30")
        value = parse_yaml(text, f"--set {item}")
        values[key.strip()] = value
    return values


# -- resolving -----------------------------------------------------------------------------------


def resolve(
    content: Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    algorithm: type[Algorithm] | None = None,
) -> Config:
    """A valid configuration: fidelity's options, then the content, then the overrides.

    The algorithm is found by its name unless its class is given.
    """
    given: dict[str, Any] = {
        k: dict(v) if isinstance(v, Mapping) else v for k, v in content.items()
    }
    per_algorithm = given.pop("algorithms", None) or {}
    overrides = dict(overrides or {})
    chosen = overrides.get("algorithm.name")
    if chosen is not None and chosen != _section(given, "algorithm").get("name"):
        given["algorithm"] = {"name": chosen}
    name = _section(given, "algorithm").setdefault("name", "fedkf")
    given["algorithm"] = {**per_algorithm.get(name, {}), **given["algorithm"]}
    for key, value in overrides.items():
        _place(given, key, value)
    fidelity = given.get("fidelity", "text")
    base = FIDELITY.get(fidelity, {}) if isinstance(fidelity, str) else {}
    for part, options in base.items():
        given[part] = {**options, **_section(given, part)}
    return _with_algorithm(parse(given), given["algorithm"], algorithm)


def parse(content: Mapping[str, Any]) -> Config:
    """A configuration whose algorithm's hyperparameters are taken as they are."""
    try:
        return Config.model_validate(content)
    except ValidationError as error:
        raise UserError(explain(error)) from None


def _with_algorithm(
    config: Config, given: Mapping[str, Any], algorithm: type[Algorithm] | None
) -> Config:
    """The configuration with every hyperparameter of its algorithm spelled out and checked."""
    from fedkf import algorithms, models

    models.check_name("model.name", config.model.name, models.MODELS)
    models.check_name("generator.name", config.generator.name, models.GENERATORS)
    kind = algorithm or algorithms.get(config.algorithm.name)
    options = {k: v for k, v in given.items() if k != "name"}
    made = kind.create({**kind.fidelity.get(config.fidelity, {}), **options})
    values = {key: getattr(made, key) for key in kind.options()}
    choice = AlgorithmChoice.model_validate({"name": config.algorithm.name, **values})
    return config.model_copy(update={"algorithm": choice})


def _section(given: dict[str, Any], name: str) -> dict[str, Any]:
    section = given.get(name)
    if section is None:
        section = given[name] = {}
    if not isinstance(section, dict):
        raise UserError(f"{name} must hold keys, such as {name}.{_example(name)}")
    return section


def _example(section: str) -> str:
    return next((k.split(".")[1] for k in all_keys() if k.startswith(section + ".")), "key")


def _place(given: dict[str, Any], key: str, value: Any) -> None:
    section, dot, rest = key.partition(".")
    if not dot:
        if section != "fidelity" and section in Config.model_fields:
            raise UserError(
                f"{section} is a section; set one of its keys, such as "
                f"{section}.{_example(section)}"
            )
        given[section] = value
    else:
        if section not in Config.model_fields or section == "fidelity":
            raise UserError(
                f"no key {key!r}; {nearest(key, all_keys(), '`fedkf config` lists the keys')}"
            )
        _section(given, section)[rest] = value


def all_keys() -> list[str]:
    """Every key of the configuration, dotted, but for the algorithms' own."""
    result = []
    for name, field in Config.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            result += [f"{name}.{key}" for key in section.model_fields]
        else:
            result.append(name)
    return result


def explain(error: ValidationError) -> str:
    """The first mistake as a sentence: which key, what was given, what is allowed."""
    first = error.errors()[0]
    parts = [str(p) for p in first["loc"]]
    key = ".".join(parts[:2])
    if first["type"] == "extra_forbidden":
        return f"no key {key!r}; {nearest(key, all_keys(), '`fedkf config` lists the keys')}"
    message = first["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    allowed = {
        "a valid integer": "a whole number",
        "a valid number": "a number",
        "a valid string": "a text",
        "a valid list": "a list",
        "a valid boolean": "true or false",
    }.get(message, message)
    allowed = allowed.removeprefix("must be ")
    if key == "federation.steps":
        allowed = "own, equal or a whole number from 1"
    return f"{key} is {first['input']!r}; it must be {allowed}"


# -- writing -------------------------------------------------------------------------------------


def to_dict(config: Config) -> dict[str, Any]:
    return config.model_dump(mode="json")


def flatten(config: Config) -> dict[str, Any]:
    """Dotted keys and their values."""
    flat = {}
    for section, values in to_dict(config).items():
        if isinstance(values, dict):
            flat.update({f"{section}.{key}": value for key, value in values.items()})
        else:
            flat[section] = values
    return flat


def to_yaml(config: Config) -> str:
    """The resolved configuration, with a comment on every key; itself a valid configuration."""
    from fedkf import algorithms

    options: dict[str, Mapping[str, Any]] = {}
    with contextlib.suppress(UserError):  # a class that cannot be found by name has no comments
        options = algorithms.get(config.algorithm.name).options()
    lines = []
    for section, field in Config.model_fields.items():
        value = getattr(config, section)
        if not isinstance(value, BaseModel):
            lines.append(_line("", section, value, field.description))
            continue
        lines.append(f"\n{section}:  # {' '.join((type(value).__doc__ or '').split())}")
        docs = {k: f.description for k, f in type(value).model_fields.items()}
        docs |= {k: str(about["doc"]) for k, about in options.items() if section == "algorithm"}
        for key, item in value.model_dump(mode="json").items():
            lines.append(_line("  ", key, item, docs.get(key)))
    return "\n".join(lines) + "\n"


def _line(indent: str, key: str, value: Any, doc: str | None) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=1000)
    text = text.removesuffix("...\n").strip()
    line = f"{indent}{key}: {text}"
    return f"{line:<34}  # {doc}" if doc else line


def refuse_changes(old: Config, new: Config) -> None:
    """A run is resumed with the configuration it began with, but for a few free keys."""
    before, after = flatten(old), flatten(new)
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key), after.get(key)
        grew = key == "federation.rounds" and isinstance(now, int) and now >= (was or 0)
        if was != now and not grew and not key.startswith(FREE_ON_RESUME):
            raise UserError(
                f"{key} is {now!r} but the run began with {was!r}; "
                "resume it with its own configuration or choose another folder"
            )
