"""The configuration: how presets, files and overrides combine, and how it is written.

Nothing here needs torch, so that a mistake is told in a fraction of a second.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ValidationError

from fedkf.core.errors import UserError, nearest
from fedkf.core.limits import shown
from fedkf.runs.advice import unknown
from fedkf.runs.documents import parse_yaml, read_yaml
from fedkf.runs.privacy import check_private
from fedkf.runs.schema import FIDELITY, GENERATOR_PRESETS, AlgorithmChoice, Config
from fedkf.runs.secure import check_secure

if TYPE_CHECKING:
    from fedkf.core.algorithm import Algorithm

SOURCE_MODELS = {"table": "mlp", "signals": "cnn1d"}
"""The model for a source whose samples are no images, unless one is named."""


# -- reading -------------------------------------------------------------------------------------


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
    if not is_file(path):
        if path.suffix in (".yaml", ".yml") or "/" in name:
            raise UserError(f"no configuration file {name}")
        raise UserError(f"no preset or file {name!r}; {nearest(name, presets())}")
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise UserError(f"{name} must hold keys and values, such as `federation: {{rounds: 30}}`")
    content.pop("provenance", None)
    return content, path.stem


def is_file(path: Path) -> bool:
    """Whether there is such a file; a name that no file can have is not one."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def parse_set(items: Iterable[str]) -> dict[str, Any]:
    """`--set federation.rounds=3` as a dictionary from dotted keys to values."""
    values: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set {item}: write it as KEY=VALUE, such as federation.rounds=30")
        # On one line > and | begin no block of text, as in YAML; data.positive=>0 is meant.
        block = text.lstrip().startswith((">", "|"))
        key = key.strip()
        values[key] = text.strip() if block else parse_yaml(text, f"--set {item}", key)
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
    if isinstance(given.get("algorithm"), str):
        given["algorithm"] = {"name": given["algorithm"]}
    per_algorithm = _per_algorithm(given)
    overrides = dict(overrides or {})
    source = overrides.get("data.source")
    if source is not None and source != _section(given, "data").get("source"):
        given["data"] = {"source": source}  # another source: the preset's data settings go
        if source in SOURCE_MODELS:
            given["model"] = {}
    fits = SOURCE_MODELS.get(str(_section(given, "data").get("source")), "lenet5")
    given["model"] = {"name": fits, **_section(given, "model")}
    chosen = overrides.get("algorithm.name")
    if chosen is not None and chosen != _section(given, "algorithm").get("name"):
        given["algorithm"] = {"name": chosen}
    name = _section(given, "algorithm").setdefault("name", "fedkf")
    if not isinstance(name, str):
        raise UserError(f"algorithm.name is {shown(name)}; it must be a text")
    own = per_algorithm.get(name, {})
    # Beside its hyperparameters an algorithm may have settings elsewhere: `generator.preset`.
    overrides = {**{k: v for k, v in own.items() if "." in k}, **overrides}
    own = {k: v for k, v in own.items() if "." not in k}
    given["algorithm"] = {**own, **given["algorithm"]}
    if "generator.preset" in overrides:  # another preset: what the file says in its place goes
        own = _section(given, "generator")
        given["generator"] = {k: v for k, v in own.items() if k not in GENERATOR_PRESETS["paper"]}
    for key, value in overrides.items():
        _place(given, key, value)
    fidelity = given.get("fidelity", "text")
    base = FIDELITY.get(fidelity, {}) if isinstance(fidelity, str) else {}
    for part, options in base.items():
        given[part] = {**options, **_section(given, part)}
    preset = _section(given, "generator").get("preset", "lite")
    if isinstance(preset, str) and preset in GENERATOR_PRESETS:
        given["generator"] = {**GENERATOR_PRESETS[preset], **given["generator"]}
    return _with_algorithm(parse(given), given["algorithm"], algorithm)


def dropped(content: Mapping[str, Any], overrides: Mapping[str, Any]) -> str:
    """A sentence where naming another source loses a normalisation that nothing replaces."""
    data, source = content.get("data"), overrides.get("data.source")
    if not isinstance(data, Mapping) or source in (None, data.get("source")):
        return ""
    lost = [k for k in ("mean", "std") if data.get(k) is not None and f"data.{k}" not in overrides]
    if not lost:
        return ""
    notes = " and ".join(f"data.{key} {data[key]}" for key in lost)
    return (
        f"{notes} are for {data.get('source')} and do not apply to {source}; "
        "without values of its own it is scaled by those of its kind (0.5 for images)"
    )


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
    from fedkf.distillation import SAMPLES
    from fedkf.runs.trackers import check_tracker

    models.check_name("model.name", config.model.name, models.MODELS)
    models.check_name("generator.name", config.generator.name, models.GENERATORS)
    models.check_name("generator.samples", config.generator.samples, SAMPLES)
    check_tracker(config.output.log)
    kind = algorithm or algorithms.get(config.algorithm.name)
    options = {k: v for k, v in given.items() if k != "name"}
    made = kind.create({**kind.fidelity.get(config.fidelity, {}), **options})
    if config.federation.defence not in ("norm", "none") and not kind.takes_robust_means():
        raise UserError(
            f"federation.defence is {config.federation.defence!r}, but {config.algorithm.name} has "
            "a rule of its own in place of the mean; it must be norm or none"
        )
    check_task(config, kind)
    check_training(config, kind)
    check_private(config, kind)
    check_secure(config, kind)
    if config.evaluation.personal != "none" and (kind.personal_models or not kind.shared_model):
        raise UserError(
            f"evaluation.personal is {config.evaluation.personal!r}, but with "
            f"{config.algorithm.name} every client has a model of its own already; it must be none"
        )
    values = {"name": config.algorithm.name, **{k: getattr(made, k) for k in kind.options()}}
    return config.model_copy(update={"algorithm": AlgorithmChoice.model_validate(values)})


def check_task(config: Config, kind: type[Algorithm]) -> None:
    """Refuse an algorithm that the task is not for, and weights of classes that it has not."""
    from fedkf import algorithms
    from fedkf.core import objective
    from fedkf.runs.judging import check_metrics

    task = config.data.task
    if kind.tasks and task not in kind.tasks:
        free = [name for name in algorithms.names() if not algorithms.get(name).tasks]
        raise UserError(
            f"data.task is {task!r}, but {config.algorithm.name} is for "
            f"{' and '.join(kind.tasks)} only; any task is learned by {', '.join(free)}"
        )
    if config.data.class_weights != "none" and not objective.find(task).labelled():
        raise UserError(f"data.class_weights: data.task {task} has no classes to weigh")
    check_metrics(config)


def check_training(config: Config, kind: type[Algorithm]) -> None:
    """Refuse local steps that the algorithm's rule does not reckon with."""
    settings = config.federation
    plain = {"optimizer": "sgd", "schedule": "constant", "clip": None}
    for key, wanted in plain.items():
        if kind.assumes_sgd and getattr(settings, key) != wanted:
            raise UserError(
                f"federation.{key} is {getattr(settings, key)!r}, but the rule of "
                f"{config.algorithm.name} reckons with plain steps of SGD; it must be "
                f"{'none' if wanted is None else wanted}"
            )
    if settings.optimizer != "sgd" and settings.momentum:
        raise UserError(
            f"federation.momentum is {settings.momentum:g}, but federation.optimizer "
            f"{settings.optimizer} has its own; it must be 0"
        )
    if settings.precision != "float32" and config.privacy.on:
        raise UserError(
            f"federation.precision is {settings.precision!r}, but noise for privacy is "
            "reckoned in float32; it must be float32"
        )


def _per_algorithm(given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What stands under `algorithms`, which is taken out: the settings of each, by its name."""
    from fedkf import algorithms

    found = _section(given, "algorithms")
    del given["algorithms"]
    for name, own in found.items():
        if ":" not in str(name) and name not in algorithms.names():
            raise UserError(
                f"algorithms: no algorithm {shown(name)}; {nearest(str(name), algorithms.names())}"
            )
        if not isinstance(own, dict | None) or not all(isinstance(key, str) for key in own or ()):
            raise UserError(
                f"algorithms.{name} is {shown(own)}; it must hold hyperparameters by name, such "
                "as {fedprox: {mu: 0.01}}"
            )
    return {name: own or {} for name, own in found.items()}


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
        return f"no key {key!r}; {unknown(key, all_keys())}"
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
    if key == "data.class_weights":
        allowed = "none, balanced or a list of numbers above 0, one for each class"
    return f"{key} is {shown(first['input'])}; it must be {allowed}"


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
