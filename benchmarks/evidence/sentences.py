"""Sentences with numbers: the answer in ten lines, and which method for which data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from evidence import paper
from evidence.contrasts import Contrast, Model, contrast, plain, shown, signed, standing
from evidence.markdown import NONE, both, listed, percent, table
from evidence.reading import Evidence
from evidence.tables import LETTERS, megabytes
from evidence.worlds import (
    FAIR,
    FAMILY,
    World,
    a_client,
    active_share,
    better_alone,
    better_readout,
    sent,
    sides,
    t1_alone,
    t1_everywhere,
    t2_everywhere,
    teachers,
    worlds,
)
from fedkf.charts.labels import algorithm_label
from fedkf.paper.grid import solution
from fedkf.paper.sites import ALONE
from fedkf.runs.collect import READOUTS
from fedkf.runs.statistics import Difference, over_seeds

NATURAL = "natural federations"


def answer(evidence: Evidence) -> str:
    """The whole in ten lines, four of which are a table."""
    every = worlds(evidence)
    before = [winners_line(every), leave_line(every), alone_line(every)]
    after = [standing_line(every), cost_line(evidence, every), findings_line(evidence)]
    items = [[f"- {line}" for line in lines if line] for lines in (before, after)]
    return "\n\n".join(filter(None, ["\n".join(items[0]), gains(every), "\n".join(items[1])]))


def glance(evidence: Evidence) -> str:
    """AMP / WLP of what a reader weighs against each other, a row a kind of data."""
    rows = []
    for world in worlds(evidence):
        base = world.method("fedavg")
        shared = [base, base, world.method("fedkf"), world.method("fedkf+")]
        readouts = ("aca", "oca", "oca", "oca")
        models = [Model(one, r) if one else None for one, r in zip(shared, readouts, strict=True)]
        cells = [pair_of(model) for model in (*models, world.alone())]
        best, own = world.best("amp"), world.personal()
        named = [f"{model.name} {pair_of(model)}" if model else NONE for model in (best, own)]
        rows.append([world.title, *cells, *named])
    head = ["AMP / WLP, %", "FedAvg (ACA)", "FedAvg (OCA)", "FedKF (OCA)", "FedKF+ (OCA)"]
    more = ["training alone", "the best for all", "the best of personal ones"]
    return table([*head, *more], rows)


def pair_of(model: Model | None) -> str:
    """ "82.4 / 59.1": AMP and WLP."""
    if model is None:
        return NONE
    return both([percent(model.mean(metric)) for metric in ("amp", "wlp")])


def winners_line(every: list[World]) -> str:
    """Whose shared model is ahead where, and whether beyond chance."""
    places: dict[str, list[str]] = {}
    for world in every:
        places.setdefault(world.best("amp").setting.method, []).append(world.title)
    (first, own), *others = sorted(places.items(), key=lambda item: -len(item[1]))
    rest = "; ".join(f"{method} on {listed(titles)}" for method, titles in others)
    ahead = f"**{first} has the highest AMP** of the models for all clients"
    return f"{ahead} on {len(own)} of {len(every)} kinds of data{rest and f'; {rest}'}."


def named(model: Model, metric: str) -> str:
    """ "FedKF (OCA) 82.4 %"."""
    return f"{model.name} {percent(model.mean(metric))} %"


def gains(every: list[World]) -> str:
    """What T1 brings FedAvg, and what each variant adds to that, kind by kind."""
    compared = {"T1: FedAvg (OCA) less FedAvg (ACA)": [(w, t1_alone(w)) for w in every]}
    for name in FAMILY:
        title = f"{algorithm_label(name)} (OCA) less FedAvg (OCA)"
        compared[title] = [(world, world.less_fedavg(name, "oca")) for world in every]
    kinds = list(dict.fromkeys(world.kind for world in every))
    rows = []
    for title, found in compared.items():
        by = [[c.metrics["amp"] for w, c in found if c and w.kind == kind] for kind in kinds]
        rows.append([title, *(reach(amps) if amps else NONE for amps in by)])
    return table(["points of AMP, * of how many", *(kind or NATURAL for kind in kinds)], rows)


def reach(amps: Sequence[Difference]) -> str:
    """ "+1.4 to +9.9, 2 of 3"; those that are below 0 beyond chance are counted apart."""
    means = sorted(100 * amp.mean for amp in amps)
    ends = dict.fromkeys(signed(mean) for mean in (means[0], means[-1]))
    sure = [amp.mean for amp in amps if amp.beyond_chance]
    over, under = sum(mean > 0 for mean in sure), sum(mean < 0 for mean in sure)
    lose = f", {under} below" if under else ""
    return f"{' to '.join(ends)}; {over} of {len(amps)}{lose}"


def standing_line(every: list[World]) -> str:
    """What of these differences stands when they are counted."""
    sides = {"T1": t1_everywhere(every), "T2": t2_everywhere(every)}
    told = [
        f"of {name}'s {len(amps)} {listed(standing(amps)) or 'none'}"
        for name, found in sides.items()
        if (amps := {title: one.metrics["amp"] for title, one in found.items()})
    ]
    asked = "**Of these differences there stand**, after Holm's correction for their number,"
    return f"{asked} {'; '.join(told)}." if told else ""


def cost_line(evidence: Evidence, every: list[World]) -> str:
    """Steps and bytes, and the time to FedAvg's AMP."""
    letters = next((world for world in every if world.kind == LETTERS), None)
    base = letters.method("fedavg") if letters else None
    if letters is None or base is None:
        return ""
    steps, parts = evidence.steps(), list[str]()
    for name in FAMILY:
        own = letters.method(name)
        if own and name in steps:
            parts.append(f"{own.method} {steps[name]:.1f} and {sent(own) / sent(base):.1f}")
    paces = [f"{row} {fmean(by['s']):.0f} s" for row, by in paced(evidence).items() if "s" in by]
    told = f"**What it costs** on letters, a step's time and a round's bytes in FedAvg's: "
    until = f"Until AMP is what FedAvg (ACA) ends with, α = 0.1: {listed(paces)}."
    return f"{told}{listed(parts)}. {until if paces else ''}".strip() if parts else ""


FREE = solution("fedavg", "oca")
PACED = ("FedAvg (ACA)", FREE, *(solution(name, "oca") for name in FAMILY))
WAYS_TO_TARGET = {
    "rounds-to-target": "rounds",
    "bytes-to-target": "MB",
    "time-to-target": "s",
}


def paced(evidence: Evidence) -> dict[str, dict[str, Sequence[float]]]:
    """What every seed took to FedAvg's AMP by the paper's rule: row, unit, a number a seed.

    What did not come there with every seed, or was not timed, is left out.
    """
    found: dict[str, dict[str, Sequence[float]]] = {}
    for what, unit in WAYS_TO_TARGET.items():
        if unit == "s" and paper.measured(evidence) is None:
            continue
        for made in paper.tables_of(evidence, what):
            seeds = max(len(cells[0].values) for cells in made.rows.values())
            for row in PACED:
                values = made.rows[row][0].values if row in made.rows else []
                if len(values) == seeds:
                    found.setdefault(row, {})[unit] = values
    return found


def pace(evidence: Evidence) -> str:
    """Rounds, bytes and time to FedAvg's AMP, and less FedAvg with T1, seed by seed."""
    found, units = paced(evidence), list(WAYS_TO_TARGET.values())
    rows = []
    for row, by in found.items():
        cells = []
        for unit in units:
            own, free = by.get(unit), found.get(FREE, {}).get(unit)
            cells.append(NONE if own is None else f"{fmean(own):.0f}")
            apart = row not in PACED[:2] and own is not None and free is not None
            less = [a - b for a, b in zip(own or (), free or (), strict=True)] if apart else []
            cells.append(plain(over_seeds(less)) if less else NONE)
        rows.append([row, *cells])
    head = [cell for unit in units for cell in (unit, f"less {FREE}")]
    return table(["until AMP is what FedAvg (ACA) ends with", *head], rows)


def leave_line(every: list[World]) -> str:
    """Where FedAvg, which costs less, is as good."""
    gain, level, worse = sides(every)
    if not gain + level:
        return ""
    count = f"on {len(gain)} of {len(gain + level)} kinds of data"
    told = [f"a variant of FedKF is above FedAvg beyond chance {count}"]
    told += [f"none is on {listed(level)}"] if level else []
    told += [f"below it is {listed(worse)}"] if worse else []
    return f"**Is it better than FedAvg?** {FAIR}, {'; '.join(told)}."


def alone_line(every: list[World]) -> str:
    """Where each would rather train alone, since it is tested on its own kind of data only."""
    own = [world for world in every if world.alone()]
    ahead = [world.title for world in own if better_alone(world)]
    if not own:
        return ""
    told = f"no shared model has as high a mean on {len(ahead)} of {len(own)}"
    return f"**Is it better than training alone?** {told.capitalize()}: {listed(ahead) or 'none'}."


def findings_line(evidence: Evidence) -> str:
    """Verdicts on the paper's findings by our runs."""
    by: dict[str, list[str]] = {}
    for name, (_, own) in paper.verdicts(evidence).items():
        claim = "" if own.verdict == "holds" else f" ({own.claim})"
        by.setdefault(own.verdict, []).append(f"{name}{claim}")
    parts = [f"{verdict}: {', '.join(names)}" for verdict, names in by.items()]
    told = f"**The paper's findings**, by the order of our means on letters: {'; '.join(parts)}."
    found = [c for c in teachers(worlds(evidence)).values() if c.by_seeds]
    sure = sum(c.metrics["amp"].beyond_chance for c in found)
    return (
        f"{told} F1 and F5 turn on whether FedKF or FedKF- is ahead: {sure} of {len(found)} "
        "comparisons of AMP show it beyond chance."
    )


def headline(evidence: Evidence) -> str:
    """FedKF and FedKF+ less FedAvg on letters, for the first page of the project."""
    rows = []
    for world in worlds(evidence):
        for name in FAMILY[1:] if world.kind == LETTERS else ():
            own = world.method(name)
            by = {readout: world.less_fedavg(name, readout) for readout in READOUTS}
            if own and all(by.values()):
                rows.append([f"{own.method}, α = {world.alpha:g}", *headline_cells(by)])
    return table(["", "AMP, points: ACA", "OCA", "WLP, points: ACA", "OCA", "seeds"], rows)


def headline_cells(by: Mapping[str, Contrast | None]) -> list[str]:
    known = [found for found in by.values() if found]
    cells = [shown(c.metrics.get(metric), metric) for metric in ("amp", "wlp") for c in known]
    return [*cells, str(known[0].seeds)]


# -- which method ----------------------------------------------------------------------------------


def choices(evidence: Evidence) -> str:
    """For each kind of data: the best, what is not behind it, and the cheapest of these."""
    steps, rows = evidence.steps(), []
    apart = evidence.apart()
    for world in worlds(evidence):
        best, wlp = world.best("amp"), world.best("wlp")
        alike = [model for model in one_each(world) if not_behind(model, best)]
        cheapest = min(alike, key=lambda m: (steps.get(m.setting.algorithm, 9), sent(m.setting)))
        others = [m.name for m in alike if m.setting.method != best.setting.method]
        differ = [apart.get(world.data, {}).get(what) for what in ("labels", "inputs")]
        own = world.personal()
        rows.append(
            [
                world.title,
                *(NONE if value is None else f"{value:.2f}" for value in differ),
                f"{100 * active_share(best.setting):.0f} %",
                named(best, "amp"),
                listed(others) or "none",
                f"{cheapest.name}, {megabytes(cheapest.setting)} MB",
                named(wlp, "wlp"),
                pair_of(world.alone()),
                named(own, "amp") if own else NONE,
            ]
        )
    head = ["data", "labels", "inputs", "active in a round", "highest AMP"]
    more = ["not shown to be behind it", "the cheapest of these", "best-served worst client"]
    return table([*head, *more, "training alone, AMP / WLP", "the best personal models"], rows)


def one_each(world: World) -> list[Model]:
    """Every method under its better readout."""
    shared = [one for one in world.settings if one.runs and one.algorithm != ALONE]
    return [better_readout(one) for one in shared]


def not_behind(model: Model, best: Model) -> bool:
    """Whether a model is the best, or not shown by the seeds to be behind it."""
    about = contrast(model, best)
    return model == best or (about is not None and not about.metrics["amp"].beyond_chance)


def next_step(evidence: Evidence) -> str:
    """How much a better method is worth over FedAvg under its better readout, which is free."""
    lines = []
    for world in worlds(evidence):
        base, best = world.better("fedavg"), world.best("amp")
        if base is None or best.setting.algorithm == "fedavg":
            lines.append(f"**{world.title}**: nothing that was run is above FedAvg.")
            continue
        found = contrast(best, base)
        if found is None:
            continue
        gained = f"{best.name} is {shown(found.metrics['amp'])} points of AMP above {base.name}"
        client = f"a client gains {a_client(found)}" if found.clients else ""
        lines.append(f"**{world.title}**: {gained}; {client}, {found.worse} of {found.count} lose.")
    return "\n".join(f"- {line}" for line in lines)
