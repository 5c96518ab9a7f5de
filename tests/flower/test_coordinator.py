"""A coordinator: its folder, its jobs, and what sites tell it, without a network."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import registry
from conftest import Outcome, Settings
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.app.error import Error
from switchboard import Node, Switchboard

from fedkf.cli.coordinator import follow
from fedkf.cli.interruption import Stopped, interrupt
from fedkf.core.errors import FedkfError, UserError
from fedkf.core.records import Round
from fedkf.core.scores import Score
from fedkf.flower import programs
from fedkf.flower.coordinator import VARIABLE, Coordinator
from fedkf.flower.jobs import Job, Request
from fedkf.flower.keys import make_node_key
from fedkf.flower.programs import free_port
from fedkf.flower.server import execute, server
from fedkf.flower.site import SiteFolder
from fedkf.flower.sites import Sites, gather
from fedkf.runs.config import parse, resolve
from fedkf.runs.schema import Config
from fedkf.runs.store import RunFolder

NOBODY: Any = None
"""A grid that must not be asked."""

Submitted = Callable[..., Job]


@pytest.fixture
def coordinator(tmp_path: Path) -> Coordinator:
    made = Coordinator(tmp_path / "coordinator")
    made.create(["coord.example.org", "127.0.0.1", "::1"], 8000)
    return made


@pytest.fixture
def job(coordinator: Coordinator, tmp_path: Path, settings: Settings) -> Submitted:
    """A job for the run in `tmp_path / "run"`, which is not handed to Flower."""

    def make(overrides: dict[str, Any] | None = None) -> Job:
        names = {"data.class_names": ["0", "1", "2"]}
        made = coordinator.job(f"job{len(list((coordinator / 'jobs').iterdir()))}")
        config = resolve(settings, {**names, **(overrides or {})})
        made.create(Request.here(config, tmp_path / "run", True, 1))
        return made

    return make


def config_of(job: Job) -> Config:
    return parse(job.request().config)


def carry_out(coordinator: Coordinator, job: Job) -> None:
    """What the server process does, without a grid."""
    execute(NOBODY, coordinator, job.request(), job.say)


def test_a_rehearsal_is_not_resumed_and_a_finished_run_is_judged(
    coordinator: Coordinator, job: Submitted, tmp_path: Path
) -> None:
    def leave(provenance: dict[str, str], clients: list[int]) -> None:
        """A finished run, of which `clients` answered the last evaluation."""
        sites = Sites(["north", "south"], {0: 40, 1: 40}, [9, 9], (1, 8, 8), ["0", "1", "2"])
        run = RunFolder(tmp_path / "run")
        run.path.mkdir(exist_ok=True)
        run.write_config(sites.settled(config_of(job())), provenance)
        (run / "partition.json").write_bytes(sites.described())
        (run / "rounds.jsonl").unlink(missing_ok=True)
        for round in (1, 2, 3):
            score = Score({}, clients, [0.5 for _ in clients])
            run.append_round(Round(round, readouts={"aca": score}))
        run.write_json("summary.json", {})

    leave({}, [0, 1])
    with pytest.raises(UserError, match="holds a run of fedkf run; choose another folder"):
        carry_out(coordinator, job())
    leave({"experiment": "0123abcd"}, [0, 1])
    carry_out(coordinator, job())
    with pytest.raises(UserError, match=r"federation\.lr is 0\.5 but the run began with"):
        carry_out(coordinator, job({"federation.lr": 0.5}))
    leave({"experiment": "0123abcd"}, [])
    with pytest.raises(FedkfError, match="no site answered the last evaluation"):
        carry_out(coordinator, job())


def test_its_commands_go_to_the_address_that_it_listens_on(coordinator: Coordinator) -> None:
    def address() -> str:
        coordinator.environment()
        return (coordinator / "flwr" / "config.toml").read_text().split("address = ")[1].split()[0]

    assert address() == '"127.0.0.1:8000"'
    for host, expected in (
        ("coord.example.org", "coord.example.org:8000"),
        ("::1", "[::1]:8000"),
        ("::", "127.0.0.1:8000"),
        ("0.0.0.0", "127.0.0.1:8000"),
    ):
        coordinator.bind(host)
        assert address() == f'"{expected}"'
    with pytest.raises(UserError, match=r"--bind 10\.0\.0\.5 is not in the certificate"):
        coordinator.start("10.0.0.5")


@pytest.mark.parametrize("token", ["", "\n", "0123abcd"])
def test_with_a_token_that_is_none_nothing_is_opened(
    coordinator: Coordinator, token: str, cli: Callable[..., Outcome]
) -> None:
    (coordinator / "control.token").write_text(token)
    outcome = cli("coordinator", "start", coordinator.path, "--bind", "127.0.0.1")
    assert outcome.code == 1
    assert "holds no token of 32 characters; remove the file" in " ".join(outcome.err.split())
    assert not (coordinator / "tasks.secret").exists()
    done = subprocess.run(  # whoever starts the port's program by itself
        [sys.executable, "-m", "fedkf.flower.link"],
        env={**os.environ, VARIABLE: str(coordinator.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("fedkf: ")
    assert "holds no token" in done.stderr


def test_ctrl_c_before_flower_has_started_a_run_withdraws_it(
    coordinator: Coordinator, job: Submitted, tmp_path: Path
) -> None:
    submitted = job()
    settings = config_of(submitted)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Stopped):
            follow(submitted, settings, quiet=True)
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(UserError, match="there is no job"):
        carry_out(coordinator, submitted)
    assert not (tmp_path / "run").exists()
    # One that began and ended meanwhile cannot be stopped any more.
    ended = subprocess.Popen(["true"])
    ended.wait()
    submitted.write(pid=ended.pid)
    submitted.withdraw()


def test_a_job_that_flower_does_not_take_is_withdrawn(
    coordinator: Coordinator, job: Submitted, tmp_path: Path
) -> None:
    port = free_port()
    file = coordinator / "coordinator.yaml"
    file.write_text(file.read_text().replace("8000", str(port)))
    with pytest.raises(FedkfError):
        coordinator.submit(config_of(job()), tmp_path / "run", False, 1)
    assert len(list((coordinator / "jobs").glob("*/job.json"))) == 1


# -- sites, of which Flower has a registry of its own --------------------------------------------


@pytest.fixture
def flower(
    coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, Any]]:
    """Flower's side alone, with the keys of some sites in `tmp_path`."""
    for name in ("north", "south", "west", "east"):
        (tmp_path / name).mkdir()
        make_node_key(tmp_path / name)
    registry.install(tmp_path, coordinator / "flower.db")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    environment = coordinator.environment()
    return lambda verb, what="": programs.flwr(["supernode", verb, str(what)], environment)


def test_a_registration_that_was_not_written_down_is_taken_up(
    coordinator: Coordinator,
    flower: Callable[..., dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = tmp_path / "north" / "node.pub"

    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("fedkf.flower.coordinator.write_atomically", full)
        with pytest.raises(OSError, match="No space left"):
            coordinator.add("north", key)
    assert coordinator.nodes() == {}
    coordinator.add("north", key)
    (node,) = flower("list")["nodes"]
    assert coordinator.nodes() == {"north": int(node["node-id"])}
    assert list(coordinator.site_keys()) == [int(node["node-id"])]
    with pytest.raises(UserError, match="north is registered already; remove it first"):
        coordinator.add("north", key)
    with pytest.raises(UserError, match=r"node\.pub is of north, which is registered already"):
        coordinator.add("south", key)
    assert list(coordinator.nodes()) == ["north"]


def test_a_site_that_flower_does_not_know_any_more_is_removed(
    coordinator: Coordinator, flower: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    for name in ("north", "south"):
        coordinator.add(name, tmp_path / name / "node.pub")
    flower("unregister", coordinator.nodes()["north"])  # and a crash
    coordinator.remove("north")
    assert list(coordinator.nodes()) == ["south"]
    with pytest.raises(UserError, match="Flower takes no key twice; make a new site"):
        coordinator.add("north", tmp_path / "north" / "node.pub")
    (coordinator / "flower.db").unlink()
    coordinator.remove("south")
    coordinator.add("south", tmp_path / "south" / "node.pub")
    assert list(coordinator.nodes()) == ["south"]


def test_whatever_else_flower_refuses_is_told(
    coordinator: Coordinator, flower: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    coordinator.add("north", tmp_path / "north" / "node.pub")
    with closing(sqlite3.connect(coordinator / "flower.db")) as database, database:
        database.execute("CREATE TRIGGER no BEFORE UPDATE ON node BEGIN SELECT RAISE(IGNORE); END")
    with pytest.raises(FedkfError, match="Flower could not do it"):
        coordinator.remove("north")
    assert list(coordinator.nodes()) == ["north"]


def test_sites_that_are_added_at_once_are_all_registered(
    coordinator: Coordinator, flower: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    names = ["north", "south", "west", "east"]
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda n: coordinator.add(n, tmp_path / n / "node.pub"), names):
            pass
    assert sorted(coordinator.nodes()) == sorted(names)
    assert len(coordinator.site_keys()) == 4


def test_a_key_that_an_earlier_version_did_not_keep_is_given_again(
    coordinator: Coordinator, flower: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    coordinator.add("north", tmp_path / "north" / "node.pub")
    before = coordinator.nodes()
    (coordinator / "keys.json").unlink()
    with pytest.raises(UserError, match=r"add it again with its node\.pub"):
        coordinator.site_keys()
    with pytest.raises(UserError, match="registered already, by another key; remove it first"):
        coordinator.add("north", tmp_path / "south" / "node.pub")
    coordinator.add("north", tmp_path / "north" / "node.pub")
    assert coordinator.nodes() == before
    assert list(coordinator.site_keys()) == list(before.values())


@pytest.mark.parametrize("name", ["sites.json", "keys.json"])
@pytest.mark.parametrize("content", ["", "[]", '{"north"', '{"north": null}', "\udcff"])
def test_a_registry_that_is_damaged_is_named(
    coordinator: Coordinator, name: str, content: str, cli: Callable[..., Outcome]
) -> None:
    (coordinator / "sites.json").write_text('{"north": 7}')
    (coordinator / name).write_text(content, errors="surrogateescape")
    outcome = cli("coordinator", "remove", coordinator.path, "west")
    if name == "keys.json":
        outcome = cli("coordinator", "add", coordinator.path, "west", "west.pub")
    assert outcome.code == 1
    assert f"{name} is damaged: " in " ".join(outcome.err.split())
    assert "unexpected" not in outcome.err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda about: about[:-20], "is no JSON"),
        (lambda about: "[]", "must be an object, not list"),
        (lambda about: about.replace('"clients"', '"sites"'), "clients is missing"),
        (lambda about: about.replace('"train": 40', '"train": "many"'), "must be a whole number"),
        (lambda about: about.replace('"shape"', '"form"'), "shape is missing"),
    ],
)
def test_a_description_of_sites_that_is_damaged_is_named(
    change: Callable[[str], str], words: str, tmp_path: Path
) -> None:
    sites = Sites(["north", "south"], {0: 40, 1: 40}, [9, 9], (1, 8, 8), ["0", "1", "2"])
    file = tmp_path / "partition.json"
    file.write_bytes(sites.described())
    assert Sites.read(RunFolder(tmp_path)) == sites
    file.write_text(change(file.read_text()))
    with pytest.raises(FedkfError, match=rf"partition\.json is damaged: .*{words}") as error:
        Sites.read(RunFolder(tmp_path))
    assert error.value.exit_code == 1


@pytest.mark.parametrize("wait", ["inf", "nan", "-1", "1e300"])
def test_a_wait_that_is_none_is_refused(
    wait: str, coordinator: Coordinator, tmp_path: Path, cli: Callable[..., Outcome]
) -> None:
    study = tmp_path / "study.yaml"
    study.write_text("data: {source: folder, class_names: [ill, well]}")
    outcome = cli("coordinator", "run", coordinator.path, study, "--wait", wait)
    assert outcome.code == 2
    assert "it must be from 0 to 1,000,000 seconds" in " ".join(outcome.err.split())
    assert list((coordinator / "jobs").iterdir()) == []


def saying(**about: Any) -> Node:
    return lambda message: Message(RecordDict({"reply": ConfigRecord(about)}), reply_to=message)


def test_what_sites_say_of_their_data_is_checked(job: Submitted) -> None:
    fine = {"train": 40, "test": 9, "shape": [1, 8, 8]}
    cases: dict[str, tuple[Node, str]] = {
        "empty": (lambda message: Message(RecordDict(), reply_to=message), "cannot be used"),
        "text": (saying(**{**fine, "train": "many"}), "cannot be used"),
        "none": (saying(**{**fine, "train": 0}), "cannot be used"),
        "huge": (saying(**{**fine, "train": 2**50}), "cannot be used"),
        "negative": (saying(**{**fine, "test": -1}), "cannot be used"),
        "vast": (saying(**{**fine, "shape": [2**20, 2**20]}), "cannot be used"),
        "flat": (saying(**{**fine, "shape": []}), "cannot be used"),
        "deep": (saying(**{**fine, "shape": [1] * 5}), "cannot be used"),
        "colour": (saying(error="no\x1b[2J\nno"), "does not take part: no [2J no"),
        "broken": (lambda m: Message(Error(2, "/secret"), reply_to=m), "its program failed; its"),
        "other": (saying(**{**fine, "shape": [3, 8, 8]}), "its samples have shape [3, 8, 8]"),
        "north": (saying(**fine), "north takes part with 40 training samples"),
        "south": (saying(**fine), "south takes part with 40 training samples"),
    }
    numbers = {name: number for number, name in enumerate(cases, 1)}
    board: Any = Switchboard({numbers[name]: node for name, (node, _) in cases.items()})
    said: list[str] = []
    sites = gather(board, numbers, config_of(job()), "0123abcd", 60, said.append)
    assert sites.names == ["north", "south"]
    assert (sites.sizes, sites.test_sizes, sites.shape) == ({0: 40, 1: 40}, [9, 9], (1, 8, 8))
    assert len(board.sent) == len(cases)
    for name, (_, words) in cases.items():
        assert any(text.startswith(name) and words in text for text in said), name


def test_a_lost_greeting_is_asked_for_again(job: Submitted) -> None:
    fine = saying(train=40, test=9, shape=[1, 8, 8])
    asked = []

    def returning(message: Message) -> Message | None:
        asked.append(message)
        return fine(message) if asked[1:] else Message(Error(5, "gone"), reply_to=message)

    board: Any = Switchboard({1: returning})
    board.get_node_ids = lambda: [1, 2]  # 2 was removed this moment: nothing can be sent to it
    said: list[str] = []
    config = config_of(job())
    assert gather(board, {"north": 1, "west": 2}, config, "0123abcd", 1.5, said.append).names == [
        "north"
    ]
    assert said[-1] == "not connected within 1.5 s: west"


@pytest.mark.parametrize(
    "host", ["https://coord.example.org", "coord.example.org:8000", "zürich.example", "a b", ""]
)
def test_a_host_that_is_none_is_refused_before_anything_is_made(tmp_path: Path, host: str) -> None:
    with pytest.raises(UserError, match="must be a name or an address alone"):
        Coordinator(tmp_path / "new").create([host], 8000)
    assert not (tmp_path / "new").exists()


def test_what_an_earlier_version_made_is_told_what_it_lacks(
    coordinator: Coordinator, job: Submitted, cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    def submit() -> None:
        coordinator.submit(config_of(job()), tmp_path / "run", False, 1)

    (coordinator / "sites.json").write_text('{"north": 7}')
    with pytest.raises(
        UserError, match=r"the key of north was not kept .* add it again with its node\.pub"
    ):
        submit()
    before = (coordinator / "ca.crt").read_bytes()
    for name in ("signing.key", "sealing.key"):
        (coordinator / name).unlink()
    for command in (submit, lambda: coordinator.start("127.0.0.1")):
        with pytest.raises(UserError, match=r"has no signing key .* fedkf coordinator key"):
            command()
    outcome = cli("coordinator", "key", coordinator.path)
    assert outcome.code == 0
    after = (coordinator / "ca.crt").read_bytes()
    assert after != before
    assert after.split(b"-----END CERT")[0] == before.split(b"-----END CERT")[0]
    site = SiteFolder(tmp_path / "site")
    (tmp_path / "old.crt").write_bytes(before)
    site.create("north", "127.0.0.1:8000", tmp_path / "old.crt")
    assert cli("site", "trust", site.path, coordinator / "ca.crt").code == 0
    ours = coordinator.own_keys().signing.public_key()
    assert site.trusted().signing == ours
    (coordinator / "signing.key").write_bytes((coordinator / "sealing.key").read_bytes())
    with pytest.raises(UserError, match="is damaged; put a copy back"):
        coordinator.own_keys()
    (coordinator / "sealing.key").write_text("a key")
    with pytest.raises(UserError, match="is damaged; put a copy back"):
        coordinator.own_keys()
    (tmp_path / "other.pub").write_text("ssh-rsa AAAA")
    with pytest.raises(UserError, match=r"is no key of a site; its node\.pub is"):
        coordinator.add("south", tmp_path / "other.pub")


def test_a_run_finds_what_lies_beside_its_study(
    coordinator: Coordinator,
    job: Submitted,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = tmp_path / "study"
    study.mkdir()
    (study / "beside_the_study.py").write_text("raise ValueError('found')")
    monkeypatch.chdir(study)
    submitted = job({"algorithm.name": "fedavg"})
    file = submitted.folder / "job.json"
    file.write_text(file.read_text().replace('"fedavg"', '"beside_the_study:Own"'))
    monkeypatch.chdir(coordinator.path)  # as Flower starts it
    monkeypatch.setenv(VARIABLE, str(coordinator.path))
    context = Context(1, 0, {}, RecordDict(), {"job": submitted.folder.name})
    with pytest.raises(UserError, match="found"):
        server(NOBODY, context)
    assert submitted.read("exit") == 2
    assert "found" in submitted.read("message")
