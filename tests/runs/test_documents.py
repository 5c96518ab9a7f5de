"""YAML of a user's: read within limits, refused in a sentence, never executed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fedkf.core.errors import UserError
from fedkf.runs import suite
from fedkf.runs.config import parse_set
from fedkf.runs.documents import MOST_BYTES, MOST_VALUES, parse_yaml, read_yaml


def bomb(levels: int) -> str:
    """Ten to the power of `levels` values in a few lines."""
    lines = ["a0: &a0 [" + ", ".join("x" * 10) + "]"]
    lines += [f"a{k}: &a{k} [" + ", ".join([f"*a{k - 1}"] * 10) + "]" for k in range(1, levels)]
    return "\n".join(lines)


HOSTILE = [
    (bomb(12), "holds more than 50,000 values in line 5"),
    ("a: [" + "1," * 200_000 + "1]", "holds more than 50,000 values"),
    ("[" * 500_000, "nested more than 20 levels deep"),
    ("- " * 500_000, "nested more than 20 levels deep"),
    ("{a: " * 200_000, "nested more than 20 levels deep"),
    ("? " * 500_000, "a key must be a text"),
    ("&a [*a]", "the alias 'a' stands for nothing before"),
    ("&a {b: *a}", "the alias 'a' stands for nothing before"),
    ("a: *b", "the alias 'b' stands for nothing before"),
    ("? [1, 2]\n: 3", "a key must be a text"),
    ("{{a: 1}: 3}", "a key must be a text"),
    ("a: &a b\n*a : 3", "a key must be a text"),
    ("!!python/object/apply:os.system ['true']", "the tag"),
    ("a: !!python/name:os.system ''", "the tag"),
    ("a: !!binary aGk=", "the tag"),
    ("a: !mine 3", "the tag '!mine' is not taken"),
    ("a: " + "9" * 5000, "is too long for a number"),
    ("a: 0x" + "f" * 4000, "is too long for a number"),
    ("a: " + "1:" * 2000 + "1", "is too long for a number"),
    ("a: " + "x" * 100_000, "is too long for a value"),
    ("x" * 1000 + ": 3", "is too long for a key"),
    ('a: "\\ud800"', "is not valid YAML"),
    ('a: "\\0"', "holds characters that cannot be shown"),
    ('a: "\\e[2J"', "holds characters that cannot be shown"),
    ("a: \udcff", "is not valid YAML"),
    ("a: 2001-13-45", "is not valid YAML"),
    ("<<: 3", "is not valid YAML"),
    ("a: 1\n---\nb: 2", "is not valid YAML"),
    ("x" * (MOST_BYTES + 1), "is longer than 1,048,576 characters"),
]


@pytest.mark.parametrize(("text", "sentence"), HOSTILE, ids=[s for _, s in HOSTILE])
def test_hostile_yaml_is_refused_at_once(text: str, sentence: str) -> None:
    began = time.process_time()
    with pytest.raises(UserError) as caught:
        parse_yaml(text, "file.yaml")
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("file.yaml is ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert time.process_time() - began < 10


def test_what_honest_files_hold_is_read() -> None:
    text = "base: &b {x: 1e-3, on: [yes, 12]}\nmore: {<<: *b, x: 'two'}\n3: *b\n"
    assert parse_yaml(text, "f") == {
        "base": {"x": 0.001, "on": [True, 12]},
        "more": {"x": "two", "on": [True, 12]},
        "3": {"x": 0.001, "on": [True, 12]},
    }
    many = MOST_VALUES - 10
    assert parse_yaml("[" + "a," * many + "]", "f") == ["a"] * many


def test_a_file_is_not_read_beyond_its_limit_nor_waited_for(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    with open(large, "wb") as file:
        file.truncate(1 << 40)  # a terabyte of nothing
    with pytest.raises(UserError, match=r"large\.yaml is larger than the 1\.0 MB"):
        read_yaml(large)
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(UserError, match=r"pipe\.yaml is not a file"):
        read_yaml(tmp_path / "pipe.yaml")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff")
    for name in ("loop.yaml", "latin.yaml", "none.yaml"):
        with pytest.raises(UserError, match=f"{name} cannot be read"):
            read_yaml(tmp_path / name)


def test_a_grid_that_no_machine_finishes_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "suite.yaml"
    values = list(range(1, 101))
    keys = ("rounds", "local_epochs", "batch_size", "seed", "evaluate_every", "min_clients")
    file.write_text("grid:\n" + "".join(f"  federation.{key}: {values}\n" for key in keys))
    with pytest.raises(UserError, match="1000000000000 runs; at most 10,000"):
        suite.read(file)


@pytest.mark.parametrize("written", ["010", "1_7", "12:30", "yes", "NO", "2020-01-01", "1.50"])
def test_what_a_text_is_wanted_for_stays_as_it_is_written(written: str) -> None:
    file = f"data: {{holdout: {written}, class_names: [{written}], categories: {{a: [{written}]}}}}"
    data = {"holdout": written, "class_names": [written], "categories": {"a": [written]}}
    assert parse_yaml(file, "f") == {"data": data}
    assert parse_set([f"data.holdout=[{written}, x]"]) == {"data.holdout": [written, "x"]}
    grid = parse_yaml(f"grid: {{data.holdout: [{written}]}}", "f")
    assert grid == {"grid": {"data.holdout": [written]}}
    base = f"base: &base {{site: {written}}}\ndata: {{<<: *base, positive: {written}}}"
    assert parse_yaml(base, "f")["data"] == {"site": written, "positive": written}


def test_keys_that_take_no_texts_are_read_as_ever() -> None:
    text = (
        "data: {site: null, seed: &n 010, limit: 1e1, unit: *n, path: ~}\ntransport: {secure: yes}"
    )
    data = {"site": None, "seed": 8, "limit": 10.0, "unit": "010", "path": None}
    assert parse_yaml(text, "f") == {"data": data, "transport": {"secure": True}}
    assert parse_set(["transport.secure=on", "data.site=", "data.unit='1'"]) == {
        "transport.secure": True,
        "data.site": None,
        "data.unit": "1",
    }
