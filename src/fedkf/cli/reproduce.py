"""`fedkf reproduce`: run what a table or figure of the paper needs, then print and write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkf.cli.consoles import out, say, show
from fedkf.cli.distill import run_distillations
from fedkf.cli.options import (
    DataDirOption,
    JobsOption,
    QuietOption,
    RecordsOption,
    SetOption,
    refuse_file,
    resolve,
)
from fedkf.cli.tables import table
from fedkf.core.errors import UserError, nearest

if TYPE_CHECKING:
    from fedkf.paper.scales import Scale
    from fedkf.runs.collect import Group
    from fedkf.runs.suite import Plan
    from fedkf.runs.sweep import Failure

DISTILLATION = "distillation"
TIMED = "time-to-target"
STEPS = {
    "smoke": {"steps": 400, "teacher_epochs": 8, "batch_size": 64, "width": 16},
    "small": {"width": 16},
}
"""How long the distillation takes, at scales that are not to take as long as it wants."""


def reproduce(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="A table or figure; `list` shows them all.")
    ],
    scale: Annotated[str, typer.Option(help="smoke, small or paper.")] = "smoke",
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="[default: runs/reproduce-<scale>]")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="CONFIG", help="Other data than the scale's: a preset or file."),
    ] = None,
    algorithm: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="These instead of the paper's.")
    ] = None,
    set_: SetOption = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", min=1, help="Seeds 0 to N-1.")] = None,
    jobs: JobsOption = None,
    records: RecordsOption = None,
    existing: Annotated[
        bool, typer.Option("--existing", help="Only from finished runs; start none.")
    ] = False,
    quiet: QuietOption = False,
    data_dir: DataDirOption = None,
) -> None:
    """One table or figure of the paper, beside the paper's numbers."""
    from fedkf.cli.plans import raise_failures, run_plans
    from fedkf.paper.scales import choose
    from fedkf.runs.collect import gather
    from fedkf.runs.config import parse_set
    from fedkf.runs.existing import existing_runs

    whats = reproducible()
    if what == "list":
        show_list(whats)
        return
    if what not in whats:
        raise UserError(f"reproduce: no {what!r}; {nearest(what, [*whats, 'list'])}")
    chosen = choose(
        scale, data or [], parse_set(set_ or []), seeds, algorithm or [], scales_of(what)
    )
    folder = out_ or Path("runs") / f"reproduce-{scale}"
    refuse_file(folder)
    if what == DISTILLATION:
        reproduce_distillation(chosen, folder, quiet)
        return
    plans = needed_runs(what, chosen, existing)
    if existing:
        finished = existing_runs(plans, [folder, *([records] if records else [])])
        failures: list[Failure] = []
        say(f"{len(finished)} of {len(plans)} runs are there")
    else:
        finished, failures = run_plans(plans, folder, jobs, records, quiet)
        if what == TIMED and not failures:
            measure_pace(plans, folder, quiet)
    show_results(what, gather(plans, finished), chosen, folder)
    raise_failures(failures, folder)


def measure_pace(plans: Sequence[Plan], folder: Path, quiet: bool) -> None:
    """What a round of each method takes here, for the tables of time."""
    from fedkf.cli.interruption import interruptible
    from fedkf.paper.pace import measure

    with interruptible(f"stopped; the runs are finished, their times not measured ({folder})"):
        measure(plans, folder, (lambda text: None) if quiet else say)


def reproducible() -> dict[str, str]:
    """Every table and figure by name, and what it is about."""
    from fedkf.paper.experiments import EXPERIMENTS

    about = {name: experiment.about for name, experiment in EXPERIMENTS.items()}
    return {**about, DISTILLATION: "teacher and data-free student, in one place"}


def show_list(whats: Mapping[str, str]) -> None:
    """What may be asked for, and at which scales."""
    from fedkf.paper.scales import SCALES

    rows = table("", "WHAT", "about", texts=("about",))
    for name, about in whats.items():
        rows.add_row(name, about)
    out.print(rows)
    for scale in SCALES.values():
        show(f"--scale {scale.name}: {scale.about}")


def scales_of(what: str) -> Mapping[str, Scale]:
    """The scales at which something is repeated."""
    from fedkf.paper.experiments import EXPERIMENTS
    from fedkf.paper.scales import SCALES

    return EXPERIMENTS[what].scales if what in EXPERIMENTS else SCALES


def needed_runs(what: str, scale: Scale, existing: bool) -> list[Plan]:
    """The runs that a table or figure is made of; methods and data not there are named."""
    from fedkf.paper.experiments import EXPERIMENTS
    from fedkf.paper.scales import installed

    experiment = EXPERIMENTS[what]
    if experiment.compares_methods:
        for sentence in installed(scale.methods)[1]:
            say(sentence)
    plans = experiment.plans(scale)
    if existing or experiment.here is None:  # records are enough for what is there already
        return plans
    plans, absent = experiment.here(plans)
    for sentence in absent:
        say(sentence)
    return plans


def show_results(what: str, groups: Sequence[Group], scale: Scale, folder: Path) -> None:
    """Print and write what came out."""
    from fedkf.cli.plans import show_tables
    from fedkf.paper.experiments import EXPERIMENTS
    from fedkf.paper.tables import write

    report = EXPERIMENTS[what].report(groups, scale, folder / "figures")
    if report.tables:
        write(report.tables, folder / "tables", what)
        show_tables(report.tables)
    for sentence in report.text:
        show(sentence)
    for path in report.figures:
        show(f"figure: {path}")
    show(f"files: {folder}")


def reproduce_distillation(scale: Scale, folder: Path, quiet: bool) -> None:
    """The paper's settings beside those that work, on the scale's data."""
    configs = {name: resolve(name, None, scale.overrides)[0] for name in scale.configs}
    steps, notes = STEPS.get(scale.name, {}), [scale.differs()]
    run_distillations(configs, ["paper", "works"], steps, folder, quiet, notes)
