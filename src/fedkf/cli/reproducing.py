"""`fedkf reproduce`: run what a table or figure of the paper needs, then print and write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkf.cli.app import err, out
from fedkf.cli.distilling import reproduce_distillation
from fedkf.cli.sweeping import print_tables, raise_failures, refuse_file, run_plans
from fedkf.cli.tables import table
from fedkf.core.errors import UserError, nearest
from fedkf.paper import scales
from fedkf.paper.experiments import EXPERIMENTS
from fedkf.paper.scales import Scale, choose, installed
from fedkf.paper.tables import write
from fedkf.runs.collect import gather
from fedkf.runs.suite import Finished, Plan, answers, difference, records
from fedkf.runs.sweep import Failure

WHATS = {
    **{name: experiment.about for name, experiment in EXPERIMENTS.items()},
    "distillation": "teacher and data-free student, in one place",
}


@dataclass(frozen=True)
class Request:
    """The scale that is asked for, and what is to differ from it."""

    scale: str
    configs: Sequence[str]
    methods: Sequence[str]
    overrides: Mapping[str, Any]
    seeds: int | None

    def scaled(self) -> Scale:
        return choose(self.scale, self.configs, self.overrides, self.seeds, self.methods)


def run_reproduce(
    what: str,
    request: Request,
    folder: Path,
    jobs: int | None,
    kept: Path | None,
    existing: bool,
    quiet: bool,
) -> None:
    if what == "list":
        show_list()
        return
    if what not in EXPERIMENTS and what != "distillation":
        raise UserError(f"reproduce: no {what!r}; {nearest(what, [*WHATS, 'list'])}")
    scale = request.scaled()
    refuse_file(folder)
    if what == "distillation":
        reproduce_distillation(scale, folder, quiet)
        return
    experiment = EXPERIMENTS[what]
    if experiment.compares_methods:
        for sentence in installed(scale.methods)[1]:
            err.print(sentence, soft_wrap=True)
    plans = experiment.plans(scale)
    finished: dict[str, Finished] = {}
    failures: list[Failure] = []
    if existing:
        finished = existing_runs(plans, [folder, *([kept] if kept else [])])
    elif plans:
        finished, failures = run_plans(plans, folder, jobs, kept, quiet=quiet)
    report = experiment.report(gather(plans, finished), scale, folder / "figures")
    if report.tables:
        write(report.tables, folder / "tables", what)
        print_tables(report.tables)
    for sentence in report.text:
        out.print(sentence, soft_wrap=True)
    for path in report.figures:
        out.print(f"figure: {path}", soft_wrap=True)
    out.print(f"files: {folder}", soft_wrap=True)
    raise_failures(failures, folder)


def existing_runs(plans: Sequence[Plan], folders: Sequence[Path]) -> dict[str, Finished]:
    """The finished runs that answer the plans; if there are none, why the first record does not."""
    found = records(folders)
    done = {plan.name: record for plan in plans if (record := answers(plan, found))}
    if plans and not done:
        where = " or ".join(map(str, folders))
        if not found:
            raise UserError(f"no finished run in {where}")
        key = difference(plans[0].config, found[0].config)
        raise UserError(
            f"none of the {len(found)} finished runs in {where} is one of these {len(plans)}; "
            f"{found[0].path.name} differs from {plans[0].name} in {key}, for one"
        )
    err.print(f"{len(done)} of {len(plans)} runs are there", soft_wrap=True)
    return done


def show_list() -> None:
    rows = table("", "WHAT", "about")
    for name, about in WHATS.items():
        rows.add_row(name, about)
    out.print(rows)
    for scale in scales.SCALES.values():
        out.print(f"--scale {scale.name}: {scale.about}", soft_wrap=True)
