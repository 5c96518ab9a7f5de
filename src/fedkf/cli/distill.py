"""`fedkf distill`: a teacher and its data-free student, as a table and a figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkf.cli.consoles import err, say, show
from fedkf.cli.interruption import interruptible
from fedkf.cli.options import (
    ConfigArgument,
    DataDirOption,
    QuietOption,
    SetOption,
    refuse_file,
    resolve,
)

if TYPE_CHECKING:
    from fedkf.paper.distill import Progress
    from fedkf.runs.schema import Config


def distill(
    config: ConfigArgument = None,
    set_: SetOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(help="paper or works; may be given twice. [default: works]"),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Of each student.")] = None,
    teacher_epochs: Annotated[int | None, typer.Option(min=1, help="Of the teacher.")] = None,
    lr: Annotated[float | None, typer.Option(help="Of the student.")] = None,
    width: Annotated[int | None, typer.Option(min=2, help="Of the generator.")] = None,
    generator_lr: Annotated[float | None, typer.Option(help="Of the generator's Adam.")] = None,
    lambda1: Annotated[float | None, typer.Option(help="Weight of the one-hot loss.")] = None,
    lambda2: Annotated[float | None, typer.Option(help="Weight of the activation loss.")] = None,
    adversarial: Annotated[
        bool | None, typer.Option(help="Let the generator seek what the student gets wrong.")
    ] = None,
    drawings: Annotated[
        bool | None, typer.Option(help="Show the student random drawings, too.")
    ] = None,
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="[default: runs/<config>-distill]")
    ] = None,
    quiet: QuietOption = False,
    data_dir: DataDirOption = None,
) -> None:
    """A teacher, a student that never sees its data, and one on plain noise."""
    resolved, name = resolve(config, set_)
    changes = {
        "steps": steps,
        "teacher_epochs": teacher_epochs,
        "lr": lr,
        "width": width,
        "generator_lr": generator_lr,
        "lambda1": lambda1,
        "lambda2": lambda2,
        "adversarial": adversarial,
        "drawings": drawings,
    }
    folder = out_ or Path("runs") / f"{name}-distill"
    run_distillations({name: resolved}, settings or ["works"], changes, folder, quiet)


def run_distillations(
    configs: Mapping[str, Config],
    settings: Sequence[str],
    changes: Mapping[str, Any],
    folder: Path,
    quiet: bool,
    notes: Sequence[str] = (),
) -> None:
    """Every configuration with every kind of settings; what is finished is not done again."""
    from fedkf.cli.plans import show_tables
    from fedkf.paper import distillation
    from fedkf.paper.distill import choose
    from fedkf.paper.tables import write
    from fedkf.runs.experiment import reporting_disk_errors
    from fedkf.runs.places import make_folder

    refuse_file(folder)
    make_folder(folder)
    results: dict[tuple[str, str], Any] = {}
    about, drawn = [], []
    chosen = {
        (name, kind): (config, choose(kind, config.model.name, **changes))
        for name, config in configs.items()
        for kind in settings
    }
    stopped = f"stopped; what was finished is kept ({folder})"
    with interruptible(stopped), progress_bar(quiet) as progress:
        for (name, kind), (config, how) in chosen.items():
            with reporting_disk_errors(folder):
                numbers, paths = distillation.kept(name, config, how, folder, progress)
            results[name, kind] = numbers
            about.append(f"{name}, {distillation.describe(how)}.")
            drawn += paths
    table = distillation.table(results, [*notes, *about])
    with reporting_disk_errors(folder):
        write([table], folder / "tables", "distillation")
    show_tables([table])
    for path in drawn:
        show(f"figure: {path}")
    show(f"files: {folder}")


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress]:
    """A bar per model on a terminal; a line when a model begins elsewhere."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

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
                say(f"{what}: {steps} steps")
        bar.update(tasks[what], completed=done)

    with bar:
        yield progress
