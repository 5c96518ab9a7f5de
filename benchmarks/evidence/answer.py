"""The answer for a reader in a hurry: ten lines."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from evidence import budget, paper
from evidence.contrasts import LATE, STAR, Contrast, Model, contrast, signed
from evidence.leaving import FAIR, better_alone, nowhere, sides
from evidence.markdown import NONE, listed
from evidence.reading import LETTERS, Evidence, find
from evidence.worlds import FAMILY, World, t1_alone, worlds
from fedkf.charts.labels import algorithm_label
from fedkf.paper.sites import ALONE
from fedkf.runs.collect import PERSONAL
from fedkf.runs.statistics import CHANCE

NATURAL, DIVIDED = "on natural federations", "where data were divided by label"
SMALL = (
    "**How sure it is.** Three seeds, mostly one division of each data set, models and data that "
    "two cores can bear: [what is complete](#what-is-complete), [what was not run](#not-run)."
)


def answer(evidence: Evidence) -> str:
    """The whole in ten lines."""
    every = worlds(evidence)
    lines = [t1_line(evidence, every), t2_line(every), overlap_line(every)]
    lines += [cost_line(evidence, every), plus_line(every), worst_line(every), leave_line(every)]
    lines += [alone_line(every), findings_line(evidence), SMALL]
    return "\n".join(f"{k}. {line}" for k, line in enumerate(filter(None, lines), 1))


def by_label(every: Sequence[World]) -> list[World]:
    """Where we divided the data by their labels."""
    return [world for world in every if world.kind]


def natural(every: Sequence[World]) -> list[World]:
    return [world for world in every if not world.kind]


def kinds(every: Sequence[World]) -> dict[str, list[World]]:
    found: dict[str, list[World]] = {}
    for world in every:
        found.setdefault(world.kind, []).append(world)
    return found


def brief(found: Contrast | None) -> str:
    """ "+5.9 *": AMP in points, with a star where the interval over seeds leaves out 0."""
    if found is None:
        return NONE
    amp = found.metrics["amp"]
    return f"{signed(100 * amp.mean)}{f' {STAR}' if amp.beyond_chance else ''}"


def t1_line(evidence: Evidence, every: Sequence[World]) -> str:
    """What T1 brings FedAvg, by the mean of the last rounds: the steadier witness of ACA."""
    told = []
    for where, found in ((DIVIDED, by_label(every)), (NATURAL, natural(every))):
        late = [one.late for world in found if (one := t1_alone(world)) and one.late]
        if late:
            ends = [signed(100 * pick(d.mean for d in late)) for pick in (min, max)]
            sure = [d.mean > 0 for d in late if d.beyond_chance]
            counts = f"{sum(sure)} of {len(late)} above 0 beyond chance"
            counts += f", {len(sure) - sum(sure)} below" if not all(sure) else ""
            told.append(f"{ends[0]} to {ends[1]} points of AMP {where} ({counts})")
    if not told:
        return ""
    rates = paper.worth_by_rate(evidence).get("FedAvg", {})
    more = ""
    if rates:
        few, many = min(rates), max(rates)
        ends = [f"{signed(100 * rates[r].mean, 0)} with {100 * r:.0f} %" for r in (few, many)]
        seeds = paper.seeds_told(one.seeds for one in rates.values())
        of = f"letters, {seeds.removesuffix('.').lower()}"
        more = f" It hangs on how many are active in a round: {listed(ends)} ({of})."
    return (
        "**T1** costs sites nothing, whatever the method: read it as OCA. FedAvg as OCA less "
        f"FedAvg as ACA, mean of the last {LATE} rounds: {listed(told)}.{more}"
    )


def t2_line(every: Sequence[World]) -> str:
    """What FedKF adds to FedAvg with T1."""
    parts = []
    for kind, found in kinds(by_label(every)).items():
        cells = [brief(world.less_fedavg("fedkf", "oca")) for world in found]
        parts.append(f"{kind} {' / '.join(cells)}")
    sites = [(w.title, one) for w in natural(every) if (one := w.less_fedavg("fedkf", "oca"))]
    if sites:
        means = [one.metrics["amp"].mean for _, one in sites]
        sure = [f"{title} ({brief(one)})" for title, one in sites if one.verdict() != CHANCE]
        span = f"{signed(100 * min(means))} to {signed(100 * max(means))}"
        parts.append(f"natural federations {span}, beyond chance on {listed(sure) or 'none'}")
    return (
        "**T2** on top of that, FedKF less FedAvg, both OCA, points of AMP, the largest α first, a "
        f"star where beyond chance: {'; '.join(parts)}."
        if parts
        else ""
    )


def overlap_line(every: Sequence[World]) -> str:
    """What T2 brings where there is no T1 at all."""
    letters = [world for world in every if world.kind == LETTERS]
    cells = [brief(world.less_fedavg("fedkf-", "aca")) for world in letters]
    both = [brief(world.less_fedavg("fedkf-", "oca")) for world in letters]
    return (
        f"**The two replace each other in part.** Without any T1, T2 brings {' / '.join(cells)} on "
        f"letters (FedKF- less FedAvg, both ACA); on top of T1 {' / '.join(both)} (both OCA)."
        if letters
        else ""
    )


def cost_line(evidence: Evidence, every: Sequence[World]) -> str:
    """A round's time and bytes, and how far one comes with FedAvg's."""
    known, times, sizes = budget.costs(evidence), [], []
    for name in FAMILY:
        own = [one for one in known if one.own.algorithm == name]
        timed = [one.time for one in own if one.time is not None]
        if timed:
            times.append(f"{algorithm_label(name)} {min(timed):.1f} to {max(timed):.1f}")
            sizes.append(f"{fmean(one.bytes for one in own):.1f}")
    if not times:
        return ""
    told = f"a round's time, in FedAvg's: {listed(times)}; its bytes: {listed(sizes)}"
    first = f"**What it costs**, with the cheap generator: {told}"
    return f"{first}. {budget.counted(known, 'time')}."


def plus_line(every: Sequence[World]) -> str:
    """How FedKF+ stands: against everybody's best, and beyond chance."""
    name = FAMILY[-1]
    own = [w for w in every if w.best("amp").setting.algorithm == name]
    against = [contrast(w.best("amp"), w.best("amp", outside=FAMILY)) for w in own]
    sure = sum(about is not None and about.verdict() == "better" for about in against)
    rivals = [len({m.setting.algorithm for m in w.models()} - {*FAMILY, ALONE}) for w in own]
    elsewhere = [f"{w.best('amp').setting.method} on {w.title}" for w in every if w not in own]
    rest = f" (elsewhere {listed(elsewhere)})" if elsewhere else ""
    return (
        f"**{algorithm_label(name)}**, our own and, unlike its rivals, [tuned](#how-to-read-it), "
        f"has the highest mean AMP of the models for all "
        f"clients on {len(own)} of {len(every)} kinds of data{rest}, on {sure} of them beyond "
        f"chance above the best of {min(rivals)} to {max(rivals)} rivals."
        if own
        else ""
    )


def worst_line(every: Sequence[World]) -> str:
    """Whether the worst client is served better."""
    parts = []
    for name in FAMILY[1:]:
        found = [one for world in every if (one := world.less_fedavg(name, "oca"))]
        told = [one.verdict("wlp") for one in found]
        better, worse = told.count("better"), told.count("worse")
        parts.append(f"{algorithm_label(name)} better on {better} of {len(told)}, worse on {worse}")
    return f"**The worst client**, less FedAvg, both OCA, beyond chance: {'; '.join(parts)}."


def leave_line(every: Sequence[World]) -> str:
    """Where FedAvg, which costs less, is as good."""
    by = sides(every)
    if not by:
        return ""
    counts = [
        f"{name} on {len(own.get('better', ()))} of {sum(map(len, own.values()))}"
        for name, own in by.items()
    ]
    level = nowhere(by)
    told = f"; none of them on {listed(level)}" if level else ""
    below = [f"{name} on {listed(own['worse'])}" for name, own in by.items() if "worse" in own]
    worse = f" Below it: {listed(below)}." if below else ""
    return (
        f"**When to leave it.** {FAIR}, above FedAvg in AMP beyond chance is "
        f"{'; '.join(counts)}{told}.{worse}"
    )


def alone_line(every: Sequence[World]) -> str:
    """Where each would rather train alone, and what personal models make of that."""
    own = [world for world in every if world.alone()]
    if not own:
        return ""
    ahead = [world.title for world in own if better_alone(world)]
    against = [contrast(w.best("amp"), alone) for w in own if (alone := w.alone())]
    sure = sum(one is not None and one.verdict() == "worse" for one in against)
    told = f"ahead of every shared model on {len(ahead)} of {len(own)} ({listed(ahead)})"
    parts = []
    for name in ("fedavg", FAMILY[-1]):
        found = [one for world in own if (one := personal_less_alone(world, name))]
        above = [one for one in found if one.metrics["amp"].mean > 0]
        sure_of = sum(one.verdict() == "better" for one in above)
        if found:
            made = f"made of {algorithm_label(name)} on {len(above)} of {len(found)}"
            parts.append(f"{made}, on {sure_of} beyond chance")
    more = f" Personal models are ahead of it {'; '.join(parts)}." if parts else ""
    return f"**Training alone**, tested on own data, is {told}, on {sure} beyond chance.{more}"


def personal_less_alone(world: World, name: str) -> Contrast | None:
    """Models that clients made of a shared one less those that they trained alone."""
    made = [world.method(name), find(world.again, name)]
    alone = world.alone()
    for one in made if alone else ():
        found = contrast(Model(one, PERSONAL), alone) if one and alone else None
        if found:
            return found
    return None


def findings_line(evidence: Evidence) -> str:
    """Verdicts on the paper's findings by our runs."""
    judged = paper.verdicts(evidence)
    by: dict[str, list[str]] = {}
    for name, own in judged.items():
        by.setdefault(own.ours.verdict, []).append(name)
    parts = [f"{listed(names)} {verb(verdict, names)}" for verdict, names in by.items()]
    turned = [name for name, own in judged.items() if own.fair.verdict != own.ours.verdict]
    fair = f" With T1 for the others, too, {listed(turned)} would turn." if turned else ""
    ahead, behind, cells = paper.apart(evidence, "F5")
    return (
        f"**The paper's findings**, by means on letters: {'; '.join(parts)}.{fair} F1 and F5 hang "
        f"on FedKF against FedKF-: beyond chance it is ahead in {ahead} of {cells} cells, behind "
        f"in {behind}."
    )


def verb(verdict: str, names: Sequence[str]) -> str:
    """ "holds" of one finding, "hold" of several."""
    return verdict.removesuffix("s") if len(names) > 1 else verdict
