"""What a report says in sentences, for a reader who knows sites rather than variances."""

from __future__ import annotations

from collections.abc import Sequence

from fedkf.charts.labels import percent
from fedkf.metrics import METRICS
from fedkf.report.fairness import gains, site_scores
from fedkf.report.figures import model_label
from fedkf.report.repeats import repeats
from fedkf.report.runs import Run

MEANINGS = {
    "AMP": "average model performance: the share of all test cases that the model gets right, "
    "over all sites together. Large sites count more.",
    "FM": "fairness metric: how far the sites' accuracies lie apart (their variance), every site "
    "counting once. 0 means all sites are served alike; lower is fairer.",
    "WLP": "worst-case local performance: the accuracy at the site that is served worst.",
    "ACA": "the model averaged over the sites that took part in the last round, which is the "
    "method's own.",
    "OCA": "the model averaged over the latest contribution of every site, whether or not it took "
    "part in the last round.",
}
FEW = 30
EQUAL = 1e-12
UNTESTED = "None of the sites has test data, so nothing can be said about accuracy."


def glossary() -> dict[str, str]:
    """What the letters in the tables stand for, every metric among them."""
    metrics = {}
    for metric in METRICS.values():
        better = "higher" if metric.higher_is_better else "lower"
        metrics[metric.label] = f"{metric.about}; {better} is better."
    return metrics | MEANINGS


def usable(runs: Sequence[Run]) -> list[Run]:
    """Runs of a shared model that have been evaluated."""
    return [run for run in runs if run.readouts and not run.alone]


def reference(runs: Sequence[Run]) -> Run | None:
    """What the others are compared with: FedAvg where it is there, else the first."""
    shared = usable(runs)
    return next((r for r in shared if r.algorithm == "fedavg"), shared[0] if shared else None)


def common_readout(one: Run, two: Run) -> str:
    """The first readout that both runs have."""
    return next((r for r in one.readouts if r in two.readouts), one.readouts[0])


def worst_accuracy(run: Run, readout: str) -> float:
    """The accuracy at the worst-served site; below all others where it is not known."""
    numbers = run.numbers(readout)
    known = numbers["wlp"] if numbers else None
    return -1.0 if known is None else known


def change(before: float | None, after: float | None, what: str) -> str:
    """ "lifts …", "lowers …" or "leaves …", by the numbers as they are shown."""
    a, b = percent(before), percent(after)
    if a == b:
        return f"leaves {what} at {b}"
    return f"{'lifts' if (after or 0) > (before or 0) else 'lowers'} {what} from {a} to {b}"


def compared(base: Run, other: Run, readout: str) -> str | None:
    """What the other run does to the worst-served site and to the average, in one readout."""
    one, two = base.numbers(readout), other.numbers(readout)
    if one is None or two is None or one["wlp"] is None or two["wlp"] is None:
        return None
    worst = change(one["wlp"], two["wlp"], "the worst-served site")
    average = change(one["amp"], two["amp"], "the average over all sites")
    verb = worst.split()[0] + " "
    return f"{other.label} {worst} and {average.removeprefix(verb)}"  # a verb said once


def below_headline(runs: Sequence[Run]) -> str:
    """Which model the headline is about, and what the other readouts say."""
    base = reference(runs)
    if base is None:
        return ""
    others = [run for run in usable(runs) if run is not base]
    first = common_readout(base, others[0]) if len(others) == 1 else base.readouts[0]
    text = f"This is about the {first.upper()} model, {MEANINGS[first.upper()].rstrip('.')}."
    text = text.replace("the model averaged", "averaged")
    for readout in base.readouts:
        if len(others) == 1 and readout != first and readout in others[0].readouts:
            changes = compared(base, others[0], readout)
            text += f" With the {readout.upper()} model, {changes}." if changes else ""
    return text


def headline(runs: Sequence[Run]) -> str:
    """The report in a sentence."""
    shared, base = usable(runs), reference(runs)
    if base is None:
        return headline_alone(runs)
    others = [run for run in shared if run is not base]
    if not others:
        return headline_of_one(base)
    if len(others) == 1:
        changes = compared(base, others[0], common_readout(base, others[0]))
        return f"Compared with {base.label}, {changes}." if changes else UNTESTED
    readout = base.readouts[0]
    ranked = sorted(shared, key=lambda run: -worst_accuracy(run, readout))
    best = ranked[0]
    if worst_accuracy(best, readout) < 0:
        return UNTESTED
    if best is base:
        return (
            f"Of {len(shared)} models, {base.label} serves the worst-served site best: "
            f"{percent(worst_accuracy(base, readout))}, before {ranked[1].label} with "
            f"{percent(worst_accuracy(ranked[1], readout))}."
        )
    return (
        f"Of {len(shared)} models, {best.label} serves the worst-served site best: "
        f"{percent(worst_accuracy(best, readout))}, against "
        f"{percent(worst_accuracy(base, readout))} with {base.label}."
    )


def headline_of_one(run: Run) -> str:
    """What one shared model does for its sites."""
    readout = run.readouts[0]
    sites, numbers = site_scores(run, readout), run.numbers(readout)
    if not sites or numbers is None or numbers["amp"] is None:
        return UNTESTED
    return (
        f"The model that {len(sites)} sites trained together with {run.label} is right in "
        f"{percent(numbers['amp'])} of all test cases; at {sites[0].name}, the site that it serves "
        f"worst, in {percent(numbers['wlp'])}."
    )


def headline_alone(runs: Sequence[Run]) -> str:
    """What sites have that trained alone."""
    for run in runs:
        if run.readouts and (sites := site_scores(run, run.readouts[0])):
            return (
                f"Each of {len(sites)} sites trained alone; the accuracy of their models goes from "
                f"{percent(sites[0].accuracy)} ({sites[0].name}) to {percent(sites[-1].accuracy)} "
                f"({sites[-1].name})."
            )
    return "No round has been evaluated yet, so there is nothing to report."


def about_gain(runs: Sequence[Run]) -> list[str]:
    """Who is better off than alone, in a sentence per model."""
    sentences = []
    for run in usable(runs):
        found = gains(run, runs)
        if not found:
            continue
        better = sum(1 for value in found.values() if value > EQUAL)
        equal = sum(1 for value in found.values() if abs(value) <= EQUAL)
        text = f"With {model_label(run, run.readouts[0])}, {better} of {len(found)} sites are "
        text += f"better off than alone{f', {equal} the same' if equal else ''}"
        least = min(found, key=lambda name: (found[name], name))
        if found[least] < 0:
            text += f"; {least} loses most, {-100 * found[least]:.1f} points"
        sentences.append(text + ".")
    return sentences


def cautions(runs: Sequence[Run]) -> list[str]:
    """What keeps the numbers from meaning what they seem to."""
    sentences = [f"{run.label}: {note}." for run in runs for note in run.notes]
    for run in runs:
        done = run.rounds[-1].round if run.rounds else 0
        if not done:
            sentences.append(f"{run.label} has no finished round yet, so it has no numbers here.")
        elif run.summary is None:
            state = {"failed": "failed", "stopped": "was stopped"}.get(
                run.status.state, "is not finished"
            )
            sentences.append(
                f"{run.label} {state}: its numbers are those after round {done} of {run.planned}."
            )
    known = [run for run in runs if run.readouts]
    for what, values in (
        ("data or its division over the sites", {run.data_hash for run in known}),
        ("number of rounds", {run.rounds[-1].round for run in known}),
        ("seed", {run.seed for run in known}),
    ):
        if len(values) > 1:
            sentences.append(
                f"The runs differ in their {what}: part of any difference between them comes from "
                "that."
            )
    sentences += samples_of_sites(known) + few_tests(known)
    if len(usable(runs)) > 1 and not repeats(runs):
        sentences.append(
            "Each number comes from one training run. Differences of a few points can be chance; "
            "repeating the runs with other seeds shows how much."
        )
    return sentences


def samples_of_sites(runs: Sequence[Run]) -> list[str]:
    """Numbers of some sites only: the worst-served of them need not be the worst of all."""
    sentences = []
    for run in runs:
        score = run.score(run.readouts[0])
        if score and score.of:
            sentences.append(
                f"{run.label} was tested at {len(score.clients)} of {score.of} sites: its numbers "
                "are of these, and others may be served worse."
            )
    return sentences


def few_tests(runs: Sequence[Run]) -> list[str]:
    """The worst-served site is often a small one; say what a single case is worth there."""
    seen: dict[str, int] = {}
    for run in runs:
        for readout in run.readouts[:1]:
            for site in site_scores(run, readout)[:1]:
                if site.tested and site.tested < FEW:
                    seen[site.name] = site.tested
    return [
        f"{name} was tested on {tested} cases only: one case more or less moves its accuracy by "
        f"{100 / tested:.1f} points."
        for name, tested in seen.items()
    ]
