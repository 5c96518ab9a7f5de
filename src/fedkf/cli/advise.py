"""`fedkf advise`: should these sites train together at all?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkf.cli.consoles import once, out, say, show
from fedkf.cli.options import DataDirOption, ObjectOption, QuietOption, SetOption, refuse_file
from fedkf.cli.run import run_with_progress
from fedkf.cli.tables import table

if TYPE_CHECKING:
    from rich.table import Table

    from fedkf.metrics.sites import SiteMetric
    from fedkf.runs.schema import Config
    from fedkf.runs.verdicts import Estimate, Gain, Judged, Site

HEADS = {"alone": "alone", "fedavg": "FedAvg", "shared": "shared", "personal": "personal"}
BESIDE = "fedavg"
TITLES = {"alone": "training alone", "fedavg": "FedAvg", "shared": "FedKF+"}
VERDICTS = {"mended": "personal", "either": "not shared", "untested": "few"}
"""How a verdict is shown, where not by its name."""
WIDE = 1000
"""Columns that every table has room in."""


def advise(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="A preset, a configuration, a .csv or .npz file, or a folder."
        ),
    ],
    set_: SetOption = None,
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of a table: what is predicted.")
    ] = None,
    site: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of a table: where a row is from.")
    ] = None,
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="[default: runs/advice-<data>]")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes.", min=0)] = None,
    quiet: QuietOption = False,
    as_json: ObjectOption = False,
    data_dir: DataDirOption = None,
) -> None:
    """Train alone, together and personalised at a small budget; who gains, and what follows."""
    from fedkf.core.payload import write_atomically
    from fedkf.runs.advising import fared, refuse_other, runs
    from fedkf.runs.config import parse_set
    from fedkf.runs.experiment import reporting_disk_errors
    from fedkf.runs.places import make_folder

    named = {"data.target": target, "data.site": site, "engine.workers": workers}
    given = {key: value for key, value in named.items() if value is not None}
    folder = out_ or Path("runs") / f"advice-{Path(data).stem}"
    refuse_file(folder)
    heard: set[str] = set()
    configs = runs(data, {**given, **parse_set(set_ or [])}, once(say, heard))
    refuse_other(folder, configs)
    make_folder(folder)
    found = fared(train(configs, folder, quiet, heard))
    result = told(found.sites, found.metric, found.two_classes)
    with reporting_disk_errors(folder):
        write_atomically(folder / "advice.json", (json.dumps(result, indent=2) + "\n").encode())
    if as_json:
        typer.echo(json.dumps(result))
        return
    show_advice(result, found.metric)
    show(f"files: {folder}")


def train(
    configs: Mapping[str, Config], folder: Path, quiet: bool, heard: set[str]
) -> dict[str, Path]:
    """Every run that is not finished, or what is left of it; the folder of each."""
    from fedkf.runs.store import RunFolder

    folders = {way: folder / way for way in configs}
    for number, (way, config) in enumerate(configs.items(), 1):
        title = f"{number} of {len(configs)}: {TITLES[way]}"
        begun = RunFolder(folders[way]).begun()
        advice = "the same command goes on"
        run_with_progress(config, folders[way], begun, quiet, title, advice, heard)
    return folders


def told(judged: Sequence[Judged], metric: SiteMetric, two_classes: bool = False) -> dict[str, Any]:
    """Everything that is said, for programs."""
    from fedkf.runs.verdicts import (
        ALONE,
        AVERAGED,
        PERSONAL,
        SHARED,
        advice,
        judge,
        learned,
        nothing,
        overall,
    )

    sites = judge(judged, metric.higher_is_better)
    unit, scale = (" points", 100.0) if metric.percent else (f" of {metric.label}", 1.0)
    pairs = {
        "shared over alone": (SHARED, ALONE),
        "personal over alone": (PERSONAL, ALONE),
        "shared over fedavg": (SHARED, AVERAGED),
    }
    better = metric.higher_is_better
    over = {name: overall(judged, *pair, better) for name, pair in pairs.items()}
    sentence = nothing(two_classes)
    if learned(judged):
        together = over["shared over alone"], over["personal over alone"]
        sentence = advice(sites, *together, unit, scale, metric.label)
    return {
        "advice": sentence,
        "metric": metric.name,
        "sites": [described(site) for site in sites],
        "overall": {name: difference(gain) for name, gain in over.items()},
    }


def described(site: Site) -> dict[str, Any]:
    gains = {"shared": estimate(site.shared), "personal": estimate(site.personal)}
    ways = {way: estimate(found) for way, found in site.ways.items()}
    own = {"name": site.name, "tested": site.tested, "verdict": site.verdict}
    return {**own, **ways, "gain": gains}


def estimate(found: Estimate) -> dict[str, Any]:
    interval = None if found.interval is None else list(found.interval)
    return {"value": found.value, "interval": interval}


def difference(found: Gain) -> dict[str, Any]:
    """An estimate, how often chance makes as much, and whether it is beyond chance by itself."""
    return {**estimate(found), "chance": found.chance, "beyond_chance": found.stands}


def show_advice(result: Mapping[str, Any], metric: SiteMetric) -> None:
    """The table of sites, what it comes to over all, and the sentence."""
    rows = sites_table(result["sites"], metric)
    if out.measure(rows, options=out.options.update(width=WIDE)).maximum > out.width:
        rows = sites_table(result["sites"], metric, below=True)
    out.print(rows)
    for name, found in result["overall"].items():
        show(f"over all sites, {name}: {in_words(found, metric)}")
    show(f"advice: {result['advice']}")


def sites_table(
    sites: Sequence[Mapping[str, Any]], metric: SiteMetric, below: bool = False
) -> Table:
    """A row per site; intervals go beside their numbers, or below them in narrow terminals."""
    title = f"{metric.heading} of each site, with 95 % intervals"
    rows = table(title, "site", "tests", *HEADS.values(), "better")
    for site in sites:
        cells = [with_interval(site[way], metric, "\n" if below else " ") for way in HEADS]
        cells[1] = metric.show(site[BESIDE]["value"])  # room for those that the verdict is about
        verdict = VERDICTS.get(site["verdict"], site["verdict"])
        rows.add_row(site["name"], str(site["tested"]), *cells, verdict)
    return rows


def with_interval(found: Mapping[str, Any], metric: SiteMetric, between: str = " ") -> str:
    """ "83.1 (75–90)": ends of a percentage are whole ones, which are certain enough."""
    text = metric.show(found["value"])
    if found["interval"] is None:
        return text
    ends = [f"{100 * end:.0f}" if metric.percent else metric.show(end) for end in found["interval"]]
    return f"{text}{between}({'–'.join(ends)})"


def in_words(found: Mapping[str, Any], metric: SiteMetric) -> str:
    """A difference: "+4.2 (-1.3 to 9.7), which may be chance"."""
    if found["value"] is None:
        return "–"
    text = f"{'+' if found['value'] >= 0 else ''}{metric.show(found['value'])}"
    if found["interval"] is not None:
        text += f" ({' to '.join(map(metric.show, found['interval']))})"
    return text if found["beyond_chance"] else f"{text}, which may be chance"
