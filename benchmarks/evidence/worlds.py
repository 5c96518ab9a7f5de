"""The kinds of data on which methods were compared, and the questions that a reader has of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from evidence.contrasts import LATE, STAR, Contrast, Model, contrast, corrected, shown
from evidence.markdown import NONE, listed, table
from evidence.reading import LETTERS, SITES, Evidence, Setting, find
from evidence.tables import (
    NOTHING,
    PHOTOGRAPHS,
    PLAIN,
    RESNET,
    photograph_settings,
    places,
)
from fedkf.charts.labels import algorithm_label
from fedkf.paper.differences import BASELINE
from fedkf.paper.sites import ALONE
from fedkf.runs.collect import PERSONAL, READOUTS

FAMILY = ("fedkf-", "fedkf", "fedkf+")
PREDECESSORS = ("fedavg", "fedntd", "fedkf")


@dataclass(frozen=True)
class World:
    """Methods that were run on the same data, divided in the same way, with the same seeds."""

    kind: str
    """What was divided by α, and the model if it is not LeNet-5; nothing for natural sites."""
    where: str
    settings: Sequence[Setting]
    again: Sequence[Setting] = ()
    """Runs of the same methods whose clients made the shared model their own after the end."""
    planned: Sequence[Setting] = ()
    """All that was to be run there, whether it has all seeds or not."""

    @property
    def title(self) -> str:
        return " ".join(filter(None, [self.kind, self.where]))

    @property
    def data(self) -> str:
        """The title without the model."""
        return " ".join(filter(None, [self.kind.partition(",")[0], self.where]))

    @property
    def paced(self) -> str:
        """Under what the time of its rounds is kept: α makes no difference to it."""
        return self.kind or self.where

    @property
    def alpha(self) -> float | None:
        return self.settings[0].alpha

    def method(self, algorithm: str) -> Setting | None:
        """An algorithm as it is, if it has any run, not without a part."""
        own = [one for one in self.settings if one.algorithm == algorithm]
        whole = next((one for one in own if not one.method.endswith(PLAIN)), None)
        return whole if whole and whole.runs else None

    def better(self, algorithm: str) -> Model | None:
        """An algorithm under the readout with the higher AMP."""
        one = self.method(algorithm)
        return better_readout(one) if one else None

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

    def best(self, metric: str, outside: Sequence[str] = ()) -> Model:
        """The best of the models that are for all clients, of algorithms outside of some."""
        others = (ALONE, *outside)
        shared = [model for model in self.models() if model.setting.algorithm not in others]
        return max(shared, key=lambda model: model.mean(metric) or 0)

    def alone(self) -> Model | None:
        """Each client's own model, where that was run."""
        own = self.method(ALONE)
        return Model(own, "aca") if own else None

    def less_fedavg(self, algorithm: str, readout: str) -> Contrast | None:
        """An algorithm less FedAvg, both under one readout."""
        own, base = self.method(algorithm), self.method("fedavg")
        return contrast(Model(own, readout), Model(base, readout)) if own and base else None


def better_readout(setting: Setting) -> Model:
    """Under the one with the higher AMP."""
    models = [Model(setting, readout) for readout in READOUTS]
    return max(models, key=lambda model: model.mean("amp") or 0)


def worlds(evidence: Evidence) -> list[World]:
    """Where FedAvg and FedKF+ at least were run with all seeds."""
    return [w for w in places_of(evidence) if w.method(BASELINE) and w.method(FAMILY[-1])]


def unfinished(evidence: Evidence) -> list[str]:
    """What was begun or planned where others have all seeds, and has not as many."""
    found = []
    for place in places_of(evidence):
        if any(one.runs for one in place.planned):
            known = {one.method for one in place.settings if one.runs}
            left = [one.method for one in place.planned if one.method not in known]
            found += [f"{listed(left)} on {place.title}"] if left else []
    return found


def places_of(evidence: Evidence) -> list[World]:
    """Letters, photographs and natural sites."""
    suites = {
        LETTERS: [*evidence.settings(LETTERS), *evidence.settings("letters-alone")],
        PHOTOGRAPHS: [
            *photograph_settings(evidence, PHOTOGRAPHS),
            *evidence.settings("photographs-alone"),
        ],
        f"{PHOTOGRAPHS}, ResNet-8": photograph_settings(evidence, RESNET),
        "": evidence.settings(SITES),
    }
    again = {LETTERS: places(evidence.settings("letters-personal"))}
    return [
        World(kind, where, with_all_seeds(members), again.get(kind, {}).get(where, ()), members)
        for kind, settings in suites.items()
        for where, members in places(sorted(settings, key=lambda one: -(one.alpha or 0))).items()
    ]


def with_all_seeds(settings: Sequence[Setting]) -> list[Setting]:
    """Those with as many seeds as any has: means over other seeds cannot be ranked."""
    most = max(len(seeds_of(one)) for one in settings)
    return [one for one in settings if len(seeds_of(one)) == most]


def seeds_of(setting: Setting) -> set[tuple[str, int]]:
    return {run.pairing for run in setting.runs}


def sent(setting: Setting) -> float:
    """Bytes of a run, both ways."""
    return fmean(sum(run.summary.bytes.values()) for run in setting.runs)


def over_clients(found: Contrast) -> str:
    """What a client gains, with an interval over clients, and how many do."""
    return f"{a_client(found)}; {found.better} gain, {found.worse} lose"


def a_client(found: Contrast) -> str:
    """Without a star: it says how much hangs on which clients there are, not on the seed."""
    return shown(found.clients).removesuffix(f" {STAR}")


def active_share(setting: Setting) -> float:
    """How many of the clients take part in a round."""
    return setting.runs[0].config.federation.fraction


# -- what T1 and T2 are worth ----------------------------------------------------------------------

HEAD = (
    "AMP, points",
    f"of the last {LATE} rounds",
    "FM, ×10⁻³",
    "WLP, points",
    "a client, points",
    "seeds",
)


def contrast_row(found: Contrast) -> list[str]:
    amp, fm, wlp = (shown(found.metrics.get(metric), metric) for metric in ("amp", "fm", "wlp"))
    return [amp, shown(found.late), fm, wlp, over_clients(found), str(found.seeds)]


def together(found: Mapping[str, Contrast]) -> str:
    """Which differences in AMP stand when one counts how many there are."""
    amps = {name: contrast.metrics["amp"] for name, contrast in found.items()}
    return f"In AMP after the last round, {corrected(amps)}."


def t1_alone(world: World) -> Contrast | None:
    """FedAvg read as OCA less the same runs read as ACA."""
    own = world.method("fedavg")
    return contrast(Model(own, "oca"), Model(own, "aca")) if own else None


def worth_of_t1(evidence: Evidence) -> str:
    found = t1_everywhere(worlds(evidence))
    rows = [[title, *contrast_row(one)] for title, one in found.items()]
    told = f"{together(found)} {lately(found)}"
    return f"{table(['FedAvg, OCA less ACA', *HEAD], rows)}\n\n{told}"


def lately(found: Mapping[str, Contrast]) -> str:
    """Where the last rounds together say more than the last alone."""
    sure = {title: c.late for title, c in found.items() if c.late and c.late.beyond_chance}
    above = [title for title, late in sure.items() if late.mean > 0]
    below = [title for title, late in sure.items() if late.mean < 0]
    told = f"By the mean of the last {LATE} rounds {len(above)} are above 0 beyond chance"
    return f"{told}, and below it {listed(below) or 'none'}."


def t1_everywhere(found: Sequence[World]) -> dict[str, Contrast]:
    return {world.title: one for world in found if (one := t1_alone(world))}


def t2_everywhere(found: Sequence[World]) -> dict[str, Contrast]:
    """FedKF's variants less FedAvg, both read as OCA."""
    return {
        f"{world.title}: {algorithm_label(name)}": one
        for world in found
        for name in FAMILY
        if (one := world.less_fedavg(name, "oca"))
    }


def worth_of_t2(evidence: Evidence) -> str:
    """What distillation adds where both sides have T1."""
    rows, every = [], worlds(evidence)
    for world in every:
        for name in FAMILY:
            own, found = world.method(name), world.less_fedavg(name, "oca")
            if own and found:
                rows.append([f"{world.title}: {own.method}", *contrast_row(found)])
    made = table(["less FedAvg, both OCA", *HEAD], rows)
    return f"{made}\n\n{together(t2_everywhere(every))}"


def round_cost(evidence: Evidence, world: World, algorithm: str) -> float | None:
    """The time of a round in FedAvg's, where both were measured."""
    seconds = evidence.seconds(world.paced)
    known = algorithm in seconds and BASELINE in seconds
    return seconds[algorithm] / seconds[BASELINE] if known else None


def federated_or_alone(evidence: Evidence) -> str:
    """What sites gain over training alone, by the shared model and by one of their own."""
    names, rows = (BASELINE, *FAMILY[1:]), []
    for world in worlds(evidence):
        alone = world.alone()
        if alone is None:
            continue
        cells = []
        for readout in ("oca", PERSONAL):
            for name in names:
                found = [
                    less
                    for one in (world.method(name), find(world.again, name))
                    if one and (less := contrast(Model(one, readout), alone))
                ]
                cells.append(less_alone(found[0]) if found else NONE)
        rows.append([world.title, *cells])
    labels = [algorithm_label(name) for name in names]
    head = [*(f"{label} (OCA)" for label in labels), *(f"{label}, personal" for label in labels)]
    return table(["less training alone, AMP, points", *head], rows) if rows else NOTHING


def less_alone(found: Contrast) -> str:
    """By how much, and how many sites are better off alone."""
    return f"{shown(found.metrics.get('amp'))}; {found.worse} of {found.count}"


def fedkf_plus(evidence: Evidence) -> str:
    """FedKF+ less what it should beat, under both readouts."""
    rows = []
    for world in worlds(evidence):
        own = world.method("fedkf+")
        others = [one for one in world.settings if one.runs and one.algorithm in PREDECESSORS]
        for other in others if own else ():
            rows += less_row(world, own, other) if own else []
    return table(["FedKF+", *LESS], rows) if rows else NOTHING


def adversarial(evidence: Evidence) -> str:
    """FedKF without its generator's adversarial term less FedKF with it, and less FedAvg."""
    rows = []
    for world in worlds(evidence):
        own = next((one for one in world.settings if one.method.endswith(PLAIN)), None)
        for other in (world.method("fedkf"), world.method("fedavg")):
            rows += less_row(world, own, other) if own and own.runs and other else []
    return table([f"FedKF {PLAIN}", *LESS], rows) if rows else NOTHING


LESS = ("AMP, points: ACA", "OCA", "WLP, points: ACA", "OCA", "seeds")


def less_row(world: World, own: Setting, other: Setting) -> list[list[str]]:
    """A method less another on the same data under both readouts, if they can be compared."""
    found = [contrast(Model(own, readout), Model(other, readout)) for readout in READOUTS]
    known = [one for one in found if one]
    cells = [shown(one.metrics.get(m), m) for m in ("amp", "wlp") for one in known]
    title = f"{world.title}: less {other.method}"
    return [[title, *cells, str(known[0].seeds)]] if known else []


def which_teacher(evidence: Evidence) -> str:
    """FedKF, taught by OCA, less FedKF-, taught by ACA, under both readouts."""
    found = teachers(worlds(evidence))
    rows = [[title, *contrast_row(one)] for title, one in found.items()]
    return table(["FedKF less FedKF-", *HEAD], rows) if rows else NOTHING


def teachers(found: Sequence[World]) -> dict[str, Contrast]:
    """FedKF less FedKF- where data were divided by α."""
    made = {}
    for world in found:
        oca, aca = world.method("fedkf"), world.method("fedkf-")
        for readout in READOUTS if oca and aca and world.kind else ():
            one = contrast(Model(oca, readout), Model(aca, readout)) if oca and aca else None
            if one:
                made[f"{world.title}, {readout.upper()}"] = one
    return made
