"""Secure sums between machines: sites with keys of their own, and what a site insists on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Outcome, Settings
from flwr.app import ArrayRecord, Context
from switchboard import Switchboard, node_of
from torch import nn
from torch.utils.data import TensorDataset

import fedkf.flower
from fedkf.core.client import Call, StepFailed
from fedkf.core.errors import UserError
from fedkf.core.payload import HIDING, Payload
from fedkf.flower.coordinator import Coordinator
from fedkf.flower.handshake import Invitation
from fedkf.flower.settings import SiteRefusal, outgoing
from fedkf.flower.site import Host, SiteFolder
from fedkf.runs.config import resolve
from fedkf.secure import wire
from fedkf.secure.protocol import SEALED, Roster, sealed_shares
from fedkf.secure.secrets import RoundSecrets

SECURE = {"transport.secure": True}
SITES = 4


def net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))


def samples(context: Context) -> tuple[Any, Any]:
    """Each site its own noise around three patterns."""
    random = np.random.default_rng(int(context.node_config["partition-id"]))
    y = torch.arange(12) % 3
    x = torch.from_numpy(random.normal(0, 0.3, (12, 1, 4, 4))).float()
    x[torch.arange(12), 0, y] += 1
    return TensorDataset(x[:9], y[:9]), TensorDataset(x[9:], y[9:])


def federate(folder: Path, lost: tuple[int, str] | None = None, **keys: Any) -> Any:
    """Two rounds over nodes with a real ClientApp each; `lost` does not answer a step."""
    app = fedkf.flower.client_app(net, samples, state=folder)
    board = Switchboard({k + 1: node_of(app, k, SITES) for k in range(SITES)})
    if lost is not None:
        node, step = lost
        whole = board.nodes[node + 1]

        def deaf(message: Any) -> Any:
            head = message.content.config_records.get("call") or {}
            return None if head.get("step") == step else whole(message)

        board.nodes[node + 1] = deaf
    strategy = fedkf.flower.AlgorithmStrategy(
        "fedavg", model=net, classes=3, lr=0.1, fraction=1.0, local_epochs=1, **keys
    )
    torch.manual_seed(0)
    arrays: Any = ArrayRecord(net().state_dict())
    grid: Any = board
    strategy.start(grid, arrays, num_rounds=2, timeout=0.4 if lost else 60.0)
    return strategy, board


def test_sites_with_keys_of_their_own_end_with_the_models_of_a_plain_run(tmp_path: Path) -> None:
    plain, _ = federate(tmp_path / "plain")
    first, one = federate(tmp_path / "one", secure=True)
    second, other = federate(tmp_path / "other", secure=True)
    for readout in ("aca", "oca"):
        for name, tensor in plain.readouts[readout].items():
            assert float((first.readouts[readout][name] - tensor).abs().max()) <= 1e-5
            assert torch.equal(first.readouts[readout][name], second.readouts[readout][name])
    # The same seed, and yet nothing that is sent is the same: keys are the sites' own.
    assert roster(one) != roster(other)


def roster(board: Switchboard) -> bytes:
    """The public keys that the last message to a site in phase 2 names."""
    from fedkf.flower.messages import read_call, read_payload

    found = [m for m in board.sent if m.metadata.message_type == "train"]
    asked = [m for m in found if read_call(m)[0].step == "secure_shares"]
    return read_payload(asked[-1])["roster"]["keys"].numpy().tobytes()


def test_a_site_that_is_lost_before_or_after_its_upload(tmp_path: Path) -> None:
    strategy, _ = federate(tmp_path / "a", (2, "secure_unmask"), secure=True)
    assert all("its upload counts" in r["refused"][0]["reason"] for r in strategy.history)
    strategy, _ = federate(tmp_path / "b", (2, "secure_update"), secure=True)
    assert [r["refused"][0]["client"] for r in strategy.history] == [2, 2]


def test_two_sites_cannot_hide_in_a_sum(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a round has 2 of the clients"):
        federate(tmp_path, None, secure=True, **{"federation.fraction": 0.5})


# -- what a site lets out -------------------------------------------------------------------------


@pytest.fixture
def make(tmp_path: Path, npz: Path, settings: Settings) -> Callable[..., Host]:
    """A site's host for an experiment with these keys; `insists` is its file's `secure`."""
    Coordinator(tmp_path / "coordinator").create(["127.0.0.1"], 8000)
    folder = SiteFolder(tmp_path / "site")
    folder.create("north", "127.0.0.1:8000", tmp_path / "coordinator" / "ca.crt")
    text = (folder / "site.yaml").read_text()
    text = text.replace("source: folder", "source: npz").replace("path: null", f"path: {npz}")

    def host(keys: dict[str, Any], insists: bool = False) -> Host:
        wanted = text.replace("secure: false", f"secure: {str(insists).lower()}")
        (folder / "site.yaml").write_text(wanted)
        config = resolve(settings, {"data.class_names": ["0", "1", "2"], **keys})
        return Host(folder, Invitation(outgoing(config), "0123abcd"))

    return host


def test_its_model_leaves_by_no_step(make: Callable[..., Host]) -> None:
    host = make(SECURE)
    for step in ("local_update", "round", "hide"):
        with pytest.raises(SiteRefusal, match=f"has no step '{step}'"):
            host.check(Call(step, 4, 1, None, "1.1"))
    upload = Payload(weights={"w": torch.zeros(1)}, sizes={"n": 3}, monitoring={"loss": 1.0})
    for kind in HIDING:
        upload.add(kind, {"x": torch.zeros(1)})
    assert set(host.released(Call("secure_update", 4, 1, None, "1.1"), upload)) == set(HIDING)


def test_its_keys_are_its_own_and_its_private_state_is_its_owners(
    make: Callable[..., Host], tmp_path: Path
) -> None:
    hello = Payload().add("roster", {"asked": 3}, "public_keys")
    call = Call("secure_keys", 4, 1, None, "1.1")
    first, second = (make(SECURE).perform(call, hello, []) for _ in range(2))
    assert first.upload is not None
    assert second.upload is not None
    assert not torch.equal(first.upload["keys"]["public"], second.upload["keys"]["public"])
    (kept,) = (tmp_path / "site" / "state" / "0123abcd").glob("4-1.1.safetensors")
    assert kept.stat().st_mode & 0o077 == 0


class Round:
    """A site, as client 4, in a round with three others, whose server asks what it likes."""

    def __init__(self, make: Callable[..., Host], **keys: Any) -> None:
        self.make, self.keys = make, {k.replace("__", "."): v for k, v in keys.items()}
        self.weights = self.host().assembly.task.initial_weights
        hello = Payload().add("roster", {"asked": 4}, "public_keys")
        own = self.host().perform(Call("secure_keys", 4, 1, None, "1.1"), hello, []).upload
        assert own is not None
        self.others = {k: RoundSecrets(bytes([k]) * 32) for k in (5, 6, 7)}
        public = [wire.content(own["keys"]["public"]), *(s.public() for s in self.others.values())]
        self.roster = Roster((4, 5, 6, 7), tuple(public), 4, 3)

    def host(self) -> Host:
        return self.make({**SECURE, "algorithm.name": "fedavg", **self.keys})

    def message(self, ids: Sequence[int] = (4, 5, 6, 7), **marks: Sequence[int]) -> Payload:
        keys = torch.stack([wire.tensor(self.roster.key(k)) for k in ids])
        values: dict[str, Any] = {"asked": 4, "clients": 4, "ids": torch.tensor(ids), "keys": keys}
        flags = {name: torch.tensor(marked, dtype=torch.uint8) for name, marked in marks.items()}
        return Payload(weights=self.weights).add("roster", {**values, **flags}, "public_keys")

    def ask(self, step: str, down: Payload, round: int = 1, start: str = "1.1") -> Payload:
        """As a rule from the state that it had before any answer, in a process of its own."""
        call = Call(step, 4, round, start, "1.9")
        upload = self.host().perform(call, down, ["1.1", "1.9"]).upload
        assert upload is not None
        return upload


def test_an_upload_is_asked_for_in_one_way_only(make: Callable[..., Host], tmp_path: Path) -> None:
    """Counted by T1 and not counted: under the same masks the difference would be its model."""
    site = Round(make)
    counted, left_out = (
        site.message(present=[1] * 4, since=[0] * 4, counted=[k, 1, 1, 1]) for k in (1, 0)
    )
    first = site.ask("secure_update", counted)["masked"]["vector"]
    assert torch.equal(first, site.ask("secure_update", counted)["masked"]["vector"])
    with pytest.raises(StepFailed, match="it has answered another secure_update with this round's"):
        site.ask("secure_update", left_out)
    for record in (tmp_path / "site" / "state").rglob("*.answered"):
        record.unlink()
    second = site.ask("secure_update", left_out)["masked"]["vector"]
    assert float((first - second).double().abs().mean()) > 2.0**60  # the masks are others, too


@pytest.mark.parametrize("other", [{"round": 2}, {"start": "1.9"}])
def test_training_that_would_end_otherwise_is_not_behind_the_same_masks(
    make: Callable[..., Host], other: dict[str, Any]
) -> None:
    """The message is the same, but other batches, or a state that has learned, give others."""
    site = Round(make, algorithm__name="fedkf-", generator__width=4)
    message = site.message(present=[1] * 4, since=[0] * 4, counted=[1] * 4)
    first = site.ask("secure_update", message)["masked"]["vector"]
    assert torch.equal(first, site.ask("secure_update", message)["masked"]["vector"])
    with pytest.raises(StepFailed, match="it has answered another secure_update with this round's"):
        site.ask("secure_update", message, **other)


def test_new_noise_is_not_behind_the_same_masks(make: Callable[..., Host]) -> None:
    """Two answers to one message would differ by their noise alone, which nobody is to know."""
    pytest.importorskip("dp_accounting")
    site = Round(make, privacy__epsilon=8.0, privacy__turns=9)
    message = site.message(present=[1] * 4, since=[0] * 4, counted=[1] * 4)
    site.ask("secure_update", message)
    with pytest.raises(StepFailed, match="other noise may not be behind the same masks"):
        site.ask("secure_update", message)


def test_shares_are_given_for_one_roster_and_one_sum_only(make: Callable[..., Host]) -> None:
    """Own masks of a client for one sum and its key for another would bare it."""
    site = Round(make)
    site.ask("secure_shares", site.message())
    with pytest.raises(StepFailed, match="it has answered another secure_shares"):
        site.ask("secure_shares", site.message((7, 6, 5, 4)))
    table = torch.zeros((4, 4, SEALED), dtype=torch.uint8)
    for row, (k, secrets) in enumerate(site.others.items(), 1):
        table[row] = wire.rows(sealed_shares(k, secrets, site.roster), site.roster)
    everybody, without = (
        site.message(present=[1] * 4, summed=[1, 1, 1, k]).add(
            "sealed", {"shares": table, "changes": 1}, "sealed_shares"
        )
        for k in (1, 0)
    )
    for _ in range(2):
        site.ask("secure_unmask", everybody)
    with pytest.raises(StepFailed, match="it has answered another secure_unmask"):
        site.ask("secure_unmask", without)


def test_it_may_insist_on_secure_sums(make: Callable[..., Host]) -> None:
    assert make(SECURE, insists=True).algorithm.name == "fedkf"
    with pytest.raises(SiteRefusal, match=r"in secure sums only, and transport.secure is false"):
        make({}, insists=True)
    with pytest.raises(SiteRefusal, match=r"none that may bare it, and transport.exact is true"):
        make({**SECURE, "transport.exact": True}, insists=True)
    with pytest.raises(SiteRefusal, match=r"transport.threshold is 0.5; it must be above 0.5"):
        make({**SECURE, "transport.threshold": 0.5}, insists=True)
    assert make({**SECURE, "transport.threshold": 0.5}).algorithm.name == "fedkf"


def test_check_says_what_would_leave_and_what_is_promised(
    make: Callable[..., Host], cli: Callable[..., Outcome], tmp_path: Path, settings: Settings
) -> None:
    import yaml

    make(SECURE)
    settings["data"]["class_names"] = ["0", "1", "2"]
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(settings))
    plain = cli("site", "check", tmp_path / "site", tmp_path / "c.yaml")
    assert "weights, counts of correct" in plain.out
    assert "never its model" not in plain.out
    said = cli(
        *("site", "check", tmp_path / "site", tmp_path / "c.yaml", "--set", "transport.secure=true")
    ).out
    assert "weights, counts of correct" not in said
    assert "masked_weights" in said
    assert "the coordinator sees sums of at least three sites' models, never its model" in said


def test_under_privacy_only_the_phase_that_trains_is_paid_for(make: Callable[..., Host]) -> None:
    pytest.importorskip("dp_accounting")
    host = make({**SECURE, "privacy.epsilon": 8.0, "algorithm.name": "fedavg"})
    hello = Payload().add("roster", {"asked": 3}, "public_keys")
    host.perform(Call("secure_keys", 4, 1, None, "1.1"), hello, [])
    assert host.accounts.turns() == []
    assert host.mechanism is not None
    with pytest.raises(Exception, match="roster"):  # too late: whoever begins to train has paid
        host.perform(Call("secure_update", 4, 1, "1.1", "1.3"), Payload(), ["1.1"])
    assert len(host.accounts.turns()) == 1
