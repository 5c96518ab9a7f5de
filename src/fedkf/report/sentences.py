"""What a report says in sentences, for a reader who knows sites rather than variances."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from fedkf.charts.labels import algorithm_label, percent
from fedkf.metrics import METRICS, PAPER
from fedkf.metrics.sites import ACCURACY, ONE_KIND, SITE_METRICS, SiteMetric
from fedkf.report.fairness import gains, site_scores
from fedkf.report.figures import model_label
from fedkf.report.measures import judged_by, metrics_of, shown
from fedkf.report.pairs import Contest, contests, usable
from fedkf.report.repeats import repeats, settings_of
from fedkf.report.runs import Run
from fedkf.runs.statistics import CHANCE, EQUAL, amount, over_seeds

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
    "PERSONAL": "each site under a model of its own, made from the shared one with the site's own "
    "training cases.",
}
FEW = 30
NAMED = 8
APART = "The runs had different data or seeds, so that none of them is compared with another."


def glossary(runs: Sequence[Run] = ()) -> dict[str, str]:
    """What the letters in the tables stand for, every metric among them."""
    metrics, about = {}, metrics_of(runs)
    for metric in about.values():
        better = "higher" if metric.higher_is_better else "lower"
        metrics[metric.label] = f"{metric.about}; {better} is better."
    if about is METRICS:
        return metrics | MEANINGS
    told = {about[name].label for name in PAPER}  # theirs are about accuracy
    return metrics | {word: text for word, text in MEANINGS.items() if word not in told}


def change(
    before: float | None, after: float | None, what: str, by: SiteMetric = SITE_METRICS[ACCURACY]
) -> str:
    """ "lifts …", "lowers …" or "leaves …", by the numbers as they are shown."""
    a, b = shown(by, before), shown(by, after)
    if a == b:
        return f"leaves {what} at {b}"
    return f"{'lifts' if (after or 0) > (before or 0) else 'lowers'} {what} from {a} to {b}"


def compared(contest: Contest, readout: str) -> str | None:
    """What a setting does to the worst-served site and to the average, in one readout."""
    worst, average = ("wlp", "the worst-served site"), ("amp", "the average over all sites")
    first, second = (changed(contest, readout, *what) for what in (worst, average))
    if first is None or second is None:
        return None
    verb = first.split()[0] + " "
    if verb == "makes ":  # "no difference beyond chance to …" wants its verb again
        return f"{contest.label} {first} and {second}"
    return f"{contest.label} {first} and {second.removeprefix(verb)}"  # a verb said once


def changed(contest: Contest, readout: str, metric: str, what: str) -> str | None:
    """What a setting does to one metric: from where to where, or by how much over seeds."""
    found, values = contest.difference(readout, metric), contest.values(readout, metric)
    if found is None:
        return None
    if len(contest.pairs) == 1:
        return change(*values[0], what, judged_by([contest.base]))
    about = metrics_of([contest.base])[metric]
    if found.interval is not None and not found.beyond_chance:
        return f"makes {CHANCE} to {what} ({amount(found, about)})"
    if about.show(abs(found.mean)) == about.show(0.0):
        return f"leaves {what} where it is"
    size = amount(found if found.mean > 0 else found.reversed(), about).removeprefix("+")
    return f"{'lifts' if found.mean > 0 else 'lowers'} {what} by {size}"


def below_headline(runs: Sequence[Run]) -> str:
    """Which model the headline is about, and what the other readouts say."""
    shared, found = usable(runs), contests(runs)
    if not shared:
        return ""
    one = found[0] if len(found) == 1 else None
    known = one.readouts() if one else []
    first = known[0] if known else shared[0].readouts[0]
    text = f"This is about the {first.upper()} model, {MEANINGS[first.upper()].rstrip('.')}."
    text = text.replace("the model averaged", "averaged")
    for readout in known[1:] if one else ():
        changes = compared(one, readout) if one else None
        text += f" With the {readout.upper()} model, {changes}." if changes else ""
    return text


def headline(runs: Sequence[Run]) -> str:
    """The report in a sentence; what it compares had the same data and seeds."""
    shared, found = usable(runs), contests(runs)
    if not shared:
        return headline_alone(runs)
    if not found:
        same = len({settings_of(run) for run in shared}) == 1
        return headline_of_one(shared) if same else APART
    if len(found) == 1:
        return headline_of_two(found[0])
    common = set.intersection(*({other.pairing for _, other in c.pairs} for c in found))
    if len({settings_of(contest.base) for contest in found}) > 1 or not common:
        return headline_of_data(found)
    return headline_of_many([contest.within(common) for contest in found])


def headline_of_two(contest: Contest) -> str:
    """What one setting does, compared with the baseline."""
    known = contest.readouts()
    changes = compared(contest, known[0]) if known else None
    seeds = len(contest.pairs)
    over = f" over {seeds} seeds" if seeds > 1 else ""
    if changes is None:
        return untold([contest.base])
    return f"Compared with {contest.base_label}{over}, {changes}."


def headline_of_many(found: Sequence[Contest]) -> str:
    """Who serves the worst-served site best, by means over the seeds that all were run with."""
    readout, base = found[0].base.readouts[0], found[0].base_label
    values = {c.label: c.values(readout, "wlp") for c in found}
    means = {
        label: statistics.fmean(after for _, after in pairs)
        for label, pairs in values.items()
        if pairs
    }
    if not means:
        return untold([found[0].base])
    by = judged_by([found[0].base])
    better = 1 if by.higher_is_better else -1
    best = max(means, key=lambda label: better * means[label])
    mark = statistics.fmean(before for before, _ in values[best])
    seeds = len(found[0].pairs)
    over = f" on average over {seeds} seeds" if seeds > 1 else ""
    text = f"Of {len(found) + 1} models, {{}} serves the worst-served site best: {{}}{over}, "
    if shown(by, mark) == shown(by, means[best]):
        both = f"{base} and {best} serve the worst-served site alike"
        return f"Of {len(found) + 1} models, {both}, and best: {shown(by, mark)}{over}."
    if better * mark >= better * means[best]:
        return text.format(base, shown(by, mark)) + f"before {best} with {shown(by, means[best])}."
    text = text.format(best, shown(by, means[best])) + f"against {shown(by, mark)} with {base}"
    difference = over_seeds([after - before for before, after in values[best]])
    if difference.interval is None:
        return text + "."
    chance = "" if difference.beyond_chance else f", {CHANCE}"
    return f"{text}: {amount(difference, metrics_of([found[0].base])['wlp'])}{chance}."


def headline_of_data(found: Sequence[Contest]) -> str:
    """How often the worst-served site gains, where there are different data to look at."""
    known = [c.difference(c.readouts()[0], "wlp") for c in found if c.readouts()]
    means = [difference.mean for difference in known if difference is not None]
    if not means:
        return untold([found[0].base])
    if not judged_by([found[0].base]).higher_is_better:
        means = [-mean for mean in means]
    lifted = sum(1 for mean in means if mean > EQUAL)
    lowered = sum(1 for mean in means if mean < -EQUAL)
    return (
        f"Of {len(means)} comparisons with {algorithm_label(found[0].base.algorithm)}, each on the "
        f"same data with the same seeds, {lifted} lift the worst-served site and {lowered} lower "
        "it. Runs on different data are not compared."
    )


def headline_of_one(runs: Sequence[Run]) -> str:
    """What one setting does for its sites, on average where it was run with several seeds."""
    run, readout = runs[0], runs[0].readouts[0]
    by = judged_by(runs)
    for row in repeats(runs)[:1] if by.name == ACCURACY else ():
        means = [percent(row["metrics"][name][0]) for name in ("amp", "wlp")]
        return (
            f"On average over {row['runs']} seeds, the model of {row['what']} is right in "
            f"{means[0]} of all test cases, and in {means[1]} at the site that it serves worst."
        )
    sites, numbers = site_scores(run, readout), run.numbers(readout)
    if not sites or numbers is None or numbers["amp"] is None:
        return untold(runs)
    if by.name != ACCURACY:
        return (
            f"The model that {len(sites)} sites trained together with {run.label} reaches an "
            f"average {by.label} of {shown(by, numbers['amp'])}; at {sites[0].name}, the site that "
            f"it serves worst, {shown(by, numbers['wlp'])}."
        )
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
                f"Each of {len(sites)} sites trained alone; the {sites[0].metric.label} of their "
                f"models goes from {sites[0].show()} ({sites[0].name}) to {sites[-1].show()} "
                f"({sites[-1].name})."
            )
    if any(run.readouts for run in runs):
        return untold(runs)
    return "No round has been evaluated yet, so there is nothing to report."


def untold(runs: Sequence[Run]) -> str:
    """Why no site has a number: nobody tests, or nobody's test samples have the metric."""
    label, counted = judged_by(runs).label, judged_by(runs).name == ACCURACY
    if not counted and any(site.test for run in runs for site in run.partition.clients):
        return f"{label[0].upper()}{label[1:]} cannot be said of any site: {ONE_KIND}."
    return f"None of the sites has test data, so nothing can be said about {label}."


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
            by = judged_by([run])
            lost = f"{by.show(-found[least])}{' points' if by.percent else ''}"
            text += f"; {least} loses most, {lost}"
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
    paired = "only those with the same data and the same seed are compared with each other"
    partly = "part of any difference between them comes from that"
    for what, values, then in (
        ("data or its division over the sites", {run.data_hash for run in known}, paired),
        ("number of rounds", {run.rounds[-1].round for run in known}, partly),
        ("seed", {run.seed for run in known}, paired),
        ("metric", {run.metric for run in known}, "numbers of different metrics do not compare"),
    ):
        if len(values) > 1:
            sentences.append(f"The runs differ in their {what}: {then}.")
    sentences += not_compared(runs) + samples_of_sites(known) + few_tests(known)
    if len(usable(runs)) > 1 and not repeats(runs):
        sentences.append(
            "Each number comes from one training run. Differences of a few points can be chance; "
            "repeating the runs with other seeds shows how much."
        )
    return sentences


def not_compared(runs: Sequence[Run]) -> list[str]:
    """Runs without a baseline on their data and seed, and runs that are there twice."""
    shared, found = usable(runs), contests(runs)
    taken = {run.path for contest in found for pair in contest.pairs for run in pair}
    seen: dict[tuple[str, object], str] = {}
    twice, alone = [], []
    for run in shared:
        key = (settings_of(run), run.pairing)
        if run.pairing is not None and key in seen:
            twice.append(
                f"{run.label} has the settings and the seed of {seen[key]}; the two count once."
            )
        elif run.path not in taken:
            alone.append(run.label)
        seen.setdefault(key, run.label)
    if alone and len({settings_of(run) for run in shared}) > 1:
        named = ", ".join(alone[:NAMED]) + (" …" if len(alone) > NAMED else "")
        twice.append(f"Compared with no other, for want of one with its data and seed: {named}.")
    return twice


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
                if site.right is not None and site.tested and site.tested < FEW:
                    seen[site.name] = site.tested
    return [
        f"{name} was tested on {tested} cases only: one case more or less moves its accuracy by "
        f"{100 / tested:.1f} points."
        for name, tested in seen.items()
    ]
