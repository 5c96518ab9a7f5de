"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table


def table(title: str, *columns: str) -> Table:
    made = Table(
        title=title,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        pad_edge=False,
        collapse_padding=True,
    )
    for index, column in enumerate(columns):
        made.add_column(column, justify="left" if index == 0 else "right", no_wrap=index == 0)
    return made


def results_table(summaries: Mapping[str, Mapping[str, Any]]) -> Table:
    """AMP, FM and WLP of every algorithm and readout."""
    made = table("", "algorithm", "readout", "AMP %", "FM", "WLP %")
    for name, summary in summaries.items():
        for readout, score in summary["readouts"].items():
            if score["amp"] is None:
                made.add_row(name, readout.upper(), "no test data", "", "")
                continue
            numbers = (
                f"{100 * score['amp']:.1f}",
                f"{score['fm']:.4f}",
                f"{100 * score['wlp']:.1f}",
            )
            part = f" ({score['judged']} of {score['of']} clients)" if "of" in score else ""
            made.add_row(name, readout.upper() + part, *numbers)
    return made


def clients_table(
    partition: Mapping[str, Any], accuracies: Mapping[str, Sequence[float | None]]
) -> Table:
    """Accuracy of every client under each model."""
    made = table("accuracy of each client, %", "client", "train", "test", *accuracies)
    for k, client in enumerate(partition["clients"]):
        shown = [
            "–" if row[k] is None else f"{100 * row[k]:.1f}"  # type: ignore[operator]
            for row in accuracies.values()
        ]
        made.add_row(client["name"], str(client["train"]), str(client["test"]), *shown)
    return made


def algorithms_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """What each algorithm needs, discloses and costs; the paper's own word where it differs."""
    made = table(
        "per round and client: bytes in models, passes outside the steps over all its data; "
        "per batch: passes forward/backward",
        "algorithm",
        "fair",
        "proxy",
        "discloses",
        "down",
        "up",
        "classifier",
        "generator",
        "outside",
    )
    for row in rows:
        passes, outside, discloses = row["passes"], row["passes_outside"], row["discloses"]
        made.add_row(
            row["name"],
            beside(row, "fairness_aware", yes(row["fairness_aware"]), yes),
            beside(row, "needs_proxy_data", yes(row["needs_proxy_data"]), yes),
            beside(
                row, "leaks", ", ".join(discloses), lambda leaks: "more" if leaks else "no more"
            ),
            f"{row['bytes_down']:g}",
            f"{row['bytes_up']:g}",
            beside(row, "passes", classifier(passes), classifier),
            beside(row, "passes", generator(passes), generator),
            classifier(outside) if any(outside.values()) else "",
        )
    return made


def beside(row: Mapping[str, Any], key: str, ours: str, show: Callable[[Any], str]) -> str:
    """Ours, and what the paper prints if that is something else."""
    theirs = show(row["paper"][key]) if key in row["differs"] else ours
    return ours if theirs == ours else f"{ours} (paper: {theirs})"


def yes(value: bool) -> str:
    return "yes" if value else "no"


def leakage(leaks: bool) -> str:
    return "leaks" if leaks else "no leakage"


def through(model: str, passes: Mapping[str, float]) -> str:
    return f"{passes[f'{model}_forward']:g}/{passes[f'{model}_backward']:g}"


def classifier(passes: Mapping[str, float]) -> str:
    return through("classifier", passes)


def generator(passes: Mapping[str, float]) -> str:
    return through("generator", passes)
