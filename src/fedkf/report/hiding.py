"""What a run with secure sums promises, to whom, and what it does not."""

from __future__ import annotations

from typing import Any

from fedkf.report.runs import Run


def settings(run: Run) -> dict[str, Any]:
    """Its section `transport`; empty where uploads are not hidden."""
    section = run.section("transport")
    return section if section.get("secure") is True else {}


def left_out(run: Run) -> int:
    """How many uploads T1 did not count."""
    return sum(len(record.uncounted) for record in run.rounds)


def in_a_line(run: Run) -> str:
    """For the dashboard; empty where uploads are not hidden."""
    if not settings(run):
        return ""
    count = left_out(run)
    more = f"; T1 has left out {count} uploads that sums would have bared" if count else ""
    return f"Secure sums: the server sees what sites' models add up to, never one of them{more}"


def promise(run: Run) -> dict[str, Any] | None:
    """Sentences for the report; None for a run whose server saw every model."""
    section = settings(run)
    if not section:
        return None
    share, count = section.get("threshold"), left_out(run)
    promised = (
        "The server saw what the models of three sites or more add up to, and no site's model, as "
        "long as it followed the protocol and worked with no site. Masks hold against fewer than "
        + (f"{share:.0%}" if isinstance(share, float | int) else "a threshold")
        + " of a round's sites, but sites can subtract their own models from sums."
    )
    notes = [
        "Not hidden: how many samples a site has, how many of its test samples are classified "
        "correctly, in which rounds it took part, and the sums themselves, which are models.",
        "A site that sends nonsense spoils a sum, and nobody sees which one it was: "
        "federation.defence has nothing to look at.",
    ]
    if section.get("exact") is True:
        notes.insert(0, "Sums of several rounds together may give single models (transport.exact).")
    elif count:
        notes.append(
            f"T1 left out {count} uploads that sums of several rounds together would have given, "
            "and kept those sites' earlier models."
        )
    if "experiment" not in run.section("provenance"):
        notes.append(
            "This was a rehearsal on one machine: its keys came from the seed. Real sites draw "
            "theirs from their own machines."
        )
    return {"run": run.label, "promise": promised, "notes": notes}
