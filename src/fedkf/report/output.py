"""Reports and figures as files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedkf.core.errors import UserError, nearest
from fedkf.core.payload import write_atomically
from fedkf.report.runs import Run, read_runs
from fedkf.runs.places import unwritable

if TYPE_CHECKING:
    from fedkf.report.samples import Samples

SAMPLED = 4
"""Runs whose models are sampled: each takes some seconds."""


def write_report(
    folders: Sequence[Path],
    file: Path | None,
    samples: bool | None,
    say: Callable[[str], None],
    quiet: bool = False,
) -> Path:
    """Write the report; its path. `samples`: None means of models that ship with fedkf only."""
    from fedkf.report.page import build

    runs = with_rounds(folders)
    path = file or default_place(folders)
    if path.is_dir():
        raise UserError(f"--out {path} is a folder; name a file, such as {path / 'report.html'}")
    for run in runs:
        for note in run.notes:
            say(f"note: {run.label}: {note}")
    announce = (lambda text: None) if quiet else say
    made = None if samples is False else sample(runs, samples is True, announce)
    page = build(runs, made).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, page)
    except OSError as error:
        raise unwritable(error, path) from None
    return path


def with_rounds(folders: Sequence[Path]) -> list[Run]:
    """The runs that a user names; one with a finished round at least."""
    runs = read_runs(folders)
    if not any(run.rounds for run in runs):
        names = ", ".join(str(folder) for folder in folders)
        why = "; ".join(note for run in runs for note in run.notes)
        raise UserError(
            f"no run in {names} has a finished round yet" + (f" ({why})" if why else "")
        )
    return runs


def default_place(folders: Sequence[Path]) -> Path:
    """Inside the folder given; several runs are compared in the folder that holds them all."""
    if len(folders) == 1:
        return folders[0] / "report.html"
    parents = {folder.resolve().parent for folder in folders}
    return (parents.pop() if len(parents) == 1 else Path.cwd()) / "report.html"


def sample(
    runs: Sequence[Run], own_code: bool, say: Callable[[str], None]
) -> dict[str, Samples | str]:
    """Samples of the runs' models, or why there are none, by the runs' labels."""
    from fedkf.report import samples

    made: dict[str, Samples | str] = {}
    for run in [r for r in runs if r.summary][:SAMPLED]:
        if run.alone:
            made[run.label] = "every site has a model of its own, and there is no shared one"
            continue
        if samples.pictured(run.path) and samples.cached(run.path) is None:
            say(f"sampling the model of {run.label} (once, some seconds)")
        try:
            made[run.label] = samples.make(run.path, own_code)
        except samples.NoSamples as reason:
            made[run.label] = str(reason)
    return made


def write_figures(
    kind: str, folders: Sequence[Path], formats: Sequence[str] | None, out: Path | None
) -> list[Path]:
    """Draw a figure of runs in each format; where they are.

    A file's ending tells the format where nothing else does; in a folder it is called as the kind.
    """
    from fedkf.charts.matplotlib_backend import FORMATS, draw
    from fedkf.report.figures import KINDS, figure

    if kind not in KINDS:
        raise UserError(f"no figure {kind!r}; {nearest(kind, KINDS)}")
    if out is not None and out.is_dir():
        out /= kind
    base, ending = out or Path(kind), out.suffix.lower().removeprefix(".") if out else ""
    if not formats and ending and ending not in FORMATS:
        raise UserError(f"--out {out}: a figure ends in .{', .'.join(FORMATS)}, or give --format")
    formats = formats or [ending or FORMATS[0]]
    for name in formats:
        if name not in FORMATS:
            raise UserError(f"--format {name}: {nearest(name, FORMATS)}")
    if ending in FORMATS and ending not in formats:
        raise UserError(f"--out {out} and --format {formats[0]} are not the same; leave one out")
    runs = with_rounds(folders)
    stem = base.with_suffix("") if ending in FORMATS else base
    paths = [base if name == ending else Path(f"{stem}.{name}") for name in formats]
    for path in paths:
        try:
            draw(figure(kind, runs), path)
        except OSError as error:
            raise unwritable(error, path) from None
    return paths
