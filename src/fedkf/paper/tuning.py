"""The table of a search: what every algorithm was allowed to try, and what it settled on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkf.charts.labels import algorithm_label, readout_label
from fedkf.metrics import METRICS
from fedkf.paper.grid import ROW, label
from fedkf.paper.tables import Cell, Column, ResultTable
from fedkf.runs.space import Search, Study
from fedkf.runs.trials import Trial, best


def search_table(title: str, search: Search, found: Mapping[str, Sequence[Trial]]) -> ResultTable:
    """A row for each study: its trials, the objective before and after, and the best setting."""
    metric = METRICS[search.metric]
    goal = readout_label(metric.heading, search.readout)
    heads = ("trials", "failed", f"{goal} as given", "best", "best setting", "minutes")
    rows = {}
    for study in search.studies:
        trials = found[study.name]
        winner = best(search, trials)
        given = trials[0].value if trials and trials[0].parameters == study.own else None
        texts = (
            counted(search, study, trials),
            str(sum(trial.value is None for trial in trials)),
            metric.show(given),
            metric.show(winner.value if winner else None),
            setting(winner.parameters) if winner else "–",
            f"{sum(trial.seconds for trial in trials) / 60:.1f}",
        )
        rows[row(study)] = [Cell(text=text) for text in texts]
    return ResultTable(
        title, "algorithm", [Column("", head) for head in heads], rows, notes(search)
    )


def row(study: Study) -> str:
    """A study's algorithm as the literature calls it, and the rest of its place in the grid."""
    rest = [label(key, value) for key, value in study.point.items() if key != ROW]
    return ", ".join([algorithm_label(study.algorithm), *rest])


def counted(search: Search, study: Study, trials: Sequence[Trial]) -> str:
    """How many trials a study had, and why it had fewer than others, if so."""
    if not study.space:
        return "nothing searched"
    few = search.budget(study) < search.trials
    return f"{len(trials)} (all there are)" if few else str(len(trials))


def setting(parameters: Mapping[str, Any]) -> str:
    """Parameters in a cell: `lr = 0.03, mu = 0.1`."""
    parts = [f"{key.partition('.')[2]} = {value}" for key, value in parameters.items()]
    return ", ".join(parts) or "as given"


def notes(search: Search) -> list[str]:
    """How the search went about it, for whoever reads the table alone."""
    plans = search.studies[0].suite.plans
    runs, data = (
        ", ".join(str(seed) for seed in sorted(seeds))
        for seeds in (
            {plan.config.federation.seed for plan in plans},
            {plan.config.data.seed for plan in plans},
        )
    )
    own = ", ".join(str(seed) for seed in search.seeds)
    rounds = (
        "as many rounds as the comparison" if search.rounds is None else f"{search.rounds} rounds"
    )
    return [
        f"Budget: {search.trials} trials for every algorithm, failed ones included, of {rounds} "
        f"each. Seeds of the search: {own} for runs and data alike; of the comparison: {runs} for "
        f"runs, {data} for data. What was allowed, and every trial: search.json."
    ]
