"""Sentences with numbers: the answer in ten lines, and which method for which data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from evidence import paper
from evidence.contrasts import Contrast, Model, contrast, corrected, plain, shown, signed
from evidence.markdown import NONE, both, listed, percent, table
from evidence.reading import Evidence
from evidence.tables import LETTERS, RIVALS, megabytes
from evidence.worlds import (
    FAMILY,
    World,
    a_client,
    active_share,
    advice_against,
    better_readout,
    seeds_of,
    sent,
    still_to_run,
    t1_alone,
    t1_everywhere,
    t2_everywhere,
    teachers,
    worlds,
)
from fedkf.charts.labels import algorithm_label
from fedkf.metrics import METRICS
from fedkf.paper.grid import solution
from fedkf.paper.sites import ALONE
from fedkf.runs.collect import READOUTS
from fedkf.runs.statistics import over_seeds

TOP = 5


def answer(evidence: Evidence) -> str:
    """The whole in ten lines."""
    every = worlds(evidence)
    found = [world for world in every if world.kind]
    lines = [winners_line(every), t1_line(every), *t2_lines(every), standing_line(every)]
    lines += [cost_line(evidence, found), pace_line(evidence), rivals_line(evidence)]
    lines += [advice_against(every) + still_to_run(evidence)]
    lines += [findings_line(evidence)]
    return "\n".join(f"- {line}" for line in lines if line)


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
    """Whose shared model is ahead where, first of all."""
    places: dict[str, list[str]] = {}
    for world in every:
        places.setdefault(world.best("amp").setting.method, []).append(world.title)
    order = sorted(places.items(), key=lambda item: -len(item[1]))
    parts = [f"{method} on {listed(titles)}" for method, titles in order]
    return f"**Of the models for all clients the highest AMP has** {'; '.join(parts)}."


def named(model: Model, metric: str) -> str:
    """ "FedKF (OCA) 82.4 %"."""
    return f"{model.name} {percent(model.mean(metric))} %"


def t1_line(every: list[World]) -> str:
    """What T1 brings FedAvg, place by place."""
    parts = places([(world, t1_alone(world)) for world in every])
    if not parts:
        return ""
    return f"**T1 alone** (FedAvg read as OCA, not as ACA), points of AMP: {parts}."


def t2_lines(every: list[World]) -> Iterator[str]:
    """What each variant adds to FedAvg with T1."""
    for name in FAMILY:
        parts = places([(world, world.less_fedavg(name, "oca")) for world in every])
        if parts:
            yield f"**{algorithm_label(name)}** less FedAvg, both OCA, points of AMP: {parts}."


def standing_line(every: list[World]) -> str:
    """What of these differences stands when they are counted."""
    sides = {"T1": t1_everywhere(every), "T2's three variants": t2_everywhere(every)}
    told = [
        f"{name}: {corrected({title: one.metrics['amp'] for title, one in found.items()})}"
        for name, found in sides.items()
        if found
    ]
    return f"**Counted together.** {'. '.join(told)}." if told else ""


def places(found: Sequence[tuple[World, Contrast | None]]) -> str:
    """AMP's difference in each division by α, and in one clause that on natural sites."""
    known = [(world, one.metrics["amp"]) for world, one in found if one]
    parts = [f"{shown(amp)} on {world.title}" for world, amp in known if world.kind]
    natural = [(world, amp) for world, amp in known if not world.kind]
    if natural:
        means = [100 * amp.mean for _, amp in natural]
        starred = [f"{world.title} ({shown(a)})" for world, a in natural if a.beyond_chance]
        parts.append(
            f"{signed(min(means))} to {signed(max(means))} on {len(natural)} natural federations, "
            f"beyond chance on {listed(starred) or 'none'}"
        )
    return "; ".join(parts)


def cost_line(evidence: Evidence, found: list[World]) -> str:
    steps, parts = evidence.steps(), []
    for name in FAMILY:
        sides = [(w.method(name), w.method("fedavg")) for w in found]
        ratios = [sent(own) / sent(base) for own, base in sides if own and base]
        said = [f"a step takes {steps[name]:.2f} times FedAvg's"] if name in steps else []
        said += [f"a round sends {ratios[0]:.2f} times its bytes"] if ratios else []
        if said:
            parts.append(f"{algorithm_label(name)}: {', '.join(said)}")
    where = "on letters, with LeNet-5 and the cheap generator"
    return f"**What it costs** {where}. {'; '.join(parts)}." if parts else ""


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


def pace_line(evidence: Evidence) -> str:
    """Rounds, bytes and time to FedAvg's AMP."""
    parts = [
        f"{row} {listed([f'{fmean(values):.0f} {unit}' for unit, values in by.items()])}"
        for row, by in paced(evidence).items()
    ]
    where = "**To FedAvg (ACA)'s final AMP** on letters, α = 0.1"
    return f"{where}: {'; '.join(parts)}." if parts else ""


def pace(evidence: Evidence) -> str:
    """The same, and less FedAvg with T1, seed by seed."""
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


def rivals_line(evidence: Evidence) -> str:
    settings = evidence.settings(*RIVALS)
    known = [one for one in settings if one.runs and one.algorithm != ALONE]
    if len(known) < TOP:
        return ""
    tops = []
    for metric in ("amp", "wlp"):
        both_ways = [[Model(one, readout) for readout in READOUTS] for one in known]
        models = [max(pair, key=lambda model: model.mean(metric) or 0) for pair in both_ways]
        order = sorted(models, key=lambda model: -(model.mean(metric) or 0))[:TOP]
        tops.append(f"{METRICS[metric].label}: {listed([named(m, metric) for m in order])}")
    seeds = min(len(seeds_of(one)) for one in known)
    return (
        f"**Of {len(known)} algorithms** with a model for all on letters, α = 0.1, after 30 rounds "
        f"and with {seeds} seeds, which do not show an order, the {TOP} highest means in "
        f"{'; in '.join(tops)}."
    )


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
