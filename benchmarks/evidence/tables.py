"""The tables of results/README.md that are made of whole suites."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from evidence.contrasts import Model, contrast, corrected, shown, signed
from evidence.markdown import NONE, both, listed, percent, table, thousandths
from evidence.reading import LETTERS, SITES, UNCHANGED, Evidence, Setting, find, hours
from fedkf.metrics import METRICS
from fedkf.metrics.sites import SITE_METRICS
from fedkf.paper.published import COMPARED
from fedkf.paper.sites import ALONE
from fedkf.paper.tables import Cell, Column, show
from fedkf.runs.collect import PERSONAL, READOUTS, Group
from fedkf.runs.judging import judgement_of
from fedkf.runs.statistics import Difference
from fedkf.runs.suite import Finished

WAYS = (("amp", "AMP, %"), ("fm", "FM, ×10⁻³"), ("wlp", "WLP, %"))
COLUMNS = {
    metric: Column("", title, 1000 if metric == "fm" else 100, digits=1) for metric, title in WAYS
}
PHOTOGRAPHS, RESNET = "photographs", "photographs-resnet"
PLAIN = "without the adversarial term"
RIVALS = ("rivals", "rivals-proxy")
WIDTH = "letters-width"
PLACED = ("FedKF+", "FedKF-", "FedKF")
NOTHING = "No run is finished yet."
ATTEMPTED = ("AMP, %", "less the base", "WLP, %", "less the base", "seeds")
TRIED = ("attempts-", "search")
"""What the folders of attempts on FedKF+ begin with."""


def places(settings: Iterable[Setting]) -> dict[str, list[Setting]]:
    """The settings by where they were run, in order."""
    found: dict[str, list[Setting]] = {}
    for one in settings:
        found.setdefault(one.where, []).append(one)
    return found


def scores(settings: Sequence[Setting]) -> str:
    """AMP, FM and WLP of every method and readout, mean ± std over seeds, a table a place."""
    if not any(one.runs for one in settings):
        return NOTHING
    written = []
    for where, members in places(settings).items():
        if not any(one.runs for one in members):
            continue
        rows = [score_row(Model(one, readout)) for one in members for readout in readouts_of(one)]
        head = [where or "method", "AMP, %", "FM, ×10⁻³", "WLP, %", "seeds"]
        written.append(table(head, rows))
    return "\n\n".join(written)


def readouts_of(setting: Setting) -> tuple[str, ...]:
    """Both, and models of the clients' own where a method has them; one of those trained alone."""
    if setting.algorithm == ALONE:
        return READOUTS[:1]
    personal = any(run.final(PERSONAL) for run in setting.runs)
    return (*READOUTS, PERSONAL) if personal else READOUTS


def score_row(model: Model) -> list[str]:
    cells = []
    for metric, _ in WAYS:
        values = model.setting.group.values(model.readout, metric)
        cells.append(show(Cell(values), COLUMNS[metric]))
    return [model.name, *cells, str(len(model.setting.runs)) if model.setting.runs else NONE]


def beyond(evidence: Evidence) -> str:
    """What the paper does not compare, at its protocol, beside FedAvg and FedKF."""
    known = [s for s in evidence.settings(LETTERS) if s.algorithm]
    wanted = ("fedavg", "fedkf", *(s.algorithm for s in known if s.algorithm not in COMPARED))
    rows = [s for name in dict.fromkeys(wanted) for s in known if s.algorithm == name]
    return scores(rows)


def width(evidence: Evidence) -> str:
    """FedKF with the paper's generator and with the cheap one, where both have the same seeds."""
    wide = next(iter(evidence.settings(WIDTH)), None)
    lite = find(evidence.settings(LETTERS), "fedkf", wide.alpha) if wide else None
    if wide is None or lite is None or not wide.runs:
        return NOTHING
    common = {run.pairing for run in wide.runs}
    group = Group(lite.group.point, [run for run in lite.runs if run.pairing in common])
    rows = [
        Setting("the cheap generator", lite.where, group),
        Setting("the paper's generator", wide.where, wide.group),
    ]
    cells = [[*attempt_row(one, rows[0]), f"{hours(one.runs):.1f}"] for one in rows]
    return table([wide.where, *ATTEMPTED, "core-hours"], cells)


def photographs(evidence: Evidence, name: str) -> str:
    return scores(photograph_settings(evidence, name))


def photograph_settings(evidence: Evidence, name: str) -> list[Setting]:
    """FedKF with and without its generator's adversarial term under two names."""
    plain = [
        Setting(f"{one.method} {PLAIN}", one.where, one.group)
        for one in evidence.settings(f"{name}-plain")
    ]
    return [*evidence.settings(name), *plain]


def sites(evidence: Evidence) -> str:
    """AMP and WLP of every model, federations across."""
    settings = evidence.settings(SITES)
    if not any(one.runs for one in settings):
        return NOTHING
    across = {one.where: judged_by(one) for one in settings if one.runs}
    rows: dict[str, dict[str, str]] = {}
    for one in settings:
        for readout in readouts_of(one):
            model = Model(one, readout)
            values = both([percent(model.mean(metric)) for metric in ("amp", "wlp")])
            rows.setdefault(model.name, {})[one.where] = values
    cells = [[name, *(own.get(where, NONE) for where in across)] for name, own in rows.items()]
    head = ["AMP / WLP, %", *(f"{where}, {by}" for where, by in across.items())]
    return table(head, [row for row in cells if set(row[1:]) != {NONE}])


def judged_by(setting: Setting) -> str:
    """What of each site AMP and WLP are over."""
    return SITE_METRICS[judgement_of(setting.runs[0].config).metric].label


def rivals(evidence: Evidence) -> str:
    """Every algorithm on letters after thirty rounds, the best AMP first."""
    settings, steps = evidence.settings(*RIVALS), evidence.steps()
    if not any(one.runs for one in settings):
        return NOTHING
    rows: list[tuple[float, list[str]]] = []
    for one in settings:
        models = [Model(one, readout) for readout in READOUTS]
        cells = [
            both([write(model.mean(metric)) for model in models])
            for metric, write in (("amp", percent), ("fm", thousandths), ("wlp", percent))
        ]
        step = steps.get(one.algorithm)
        cost = [NONE if step is None else f"{step:.2f}", megabytes(one)]
        best = max((model.mean("amp") or 0 for model in models), default=0)
        rows.append((best, [one.method, *cells, *cost, str(len(one.runs)) if one.runs else NONE]))
        if PERSONAL in readouts_of(one):
            own = Model(one, PERSONAL)
            values = [percent(own.mean("amp")), thousandths(own.mean("fm"))]
            cells = [*values, percent(own.mean("wlp")), "", "", ""]
            rows.append((best - 1e-9, [f"{one.method}, each client's own model", *cells]))
    head = ["ACA / OCA", *(title for _, title in WAYS), "a step, in FedAvg's", "MB sent", "seeds"]
    made = table(head, [cells for _, cells in sorted(rows, key=lambda row: -row[0])])
    under = evidence.measured().get("load")
    note = "" if under is None else f"\n\nSteps were measured under a load of {under:.1f}."
    return made + note


def ranks(evidence: Evidence) -> str:
    """Who has the highest means, and how far they are from FedAvg as OCA."""
    known = [one for one in evidence.settings(*RIVALS) if one.runs and one.algorithm != ALONE]
    base = find(known, "fedavg")
    told = []
    for metric in ("amp", "wlp"):
        start = Model(base, "oca").mean(metric) if base else None
        values = {
            one.method: max(Model(one, readout).mean(metric) or 0 for readout in READOUTS)
            for one in known
        }
        order = sorted(values, key=lambda method: -values[method])
        first = [*order[:3], *(name for name in PLACED if name in order[3:])]
        if start is not None:
            apart = [f"{name} {signed(100 * (values[name] - start))}" for name in first]
            told.append(f"{METRICS[metric].label}: {listed(apart)}.")
    return (
        f"Of {len(known)} with a model for all, each under its better readout, points above FedAvg "
        f"(OCA), the first three and FedKF's variants: {' '.join(told)}"
    )


def read_both_ways(evidence: Evidence) -> str:
    """For how many algorithms OCA has the higher mean AMP, and where it costs something."""
    gains = {}
    for one in evidence.settings(*RIVALS):
        oca, aca = (Model(one, readout).mean("amp") for readout in ("oca", "aca"))
        if one.algorithm != ALONE and oca is not None and aca is not None:
            gains[one.method] = oca - aca
    above = sum(gain > 0 for gain in gains.values())
    lose = {name: gain for name, gain in gains.items() if gain < -0.005}
    order = sorted(lose, key=lambda name: lose[name])
    told = [f"{name} {signed(100 * lose[name])}" for name in order]
    return (
        f"OCA has the higher mean AMP for {above} of {len(gains)} algorithms; more than half a "
        f"point lower for {listed(told) or 'none'}."
    )


def megabytes(setting: Setting) -> str:
    """Sent in a run, both ways; training alone sends nothing, though simulations count uploads."""
    if setting.algorithm == ALONE:
        return "0"
    sent = [sum(run.summary.bytes.values()) / 1e6 for run in setting.runs]
    return f"{sum(sent) / len(sent):.0f}" if sent else NONE


# -- attempts --------------------------------------------------------------------------------------


def attempts(evidence: Evidence, name: str, base: str | None = None) -> str:
    """Each variant of a suite, and what it differs from the base by, seed by seed."""
    settings = [one for one in evidence.settings(name) if one.method]
    if not any(one.runs for one in settings):
        return NOTHING
    written = []
    for where, members in places(plain_first(settings)).items():
        if not any(one.runs for one in members):
            continue
        start = next((one for one in members if one.method == base), members[0])
        rows = [attempt_row(one, start) for one in members]
        written.append(table([where or name, *ATTEMPTED], rows))
    return "\n\n".join(written)


def drive(evidence: Evidence) -> str:
    """FedKF+ taken apart in two: its server's drive, and what its clients do."""
    compared = (
        ("the drive alone", "FedAvg"),
        ("without the drive", "FedAvg"),
        ("FedKF+", "the drive alone"),
    )
    rows = []
    for name in ("ablation-letters", "ablation-photographs"):
        known = {one.method: one for one in evidence.settings(name) if one.runs}
        for own, base in compared:
            if own in known and base in known:
                found = [contrast(Model(known[own], r), Model(known[base], r)) for r in READOUTS]
                cells = [shown(c.metrics[m], m) for m in ("amp", "wlp") for c in found if c]
                where = name.removeprefix("ablation-")
                rows.append([f"{where}: {own} less {base}", *cells])
    head = ["thirty rounds", "AMP, points: ACA", "OCA", "WLP, points: ACA", "OCA"]
    return table(head, rows) if rows else NOTHING


def causes(evidence: Evidence, name: str, base: str) -> str:
    """Which variants are behind the base in AMP beyond chance, and which are not."""
    settings = [one for one in evidence.settings(name) if one.runs]
    start = next((one for one in settings if one.method == base), None)
    behind, level, every = list[str](), list[str](), dict[str, Difference]()
    for one in settings if start else ():
        found = [contrast(Model(one, r), Model(start, r)) for r in READOUTS] if start else []
        judged = [c.metrics["amp"] for c in found if c and c.by_seeds]
        if one is start or not judged:
            continue
        every |= {f"{one.method}, {r.upper()}": d for r, d in zip(READOUTS, judged, strict=False)}
        worse = any(d.beyond_chance and d.mean < 0 for d in judged)
        told = f"{one.method} ({' / '.join(shown(d) for d in judged)})"
        (behind if worse else level).append(told)
    if not behind and not level:
        return NOTHING
    first = f"Behind `{base}` in AMP beyond chance, as ACA or OCA: {listed(behind) or 'none'}."
    counted = f"Counted together, {corrected(every)}."
    return f"{first} Not so: {listed(level) or 'none'}. {counted}"


def watched(evidence: Evidence, name: str) -> str:
    """What generated samples are like in the second half of the rounds, as watched.py tells."""
    rows = []
    for one in evidence.settings(name):
        late = [
            found.losses
            for run in one.runs
            for found in run.rounds[len(run.rounds) // 2 :]
            if "kinds" in found.losses
        ]
        if late:
            told = [fmean(losses[key] for losses in late) for key in ("kinds", "feature", "kl")]
            shown = [f"{told[0]:.1f}", f"{told[1]:.2f}", f"{told[2]:.3f}"]
            rows.append([one.method, *shown, str(len(one.runs))])
    head = ["generated samples", "classes", "a feature of the teacher's", "KL", "seeds"]
    return table(head, rows) if rows else NOTHING


def all_attempts(evidence: Evidence) -> str:
    """Everything that was tried, suite by suite, with what the seeds show of it."""
    names = [name for name in evidence.folders() if name.startswith(TRIED)]
    return "\n\n".join(
        f"`{name}`: {verdict(evidence.settings(name))}\n\n{attempts(evidence, name)}"
        for name in names
    )


def verdict(settings: Sequence[Setting]) -> str:
    """Which variants are above or below the base in AMP beyond chance, under either readout."""
    above, below, every = list[str](), list[str](), dict[str, Difference]()
    for where, members in places(plain_first([one for one in settings if one.method])).items():
        for one in members[1:]:
            found = [contrast(Model(one, r), Model(members[0], r)) for r in READOUTS]
            amps = [c.metrics["amp"] for c in found if c and c.by_seeds]
            name = one.method if not where else f"{one.method} ({where})"
            every |= {f"{name}, {r.upper()}": a for r, a in zip(READOUTS, amps, strict=False)}
            above += [name] if any(a.beyond_chance and a.mean > 0 for a in amps) else []
            below += [name] if any(a.beyond_chance and a.mean < 0 for a in amps) else []
    if not every:
        return "fewer than three seeds, which show nothing beyond chance."
    told = f"above the base beyond chance {listed(above) or 'none'}, below it"
    return f"{told} {listed(below) or 'none'}; {corrected(every)}."


def plain_first(settings: Sequence[Setting]) -> list[Setting]:
    """What was left as it is before what was changed."""
    return sorted(settings, key=lambda one: one.method != UNCHANGED)


def attempt_row(one: Setting, start: Setting) -> list[str]:
    cells = []
    for metric in ("amp", "wlp"):
        models = [Model(one, readout) for readout in READOUTS]
        cells.append(both([percent(model.mean(metric)) for model in models]))
        found = [contrast(model, Model(start, model.readout)) for model in models]
        differences = [shown(c.metrics.get(metric), metric) if c else NONE for c in found]
        cells.append("the base" if one is start else both(differences))
    seeds = len({run.pairing for run in one.runs})  # a seed that changes nothing counts once
    return [one.method, *cells, str(seeds) if seeds else NONE]


# -- what is there ---------------------------------------------------------------------------------


AGAIN = {
    SITES: "`fedkf reproduce sites --scale paper`",
    "flamby": "`fedkf reproduce flamby --scale paper`",
    "frontier": "`python benchmarks/frontier.py run`",
    "letters-short": "`fedkf reproduce rate-sweep --scale small` (and `alpha-sweep`, `tuning`)",
}
"""What repeats the folders that are no suite's."""


def complete(evidence: Evidence) -> str:
    """Runs and core-hours, suite by suite, how many are left, and what runs them again."""
    rows, every, spent = [], list[Finished](), 0.0
    for name in evidence.folders():
        found, planned = evidence.records(name), {plan.name for plan in evidence.planned(name)}
        if not found and not planned:
            continue
        done, took = len(planned & found.keys()), hours(list(found.values()))
        of = f"{done} of {len(planned)}" if planned else NONE
        suite = f"`fedkf sweep benchmarks/suites/{name}.yaml`" if planned else ""
        again = AGAIN.get(name, suite)
        rows.append([": ".join(filter(None, [name, again])), of, str(len(found)), f"{took:.1f}"])
        every, spent = [*every, *found.values()], spent + took
    rows.append(["all", "", str(len(every)), f"{spent:.1f}"])
    unsaved = sum(run.revision.endswith("-dirty") for run in every)
    made = table(["folder, and what runs it again", "of its suite", "runs", "core-hours"], rows)
    return f"{made}\n\n{unsaved} of these records are of a program with unsaved changes."


def repeated(evidence: Evidence) -> str:
    """How many records came out again as they are, and by how much the others moved."""
    found = evidence.again()
    if not found:
        return NOTHING
    exact = sum(one["same"] == one["rounds"] for one in found.values())
    versions = len({one["of"] for one in found.values()})
    told = (
        f"Of {len(found)} records of {versions} versions of the program, drawn by lot, {exact} "
        "came out again with the same accuracy of every client after every round"
    )
    if exact == len(found):
        return f"{told}."
    apart = [one for one in found.values() if one["same"] < one["rounds"]]
    ends = [abs(points) for one in apart for points in one["amp"].values()]
    return (
        f"{told}. The AMP of the other {len(apart)} moved by {100 * fmean(ends):.1f} points in the "
        f"mean, {100 * max(ends):.1f} at most."
    )
