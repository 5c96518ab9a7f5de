"""The sources that a configuration may name, and the loader of each."""

from __future__ import annotations

from fedkf.core.errors import UserError, nearest
from fedkf.core.objects import import_object
from fedkf.data import catalog
from fedkf.data.annotations import Annotations
from fedkf.data.arrays import names_in
from fedkf.data.datasets import from_object
from fedkf.data.digits import digits
from fedkf.data.files import find
from fedkf.data.folder import folder
from fedkf.data.groups import with_groups
from fedkf.data.natural import NATURAL
from fedkf.data.notes import alike_notes, idle_notes
from fedkf.data.npz import npz
from fedkf.data.public import DATASETS
from fedkf.data.reading import Reading
from fedkf.data.signals import signals
from fedkf.data.source import Say, Source, named, retargeted
from fedkf.data.table import table
from fedkf.data.targets import Targets

KNOWN = ("digits", "npz", "folder", "table", "signals", *DATASETS, *NATURAL)
PATHS = {
    "npz": "a .npz file",
    "folder": "a folder",
    "table": "a CSV or Parquet file, or a folder with one for each site",
    "signals": "a .npz file, a CSV file or a folder of these",
}


def read(source: str, path: str | None, reading: Reading, say: Say = lambda text: None) -> Source:
    """The samples of a source of the configuration, which says how it is read."""
    if reading.positive is not None and source not in ("table", "signals"):
        raise UserError(
            f"data.positive is for tables and signals; the classes of {source} are its own, so "
            "give samples that count as positive the label 1 and all others 0"
        )
    found = _read(source, path, reading, say)
    if source in ("signals", "npz") and found.owners is None and str(path).endswith(".npz"):
        unused_arrays(str(path), reading, say)
    for text in (*alike_notes(found), *idle_notes(found, reading)) if source in PATHS else ():
        say(text)
    return found if found.groups else with_groups(found, {}, reading.groups)


def unused_arrays(path: str, reading: Reading, say: Say) -> None:
    """Tell of arrays that might say who holds a sample, where nothing does."""
    asked = Annotations.of(reading)
    used = {"images", "signals", "scale", *asked.labels, *asked.others}
    if rest := [name for name in names_in(find(path)) if name not in used]:
        say(
            f"nothing says who holds which sample, so that they are divided at random; data.site "
            f"names an array that does ({', '.join(rest[:5])} {'is' if len(rest) == 1 else 'are'} "
            "not used)"
        )


def _read(source: str, path: str | None, reading: Reading, say: Say) -> Source:
    if source == "table":
        return table(need_path(source, path), reading, say)
    if source == "signals":
        return signals(need_path(source, path), reading, say)
    if source == "npz":
        return npz(need_path(source, path), reading.asked, Annotations.of(reading), say)
    if source == "folder":
        skip = reading.unreadable == "skip"
        return for_task(
            source,
            folder(need_path(source, path), reading.asked, reading.image_size, say, skip),
            reading.asked,
        )
    if source in NATURAL:
        return NATURAL[source].load(path, reading, say)
    return load(source, path, reading.asked, reading.image_size, say)


def load(
    source: str,
    path: str | None,
    targets: Targets = Targets(),  # noqa: B008
    image_size: int | None = None,
    say: Say = lambda text: None,
) -> Source:
    """The samples of a source of the configuration; training needs two classes, testing one."""
    return for_task(source, _load(source, path, targets, image_size, say), targets)


def for_task(source: str, found: Source, targets: Targets) -> Source:
    """The samples with labels as the task asks for them."""
    if found.task != targets.task:  # a source whose labels are classes, whatever is asked for
        return retargeted(found, targets, source)
    return found


def _load(
    source: str, path: str | None, targets: Targets, image_size: int | None, say: Say
) -> Source:
    if source == "digits":
        if path is not None:
            raise UserError(
                f"data.path is set, but data.source is digits; set it to {', '.join(PATHS)}"
            )
        return named(digits(), targets.class_names)
    if source == "npz":
        return npz(need_path(source, path), targets)
    if source == "folder":
        return folder(need_path(source, path), targets, image_size, say)
    if source in DATASETS:
        return named(catalog.load(DATASETS[source], path, say), targets.class_names)
    if ":" in source:
        return from_object(import_object(source, "data.source"), source, targets)
    if source == "python":
        raise UserError(
            "data.source is 'python': this run's data was given to fedkf.run in a program; "
            "give it again there"
        )
    hint = nearest(source, KNOWN)
    raise UserError(f"data.source: no {source!r}; {hint} (or package.module:object)")


def need_path(source: str, path: str | None) -> str:
    if path is None:
        what = PATHS[source]
        raise UserError(f"data.path is missing: data.source {source} needs the path of {what}")
    return path
