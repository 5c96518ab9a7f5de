"""A finished run judged on its clients' test samples, or on new data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedkf.core.errors import FedkfError, UserError
from fedkf.data import sources
from fedkf.data.annotations import SIDES
from fedkf.data.cells import stem
from fedkf.data.datasets import from_object
from fedkf.data.federated import FederatedData, as_floats
from fedkf.data.files import find
from fedkf.data.source import Say, Source
from fedkf.data.sources import PATHS
from fedkf.data.targets import Targets
from fedkf.metrics import METRICS
from fedkf.metrics.sites import ACCURACY, judgement
from fedkf.runs.comparison import trained_alone
from fedkf.runs.division import listed
from fedkf.runs.evaluation import Group, evaluate
from fedkf.runs.groups import by_groups
from fedkf.runs.judging import add_own_metrics, headline_of
from fedkf.runs.mixtures import mixtures
from fedkf.runs.personalize import data_of
from fedkf.runs.prediction import with_channels
from fedkf.runs.recipe import TABLES, needed, recipe_of
from fedkf.runs.setup import load_samples, make_holdout, settle
from fedkf.runs.store import RunFolder
from fedkf.runs.trained import Trained, load


def assess(
    run: Path, readout: str, data: Path | None, against: Path | None, say: Say
) -> dict[str, Any]:
    """What a run's model does for each client and class, on `data` where that is given.

    `against` is the run that the result will be compared with, which new data rules out.
    """
    folder = RunFolder(run)
    if data is not None and against is not None:
        raise UserError(
            "--against compares runs on the data they share; it does not go with --data"
        )
    if trained_alone(folder):
        if data is not None:
            raise UserError(f"{run} trained every client alone, so it has no model for --data")
        result = own_models(folder, readout)
    else:
        trained = load(run, readout)
        metric = headline(folder)
        result = judge(trained, data, lambda: own_data(folder, say), say, metric)
        if data is not None and (share := trained_on(folder, data)):
            say(
                f"note: {data} {share} the run's own data, so that these numbers include samples "
                "that it trained on; without --data its test samples alone are judged"
            )
        held = held_data(folder) if data is None else None
        if held is not None:
            judged = asked(trained, trained.model, tested_groups(held), metric)
            result["holdout"] = judged["clients"]
    return {"run": str(run), "readout": readout, **result}


def judge(
    trained: Trained,
    data: Any,
    own: Callable[[], FederatedData],
    say: Say = lambda text: None,
    metric: str | None = None,
) -> dict[str, Any]:
    """What a model does for each client and class: on new data, or on its own clients' test part.

    New data is a path, or whatever `fedkf.run` takes as `clients` or `dataset`.
    """
    if data is not None and of_recipe(trained, data):
        tested = needed(trained.about, data).tested(Path(data), trained.about, say)
        return asked(trained, trained.model, tested_groups(tested), metric)
    if data is not None:
        whole = type(trained.objective)()  # the model itself goes back to the target's unit
        new = new_groups(trained, data, say)
        return evaluate(trained, new, trained.class_names, whole, metric)
    mine = own()
    result = asked(trained, trained.model, tested_groups(mine), metric)
    over = judgement(trained.objective.targets, None, metric).metric
    if scores := by_groups(trained.model, mine, trained.objective, over):
        result["groups"] = {column: found.as_json() for column, found in scores.items()}
    return result


def asked(
    trained: Trained, model: torch.nn.Module, groups: Sequence[Group], metric: str | None
) -> dict[str, Any]:
    """What a model does for groups of samples that are prepared for it."""
    return evaluate(model, groups, trained.class_names, trained.objective, metric)


def headline(folder: RunFolder) -> str | None:
    """The metric that a run asked to be judged by, if it said so."""
    config = folder.config()
    if config is None:
        return None
    add_own_metrics(config)
    return headline_of(config)


def add_mixtures(result: dict[str, Any], count: int) -> None:
    """Add how random mixtures of the clients would fare, where any was tested."""
    if result.get("metric", ACCURACY) != ACCURACY:
        raise UserError("--mixtures mixes accuracies; this run is judged by another metric")
    if "amp" in result:
        accuracies = [c["accuracy"] for c in result["clients"]]
        sizes = [c["tested"] for c in result["clients"]]
        result["mixtures"] = mixtures(accuracies, sizes, count, np.random.default_rng(0))


def own_models(folder: RunFolder, readout: str) -> dict[str, Any]:
    """What a run without a shared model found: each client under its own."""
    rounds = folder.rounds()
    if not rounds or not rounds[-1].readouts:
        path = folder / "rounds.jsonl"
        raise FedkfError(f"{path} is damaged: it does not tell what each client found last")
    score = rounds[-1]["readouts"][readout]
    clients = folder.read_json("partition.json")["clients"]
    rows = [
        {"name": clients[k]["name"], "tested": clients[k]["test"], "accuracy": accuracy}
        for k, accuracy in zip(score["clients"], score["accuracy"], strict=True)
    ]
    sites = score.get("sites", {})
    for place, row in enumerate(rows):
        for key, lists in (("metrics", sites.get("values")), ("intervals", sites.get("intervals"))):
            if lists:
                row[key] = {name: values[place] for name, values in lists.items()}
    said = {key: score[key] for key in (*METRICS, "metric") if key in score}
    return {**said, "alone": True, "clients": rows}


def own_data(folder: RunFolder, say: Say, given: Source | None = None) -> FederatedData:
    """The data of the run's own clients."""
    config = folder.config()
    if config is None:
        raise UserError(f"{folder.path} holds no config.yaml, so its data is unknown; give --data")
    return data_of(folder, config, say, given)[1]


def trained_on(folder: RunFolder, data: Path) -> str:
    """How new data is the run's own: "is" it, or "lies in" it; empty where nothing says so.

    Folders that test, and sites that are held out, are not what the run trained on.
    What is elsewhere is read as the run's data was, and is the same if its hash is.
    """
    config = folder.config()
    if config is None or config.data.path is None or config.data.source not in PATHS:
        return ""
    below = None
    with suppress(FedkfError, OSError, ValueError):  # no folder, or not below it
        own = find(config.data.path, folder=True).resolve()
        below = data.resolve().relative_to(own).parts
    held = {*listed(config.data.holdout)}
    if below and not any(SIDES.get(p.lower()) or {p, stem(p)} & held for p in below):
        return "lies in"
    given = config.data.model_copy(update={"path": str(data)})
    with suppress(FedkfError):
        data_of(folder, config.model_copy(update={"data": given}), lambda text: None)
        return "is"
    return ""


def held_data(folder: RunFolder) -> FederatedData | None:
    """The data of sites that took no part in a run, if there were any."""
    config = folder.config()
    if config is None or config.data.holdout is None:
        return None
    samples = load_samples(config)
    return make_holdout(settle(config, samples.source), samples.holdout)


def tested_groups(data: FederatedData) -> list[Group]:
    """The test samples of each client, prepared as for training."""
    parts = [(name, data.client(k)) for k, name in enumerate(data.names)]
    return [(name, part.test_images, part.test_labels) for name, part in parts]


def new_groups(trained: Trained, data: Any, say: Say) -> list[Group]:
    """New data as groups by owner, or as one group; inputs as the trained model takes them."""
    image = len(trained.shape) == 3
    named = isinstance(data, str | Path)
    source = read_new(trained, Path(data), say) if named else given(trained, data)
    where = data if named else "data"
    if source.images != image or (not image and source.inputs.shape[1:] != trained.shape):
        shape = list(source.inputs.shape[1:])
        raise UserError(f"{where} has inputs of shape {shape}, not {list(trained.shape)}")
    everything = np.arange(len(source.labels))
    owners = np.zeros_like(everything) if source.owners is None else source.owners
    names = list(source.owner_names) or [Path(where).name]
    groups = []
    for k, name in enumerate(names):
        chosen = everything[owners == k]
        x = as_floats(source, chosen)
        x = with_channels(x, trained.shape[0]) if image else x
        groups.append((name, x, torch.from_numpy(source.labels[chosen])))
    return groups


def of_recipe(trained: Trained, data: Any) -> bool:
    """Whether new data is a table or signals, which are read and scaled as the run's own were."""
    if not isinstance(data, str | Path):
        return False
    path, recipe = Path(data), recipe_of(trained.about)
    if recipe is None:
        return path.suffix.lower() in TABLES
    return recipe.source == "signals" or path.suffix != ".npz"


def wanted(trained: Trained) -> Targets:
    """Labels as the model was trained for; one class is enough to test."""
    return Targets(trained.objective.name, trained.class_names or None, least_classes=1)


def given(trained: Trained, data: Any) -> Source:
    """Samples that were given as objects."""
    return from_object(data, "data", wanted(trained))


def read_new(trained: Trained, path: Path, say: Say) -> Source:
    """Samples from an .npz file or a folder of images."""
    kind = "folder" if path.is_dir() else "npz"
    image = len(trained.shape) == 3
    if kind == "folder" and not image:
        raise UserError(f"the model takes inputs of shape {list(trained.shape)}, not images")
    square = image and trained.shape[1] == trained.shape[2]
    size = trained.shape[1] if kind == "folder" and square else None
    return sources.load(kind, str(path), wanted(trained), size, say)
