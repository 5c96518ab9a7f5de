"""`fedkf distill`: a teacher and its data-free student, as a table and a figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from fedkf.cli.app import Stopped, err, out
from fedkf.cli.sweeping import print_tables, refuse_file
from fedkf.paper import distillation
from fedkf.paper.distill import Progress, choose
from fedkf.paper.scales import Scale
from fedkf.paper.tables import write
from fedkf.runs import config as configuration
from fedkf.runs.schema import Config

STEPS = {"smoke": {"steps": 400, "teacher_epochs": 8, "batch_size": 64}, "small": {}, "paper": {}}
"""How long at each scale of `fedkf reproduce distillation`."""


def run_distill(
    name: str,
    config: Config,
    settings: Sequence[str],
    changes: Mapping[str, Any],
    folder: Path,
    quiet: bool,
) -> None:
    show({name: config}, settings, changes, folder, quiet, [])


def reproduce_distillation(scale: Scale, folder: Path, quiet: bool) -> None:
    """The paper's settings beside those that work, on the scale's data."""
    configs = {}
    for name in scale.configs:
        content, _ = configuration.read(name)
        configs[name] = configuration.resolve(content, scale.overrides)
    notes = [scale.differs()]
    show(configs, ["paper", "works"], STEPS.get(scale.name, {}), folder, quiet, notes)


def show(
    configs: Mapping[str, Config],
    settings: Sequence[str],
    changes: Mapping[str, Any],
    folder: Path,
    quiet: bool,
    notes: Sequence[str],
) -> None:
    refuse_file(folder)
    results: dict[tuple[str, str], Any] = {}
    about, drawn = [], []
    chosen = {
        (name, kind): (config, choose(kind, config.model.name, **changes))
        for name, config in configs.items()
        for kind in settings
    }
    try:
        with progress_bar(quiet) as progress:
            for (name, kind), (config, how) in chosen.items():
                folder.mkdir(parents=True, exist_ok=True)
                numbers, paths = distillation.kept(name, config, how, folder, progress)
                results[name, kind] = numbers
                about.append(f"{name}, {distillation.describe(how)}.")
                drawn += paths
    except KeyboardInterrupt:
        raise Stopped(f"stopped; what was finished is kept ({folder})") from None
    table = distillation.table(results, [*notes, *about])
    write([table], folder / "tables", "distillation")
    print_tables([table])
    for path in drawn:
        out.print(f"figure: {path}", soft_wrap=True)
    out.print(f"files: {folder}", soft_wrap=True)


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress]:
    """A bar per model on a terminal; a line when a model begins elsewhere."""
    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:.0f}/{task.total:.0f} steps"),
        TimeRemainingColumn(),
        console=err,
        disable=quiet or not err.is_terminal,
        transient=True,
    )
    tasks: dict[str, Any] = {}

    def progress(what: str, done: int, steps: int) -> None:
        if what not in tasks or done == 0:
            tasks[what] = bar.add_task(what, total=steps)
            if not quiet and not err.is_terminal:
                err.print(f"{what}: {steps} steps", soft_wrap=True)
        bar.update(tasks[what], completed=done)

    with bar:
        yield progress
