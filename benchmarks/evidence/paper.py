"""The paper's own tables and findings on letters, at its protocol."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from evidence.contrasts import LATE, LATELY, Contrast, Model, contrast, shown
from evidence.markdown import NONE, listed, table
from evidence.reading import LETTERS, Evidence, find
from evidence.tables import NOTHING
from fedkf.charts.labels import algorithm_label
from fedkf.metrics import METRICS
from fedkf.paper import analyses, experiments, findings, flamby, speed
from fedkf.paper.experiment import Report
from fedkf.paper.grid import ROW
from fedkf.paper.published import COMPARED, PAPER_METRICS
from fedkf.paper.scales import Scale, choose, main_plans
from fedkf.paper.tables import ResultTable
from fedkf.runs.collect import READOUTS, Group, gather
from fedkf.runs.existing import existing_runs
from fedkf.runs.statistics import Difference, over_seeds

OPTIONS = "--scale paper --data letters --set generator.preset=lite"
UNTIMED = "Not measured on an idle machine yet; the runs' own seconds are of a busy one."
DRAWN = ("curves", "t1", "drift")
SHORT, SWEEPS = "letters-short", ("rate-sweep", "alpha-sweep", "tuning")
MOST_SEEDS = 3
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def scale_of(evidence: Evidence, more: bool) -> Scale:
    """The paper's protocol on letters; with methods of ours beside the paper's if `more`."""
    ours = [s.algorithm for s in evidence.settings(LETTERS)] if more else []
    methods = [*COMPARED, *dict.fromkeys(name for name in ours if name not in COMPARED)]
    return choose("paper", [LETTERS], {"generator.preset": "lite"}, None, methods)


@cache
def groups_of(evidence: Evidence, more: bool) -> tuple[Scale, Sequence[Group]]:
    """The runs behind all tables, found once."""
    scale = scale_of(evidence, more)
    plans = main_plans(scale)
    return scale, gather(plans, existing_runs(plans, [evidence.results / LETTERS]))


def at_one_alpha(groups: Sequence[Group]) -> list[Group]:
    return [g for g in groups if g.point["data.alpha"] == analyses.CURVES_ALPHA]


def tables_of(evidence: Evidence, what: str) -> list[ResultTable]:
    """One of the paper's tables."""
    if what in ("performance", "ablation"):
        scale, groups = groups_of(evidence, more=False)
        make = analyses.performance if what == "performance" else analyses.ablation
        return make(groups, scale)
    scale, groups = groups_of(evidence, more=True)
    made = {
        "t1": analyses.t1,
        "rounds-to-target": speed.rounds_to_target,
        "bytes-to-target": speed.bytes_to_target,
        "robustness": analyses.robustness,
        "drift": analyses.drift,
    }
    if what == "time-to-target":
        return speed.time_to_target(at_one_alpha(groups), scale, evidence.pace(LETTERS))
    return made[what](at_one_alpha(groups), scale)


def written(evidence: Evidence, what: str) -> str:
    """The tables of one WHAT with the command that prints them."""
    methods = "".join(f" --algorithm {name}" for name in scale_of(evidence, True).methods)
    more = "" if what in ("performance", "ablation", "findings", "t1") else methods
    command = f"`fedkf reproduce {what} {OPTIONS}{more} --existing --out results/letters`"
    if what == "time-to-target" and evidence.pace(LETTERS) is None:
        return f"{command}\n\n{UNTIMED}"
    text = "\n".join(made.markdown() for made in tables_of(evidence, what))
    text = HEADING.sub(r"**\1**", text)
    return f"{command}\n\n{text.strip()}"


def draw(evidence: Evidence, folder: Path) -> list[Path]:
    """The paper's figures against rounds."""
    scale, groups = groups_of(evidence, more=True)
    made = []
    for what in DRAWN:
        made += experiments.EXPERIMENTS[what].report(at_one_alpha(groups), scale, folder).figures
    for what in SWEEPS:
        made += sweep_report(evidence, what, folder.parents[1] / SHORT / "figures").figures
    return made


def sweep(evidence: Evidence, what: str) -> str:
    """A sweep of the paper's at the scale `small`, from results/letters-short."""
    scale = sweep_scale(evidence, what)
    more = f" --seeds {len(scale.seeds)}" if len(scale.seeds) > 1 else ""
    command = f"`fedkf reproduce {what} --scale small{more} --existing --out results/{SHORT}`"
    with tempfile.TemporaryDirectory() as folder:
        tables = sweep_report(evidence, what, Path(folder)).tables
    text = "\n".join(made.markdown() for made in tables) or NOTHING
    text = HEADING.sub(r"**\1**", text)
    return f"{command}\n\n{text.strip()}"


def sweep_scale(evidence: Evidence, what: str) -> Scale:
    """The scale with as many seeds as every run of the sweep has."""
    records, scale = evidence.records(SHORT), choose("small")
    while len(scale.seeds) < MOST_SEEDS:
        more = choose("small", seeds=len(scale.seeds) + 1)
        if not all(plan.name in records for plan in experiments.EXPERIMENTS[what].plans(more)):
            break
        scale = more
    return scale


def sweep_report(evidence: Evidence, what: str, folder: Path) -> Report:
    """Tables and figures of a sweep; neither where it has no run."""
    scale, experiment = sweep_scale(evidence, what), experiments.EXPERIMENTS[what]
    plans, records = experiment.plans(scale), evidence.records(SHORT)
    found = {plan.name: records[plan.name] for plan in plans if plan.name in records}
    if not found:
        return Report()
    return experiment.report(gather(plans, found), scale, folder)


def worth_by_rate(evidence: Evidence) -> dict[str, dict[float, Difference]]:
    """T1's gain in AMP by how many clients are active in a round, by method."""
    plans = experiments.EXPERIMENTS["rate-sweep"].plans(choose("small", seeds=MOST_SEEDS))
    found: dict[str, dict[float, Difference]] = {}
    for group in gather(plans, evidence.records(SHORT)):
        ends = [[run.final(readout) for readout in ("oca", "aca")] for run in group.runs]
        amps = [(oca["amp"], aca["amp"]) for oca, aca in ends if oca and aca]
        gains = [oca - aca for oca, aca in amps if oca is not None and aca is not None]
        if gains:
            name = algorithm_label(group.point[ROW])
            found.setdefault(name, {})[group.point["federation.fraction"]] = over_seeds(gains)
    return found


def by_rate(evidence: Evidence) -> str:
    """The same as a table."""
    found = worth_by_rate(evidence)
    if not found:
        return NOTHING
    rates = sorted({rate for by in found.values() for rate in by})
    rows = [[name, *(shown(by.get(rate)) for rate in rates)] for name, by in found.items()]
    made = table(["OCA less ACA, AMP, points", *(f"{100 * rate:.0f} %" for rate in rates)], rows)
    return f"{made}\n\n{seeds_told(one.seeds for by in found.values() for one in by.values())}"


def seeds_told(counts: Iterable[int]) -> str:
    """How many seeds there are, of the fewest to the most.

    >>> seeds_told([1]), seeds_told([3, 1])
    ('One seed.', '1 to 3 seeds.')
    """
    known = sorted(set(counts))
    if known == [1]:
        return "One seed."
    return f"{' to '.join(str(count) for count in dict.fromkeys([known[0], known[-1]]))} seeds."


# -- findings --------------------------------------------------------------------------------------

AGAINST = {
    "F3": [(("fedkf", readout), ("fedgen", "aca")) for readout in READOUTS],
    "F4": [((name, "oca"), (name, "aca")) for name in ("fedkf-", "fedkf")],
    "F5": [(("fedkf", readout), ("fedkf-", readout)) for readout in READOUTS],
}
"""The findings that say of one model that it is better than another, and of which."""


@dataclass(frozen=True)
class Judged:
    """One finding by the paper's numbers, by ours, and by ours with T1 for every method."""

    theirs: findings.Verdict
    ours: findings.Verdict
    fair: findings.Verdict


def verdicts(evidence: Evidence) -> Mapping[str, Judged]:
    """F1 to F6."""
    _, groups = groups_of(evidence, more=False)
    scores = analyses.scores(groups)
    judged = [
        findings.judge_published(),
        *(findings.judge(found, [LETTERS]) for found in (scores, all_with_t1(scores))),
    ]
    return {each[0].finding: Judged(*each) for each in zip(*judged, strict=True)}


def all_with_t1(scores: findings.Scores) -> findings.Scores:
    """Scores in which methods of others, too, are read as OCA, which costs sites nothing."""
    ours = {name for name, _ in findings.OURS}
    return {
        case: value if case.algorithm in ours else scores[replace(case, readout="oca")]
        for case, value in scores.items()
    }


def found(evidence: Evidence) -> str:
    rows = [
        [
            f"{name}: {judged.ours.claim}",
            *(f"{v.verdict}, {v.counts}" for v in (judged.theirs, judged.ours, judged.fair)),
            beyond_chance(evidence, name),
        ]
        for name, judged in verdicts(evidence).items()
    ]
    head = ["finding", "by the paper's numbers", "by our runs on letters"]
    more = ["with T1 for the others, too", "beyond chance"]
    return f"{table([*head, *more], rows)}\n\n{otherwise(evidence)}"


def claims(evidence: Evidence, finding: str) -> list[tuple[Contrast, str]]:
    """One model less another in every cell of a finding, with the metric of that cell."""
    known = evidence.settings(LETTERS)
    alphas = sorted({one.alpha for one in known if one.alpha is not None})
    cells = []
    for (ours, readout), (theirs, other) in AGAINST.get(finding, ()):
        for alpha in alphas:
            own, base = find(known, ours, alpha), find(known, theirs, alpha)
            less = contrast(Model(own, readout), Model(base, other)) if own and base else None
            cells += [(less, metric) for metric in PAPER_METRICS] if less else []
    return cells


def apart(evidence: Evidence, finding: str) -> tuple[int, int, int]:
    """In how many cells the claimed order is beyond chance, in how many the other, of how many."""
    told = []
    for less, metric in claims(evidence, finding):
        sign = 1 if METRICS[metric].higher_is_better else -1
        told.append(sign * {"better": 1, "worse": -1}.get(less.verdict(metric), 0))
    return told.count(1), told.count(-1), len(told)


def beyond_chance(evidence: Evidence, finding: str) -> str:
    """In how many cells the claimed order is more than chance, and by AMP's last rounds."""
    ahead, _, cells = apart(evidence, finding)
    lately = [less.verdict(LATELY) for less, metric in claims(evidence, finding) if metric == "amp"]
    told = f"{ahead} of {cells} cells; AMP of the last {LATE} rounds {lately.count('better')} of"
    return f"{told} {len(lately)}" if cells else NONE


def otherwise(evidence: Evidence) -> str:
    """The findings on which our runs and the paper's numbers decide differently."""
    both = verdicts(evidence)
    decided = [name for name, own in both.items() if own.ours.verdict in ("holds", "fails")]
    differ = [name for name in decided if both[name].theirs.verdict != both[name].ours.verdict]
    if not decided:
        return "None is decided by our runs yet: missing runs could still change each answer."
    told = f"Of {listed(decided)}, which our runs decide, "
    if not differ:
        return f"{told}all come out as they do by the paper's own numbers."
    return f"{told}{listed(differ)} come{'s' if len(differ) == 1 else ''} out otherwise."


# -- FLamby's protocol -----------------------------------------------------------------------------


def flamby_table(evidence: Evidence, config: str) -> str:
    """One federation's part of the table."""
    scale = choose("paper", scales=flamby.SCALES)
    plans = [plan for plan in flamby.flamby_plans(scale) if plan.point["config"] == config]
    groups = gather(plans, existing_runs(plans, [evidence.results / "flamby"]))
    (made,) = flamby.tables(groups, scale)
    (found,) = made.groups()
    return "\n".join(line for line in found.markdown().splitlines() if line.startswith("|"))
