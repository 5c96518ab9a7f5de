"""Distillation as an experiment on disk: its numbers kept, its table and its figure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import save

from fedkf.charts.chart import Images
from fedkf.core.payload import write_atomically
from fedkf.paper import figures, published
from fedkf.paper.distill import Progress, Settings, distill
from fedkf.paper.published import DATA, Published
from fedkf.paper.scales import STANDS_FOR
from fedkf.paper.tables import Cell, Column, ResultTable
from fedkf.runs.config import to_dict
from fedkf.runs.schema import Config

Numbers = dict[str, Any]


def kept(
    name: str, config: Config, settings: Settings, folder: Path, progress: Progress
) -> tuple[Numbers, list[Path]]:
    """The outcome of an experiment: from its file if it was done before, or done now."""
    stem = f"distillation-{name}-{settings.name}"
    path = folder / f"{stem}.json"
    asked = {"config": to_dict(config), "settings": asdict(settings)}
    if path.exists():
        content: Numbers = json.loads(path.read_bytes())
        if content.get("asked") == json.loads(json.dumps(asked)):
            return content, [p for p in map(Path, content["figures"]) if p.exists()]
    outcome = distill(config, settings, progress)
    write_atomically(folder / f"{stem}.safetensors", save(dict(outcome.generator)))
    images = Images(outcome.averages, outcome.class_names)
    drawn = figures.write(images, folder / "figures" / stem)
    content = {**outcome.numbers(), "asked": asked, "figures": [str(p) for p in drawn]}
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())
    return content, drawn


def table(results: Mapping[tuple[str, str], Numbers], notes: Sequence[str] = ()) -> ResultTable:
    """Teacher and students, one row for each data set and settings."""
    rows = {}
    for (name, settings), numbers in results.items():
        claimed = published.distillation().get(STANDS_FOR.get(name, ""))
        cells = [
            (numbers["teacher"], claimed[0] if claimed else None),
            (numbers["students"]["data-free"], claimed[1] if claimed else None),
            (numbers["students"]["plain noise"], None),
            (numbers["students"]["data-free"] - numbers["teacher"], None),
        ]
        rows[f"{DATA.get(name, name)}, settings `{settings}`"] = [
            Cell((value,), Published(beside, math.nan) if beside is not None else None)
            for value, beside in cells
        ]
    columns = [
        Column("", heading, 100, 2, ranked=False, unit="%", unit_latex=r"\%")
        for heading in ("teacher", "data-free student", "student on noise", "student less teacher")
    ]
    return ResultTable("Distillation without data", "data", columns, rows, notes)


def describe(settings: Settings) -> str:
    """The settings in a sentence."""
    parts = asdict(settings)
    name = parts.pop("name")
    choices = (f"{k} {v:g}" for k, v in parts.items() if v is not None)
    return f"`{name}`: {', '.join(choices)}"
