"""The sources that a configuration may name, and the loader of each."""

from __future__ import annotations

from collections.abc import Sequence

from fedkf.core.errors import UserError, nearest
from fedkf.core.objects import import_object
from fedkf.data import catalog
from fedkf.data.datasets import from_object
from fedkf.data.digits import digits
from fedkf.data.folder import folder
from fedkf.data.npz import npz
from fedkf.data.public import DATASETS
from fedkf.data.source import Say, Source, named

KNOWN = ("digits", "npz", "folder", *DATASETS)


def load(
    source: str,
    path: str | None,
    class_names: Sequence[str] | None = None,
    image_size: int | None = None,
    say: Say = lambda text: None,
    least_classes: int = 2,
) -> Source:
    """The samples of a source of the configuration; training needs two classes, testing one."""
    if source == "digits":
        if path is not None:
            raise UserError("data.path is set, but data.source is digits; set it to npz or folder")
        return named(digits(), class_names)
    if source == "npz":
        return npz(need_path(source, path), class_names, least_classes)
    if source == "folder":
        return folder(need_path(source, path), class_names, image_size, say, least_classes)
    if source in DATASETS:
        return named(catalog.load(DATASETS[source], path, say), class_names)
    if ":" in source:
        return from_object(import_object(source, "data.source"), source, class_names)
    if source == "python":
        raise UserError(
            "data.source is 'python': this run's data was given to fedkf.run in a program; "
            "give it again there"
        )
    hint = nearest(source, KNOWN)
    raise UserError(f"data.source: no {source!r}; {hint} (or package.module:object)")


def need_path(source: str, path: str | None) -> str:
    if path is None:
        what = "a .npz file" if source == "npz" else "a folder"
        raise UserError(f"data.path is missing: data.source {source} needs the path of {what}")
    return path
