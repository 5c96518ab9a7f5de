"""Three sites over TLS with authenticated nodes; sites and the coordinator die and come back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import model_bytes
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from lab import NAMES, Lab, at_work, destinations, until
from stranger import Stranger, Tap, status, statuses

from fedkf.core.client import Call
from fedkf.core.payload import Payload
from fedkf.flower.handshake import Invitation
from fedkf.flower.messages import make_call, packed, unpacked
from fedkf.flower.settings import outgoing
from fedkf.runs.config import resolve

pytestmark = [
    pytest.mark.deployment,
    pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc"),
]

STUDY = {
    "data": {"class_names": [str(k) for k in range(10)], "image_size": 16},
    "algorithm": {"name": "fedkf"},
    "federation": {
        "rounds": 3,
        "fraction": 1.0,
        "local_epochs": 1,
        "batch_size": 16,
        "lr": 0.05,
        "evaluate_every": 3,
        "round_timeout": 200,
    },
    "generator": {"width": 4, "noise": 8},
}
STEPS = 5
"""Batches of sixteen in eighty training samples: what a generator learns in a round."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with at_work(Lab(tmp_path_factory.mktemp("lab")), STUDY) as lab:
        yield lab


def rounds(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]


def generator_steps(lab: Lab, site: str) -> dict[str, int]:
    """How often the generator of each kept version has learned, by version."""
    found = {}
    for file in sorted((lab / site / "state").rglob("*.safetensors")):
        adam = Payload.load(file)["adam"]
        steps = {int(value) for name, value in adam.items() if name.startswith("step")}
        assert len(steps) == 1
        found[file.stem.split("-")[1]] = steps.pop()
    return found


@pytest.fixture(scope="module")
def tap(lab: Lab) -> Tap:
    return Tap(lab / "coordinator" / "flower.db")


@pytest.fixture(scope="module")
def whole(lab: Lab, tap: Tap) -> Path:
    """A run that nothing disturbs; somebody listens."""
    process = lab.in_background("whole")

    def ended() -> bool:
        tap.look()
        return process.poll() is not None

    until(ended, "the whole run")
    said = (lab / "run-whole.log").read_text()
    assert process.returncode == 0, said
    assert all(f"{name} takes part with 80 training samples" in said for name in NAMES)
    return lab / "whole"


def test_a_run_across_sites_has_all_its_files_and_discloses_what_it_says(
    lab: Lab, whole: Path
) -> None:
    history = rounds(whole)
    assert [r["active"] for r in history] == [[0, 1, 2]] * 3
    assert all(r["refused"] == [] for r in history)
    assert all(r["losses"].keys() == {"drift"} for r in history)  # the server's own, from weights
    assert history[-1]["readouts"]["oca"]["clients"] == [0, 1, 2]
    ledger = json.loads((whole / "ledger.json").read_text())
    assert ledger["leakage"] == []
    assert set(ledger["training"]["up"]) == {"weights", "sizes"}
    assert set(ledger["evaluation"]["up"]) == {"monitoring"}
    clients = json.loads((whole / "partition.json").read_text())["clients"]
    assert clients[1] == {"id": 1, "name": "south", "train": 80, "test": 20}
    for site in NAMES:
        assert generator_steps(lab, site) == {"2.1": 2 * STEPS, "3.1": 3 * STEPS}
    # Nothing that the coordinator keeps knows where a site's data lies.
    for file in [*whole.rglob("*"), *(lab / "coordinator").rglob("*")]:
        if file.is_file():
            assert str(lab / "south.npz").encode() not in file.read_bytes()


def refusals(lab: Lab, site: str) -> list[dict[str, Any]]:
    file = lab / site / "refused.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_an_outsider_finds_every_interface_closed(lab: Lab, whole: Path) -> None:
    """With what every site is given: the address, and ca.crt."""
    certificate = (lab / "coordinator" / "ca.crt").read_bytes()
    stranger = Stranger(f"127.0.0.1:{lab.port}", certificate)
    with contextlib.closing(stranger):
        assert status(stranger.start_run) == 401
        assert status(stranger.take_task) == 401
        found = {**statuses(stranger.control), **statuses(stranger.runtime)}
    assert len(found) > 50
    for name in ("GetLoginDetails", "GetAuthTokens", "RefreshAuthTokens"):
        found.pop(name)  # how to authenticate oneself, which here nobody can
    assert {name: code for name, code in found.items() if code != 401} == {}
    assert [refusals(lab, site) for site in NAMES] == [[], [], []]


def test_whoever_gets_past_flower_is_refused_by_every_site_and_named(
    lab: Lab, whole: Path, tap: Tap
) -> None:
    """With the secrets of Flower's doors, which only the coordinator has, but without its key."""
    folder = lab / "coordinator"
    token, secret = (folder / "control.token").read_text(), (folder / "tasks.secret").read_bytes()
    address, certificate = f"127.0.0.1:{lab.port}", (folder / "ca.crt").read_bytes()
    nodes = json.loads((folder / "sites.json").read_text())
    before = {site: traces(lab, site) for site in NAMES}
    call = Call("local_update", 0, 1, None, "1.1")
    head = {**Invitation(outgoing(resolve(STUDY)), "0123abcd").head(), "keep": []}
    stranger = Stranger(address, certificate, token, secret)
    with contextlib.closing(stranger), lab.paused(lab.executor()):
        stranger.start_run()
        with stranger.server(until(stranger.take_task, "a server task")) as grid:
            assert set(grid.get_node_ids()) == set(nodes.values())
            own, captured = [], []
            for node in nodes.values():
                weights = packed(Payload(weights={"w": torch.zeros(3)}).to_bytes())
                content = RecordDict({"call": ConfigRecord(head)})
                own.append(Message(content, node, MessageType.QUERY, ttl=600))
                own.append(make_call(call, weights, node, head, 600))
                own.append(make_call(replace(call, step="evaluate"), weights, node, head, 600))
            orders = tap.orders(nodes["north"])
            assert orders.keys() == {"query", "train", "evaluate"}
            for kind, order in orders.items():
                captured.append(Message(order.content, nodes["north"], kind, ttl=600))
            captured.append(Message(orders["train"].content, nodes["south"], "train", ttl=600))
            replies = stranger.answers(grid, [*own, *captured], 600)
    for reply in replies:
        assert set(reply.content) == {"seal", "sealed"}
        assert len(unpacked(reply.content.array_records["sealed"])) < 200
    for site in NAMES:
        said = (lab / site / "flwr-clientapp.log").read_text()
        assert "refused message 3: it is not signed" in said
        assert traces(lab, site) == before[site]
    unsigned = ["it is not signed"] * 3
    assert sorted(r["reason"] for r in refusals(lab, "west")) == unsigned
    assert {r["type"] for r in refusals(lab, "west")} == {"query", "train", "evaluate"}
    south = sorted(r["reason"] for r in refusals(lab, "south"))
    assert south == ["it is meant for another site", *unsigned]
    north = sorted(r["reason"].split(" (")[0] for r in refusals(lab, "north"))
    assert north == ["it is an old one"] * 3 + unsigned
    done = lab.fedkf("site", "check", "north")
    assert "sent.jsonl is unbroken) and refused 6 messages" in done.stdout + done.stderr


def traces(lab: Lab, site: str) -> list[bytes]:
    """What a site that obeys leaves behind."""
    state = [str(path).encode() for path in sorted((lab / site / "state").rglob("*"))]
    return [*state, (lab / site / "sent.jsonl").read_bytes()]


def test_a_coordinator_that_is_killed_goes_on_to_the_same_models(lab: Lab, whole: Path) -> None:
    process = lab.in_background("killed")
    lab.wait_for_round("killed", 2)
    job = max((lab / "coordinator" / "jobs").iterdir(), key=lambda p: p.stat().st_mtime)
    lab.kill("coordinator-link")
    with contextlib.suppress(ProcessLookupError):  # it ends by itself when the SuperLink dies
        os.kill(json.loads((job / "pid").read_text()), signal.SIGKILL)
    assert process.wait() == 1
    assert "add --resume to go on" in (lab / "run-killed.log").read_text()
    assert not (lab / "killed" / "summary.json").exists()
    lab.open()
    lab.run("killed", "--resume")
    assert [r["round"] for r in rounds(lab / "killed")] == [1, 2, 3]
    assert model_bytes(lab / "killed") == model_bytes(whole)


def test_ctrl_c_stops_a_run_that_can_be_resumed(lab: Lab, whole: Path) -> None:
    process = lab.in_background("stopped")
    lab.wait_for_round("stopped", 2)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    log = (lab / "run-stopped.log").read_text()
    assert "add --resume to go on" in log
    assert "Traceback" not in log
    lab.run("stopped", "--resume")
    assert model_bytes(lab / "stopped") == model_bytes(whole)


def test_a_site_that_dies_is_named_and_finds_its_generator_again(lab: Lab, whole: Path) -> None:
    for site in NAMES:
        for file in (lab / site / "state").rglob("*.safetensors"):
            file.unlink()  # of the runs before
    process = lab.in_background("lost")
    lab.wait_for_round("lost", 2)
    lab.kill("south-node")
    assert process.wait() == 0
    first, second, third = rounds(lab / "lost")
    assert first["refused"] == []
    for record in (second, third):
        assert [r["client"] for r in record["refused"]] == [1]
    assert "round 2: client 1 was left out" in (lab / "run-lost.log").read_text()
    assert third["readouts"]["oca"]["clients"] == [0, 2]
    assert third["readouts"]["oca"]["of"] == 3
    assert "(2 of 3 clients)" in (lab / "run-lost.log").read_text()
    lab.connect("south")
    until(lambda: "south" in lab.online(), "south to be back")
    lab.run("lost", "--resume", "--set", "federation.rounds=4", "--wait", 60)
    fourth = rounds(lab / "lost")[3]
    assert fourth["refused"] == []
    assert fourth["readouts"]["oca"]["clients"] == [0, 1, 2]
    assert generator_steps(lab, "south")["4.1"] == 2 * STEPS
    assert generator_steps(lab, "north")["4.1"] == 4 * STEPS
    models = model_bytes(lab / "lost")
    for content in models.values():
        from safetensors.torch import load

        assert all(tensor.isfinite().all() for tensor in load(content).values())
    assert models != model_bytes(whole)


def test_a_site_decides_what_leaves_it_and_what_it_imports(lab: Lab) -> None:
    def check(*options: str) -> str:
        done = lab.fedkf("site", "check", "north", "study.yaml", *options, code=1)
        return done.stderr

    leaking = check("--set", "algorithm.name=fedgen")
    assert "fedgen would send label_counts, which its site file does not share" in leaking
    imported = check("--set", "model.name=json:loads")
    assert "model.name 'json:loads' is not among what its site file allows" in imported
    classes = check("--set", "data.class_names=[zero, one]")
    assert "its data does not fit the configuration" in classes


def test_an_unregistered_site_and_one_with_a_foreign_certificate_are_refused(lab: Lab) -> None:
    lab.site("stranger")
    lab.connect("stranger")
    assert lab.processes.pop("stranger-node").wait() != 0
    assert "Failed to activate" in (lab / "stranger-node.log").read_text()
    lab.fedkf("coordinator", "init", "other")
    lab.site("foreign", "other/ca.crt")
    lab.connect("foreign")
    assert lab.processes.pop("foreign-node").wait() != 0
    assert "CERTIFICATE_VERIFY_FAILED" in (lab / "foreign-node.log").read_text()
    assert lab.online() <= set(NAMES)


def test_a_site_that_is_removed_is_shut_out_of_new_runs(lab: Lab) -> None:
    lab.fedkf("coordinator", "remove", "coordinator", "west")
    assert (
        "no site 'west'" in lab.fedkf("coordinator", "remove", "coordinator", "west", code=2).stderr
    )
    said = lab.run("without", "--set", "federation.rounds=1")
    assert "west" not in said
    clients = json.loads((lab / "without" / "partition.json").read_text())["clients"]
    assert [client["name"] for client in clients] == ["north", "south"]


def test_no_connection_left_the_machine(lab: Lab, whole: Path) -> None:
    logs = sorted(lab.folder.glob("*.strace"))
    if not logs:
        pytest.skip("needs strace")
    for log in logs:
        went = destinations(log)
        assert {address for address, _ in went} <= {"127.0.0.1", "::1"}, log.name
    for name in NAMES:
        assert ("127.0.0.1", lab.port) in destinations(lab / f"{name}-node.strace")


def test_under_privacy_sites_send_noisy_weights_until_their_own_budget_is_spent(lab: Lab) -> None:
    """The coordinator means to spend ε = 8 in each of its runs; one site has ε = 9 in all."""
    (lab / "north" / "site.yaml").write_text(
        (lab / "north" / "site.yaml").read_text().replace("privacy: null", "privacy: {epsilon: 9}")
    )
    private = ("--set", "algorithm.name=fedavg", "--set", "privacy.epsilon=8")
    short = ("--set", "federation.rounds=2", "--quiet")
    said = lab.run("private", *private, *short)
    assert "no accuracy is measured" in said
    history = rounds(lab / "private")
    sites = json.loads((lab / "private" / "partition.json").read_text())["clients"]
    assert [r["active"] for r in history] == [list(range(len(sites)))] * 2
    assert all(r["refused"] == [] and r["readouts"] is None for r in history)
    assert max(history[-1]["privacy"]["epsilon"]) <= 8
    ledger = json.loads((lab / "private" / "ledger.json").read_text())
    assert set(ledger["training"]["up"]) == {"weights", "sizes"}
    assert ledger["evaluation"]["up"] == {}
    again = lab.run("again", *private, *short, "--set", "federation.seed=1")
    assert again
    refused = [r["refused"] for r in rounds(lab / "again")]
    assert [r[0]["client"] for r in refused] == [NAMES.index("north")] * 2
    assert "exceed the budget of its site file, ε = 9" in refused[0][0]["reason"]
    (lab / "plain.txt").write_text(lab.run("plain", "--set", "federation.rounds=1", "--quiet"))
    assert "asks for privacy" in (lab / "plain.txt").read_text()
