"""The answer for a reader in a hurry: ten lines, four of which are a table."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from evidence import budget, paper
from evidence.contrasts import Contrast, Model, contrast, pooled, shown
from evidence.leaving import FAIR, better_alone, sides
from evidence.markdown import NONE, listed, table
from evidence.reading import LETTERS, Evidence, find
from evidence.worlds import FAMILY, World, round_cost, sent, t1_alone, worlds
from fedkf.charts.labels import algorithm_label
from fedkf.runs.collect import PERSONAL

NATURAL = "natural federations"


def answer(evidence: Evidence) -> str:
    """The whole in ten lines."""
    every = worlds(evidence)
    lines = [worst_line(every), cost_line(evidence, every), alone_line(every)]
    lines += [leave_line(every), findings_line(evidence)]
    told = "\n".join(f"- {line}" for line in lines if line)
    return f"- {winners_line(every)}\n\n{gains(every)}\n\n{told}"


def winners_line(every: Sequence[World]) -> str:
    """Whose shared model is ahead on how many data, and on how many beyond chance."""
    places: dict[str, list[World]] = {}
    for world in every:
        places.setdefault(world.best("amp").setting.method, []).append(world)
    method, own = max(places.items(), key=lambda item: len(item[1]))
    sure = 0
    for world in own:
        rival = world.best("amp", outside=FAMILY)
        about = contrast(world.best("amp"), rival)
        sure += about is not None and about.verdict() == "better"
    others = {name: [w.title for w in found] for name, found in places.items() if name != method}
    rest = "; ".join(f"{name} on {listed(titles)}" for name, titles in others.items())
    return (
        f"**{method} has the highest AMP** of the models for all clients on {len(own)} of "
        f"{len(every)} kinds of data, on {sure} beyond chance above the best method outside "
        f"FedKF's family{rest and f' (elsewhere {rest})'}."
    )


def gains(every: Sequence[World]) -> str:
    """What T1 brings FedAvg, and what each variant adds to that, kind by kind."""
    compared = {"T1: FedAvg (OCA) less FedAvg (ACA)": [(w, t1_alone(w)) for w in every]}
    for name in FAMILY:
        title = f"{algorithm_label(name)} (OCA) less FedAvg (OCA)"
        compared[title] = [(world, world.less_fedavg(name, "oca")) for world in every]
    kinds = {kind: [w for w in every if w.kind == kind] for kind in {w.kind: 0 for w in every}}
    rows = []
    for title, found in compared.items():
        cells = []
        for kind, members in kinds.items():
            known = [one for world, one in found if one and world.kind == kind]
            short = f" ({len(known)} of {len(members)})" if len(known) < len(members) else ""
            cells.append(f"{shown(pooled(known))}{short}" if known else NONE)
        rows.append([title, *cells])
    heads = [f"{kind or NATURAL} ({len(members)})" for kind, members in kinds.items()]
    return table(["points of AMP, mean over each kind's data", *heads], rows)


def worst_line(every: Sequence[World]) -> str:
    """Whether the worst client is served better, and what that hangs on where it is hardest."""
    parts = []
    for name in FAMILY[1:]:
        found = [one for world in every if (one := world.less_fedavg(name, "oca"))]
        told = [one.verdict("wlp") for one in found]
        better, worse = told.count("better"), told.count("worse")
        parts.append(f"{algorithm_label(name)} better on {better} of {len(told)}, worse on {worse}")
    letters = [world for world in every if world.kind == LETTERS]
    hardest = min(letters, key=lambda world: world.alpha or 0, default=None)
    hard = ""
    if hardest:
        own = {algorithm_label(n): hardest.less_fedavg(n, "oca") for n in FAMILY[1:]}
        added = [f"{name} {wlp(one)}" for name, one in own.items() if one]
        first = f" On {hardest.title} T1 alone brings it {wlp(t1_alone(hardest))} points"
        hard = f"{first}, and on top of that {listed(added)}."
    return f"**The worst client**, less FedAvg, both OCA, beyond chance: {'; '.join(parts)}.{hard}"


def wlp(found: Contrast | None) -> str:
    return shown(found.metrics.get("wlp"), "wlp") if found else NONE


def cost_line(evidence: Evidence, every: Sequence[World]) -> str:
    """A round's time and bytes, and who comes sooner to FedAvg's accuracy."""
    parts = []
    for name in FAMILY:
        both = [(world.method(name), world.method("fedavg")) for world in every]
        shares = [sent(own) / sent(base) for own, base in both if own and base]
        times = [cost for w in every if (cost := round_cost(evidence, w, name)) is not None]
        if times and shares:
            spread = f"{min(times):.1f} to {max(times):.1f}"
            parts.append(f"{algorithm_label(name)} {spread} and {fmean(shares):.1f}")
    if not parts:
        return ""
    told = f"a round's time and bytes, in FedAvg's: {listed(parts)}"
    return f"**What it costs** with the cheap generator: {told}. {budget.sooner(evidence)}"


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
        above = sum(one.metrics["amp"].mean > 0 for one in found)
        if found:
            parts.append(f"made of {algorithm_label(name)} on {above} of {len(found)}")
    more = f" Personal models are ahead of it {listed(parts)}." if parts else ""
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


def leave_line(every: Sequence[World]) -> str:
    """Where FedAvg, which costs less, is as good."""
    gain, level, worse = sides(every)
    if not gain + level:
        return ""
    told = [f"above FedAvg beyond chance on {len(gain)} of {len(gain + level)}"]
    told += [f"not on {listed(level)}, where FedAvg costs less"] if level else []
    told += [f"below it is {listed(worse)}"] if worse else []
    return f"**When to leave it.** {FAIR}, a variant of FedKF is {'; '.join(told)}."


def findings_line(evidence: Evidence) -> str:
    """Verdicts on the paper's findings by our runs."""
    judged = paper.verdicts(evidence)
    by: dict[str, list[str]] = {}
    for name, own in judged.items():
        by.setdefault(own.ours.verdict, []).append(name)
    parts = [f"{listed(names)} {verb(verdict, names)}" for verdict, names in by.items()]
    turned = [name for name, own in judged.items() if own.fair.verdict != own.ours.verdict]
    fair = f" With T1 for the others, too, {listed(turned)} would turn." if turned else ""
    sure = [f"{paper.beyond_chance(evidence, name)} of {name}" for name in paper.AGAINST]
    chance = f" The claimed order is beyond chance in {listed(sure)}."
    told = f"**The paper's findings** by the order of our means on letters: {'; '.join(parts)}."
    return f"{told}{fair}{chance}"


def verb(verdict: str, names: Sequence[str]) -> str:
    """ "holds" of one finding, "hold" of several."""
    return verdict.removesuffix("s") if len(names) > 1 else verdict
