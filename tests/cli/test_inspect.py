"""`fedkf inspect`: clients and uploads ranked by how unusual they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., tuple[int, str, str]]


def record(round: int, ratio: list[float], refused: list[dict[str, Any]]) -> dict[str, Any]:
    moves = {"clients": [0, 1, 2], "distance": ratio, "ratio": ratio, "cosine": [0.5, -0.5, 1.0]}
    return {"round": round, "active": [0, 1, 2, 3], "refused": refused, "moves": moves}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Three rounds by hand: client 1 goes against the others and once far; client 3 never came."""
    silent = {"client": 3, "reason": "no answer"}
    far = {"client": 1, "reason": "it moved 64 from the model that was sent"}
    lines = [
        record(1, [1.0, 2.0, 1.0], [silent]),
        record(2, [0.5, 64.0, 1.0], [far, silent]),
        record(3, [1.0, 1.0, 1.0], [silent]),
    ]
    (tmp_path / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    clients = [{"name": name, "train": 5} for name in ("north", "south", "east", "west")]
    (tmp_path / "partition.json").write_text(json.dumps({"clients": clients}))
    return tmp_path


def test_the_most_unusual_come_first(cli: Cli, run: Path) -> None:
    code, out, err = cli("inspect", run, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert [c["name"] for c in found["clients"]] == ["south", "north", "east", "west"]
    south, north, east, west = found["clients"]
    # |log₂ 64| + 1.5, |log₂ ½| + 0.5, 0; who sent nothing is not unusual, but refused.
    assert [c["unusual"] for c in found["clients"]] == [7.5, 1.5, 0.0, 0.0]
    assert south["ratio"] == {"median": 2.0, "largest": 64.0}
    assert (south["uploads"], south["refused"]) == (3, 1)
    assert (west["uploads"], west["refused"]) == (0, 3)
    assert (north["refused"], east["refused"]) == (0, 0)
    first = found["uploads"][0]
    assert (first["round"], first["name"], first["unusual"]) == (2, "south", 7.5)
    assert first["refused"].startswith("it moved 64")
    assert len(found["uploads"]) == 9


def test_a_table_names_them_and_says_why_they_were_refused(cli: Cli, run: Path) -> None:
    code, out, err = cli("inspect", run, "--most", 2)
    assert code == 0, err
    assert "the 2 most unusual of 9 uploads" in out
    assert "south, round 2: it moved 64 from the model that was sent" in out
    assert out.index("south") < out.index("north")


@pytest.mark.parametrize(
    ("name", "content", "code", "sentence"),
    [
        ("rounds.jsonl", None, 2, "holds no run with a finished round"),
        ("rounds.jsonl", '{"round": 1}\n', 2, "says nothing of its uploads"),
        ("partition.json", None, 2, "holds no partition.json"),
        ("partition.json", '{"clients": 3}', 1, "partition.json is damaged"),
    ],
)
def test_a_folder_that_tells_nothing_gives_a_sentence(
    cli: Cli, run: Path, name: str, content: str | None, code: int, sentence: str
) -> None:
    (run / name).unlink()
    if content is not None:
        (run / name).write_text(content)
    found, _, err = cli("inspect", run)
    assert found == code
    assert sentence in err
    assert len(err.splitlines()) == 1
