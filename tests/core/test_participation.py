"""Who takes part: more clients asked than needed, and clients that are not always there."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from conftest import Outcome, Settings, model_bytes

import fedkf
from fedkf.core.algorithm import option
from fedkf.core.availability import Rate
from fedkf.core.client import Client
from fedkf.core.errors import UserError
from fedkf.core.payload import Payload
from fedkf.core.random import Streams
from fedkf.runs.config import resolve
from fedkf.runs.experiment import execute
from fedkf.runs.setup import Objects


@dataclass(frozen=True)
class Counting(fedkf.FedAvg):
    """Clients count the turns whose uploads were accepted; one may hang in all of its turns."""

    name: ClassVar[str] = "counting"
    hangs: int = option(-1, "the client that hangs")

    def local_update(self, client: Client, down: Payload) -> Payload:
        if client.id == self.hangs:
            threading.Event().wait()
        before = int(client.state.number("private", "turns")) if client.state else 0
        client.state = Payload(private={"turns": before + 1})
        return super().local_update(client, down)


def run(settings: Settings, out: Path | None = None, hangs: int = -1, **more: Any) -> Any:
    """A run with these keys of `federation`."""
    workers, resume = more.pop("workers", 0), more.pop("resume", False)
    settings["federation"].update(more)
    config = resolve({**settings, "algorithm": {"name": "fedavg"}}, {"engine.workers": workers})
    return execute(config, out, resume, given=Objects(Counting(hangs=hangs)))


def turns(folder: Path) -> dict[int, int]:
    """What the clients' private states say at the end."""
    files = (folder / "checkpoint" / "clients").glob("*.safetensors")
    return {
        int(p.name.split("-")[0]): int(Payload.load(p).number("private", "turns")) for p in files
    }


# -- over-selection -------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_more_are_asked_and_the_first_answers_count(
    settings: Settings, tmp_path: Path, workers: int
) -> None:
    result = run(settings, tmp_path, oversample=1.5, rounds=4, workers=workers)
    for record in result.history:
        assert record["refused"] == []
        assert len(record["active"]) == 3
        assert len(record["late"]) == 2
        assert not set(record["active"]) & set(record["late"])
    # A turn that was not waited for never was, for the client's own memory too.
    took_part = Counter(k for record in result.history for k in record["active"])
    assert turns(tmp_path) == dict(took_part)
    first = {tuple(sorted(record["active"])) for record in result.history}
    lowest = {tuple(sorted(r["active"] + r["late"])[:3]) for r in result.history}
    assert first != lowest


def test_a_client_that_hangs_is_not_waited_for_and_no_failure(settings: Settings) -> None:
    settings["federation"].update(fraction=0.5, oversample=2.0, rounds=2, round_timeout=100)
    result = run(settings, hangs=1, workers=3)
    for record in result.history:
        assert record["refused"] == []
        assert len(record["active"]) == 3
        assert 1 in record["late"]


def test_without_over_selection_nothing_is_recorded_of_it(settings: Settings) -> None:
    assert all("late" not in record for record in run(settings).history)
    with pytest.raises(UserError, match=r"federation\.oversample is 0\.5"):
        run(settings, oversample=0.5)


# -- availability ---------------------------------------------------------------------------------


def test_a_rate_is_drawn_anew_in_every_round_and_the_same_for_the_same_seed() -> None:
    there = [Rate(0.3).clients(round, 1000, Streams(0)) for round in (1, 2)]
    assert there == [Rate(0.3).clients(round, 1000, Streams(0)) for round in (1, 2)]
    assert there[0] != there[1]
    assert all(250 < len(clients) < 350 for clients in there)
    assert Rate(1.0).clients(1, 1000, Streams(0)) == list(range(1000))


def test_only_clients_that_are_there_are_chosen_and_a_resumed_run_is_the_same(
    settings: Settings, tmp_path: Path
) -> None:
    result = run(settings, tmp_path / "whole", availability=0.4, rounds=6)
    asked = [record["active"] for record in result.history]
    for round, active in enumerate(asked, 1):
        there = Rate(0.4).clients(round, 6, Streams(0))
        assert set(active) <= set(there)
        assert len(active) == min(3, len(there))
    assert {len(active) for active in asked} > {3}  # in some rounds fewer were there
    for rounds in (2, 6):
        again = run(settings, tmp_path / "parts", rounds=rounds, resume=True, workers=2)
    assert [record["active"] for record in again.history] == asked
    assert model_bytes(tmp_path / "parts") == model_bytes(tmp_path / "whole")


def test_availability_of_all_is_what_it_was_without(settings: Settings, tmp_path: Path) -> None:
    run(settings, tmp_path / "always")
    run(settings, tmp_path / "surely", availability=1)
    assert model_bytes(tmp_path / "always") == model_bytes(tmp_path / "surely")


def test_a_trace_says_who_is_there_in_either_form(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("round,client\n1,0\n1,4\n2,5,1,2,3\n\n3,2,\n")
    content = {"1": [4, 0], "2": [1, 2, 3, 5], "3": [2], "9": [0]}
    (tmp_path / "a.json").write_text(json.dumps(content))
    for kind in ("csv", "json"):
        result = run(settings, tmp_path / kind, availability=str(tmp_path / f"a.{kind}"))
        first, second, third = (record["active"] for record in result.history)
        assert (first, third) == ([0, 4], [2])
        assert len(second) == 3
        assert set(second) < {1, 2, 3, 5}
    assert model_bytes(tmp_path / "csv") == model_bytes(tmp_path / "json")


@pytest.mark.parametrize("inactive", ["slot", "global"])
@pytest.mark.parametrize("empty", [1, 2, 3])
def test_a_round_with_nobody_is_recorded_without_training(
    settings: Settings, tmp_path: Path, inactive: str, empty: int
) -> None:
    lines = [f"{round},0,1,2,3,4,5" if round != empty else f"{round}" for round in (1, 2, 3)]
    (tmp_path / "trace.csv").write_text("\n".join(lines))
    settings["overall"] = {"inactive": inactive}
    result = run(settings, tmp_path / "run", availability=str(tmp_path / "trace.csv"))
    record = result.history[empty - 1]
    assert record["active"] == record["refused"] == []
    assert record["losses"] == {}
    assert record["readouts"]["aca"]["amp"] is not None
    if empty > 1:
        before = result.history[empty - 2]["readouts"]["aca"]
        assert record["readouts"]["aca"] == before
    assert all(len(r["active"]) == 3 for r in result.history if r is not record)


def test_the_command_line_says_that_nobody_was_there(
    settings: Settings, tmp_path: Path, cli: Callable[..., Outcome]
) -> None:
    (tmp_path / "trace.csv").write_text("1,0,1\n2\n")
    keys = {"availability": tmp_path / "trace.csv", "rounds": 2, "fraction": 0.5}
    given = [f"--set=data.{key}={value}" for key, value in settings["data"].items()]
    given += [f"--set=federation.{key}={value}" for key, value in keys.items()]
    algorithm = ["--set=algorithm.name=fedavg", "--workers=0", "--out", tmp_path / "run"]
    code, out, err = cli("run", *given, *algorithm)
    assert code == 0
    assert "round 2: no client was available, so that none trained" in out + err


MISTAKES = {
    "nothing.csv": (None, "nothing.csv cannot be read: No such file"),
    "gap.csv": ("1,0\n3,1\n", "does not name round 2 of 3"),
    "stranger.csv": (
        "1,0\n2,6\n3,0\n",
        "names client 6 in round 2; clients are numbered from 0 to",
    ),
    "words.csv": ("1,0\n2,zero\n", "line 2 is '2,zero'"),
    "bytes.csv": (b"\xff\xfe1", "utf-8"),
    "list.json": ("[[0], [1]]", "must be an object, not list"),
    "half.json": ('{"1": [0', "is no JSON"),
    "deep.json": ("[" * 100_000, "is no JSON"),
    "name.json": ('{"one": [0]}', "must have rounds as its keys, not 'one'"),
    "kind.json": ('{"1": ["0"]}', "must be a whole number"),
    "below.json": ('{"1": [-1]}', "names client -1 in round 1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_trace_that_cannot_be_used_is_refused_before_anything_is_written(
    settings: Settings, tmp_path: Path, name: str
) -> None:
    content, sentence = MISTAKES[name]
    if content is not None:
        raw = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(raw)
    with pytest.raises(UserError, match=r"federation\.availability") as caught:
        run(settings, tmp_path / "run", availability=str(tmp_path / name))
    assert sentence in str(caught.value)
    assert not (tmp_path / "run" / "config.yaml").exists()


@pytest.mark.parametrize("value", [0, 1.5, True, "sometimes", [0.5], None])
def test_what_is_no_availability_is_refused(settings: Settings, value: Any) -> None:
    with pytest.raises(UserError, match=r"federation\.availability"):
        run(settings, availability=value)


def test_a_run_goes_on_with_its_own_trace_alone(settings: Settings, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("1,0\n2,1\n3,2\n")
    run(settings, tmp_path / "run", availability=str(trace), rounds=2)
    trace.write_text("1,0\n2,1\n3,3\n")
    with pytest.raises(UserError, match=r"the trace in federation\.availability is not the one"):
        run(settings, tmp_path / "run", rounds=3, resume=True)
