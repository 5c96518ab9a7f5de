"""Search: every algorithm of a suite is tuned with the same budget, on seeds of its own."""

from __future__ import annotations

import contextlib
import shutil
import statistics
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.records import Summary
from fedkf.metrics.sites import SITE_METRICS
from fedkf.runs.judging import judgement_of
from fedkf.runs.proposals import propose
from fedkf.runs.schema import Config
from fedkf.runs.space import Search, Study
from fedkf.runs.store import RunFolder
from fedkf.runs.suite import Plan, difference
from fedkf.runs.sweep import Failure, Watcher, prepare, run_processes
from fedkf.runs.trials import Trial, best, read_trials, write_trials


def run_search(
    search: Search,
    folder: Path,
    jobs: int | None = None,
    keep: Path | None = None,
    watcher: Watcher = Watcher(),  # noqa: B008
) -> tuple[dict[str, list[Trial]], list[Failure]]:
    """Every trial that is left; all trials by study, and which runs the world let down.

    A study's trials follow one another; those of different studies run at the same time. A setting
    that diverges or is refused counts as a trial; a run that failed otherwise is tried again the
    next time. Run folders of trials are removed once search.json tells of them.
    """
    work = _Work(search, folder, keep)
    watcher.planned(*work.outlook())
    for study in search.studies:
        work.advance(study)
    prepare(work.waiting)
    run_processes(work.waiting, work.runs, jobs, watcher, work.ended)
    work.save()
    with contextlib.suppress(OSError):
        if not work.failures:
            shutil.rmtree(work.runs)
    return work.found, work.failures


class _Work:
    """A search under way."""

    def __init__(self, search: Search, folder: Path, keep: Path | None) -> None:
        self.search, self.folder, self.keep = search, folder, keep
        self.runs = folder / "search"
        self.found = read_trials([folder, *([keep] if keep else [])], search)
        self.waiting: deque[Plan] = deque()
        self.failures: list[Failure] = []
        self.open: dict[str, tuple[Study, Trial, list[Plan], dict[str, Failure | None]]] = {}

    def plans(self, study: Study, number: int, parameters: Mapping[str, Any]) -> list[Plan]:
        """The runs of a trial, one a seed."""
        configs = [self.search.config(study, parameters, seed) for seed in self.search.seeds]
        refuse_less(configs[0])
        return [Plan(self.name(study, number, c), study.point, c) for c in configs]

    def name(self, study: Study, number: int, config: Config) -> str:
        """A run's name: its study, its trial and, if there are several, its seed."""
        more = f",seed={config.federation.seed}" if len(self.search.seeds) > 1 else ""
        return f"{study.name}/trial-{number}{more}"

    def outlook(self) -> tuple[list[Plan], list[Plan]]:
        """All runs that the search needs, whatever they will try, and those that are over."""
        runs, over = [], []
        for study in self.search.studies:
            first = self.plans(study, 1, {})
            for number in range(1, self.search.budget(study) + 1):
                named = [replace(p, name=self.name(study, number, p.config)) for p in first]
                runs += named
                over += named if number <= len(self.found[study.name]) else []
        return runs, over

    def advance(self, study: Study) -> None:
        """Let the runs of a study's next trial wait, unless it has had all of its trials."""
        past = self.found[study.name]
        if len(past) >= self.search.budget(study):
            return
        trial = Trial(len(past) + 1, propose(self.search, study, past))
        plans = self.plans(study, trial.number, trial.parameters)
        outcomes: dict[str, Failure | None] = {}
        for plan in plans:
            clear_other(self.runs / plan.name, plan)
            self.open[plan.name] = (study, trial, plans, outcomes)
        self.waiting.extend(plans)

    def ended(self, plan: Plan, failure: Failure | None) -> None:
        study, trial, plans, outcomes = self.open.pop(plan.name)
        if failure is not None and failure.kind == "failed":
            self.failures.append(failure)
            return
        own = trial.number == 1 and trial.parameters == study.own
        if failure is not None and failure.kind == "mistake" and own:
            raise UserError(f"{study.name}: {failure.reason}")
        outcomes[plan.name] = failure
        if len(outcomes) == len(plans):
            self.found[study.name].append(self.judged(trial, plans, outcomes))
            self.save()
            for run in plans:
                shutil.rmtree(self.runs / run.name, ignore_errors=True)
            self.advance(study)

    def judged(
        self, trial: Trial, plans: Sequence[Plan], outcomes: Mapping[str, Failure | None]
    ) -> Trial:
        """A trial with its value, from its runs' summaries."""
        fine = [plan for plan in plans if outcomes[plan.name] is None]
        folders = [RunFolder(self.runs / plan.name) for plan in fine]
        summaries = [folder.read_record("summary.json", Summary.read) for folder in folders]
        scores = [{name: dict(n.values) for name, n in s.readouts.items()} for s in summaries]
        trial = replace(
            trial, readouts=scores, seconds=sum(s.seconds.get("total", 0.0) for s in summaries)
        )
        reasons = [failure.reason for failure in outcomes.values() if failure is not None]
        values = [score[self.search.readout][self.search.metric] for score in scores]
        known = [value for value in values if value is not None]
        if reasons or len(known) < len(plans):
            return replace(trial, failed=reasons[0] if reasons else "no client has test data")
        return replace(trial, value=statistics.fmean(known))

    def save(self) -> None:
        for place in [self.folder, *([self.keep] if self.keep else [])]:
            write_trials(place, self.search, self.found)


def refuse_less(config: Config) -> None:
    """A search looks for more of what clients are judged by."""
    metric = judgement_of(config).metric
    if not SITE_METRICS[metric].higher_is_better:
        raise UserError(
            f"evaluation.metric is {metric}, of which less is better; a search needs one of which "
            "more is, such as r2 or accuracy"
        )


def clear_other(run: Path, plan: Plan) -> None:
    """Remove what an earlier search left of a run with other settings under the same name."""
    if run.exists():
        with contextlib.suppress(FedkfError):
            config = RunFolder(run).config()
            if config is not None and difference(plan.config, config) is None:
                return
        shutil.rmtree(run)


def tuned(search: Search, found: Mapping[str, Sequence[Trial]]) -> list[Plan]:
    """The runs of the comparison, each with the best setting of its algorithm.

    Their names tell the trial, so that they never meet runs of the same grid with other settings.
    """
    chosen: dict[str, Plan] = {}
    for study in search.studies:
        winner = best(search, found[study.name])
        if winner is None:
            reason = found[study.name][0].failed
            raise FedkfError(f"search: no trial of {study.name} succeeded, the first: {reason}")
        for plan in study.plans:
            seeds = {k: v for k, v in plan.point.items() if k not in study.point}
            config = study.configured({**seeds, **winner.parameters})
            name = f"{plan.name},trial={winner.number}" if study.space else plan.name
            chosen[plan.name] = Plan(name, plan.point, config)
    order = [plan.name for plan in search.studies[0].suite.plans]
    return [chosen[name] for name in order]
