"""What must stay as it was: more may be said than before, nothing less and nothing else."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeVar

import torch
import yaml
from golden_runs import CLOSE, GOLDEN, machine
from safetensors.torch import load_file

NUMBER = re.compile(r"(\d+(?:\.\d+)?)")
METRIC = 0.02
"""How far a metric may lie off on another processor, as a fraction."""

T = TypeVar("T")


def same_machine() -> bool:
    """Whether the last bits can be expected to be those of the golden files."""
    return bool(json.loads((GOLDEN / "machine.json").read_bytes()) == machine())


# -- run folders -------------------------------------------------------------------------------


def compare_runs(old: Path, new: Path, close: float = CLOSE) -> None:
    """Assert that a run ended with what the golden one ended with, times aside."""
    for path in sorted((old / "models").iterdir()):
        compare_models(path, new / "models" / path.name, close)
    assert (new / "ledger.json").read_bytes() == (old / "ledger.json").read_bytes()
    compare_records(
        json_of(old / "summary.json", indent=2), json_of(new / "summary.json", indent=2)
    )
    compare_records(lines_of(old / "rounds.jsonl"), lines_of(new / "rounds.jsonl"))


def compare_models(old: Path, new: Path, close: float) -> None:
    if old.suffix == ".json":
        before, after = (json.loads(path.read_bytes()) for path in (old, new))
        assert {key: after.get(key) for key in before} == before, f"{old.name} says something else"
        return
    if same_machine():
        assert new.read_bytes() == old.read_bytes(), f"{old.name} has other bytes"
        return
    before, after = load_file(old), load_file(new)
    assert list(after) == list(before)
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=close, atol=close)


def compare_configs(old: Path, new: Path) -> None:
    """Every key has its value, in its place, and where the run comes from is said as before.

    The comments are documentation: they may name what was not there yet.
    """
    before, after = (path.read_text().partition("\n# where this run") for path in (old, new))
    assert contains(uncommented(before[0]), uncommented(after[0]))
    origins = [yaml.safe_load(path.read_text())["provenance"] for path in (old, new)]
    assert origins[1].keys() >= origins[0].keys()
    assert origins[1]["versions"].keys() >= origins[0]["versions"].keys()
    assert origins[1]["data_sha256"] == origins[0]["data_sha256"]


def uncommented(text: str) -> list[str]:
    return [line.partition("  #")[0].rstrip() for line in text.splitlines()]


def json_of(path: Path, indent: int | None = None) -> Any:
    """The content of a JSON file that is written as fedkf writes JSON, byte for byte."""
    return parsed(path.read_text(), indent)


def lines_of(path: Path) -> list[Any]:
    return [parsed(f"{line}\n", None) for line in path.read_text().splitlines()]


def parsed(text: str, indent: int | None) -> Any:
    content = json.loads(text)
    assert text == json.dumps(content, indent=indent) + "\n"
    return content


def compare_records(old: Any, new: Any, exact: bool | None = None) -> None:
    """Assert that all keys are there, in their order, with their values; further keys may be."""
    exact = same_machine() if exact is None else exact
    before, after = without_times(old), without_times(as_before(new, old))
    if exact:
        assert json.dumps(after) == json.dumps(before)
    else:
        compare_closely(before, after)


def as_before(new: Any, old: Any) -> Any:
    """The part of a value that its forerunner has, too."""
    if isinstance(new, dict) and isinstance(old, dict):
        return {key: as_before(value, old[key]) for key, value in new.items() if key in old}
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [as_before(*pair) for pair in zip(new, old, strict=True)]
    return new


def without_times(value: Any) -> Any:
    """Which times there are stays, how long they were does not."""
    if isinstance(value, dict):
        return {
            key: list(item) if key == "seconds" else without_times(item)
            for key, item in value.items()
        }
    return [without_times(item) for item in value] if isinstance(value, list) else value


def compare_closely(old: Any, new: Any) -> None:
    """As on another processor, where a tie may also make another round the best."""
    assert type(new) is type(old)
    if isinstance(old, dict):
        assert list(new) == list(old)
        for key in old.keys() - {"best"}:
            compare_closely(old[key], new[key])
    elif isinstance(old, list):
        assert len(new) == len(old)
        for before, after in zip(old, new, strict=True):
            compare_closely(before, after)
    elif isinstance(old, float):
        assert math.isclose(new, old, abs_tol=METRIC)
    else:
        assert new == old


# -- tables and pages --------------------------------------------------------------------------


def contains(
    old: Iterable[T], new: Iterable[T], fits: Callable[[T, T], bool] | None = None
) -> bool:
    """Whether everything old is among the new, in the same order."""
    rest = iter(new)
    same = fits or (lambda before, after: before == after)
    return all(any(same(before, after) for after in rest) for before in old)


Table = Sequence[Sequence[str]]


def table_contains(old: Table, new: Table, exact: bool = True) -> bool:
    """Whether every row is there, with every cell of it; rows and columns may have come between."""
    cell = None if exact else close_text
    return contains(old, new, lambda before, after: contains(before, after, cell))


def close_text(old: str, new: str) -> bool:
    """Whether two texts differ in their numbers only, and little; percent count as percent."""
    before, after = NUMBER.split(old), NUMBER.split(new)
    if before[::2] != after[::2]:
        return False
    pairs = zip(map(float, before[1::2]), map(float, after[1::2]), strict=True)
    return all(abs(a - b) <= (METRIC if b < 1 else 100 * METRIC) for b, a in pairs)


def column(tables: Sequence[Table], head: str) -> list[str]:
    """The cells below a head, in the first table that has it."""
    table = next(table for table in tables if head in table[0])
    return [row[table[0].index(head)] for row in table[1:]]


def without_column(table: Table, head: str) -> Table:
    if head not in table[0]:
        return table
    place = table[0].index(head)
    return [[*row[:place], *row[place + 1 :]] for row in table]


@dataclass(frozen=True)
class Page:
    """What a reader sees of a page: its headings and lists, and its tables.

    How charts are labelled is left out: h4 above them, captions of the numbers behind them.
    """

    texts: list[str]
    tables: list[list[list[str]]]


class PageReader(HTMLParser):
    """Collects the page while it is parsed."""

    TEXTS = ("h1", "h2", "h3", "li", "dt")
    CELLS = ("td", "th")

    def __init__(self) -> None:
        super().__init__()
        self.page = Page([], [])
        self.open: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.page.tables.append([])
        elif tag == "tr":
            self.page.tables[-1].append([])
        elif tag in self.TEXTS or tag in self.CELLS:
            self.open = []

    def handle_data(self, data: str) -> None:
        if self.open is not None:
            self.open.append(data)

    def handle_endtag(self, tag: str) -> None:
        if self.open is not None and (tag in self.TEXTS or tag in self.CELLS):
            text = " ".join(" ".join(self.open).split())
            if tag in self.CELLS:
                self.page.tables[-1][-1].append(text)
            else:
                self.page.texts.append(text)
            self.open = None


def read_page(path: Path) -> Page:
    reader = PageReader()
    reader.feed(path.read_text())
    reader.close()
    return reader.page
