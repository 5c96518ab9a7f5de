"""What a run promises of its samples, to whom, what it has spent, and what it does not promise."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from fedkf.report.runs import Run

LITTLE = 4.0
"""An ε above which the worst case is next to certainty."""


def settings(run: Run) -> dict[str, Any]:
    """Its section `privacy`; empty where nothing is promised."""
    return run.section("privacy") if any(r.privacy for r in run.rounds) else {}


def budget_of(section: dict[str, Any]) -> float | None:
    """The ε that no site is to go beyond, if there is one."""
    epsilon = section.get("epsilon")
    return epsilon if isinstance(epsilon, float | int) else None


def spent(run: Run) -> dict[int, float]:
    """ε of each client so far."""
    found: dict[int, float] = {}
    for record in run.rounds:
        if record.privacy is not None:
            found |= dict(zip(record.privacy.clients, record.privacy.epsilon, strict=True))
    return dict(sorted(found.items()))


def certainty(epsilon: float) -> str:
    """How often a guess, right half of the time before, can be right after: e^ε / (1 + e^ε).

    >>> certainty(2.0)
    '88.1'
    """
    share = 100 / (1 + math.exp(-epsilon))
    return "over 99.9" if share > 99.9 else f"{share:.1f}"


def so_far(run: Run) -> str:
    """A line: what has been spent of what; empty where nothing is promised."""
    section, found = settings(run), spent(run)
    if not section:
        return ""
    budget = budget_of(section)
    of = "" if budget is None else f" of ε = {budget:g} at most"
    most = max(found.values(), default=0.0)
    return f"Privacy: no site has spent more than ε = {most:.3g}{of} (δ = {section.get('delta')})"


def promise(run: Run) -> dict[str, Any] | None:
    """Sentences and a table for the report; None for a run without privacy."""
    section, found = settings(run), spent(run)
    if not section:
        return None
    unit = run.section("data").get("unit")
    what = "any one training sample" if unit is None else f"all training samples of any one {unit}"
    most = max(found.values(), default=0.0)
    promised = (
        f"Whoever sees the models, every upload of every round included, and knows all other "
        f"samples, learns of whether {what} took part no more than ε = {most:.3g} allows, with "
        f"δ = {section.get('delta')}, at the site that has spent most. Who was right in half of "
        f"the cases by guessing is right in {certainty(most)} % of them at the very most"
        f"{', which by itself promises little.' if most > LITTLE else '.'}"
    )
    if (budget := budget_of(section)) is not None:
        promised += (
            f" A site that another round would take beyond ε = {budget:g} is not asked "
            f"again; the noise was made for {section.get('turns')} rounds of each site."
        )
    without = ["how many samples a site has", "in which rounds it took part"]
    if run.evaluated:
        without.append("the test samples that the models were judged by here")
    without.append("what many samples of a site have in common, which is what a model learns")
    notes = [f"Not protected: {', '.join(without[:-1])}, and {without[-1]}."]
    if "experiment" not in run.section("provenance"):
        notes.append(
            "This was a rehearsal on one machine: its noise came from the seed, and whoever knows "
            "that can take it away. Real sites draw theirs from their own machines and keep their "
            "own accounts."
        )
    turns = Counter(k for r in run.rounds if r.privacy for k in r.privacy.clients)
    rows = [
        {"site": run.site(client), "rounds": turns[client], "epsilon": f"{value:.3g}"}
        for client, value in found.items()
    ]
    return {"run": run.label, "promise": promised, "notes": notes, "rows": rows}
