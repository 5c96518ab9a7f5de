"""Commands before and after training: look at the data, use the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from rich.table import Table

from fedkf.cli.app import err, out
from fedkf.cli.tables import table
from fedkf.core.errors import UserError, nearest
from fedkf.data import describe, sources
from fedkf.data.federated import FederatedData, as_floats
from fedkf.data.folder import open_image
from fedkf.report.figures import bubbles
from fedkf.runs.evaluation import Group, evaluate, mixtures
from fedkf.runs.schema import Config
from fedkf.runs.setup import load_source, make_data, settle
from fedkf.runs.store import RunFolder
from fedkf.runs.trained import Trained, export, load

FORMATS = ("safetensors", "torch", "onnx")


def say(text: str) -> None:
    err.print(text, markup=False, soft_wrap=True)


def clients_data(config: Config) -> FederatedData:
    source = load_source(config, say)
    return make_data(settle(config, source), source)


# -- before training -------------------------------------------------------------------------------


def show_partition(config: Config, folder: Path, as_json: bool) -> None:
    about = describe.describe(clients_data(config))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "partition.json").write_text(json.dumps(about, indent=2) + "\n")
    for ending in ("png", "svg"):
        bubbles(about, folder / f"partition.{ending}")
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
        out.print(f"note: {text}", markup=False, soft_wrap=True)
    out.print(f"files: {folder}", soft_wrap=True)


# -- after training --------------------------------------------------------------------------------


def show_evaluation(
    run: Path, data: Path | None, count: int, against: Path | None, readout: str, as_json: bool
) -> None:
    folder = RunFolder(run)
    trained = load(run, readout)
    model: torch.nn.Module = trained
    if data is not None:
        groups = new_groups(trained, data)
    else:
        config = folder.config()
        if config is None:
            raise UserError(f"{run} holds no config.yaml, so its data is unknown; give --data")
        groups, model = own_groups(clients_data(config)), trained.model
    result = evaluate(model, groups, trained.class_names)
    if data is None and personal(folder):
        own = folder.rounds()[-1]["readouts"][readout]
        for client, accuracy in zip(result["clients"], own["accuracy"], strict=True):
            client["accuracy"] = accuracy
    result = {"run": str(run), "readout": readout, **result}
    accuracies = [c["accuracy"] for c in result["clients"]]
    if count and "amp" in result:
        sizes = [c["tested"] for c in result["clients"]]
        random = np.random.default_rng(0)
        result["mixtures"] = mixtures(accuracies, sizes, count, random)
    if against is not None:
        add_gain(result, RunFolder(against), readout)
    if as_json:
        typer.echo(json.dumps(result))
        return
    print_evaluation(result)


def personal(folder: RunFolder) -> bool:
    """Whether each client was judged by a model of its own."""
    config = folder.config()
    return config is not None and config.algorithm.name == "local"


def own_groups(data: FederatedData) -> list[Group]:
    groups = []
    for k, name in enumerate(data.names):
        client = data.client(k)
        groups.append((name, client.test_images, client.test_labels))
    return groups


def new_groups(trained: Trained, path: Path) -> list[Group]:
    """New data as groups by owner, or as one group; inputs as the trained model takes them."""
    kind = "folder" if path.is_dir() else "npz"
    channels, *sides = trained.shape
    size = sides[0] if kind == "folder" else None
    source = sources.load(kind, str(path), trained.class_names, size, say)
    if source.inputs.shape[1] != channels:
        raise UserError(
            f"{path} has {source.inputs.shape[1]} channels but the model takes {channels}"
        )
    everything = np.arange(len(source.labels))
    owners = np.zeros_like(everything) if source.owners is None else source.owners
    names = list(source.owner_names) or [path.name]
    groups = []
    for k, name in enumerate(names):
        chosen = everything[owners == k]
        groups.append((name, as_floats(source, chosen), torch.from_numpy(source.labels[chosen])))
    return groups


def add_gain(result: dict[str, Any], other: RunFolder, readout: str) -> None:
    """Each client's accuracy here less its accuracy in another run on the same data."""
    rounds = other.rounds()
    if not rounds or not rounds[-1]["readouts"]:
        raise UserError(f"{other.path} holds no evaluated round")
    score = rounds[-1]["readouts"].get(readout) or next(iter(rounds[-1]["readouts"].values()))
    if len(score["accuracy"]) != len(result["clients"]):
        raise UserError(f"{other.path} has {len(score['accuracy'])} clients, not as many as here")
    for client, alone in zip(result["clients"], score["accuracy"], strict=True):
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
    classes = table("", "class", "tested", "accuracy %", "most often taken for")
    for k, c in enumerate(result["classes"]):
        wrong = [n if j != k else 0 for j, n in enumerate(result["confusion"][k])]
        worst = int(np.argmax(wrong))
        taken = f"{result['classes'][worst]['name']} ({wrong[worst]})" if wrong[worst] else ""
        classes.add_row(c["name"], str(c["tested"]), percent(c["accuracy"]), taken)
    out.print(classes)
    sure = result["calibration"]
    out.print(
        f"{result['readout'].upper()}: AMP {percent(result['amp'])}, FM {result['fm']:.4f}, "
        f"WLP {percent(result['wlp'])}; on average {percent(sure['confidence'])} % sure and "
        f"{percent(sure['accuracy'])} % right, calibration error "
        f"{percent(sure['expected_calibration_error'])}",
        soft_wrap=True,
    )
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
    mine, alone = run.provenance().get("data_sha256"), personal(run)
    for path in sorted(p.parent for p in run.path.parent.glob("*/summary.json")):
        other = RunFolder(path)
        if other.provenance().get("data_sha256") != mine or personal(other) == alone:
            continue
        here, there = (r.rounds()[-1]["readouts"] for r in (run, other))
        federated, local = (there, here) if alone else (here, there)
        clients = run.read_json("partition.json")["clients"]
        title = path.name if alone else run.path.name
        for readout, score in federated.items():
            own = dict(zip(local[readout]["clients"], local[readout]["accuracy"], strict=True))
            names = [clients[k]["name"] for k in score["clients"]]
            alone_there = [own.get(k) for k in score["clients"]]
            heading = f"{title} ({readout.upper()})"
            out.print(gain_table(heading, score["accuracy"], alone_there, names))
        return
    if alone:
        out.print(
            "each client trained alone; run the same with another algorithm to see what federating "
            "gains, client by client",
            soft_wrap=True,
        )


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
    for path in export(load(run, readout), folder, readout, formats):
        out.print(str(path), markup=False, soft_wrap=True)


def show_predictions(run: Path, images: Sequence[Path], readout: str, as_json: bool) -> None:
    trained = load(run, readout)
    if len(trained.shape) != 3:
        raise UserError(
            f"the model of {run} takes inputs of shape {list(trained.shape)}, not images"
        )
    rows: list[dict[str, Any]] = []
    for path in images:
        pixels = open_image(path, trained.shape[1])
        if isinstance(pixels, str):
            raise UserError(f"{path} is not a readable image: {pixels}")
        if pixels.shape[2] != trained.shape[0]:
            grey = trained.shape[0] == 1
            mean = pixels.mean(2, keepdims=True).round().astype(np.uint8)
            pixels = mean if grey else np.repeat(pixels, trained.shape[0], axis=2)
        x = torch.from_numpy(pixels.transpose(2, 0, 1).copy())[None].float() / 255
        ((name, probability),) = trained.predict(x)
        rows.append({"image": str(path), "class": name, "probability": probability})
    if as_json:
        typer.echo(json.dumps(rows))
        return
    for row in rows:
        typer.echo(f"{row['image']}: {row['class']} ({100 * row['probability']:.1f} %)")
