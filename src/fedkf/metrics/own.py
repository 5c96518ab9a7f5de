"""Metrics of a user's own: put into the tables, and described as data.

The description is kept with a run, so that a report shows its numbers without running its code: a
folder may come from somebody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from fedkf.metrics import METRICS, OURS, Metric, register, uncomputed
from fedkf.metrics.intervals import RESAMPLED
from fedkf.metrics.sites import OURS_OF_SITES, SITE_METRICS, SiteMetric

SHOWN = ("name", "label", "about", "hint", "higher_is_better", "percent", "digits", "sided")
"""What of a metric over sites is needed to show it."""
SHOWN_OF_SITES = ("name", "label", "about", "higher_is_better", "percent")
LONGEST = 200
MOST = 50


def add(given: object) -> Metric | SiteMetric:
    """Put a metric into its table; a plain function is one of the sites' accuracies.

    >>> def spread(accuracies):
    ...     return max(accuracies) - min(accuracies)
    >>> add(spread).label, METRICS.pop("spread").compute([0.25, None, 1.0], [])
    ('spread', 0.75)
    """
    made = given if isinstance(given, Metric | SiteMetric) else from_function(given)
    taken = OURS_OF_SITES if isinstance(made, SiteMetric) else OURS
    if made.name in taken:
        raise ValueError(f"is called {made.name!r}, as one of fedkf's own is; give it another name")
    if isinstance(made, Metric):
        return register(made)
    if not made.name.isidentifier():
        raise ValueError(f"is called {made.name!r}; a metric's name is a word")
    if made.statistic not in RESAMPLED and (made.statistic != "scores" or made.each is None):
        known = ", ".join(RESAMPLED)
        raise ValueError(
            f"is made of {made.statistic!r}; a site has {known}, and scores for one with `each`"
        )
    SITE_METRICS[made.name] = made
    return made


def from_function(given: object) -> Metric:
    """A metric over sites of a function of their accuracies, those without test data left out."""
    if not callable(given) or isinstance(given, type):
        raise ValueError("is no fedkf.metrics.Metric, no SiteMetric and no function of accuracies")
    function: Callable[[list[float]], float] = given
    name = str(getattr(given, "__name__", ""))
    about = (getattr(given, "__doc__", None) or name).strip().splitlines()[0].rstrip(".")

    def known(values: Iterable[float | None]) -> float:
        return float(function([value for value in values if value is not None]))

    return Metric(name, name.replace("_", " "), about, known)


def described() -> list[dict[str, Any]]:
    """What is needed to show the numbers of all metrics that are computed here and are not ours."""
    own = [m for m in METRICS.values() if m.name not in OURS and m.function is not uncomputed]
    of_sites = [m for m in SITE_METRICS.values() if m.name not in OURS_OF_SITES and m.targets]
    return [
        *({"of": "sites", **{name: getattr(m, name) for name in SHOWN}} for m in own),
        *({"of": "site", **{name: getattr(m, name) for name in SHOWN_OF_SITES}} for m in of_sites),
    ]


def recall(content: object) -> None:
    """Put into the tables what a run's folder describes and nobody has added; nothing is run.

    What is no such description is passed over.
    """
    for about in content[:MOST] if isinstance(content, list) else []:
        if not isinstance(about, dict):
            continue
        of_site = about.get("of") == "site"
        names = SHOWN_OF_SITES if of_site else SHOWN
        found = {name: about[name] for name in names if name in about}
        if not fits(found) or found["name"] in (SITE_METRICS if of_site else METRICS):
            continue
        if of_site:
            found |= {"statistic": "", "formula": uncomputed, "targets": ()}
            SITE_METRICS[found["name"]] = SiteMetric(**found)
        else:
            register(Metric(**found, function=uncomputed, weighted=True))


def fits(found: dict[str, Any]) -> bool:
    """Whether a description is one: texts that can be shown, and the rest as it is with ours."""
    if not {"name", "label", "about"} <= found.keys():
        return False
    usual: dict[str, Any] = {f.name: type(f.default) for f in fields(Metric) if f.name in SHOWN}
    for name, value in found.items():
        wanted = str if name in ("name", "label", "about") else usual[name]
        if type(value) is not wanted or (type(value) is int and not 0 <= value <= 9):
            return False
        if isinstance(value, str) and (len(value) > LONGEST or not value.isprintable()):
            return False
    return bool(found["name"].isidentifier())
