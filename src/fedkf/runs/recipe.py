"""Recipe: how files became a model's inputs, kept with the model, so that new ones become the same.

It is for tables and signals; images and plain arrays need no more than the model's card says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from fedkf.core.errors import UserError
from fedkf.core.random import Streams
from fedkf.core.shapes import Kind, many, mapping, maybe, named, take, text, whole
from fedkf.data.federated import FederatedData, Preparation, federate_tests
from fedkf.data.reading import OPEN, Reading, composed
from fedkf.data.rows import Rows, file_rows, is_rows, object_rows, signal_rows
from fedkf.data.scaling import filled
from fedkf.data.signals import signals
from fedkf.data.source import Say, Source
from fedkf.data.table import from_table
from fedkf.data.tabular import read_table
from fedkf.runs.division import reading_of
from fedkf.runs.schema import Config

BY_SITE = (
    "data.scaling was site: every site's samples were scaled by its own mean and deviation, which "
    "the run does not hold; a run with federated scaling takes new ones"
)
TABLES = (".csv", ".tsv", ".data", ".txt", ".parquet")
texts = many(text)
KEPT: dict[str, Kind[Any]] = {
    "target": maybe(lambda value: text(value) if isinstance(value, str) else texts(value)),
    "positive": maybe(text),
    "site": maybe(text),
    "split_by": maybe(text),
    "groups": texts,
    "columns": maybe(texts),
    "categorical": texts,
    "categories": maybe(named(texts)),
    "missing": text,
    "indicators": maybe(texts),
    "missing_values": texts,
    "decimal": text,
    "window": maybe(whole),
    "stride": maybe(whole),
}
"""What of a reading new samples need; classes and task are on the model's card already."""


@dataclass(frozen=True)
class Recipe:
    """The kind of source, how it was read, by whose statistics it was scaled and filled."""

    source: str
    scaling: str
    private: bool
    reading: Reading

    @classmethod
    def of(cls, config: Config, shape: tuple[int, ...]) -> Self | None:
        """That of a settled configuration, or None where there is nothing to know."""
        settings = config.data
        table = settings.columns is not None and settings.categories is not None
        told = settings.scaling or settings.window or settings.source == "signals"
        if len(shape) != (1 if table else 2) or not (table or told):
            return None
        kind, scaling = "table" if table else "signals", settings.scaling or "federated"
        return cls(kind, scaling, config.privacy.on, reading_of(settings, least_classes=1))

    def as_json(self) -> dict[str, Any]:
        about = {"source": self.source, "scaling": self.scaling, "private": self.private}
        return {**about, **{name: getattr(self.reading, name) for name in KEPT}}

    @classmethod
    def read(cls, content: object) -> Self:
        """What a card says, or Damage."""
        found = mapping(content)
        found = composed({"decimal": OPEN, **found})  # older cards lack this key
        reading = Reading(**{name: take(found, name, kind) for name, kind in KEPT.items()})
        source, scaling = (take(found, name, text) for name in ("source", "scaling"))
        return cls(source, scaling, found.get("private") is True, reading)

    def rows(self, given: Any, say: Say = lambda text: None) -> Rows:
        """New samples without targets: a file, or rows that a program holds."""
        reading = replace(self.reading, lenient=True)
        if not isinstance(given, str | Path):
            if self.source != "table":
                raise UserError("the model takes signals; give an array N×channels×time, or a file")
            return object_rows(given, reading)
        path = Path(given).expanduser()
        if not path.exists():
            raise UserError(f"no file {path}")
        try:
            if self.source == "table":
                return file_rows(str(path), reading, say)
            return signal_rows(path, reading, say)
        except UserError as error:  # it is not the configuration that names this file
            raise UserError(str(error).removeprefix("data.path: ")) from None

    def filled(self, rows: Rows, mean: Any) -> torch.Tensor:
        """The inputs of rows, with what stood in for missing values in training."""
        if self.scaling == "site":
            raise self.unscaled()
        x = torch.from_numpy(rows.inputs).float()
        self.check_complete(x, rows.place)
        return filled(x, mean)

    def unscaled(self) -> UserError:
        """Why new inputs cannot be scaled, and what can be done with them."""
        what = "table" if self.source == "table" else "file"
        return UserError(f"{BY_SITE}, and evaluate judges a {what} of many")

    def check_complete(self, x: torch.Tensor, place: Callable[[int], str]) -> None:
        """Refuse missing values for which nothing is known that stood in for them in training."""
        absent = x.isnan().flatten(1).any(1)
        if self.scaling == "none" and not self.private and absent.any():
            row = int(absent.nonzero()[0])
            raise UserError(
                f"{place(row)} lacks a value; without data.scaling every site put in its own "
                "mean, which the run does not hold"
            )

    def tested(self, path: Path, about: Mapping[str, Any], say: Say) -> FederatedData:
        """New samples with targets, all of them to test with, by site where the file says whose."""
        kept = replace(
            self.reading,
            task=about.get("task", "classification"),
            class_names=composed(about["class_names"]) or None,
            least_classes=1,
        )
        source = self.labelled(path, kept, say)
        if source.owners is None:
            owners = np.zeros(len(source.labels), dtype=np.int64)
            source = replace(source, owners=owners, owner_names=[path.name])
        assert source.owners is not None
        if (shape := list(source.inputs.shape[1:])) != list(about["shape"]):
            raise UserError(f"{path} has inputs of shape {shape}, not {list(about['shape'])}")
        parts = [np.flatnonzero(source.owners == k) for k in range(len(source.owner_names))]
        scale = Preparation(
            about["mean"] or (0.0,),
            about["std"] or (1.0,),
            scaling=self.scaling,
            private=self.private,
        )
        return federate_tests(source, parts, scale, Streams(0), 0)

    def labelled(self, path: Path, reading: Reading, say: Say) -> Source:
        """Samples with targets; what else the run knew of its own need not be known of these."""
        if self.source != "table" and path.suffix != ".npz":  # sessions still cut a recording
            return signals(str(path), replace(reading, groups=(), lenient=True), say)
        alone = replace(reading, split_by=None, groups=(), lenient=True)
        if self.source == "table":
            table = read_table(str(path), replace(reading, lenient=True))
            sited = alone.site in table.cells
            return from_table(table, alone if sited else replace(alone, site=None), say)
        if reading.window is not None:  # trained on recordings, whose columns an array has not
            alone = replace(alone, target=None, site=None, columns=None, window=None, stride=None)
        return signals(str(path), alone, say)


def card_of(config: Config, shape: tuple[int, ...]) -> dict[str, Any]:
    """What a model's card says of its recipe: its scaling at most, where there is none."""
    recipe = Recipe.of(config, shape)
    if recipe is not None:
        return {"reading": recipe.as_json()}
    return {} if config.data.scaling is None else {"scaling": config.data.scaling}


def recipe_of(about: Mapping[str, Any]) -> Recipe | None:
    """The recipe that a card holds."""
    return Recipe.read(about["reading"]) if "reading" in about else None


def refuse_unscaled(about: Mapping[str, Any]) -> None:
    """Refuse to use a model on inputs that only their own site could scale."""
    recipe = recipe_of(about)
    if (about.get("scaling") if recipe is None else recipe.scaling) == "site":
        raise UserError(BY_SITE) if recipe is None else recipe.unscaled()


def fills(about: Mapping[str, Any]) -> bool:
    """Whether the card's mean stands in for missing values."""
    recipe = recipe_of(about)
    if recipe is None:
        return bool(about.get("scaling") == "federated")
    return recipe.scaling == "federated" or recipe.private


def inputs_of(about: Mapping[str, Any], given: Any) -> torch.Tensor:
    """Inputs as a model takes them: arrays as they are; files and rows as the run read its own."""
    if not (isinstance(given, str | Path) or is_rows(given)):
        x, recipe = arrays(given), recipe_of(about)
        if recipe is not None and x.ndim > 1:
            recipe.check_complete(x, lambda row: f"sample {row}")
        if len(about["shape"]) == 3:
            check_images(x)
        return x
    recipe = needed(about, given)
    return recipe.filled(recipe.rows(given), about["mean"] or (0.0,))


def arrays(given: Any) -> torch.Tensor:
    """An array of any library, with numbers as models have them."""
    try:
        x = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        kind = type(given).__name__
        raise UserError(f"inputs are a {kind}, of which no array can be made ({error})") from None
    return x.float() if x.is_floating_point() else x


def check_images(x: torch.Tensor) -> None:
    """Refuse numbers that no image was trained with, as training does."""
    if not x.is_floating_point() or x.ndim != 4:
        return  # which `Trained.prepare` says
    if 0 in x.shape[2:]:
        raise UserError(f"images are of shape {list(x.shape[1:])}, without a pixel")
    if not len(x):
        return
    if not x.isfinite().all():
        raise UserError("images hold NaN or infinite values")
    if x.min() < 0 or x.max() > 1:
        raise UserError(
            f"float images must lie in [0, 1], these go from {x.min():g} to {x.max():g}"
        )


def needed(about: Mapping[str, Any], given: Any) -> Recipe:
    """The recipe of a model that must have one."""
    recipe = recipe_of(about)
    if recipe is None:
        what = given if isinstance(given, str | Path) else "rows with names"
        if len(about["shape"]) == 3:
            raise UserError(f"the model takes images, not {what}; give an array N×C×H×W in [0, 1]")
        raise UserError(
            f"{what}: the model does not say how the columns became its inputs: it was trained on "
            f"arrays, or by an older fedkf; give an array N×{list(about['shape'])}"
        )
    return recipe
