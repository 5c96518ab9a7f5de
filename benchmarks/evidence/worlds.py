"""The kinds of data on which methods were compared, and the questions that a reader has of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from evidence.contrasts import NONE, Contrast, Model, contrast, shown
from evidence.markdown import listed, table
from evidence.reading import SITES, Evidence, Setting, find
from evidence.tables import LETTERS, NOTHING, PHOTOGRAPHS, RESNET, photograph_settings, places
from fedkf.paper.differences import BASELINE
from fedkf.paper.sites import ALONE
from fedkf.runs.collect import PERSONAL, READOUTS
from fedkf.runs.statistics import CHANCE

FAMILY = ("fedkf-", "fedkf", "fedkf+")
PREDECESSORS = ("fedavg", "fedntd", "fedkf")


@dataclass(frozen=True)
class World:
    """Methods that were run on the same data, divided in the same way."""

    kind: str
    """What was divided by α, and the model if it is not LeNet-5; nothing for natural sites."""
    where: str
    settings: Sequence[Setting]
    again: Sequence[Setting] = ()
    """Runs of the same methods whose clients made the shared model their own after the end."""

    @property
    def title(self) -> str:
        return " ".join(filter(None, [self.kind, self.where]))

    @property
    def data(self) -> str:
        """The title without the model."""
        return " ".join(filter(None, [self.kind.partition(",")[0], self.where]))

    @property
    def alpha(self) -> float | None:
        return self.settings[0].alpha

    def method(self, algorithm: str) -> Setting | None:
        return find(self.settings, algorithm)

    def models(self) -> Iterator[Model]:
        """Every method that has runs, under both readouts."""
        for one in self.settings:
            if one.runs:
                yield from (Model(one, readout) for readout in READOUTS)

    def personal(self) -> Model | None:
        """The models of sites' own with the highest AMP, where shared ones were made into such."""
        models = [Model(one, PERSONAL) for one in (*self.settings, *self.again) if one.runs]
        known = [model for model in models if model.mean("amp") is not None]
        return max(known, key=lambda model: model.mean("amp") or 0, default=None)

    def best(self, metric: str) -> Model:
        """The best of the models that are for all clients."""
        shared = [model for model in self.models() if model.setting.algorithm != ALONE]
        return max(shared, key=lambda model: model.mean(metric) or 0)

    def alone(self) -> Model | None:
        """Each client's own model, where that was run."""
        own = self.method(ALONE)
        return Model(own, "aca") if own else None

    def less_fedavg(self, algorithm: str, readout: str) -> Contrast | None:
        """An algorithm less FedAvg, both under one readout."""
        own, base = self.method(algorithm), self.method("fedavg")
        return contrast(Model(own, readout), Model(base, readout)) if own and base else None


def worlds(evidence: Evidence) -> list[World]:
    """Letters, photographs and natural sites, where FedAvg at least was run."""
    suites = {
        LETTERS: [*evidence.settings(LETTERS), *evidence.settings("letters-alone")],
        PHOTOGRAPHS[0]: [
            *photograph_settings(evidence),
            *evidence.settings("photographs-alone"),
        ],
        f"{PHOTOGRAPHS[0]}, ResNet-8": evidence.settings(RESNET),
        "": evidence.settings(SITES),
    }
    again = {LETTERS: places(evidence.settings("letters-personal"))}
    found = [
        World(kind, where, members, again.get(kind, {}).get(where, ()))
        for kind, settings in suites.items()
        for where, members in places(sorted(settings, key=lambda one: -(one.alpha or 0))).items()
    ]
    return [world for world in found if world.method("fedavg")]


def sent(setting: Setting) -> float:
    """Bytes of a run, both ways."""
    return fmean(sum(run.summary.bytes.values()) for run in setting.runs)


def over_clients(found: Contrast) -> str:
    """What a client gains, with an interval over clients, and how many do."""
    return f"{shown(found.clients)}; {found.better} of {found.count} gain"


# -- what T1 and T2 are worth ----------------------------------------------------------------------

HEAD = ("AMP, points", "FM, ×10⁻³", "WLP, points", "a client, points", "seeds")


def contrast_row(found: Contrast) -> list[str]:
    cells = [shown(found.metrics.get(metric), metric) for metric in ("amp", "fm", "wlp")]
    return [*cells, over_clients(found), str(found.seeds)]


def t1_alone(world: World) -> Contrast | None:
    """FedAvg read as OCA less the same runs read as ACA."""
    own = world.method("fedavg")
    return contrast(Model(own, "oca"), Model(own, "aca")) if own else None


def worth_of_t1(evidence: Evidence) -> str:
    rows = [
        [world.title, *contrast_row(found)]
        for world in worlds(evidence)
        if (found := t1_alone(world))
    ]
    return table(["FedAvg, OCA less ACA", *HEAD], rows)


def worth_of_t2(evidence: Evidence) -> str:
    """What distillation adds where both sides have T1, and what it costs."""
    steps, rows = evidence.steps(), []
    for world in worlds(evidence):
        base = world.method("fedavg")
        for name in FAMILY:
            own, found = world.method(name), world.less_fedavg(name, "oca")
            if own and base and found:
                step = f"{steps[name]:.2f}" if name in steps else NONE
                cost = [step, f"{sent(own) / sent(base):.2f}"]
                rows.append([f"{world.title}: {own.method}", *contrast_row(found), *cost])
    head = ["less FedAvg, both OCA", *HEAD, "a step, in FedAvg's", "bytes, in FedAvg's"]
    return table(head, rows)


def federated_or_alone(evidence: Evidence) -> str:
    """What each site gains over training alone, by the shared model and by one of its own."""
    rows = []
    for world in worlds(evidence):
        alone = world.method(ALONE)
        names = (BASELINE, *FAMILY)
        methods = [one for name in names if (one := world.method(name))]
        made = [one for name in names if (one := find(world.again, name))]
        models = [Model(one, readout) for one in methods for readout in ("oca", PERSONAL)]
        for model in (*models, *(Model(one, PERSONAL) for one in made)):
            found = contrast(model, Model(alone, "aca")) if alone else None
            if found:
                gains = [shown(found.metrics.get("amp")), shown(found.clients)]
                lose = f"{found.worse} of {found.count}"
                rows.append([f"{world.title}: {model.name}", *gains, lose, str(found.seeds)])
    head = ["less training alone", "AMP, points", "a site, points", "better alone", "seeds"]
    return table(head, rows) if rows else NOTHING


def fedkf_plus(evidence: Evidence) -> str:
    """FedKF+ less what it should beat, under both readouts."""
    rows = []
    for world in worlds(evidence):
        own = world.method("fedkf+")
        others = [one for one in world.settings if one.runs and one.algorithm in PREDECESSORS]
        for other in others if own else ():
            found = [contrast(Model(own, r), Model(other, r)) for r in READOUTS] if own else []
            if known := [c for c in found if c]:
                cells = [shown(c.metrics.get(m), m) for m in ("amp", "wlp") for c in known]
                rows.append([f"{world.title}: less {other.method}", *cells, str(known[0].seeds)])
    head = ["FedKF+", "AMP, points: ACA", "OCA", "WLP, points: ACA", "OCA", "seeds"]
    return table(head, rows) if rows else NOTHING


def which_teacher(evidence: Evidence) -> str:
    """FedKF, taught by OCA, less FedKF-, taught by ACA, under both readouts."""
    rows = []
    for world in worlds(evidence):
        oca, aca = world.method("fedkf"), world.method("fedkf-")
        for readout in READOUTS if oca and aca and world.kind else ():
            found = contrast(Model(oca, readout), Model(aca, readout)) if oca and aca else None
            if found:
                rows.append([f"{world.title}, {readout.upper()}", *contrast_row(found)])
    return table(["FedKF less FedKF-", *HEAD], rows) if rows else NOTHING


# -- when not --------------------------------------------------------------------------------------


def when_not(evidence: Evidence) -> str:
    """Where FedKF's variants gain nothing over FedAvg with T1, or lose."""
    found, rows = worlds(evidence), []
    for world in found:
        for name in FAMILY:
            own = world.method(name)
            by = {readout: world.less_fedavg(name, readout) for readout in READOUTS}
            if own and any(by.values()):
                signs = [sign for r in READOUTS for sign in verdicts(by[r])]
                rows.append([f"{world.title}: {own.method}", *signs])
    head = ["less FedAvg", "AMP, both ACA", "worst client", "AMP, both OCA", "worst client"]
    return f"{table(head, rows)}\n\n{advice_against(found)}"


SIGNS = {"better": "+", "worse": "−", CHANCE: "="}


def verdicts(found: Contrast | None) -> list[str]:
    """Signs of AMP's difference and of the worst client's."""
    if found is None:
        return [NONE, NONE]
    ground = "" if found.by_seeds else " (over clients)"
    return [SIGNS.get(found.verdict(), found.verdict()) + ground, worst_verdict(found)]


def worst_verdict(found: Contrast) -> str:
    """The worst client's, over seeds: one client has no interval over clients."""
    wlp = found.metrics.get("wlp")
    if wlp is None or wlp.interval is None:
        return f"{shown(wlp, 'wlp')} (too few seeds)"
    if not wlp.beyond_chance:
        return SIGNS[CHANCE]
    return SIGNS["better" if wlp.mean > 0 else "worse"]


def advice_against(found: Sequence[World]) -> str:
    """Where a variant is better than FedAvg read as OCA, where none is, and where being alone is.

    A variant counts under either readout: both are there after every run.
    """
    better, level, alone = list[str](), list[str](), list[str]()
    for world in found:
        base = world.method("fedavg")
        models = [Model(o, r) for name in FAMILY if (o := world.method(name)) for r in READOUTS]
        known = [c for m in models if base and (c := contrast(m, Model(base, "oca")))]
        if known:
            gains = any(c.verdict() == "better" for c in known)
            (better if gains else level).append(world.title)
        own = world.alone()
        if own and (own.mean("amp") or 0) > (world.best("amp").mean("amp") or 0):
            alone.append(world.title)
    said = [
        (better, "Beyond chance, a variant of FedKF (as ACA or OCA) is above FedAvg (OCA) in AMP"),
        (level, "None is shown to be above FedAvg (OCA), which costs less,"),
        (alone, "No shared model has the AMP of training alone"),
    ]
    return " ".join(f"{text} on {listed(names)}." for names, text in said if names)
