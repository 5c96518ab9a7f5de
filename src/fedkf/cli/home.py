"""Commands before and after training: look at the data, use the model."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from rich.table import Table

from fedkf import algorithms
from fedkf.charts.matplotlib_backend import draw
from fedkf.cli.app import err, out
from fedkf.cli.tables import table
from fedkf.core.errors import FedkfError, UserError, nearest
from fedkf.core.records import Partition
from fedkf.data import describe, sources
from fedkf.data.federated import FederatedData, as_floats
from fedkf.data.folder import open_image
from fedkf.report.figures import partition_figure
from fedkf.runs.evaluation import Group, evaluate
from fedkf.runs.mixtures import mixtures
from fedkf.runs.personalize import data_of
from fedkf.runs.schema import Config
from fedkf.runs.setup import load_source, make_data, settle
from fedkf.runs.store import RunFolder
from fedkf.runs.trained import Trained, export, load

FORMATS = ("safetensors", "torch", "onnx")


def say(text: str) -> None:
    err.print(text, soft_wrap=True)


def clients_data(config: Config) -> FederatedData:
    source = load_source(config, say)
    return make_data(settle(config, source), source)


# -- before training -------------------------------------------------------------------------------


def show_partition(config: Config, folder: Path, as_json: bool) -> None:
    about = describe.describe(clients_data(config))
    if folder.is_file():
        raise UserError(f"--out {folder} is a file, not a folder")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "partition.json").write_text(json.dumps(about, indent=2) + "\n")
    figures = [folder / f"partition.{ending}" for ending in ("png", "svg")]
    draw(partition_figure(Partition.read(about)), *figures)
    if as_json:
        typer.echo(json.dumps(about))
        return
    shown = about["class_names"] if about["classes"] <= 12 else []
    rows = table("", "client", "train", "test", "held", *shown)
    for client in about["clients"]:
        counts = [str(n) if n else "·" for n in client["classes"]] if shown else []
        held = sum(1 for n in client["classes"] if n)
        rows.add_row(client["name"], str(client["train"]), str(client["test"]), str(held), *counts)
    out.print(rows)
    out.print(
        f"heterogeneity: {about['total_variation']:.2f} (mean distance of a client's labels from "
        f"all clients', 0 alike to 1 nothing shared); {about['effective_classes']:.1f} of "
        f"{about['classes']} classes are in effect at a client",
        soft_wrap=True,
    )
    for text in describe.warnings(about):
        out.print(f"note: {text}", soft_wrap=True)
    out.print(f"files: {folder}", soft_wrap=True)


# -- after training --------------------------------------------------------------------------------


def show_evaluation(
    run: Path, data: Path | None, count: int, against: Path | None, readout: str, as_json: bool
) -> None:
    folder = RunFolder(run)
    if data is not None and against is not None:
        raise UserError(
            "--against compares runs on the data they share; it does not go with --data"
        )
    if personal(folder):
        if data is not None:
            raise UserError(f"{run} trained every client alone, so it has no model for --data")
        result = own_models(folder, readout)
    else:
        trained = load(run, readout)
        if data is not None:
            result = evaluate(trained, new_groups(trained, data), trained.class_names)
        else:
            result = evaluate(trained.model, own_groups(folder), trained.class_names)
    result = {"run": str(run), "readout": readout, **result}
    if count and "amp" in result:
        accuracies = [c["accuracy"] for c in result["clients"]]
        sizes = [c["tested"] for c in result["clients"]]
        result["mixtures"] = mixtures(accuracies, sizes, count, np.random.default_rng(0))
    if against is not None:
        add_gain(result, folder, RunFolder(against), readout)
    if as_json:
        typer.echo(json.dumps(result))
        return
    print_evaluation(result)


def own_models(folder: RunFolder, readout: str) -> dict[str, Any]:
    """What a run without a shared model found: each client under its own."""
    score = folder.rounds()[-1]["readouts"][readout]
    clients = folder.read_json("partition.json")["clients"]
    rows = [
        {"name": clients[k]["name"], "tested": clients[k]["test"], "accuracy": accuracy}
        for k, accuracy in zip(score["clients"], score["accuracy"], strict=True)
    ]
    return {**{key: score[key] for key in ("amp", "fm", "wlp")}, "clients": rows}


def personal(folder: RunFolder) -> bool:
    """Whether each client was judged by a model of its own."""
    config = folder.config()
    return config is not None and not algorithms.shares_model(config.algorithm.name)


def own_groups(folder: RunFolder) -> list[Group]:
    """The test samples of the run's own clients."""
    config = folder.config()
    if config is None:
        raise UserError(f"{folder.path} holds no config.yaml, so its data is unknown; give --data")
    _, data = data_of(folder, config, say)
    parts = [(name, data.client(k)) for k, name in enumerate(data.names)]
    return [(name, part.test_images, part.test_labels) for name, part in parts]


def new_groups(trained: Trained, path: Path) -> list[Group]:
    """New data as groups by owner, or as one group; inputs as the trained model takes them."""
    kind = "folder" if path.is_dir() else "npz"
    image = len(trained.shape) == 3
    if kind == "folder" and not image:
        raise UserError(f"the model takes inputs of shape {list(trained.shape)}, not images")
    square = image and trained.shape[1] == trained.shape[2]
    size = trained.shape[1] if kind == "folder" and square else None
    source = sources.load(kind, str(path), trained.class_names, size, say, least_classes=1)
    if source.images != image or (not image and source.inputs.shape[1:] != trained.shape):
        shape = list(source.inputs.shape[1:])
        raise UserError(f"{path} has inputs of shape {shape}, not {list(trained.shape)}")
    everything = np.arange(len(source.labels))
    owners = np.zeros_like(everything) if source.owners is None else source.owners
    names = list(source.owner_names) or [path.name]
    groups = []
    for k, name in enumerate(names):
        chosen = everything[owners == k]
        x = as_floats(source, chosen)
        x = with_channels(x, trained.shape[0]) if image else x
        groups.append((name, x, torch.from_numpy(source.labels[chosen])))
    return groups


def with_channels(images: torch.Tensor, channels: int) -> torch.Tensor:
    """Grey images for a model of colours, and the other way round."""
    if images.shape[1] == channels:
        return images
    return images.mean(1, keepdim=True).expand(-1, channels, -1, -1)


def add_gain(result: dict[str, Any], run: RunFolder, other: RunFolder, readout: str) -> None:
    """Each client's accuracy here less its accuracy in another run on the same data."""
    rounds = other.rounds()
    if not rounds or not rounds[-1]["readouts"]:
        raise UserError(f"{other.path} holds no run with an evaluated round")
    if run.provenance().get("data_sha256") != other.provenance().get("data_sha256"):
        raise UserError(f"{other.path} is a run on other data; accuracies cannot be compared")
    score = rounds[-1]["readouts"].get(readout) or next(iter(rounds[-1]["readouts"].values()))
    there = dict(zip(score["clients"], score["accuracy"], strict=True))
    for k, client in enumerate(result["clients"]):
        alone = there.get(k)
        known = client["accuracy"] is not None and alone is not None
        client["against"] = alone
        client["gain"] = client["accuracy"] - alone if known else None


def percent(value: float | None, signed: bool = False) -> str:
    if value is None:
        return "–"
    return f"{100 * value:+.1f}" if signed else f"{100 * value:.1f}"


def print_evaluation(result: dict[str, Any]) -> None:
    gains = "gain" in result["clients"][0]
    more = ("against %", "gain") if gains else ()
    rows = table("", "client", "tested", "accuracy %", *more)
    for c in result["clients"]:
        extra = (percent(c["against"]), percent(c["gain"], signed=True)) if gains else ()
        rows.add_row(c["name"], str(c["tested"]), percent(c["accuracy"]), *extra)
    out.print(rows)
    if "amp" not in result:
        out.print("no client has test data")
        return
    scores = (
        f"{result['readout'].upper()}: AMP {percent(result['amp'])}, FM {result['fm']:.4f}, "
        f"WLP {percent(result['wlp'])}"
    )
    if "classes" in result:
        print_classes(result)
        sure = result["calibration"]
        scores += (
            f"; on average {percent(sure['confidence'])} % sure and "
            f"{percent(sure['accuracy'])} % right, calibration error "
            f"{percent(sure['expected_calibration_error'])}"
        )
    else:
        scores += "; every client judged by its own model, there is no shared one"
    out.print(scores, soft_wrap=True)
    print_mixtures(result)


def print_classes(result: dict[str, Any]) -> None:
    classes = table("", "class", "tested", "accuracy %", "most often taken for")
    for k, c in enumerate(result["classes"]):
        wrong = [n if j != k else 0 for j, n in enumerate(result["confusion"][k])]
        worst = int(np.argmax(wrong))
        taken = f"{result['classes'][worst]['name']} ({wrong[worst]})" if wrong[worst] else ""
        classes.add_row(c["name"], str(c["tested"]), percent(c["accuracy"]), taken)
    out.print(classes)


def print_mixtures(result: dict[str, Any]) -> None:
    if "mixtures" in result:
        m = result["mixtures"]
        out.print(
            f"{m['count']} random mixtures of the clients: {percent(m['drawn']['mean'])} % on "
            f"average, {percent(m['drawn']['tenth'])} % at the tenth percentile, "
            f"{percent(m['drawn']['least'])} % at worst; worst within χ² {m['radius']:g} of the "
            f"pooled one: {percent(m['worst'])} %; no mixture falls below {percent(m['bound'])} % "
            "(WLP, the paper's bound)",
            soft_wrap=True,
        )


def show_gain(folder: Path) -> None:
    """After a run: what federating gains each client, where its counterpart lies beside it."""
    run = RunFolder(folder)
    alone = personal(run)
    for path in sorted(p.parent for p in run.path.parent.glob("*/summary.json")):
        with contextlib.suppress(FedkfError, OSError, ValueError, LookupError, TypeError):
            other = RunFolder(path)
            if personal(other) == alone or not comparable(run, other):
                continue  # and a damaged neighbour is none of this run's business
            local, federated = (run, other) if alone else (other, run)
            tables = gain_tables(local, federated)
            for made in tables:
                out.print(made)
            return
    if alone:
        out.print(
            "each client trained alone; run the same with another algorithm to see what federating "
            "gains, client by client",
            soft_wrap=True,
        )


def comparable(a: RunFolder, b: RunFolder) -> bool:
    """The same data, seed and number of rounds."""
    one, two = (r.read_json("summary.json") for r in (a, b))
    same = all(one[key] == two[key] for key in ("seed", "rounds"))
    return same and a.provenance()["data_sha256"] == b.provenance()["data_sha256"]


def gain_tables(local: RunFolder, federated: RunFolder) -> list[Table]:
    clients = federated.read_json("partition.json")["clients"]
    there = local.rounds()[-1]["readouts"]
    tables = []
    for readout, score in federated.rounds()[-1]["readouts"].items():
        if readout not in there:
            continue  # an algorithm may judge models of its own, beside the two
        own = dict(zip(there[readout]["clients"], there[readout]["accuracy"], strict=True))
        heading = f"{federated.path.name} ({readout.upper()}) over {local.path.name}"
        names = [clients[k]["name"] for k in score["clients"]]
        alone = [own.get(k) for k in score["clients"]]
        tables.append(gain_table(heading, score["accuracy"], alone, names))
    return tables


def gain_table(
    title: str,
    federated: Sequence[float | None],
    alone: Sequence[float | None],
    names: Sequence[str],
) -> Table:
    """What federating gains each client over training alone."""
    rows = table(f"gain of federating: {title}", "client", "federated %", "alone %", "gain")
    for name, a, b in zip(names, federated, alone, strict=True):
        gain = a - b if a is not None and b is not None else None
        rows.add_row(name, percent(a), percent(b), percent(gain, signed=True))
    return rows


def export_model(run: Path, folder: Path, formats: list[str], readout: str) -> None:
    for name in formats:
        if name not in FORMATS:
            raise UserError(f"--format {name}: {nearest(name, FORMATS)}")
    if personal(RunFolder(run)):
        raise UserError(f"{run} trained every client alone, so there is no shared model to export")
    if folder.is_file():
        raise UserError(f"--out {folder} is a file, not a folder")
    for path in export(load(run, readout), folder, readout, formats):
        out.print(str(path), soft_wrap=True)


def show_predictions(run: Path, images: Sequence[Path], readout: str, as_json: bool) -> None:
    if personal(RunFolder(run)):
        raise UserError(f"{run} trained every client alone, so there is no shared model to use")
    trained = load(run, readout)
    if len(trained.shape) != 3:
        raise UserError(
            f"the model of {run} takes inputs of shape {list(trained.shape)}, not images"
        )
    rows: list[dict[str, Any]] = []
    for path in images:
        pixels = open_image(path, None)
        if isinstance(pixels, str):
            raise UserError(f"{path} is not a readable image: {pixels}")
        x = torch.from_numpy(pixels.transpose(2, 0, 1).copy())[None].float() / 255
        x = with_channels(x, trained.shape[0])
        ((name, probability),) = trained.predict(x)
        rows.append({"image": str(path), "class": name, "probability": probability})
    if as_json:
        typer.echo(json.dumps(rows))
        return
    for row in rows:
        typer.echo(f"{row['image']}: {row['class']} ({100 * row['probability']:.1f} %)")
