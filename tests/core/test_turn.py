"""A turn that was broken off goes on after its last epoch, to the same bytes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from conftest import Settings, Unsteady

from fedkf import algorithms
from fedkf.algorithms.fedprox import FedProx
from fedkf.core.client import Call, Client, ClientHost, StepFailed
from fedkf.core.federation import Checkpoint
from fedkf.core.payload import Payload, Weights
from fedkf.core.server import Accept, Counts, Storage
from fedkf.core.turn import OF_ALGORITHMS, continues
from fedkf.core.versions import Versions
from fedkf.distillation.samples import Noise
from fedkf.runs.assembly import Assembly
from fedkf.runs.config import resolve
from fedkf.runs.setup import Objects, load_source, make_data, settle

EPOCHS = 3


class Fuse:
    """Breaks after so many batches of training, if it is set."""

    left: int | None = None
    kills = False
    passed = 0

    @classmethod
    def reset(cls, left: int | None = None, kills: bool = False) -> None:
        cls.left, cls.kills, cls.passed = left, kills, 0

    @classmethod
    def burn(cls) -> None:
        if cls.left == 0:
            if cls.kills:
                os.kill(os.getpid(), signal.SIGKILL)
            cls.left = None
            raise RuntimeError("the power went out")
        cls.passed += 1
        cls.left = cls.left and cls.left - 1


class Fragile(Unsteady):
    """BatchNorm and dropout, on a fuse while it is trained."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and torch.is_grad_enabled():
            Fuse.burn()
        return super().forward(x)


def assemble(settings: Settings, name: str, given: Any = None) -> tuple[Assembly, Any]:
    settings["algorithm"] = {"name": name}
    settings["federation"].update(momentum=0.9, local_epochs=EPOCHS, rounds=2)
    config = resolve(settings, {"data.proxy": 0.1})
    source = load_source(config)
    config = settle(config, source)
    data = make_data(config, source)
    proxy = torch.zeros(8, *data.shape)
    return Assembly.of(config, data, Objects(given, Fragile), proxy), data


class Stumbling:
    """An engine whose every turn breaks off once, somewhere in its last epoch."""

    def __init__(self, host: ClientHost, stumbles: bool) -> None:
        self.host, self.stumbles = host, stumbles

    def exchange(self, calls: Sequence[Call], down: Payload, accept: Accept) -> None:
        for call in calls:
            stumbles = self.stumbles and call.step == "local_update"
            if stumbles:
                whole = self.forwards(call, down)
                Fuse.reset(left=whole - 1)
                with pytest.raises(StepFailed, match="the power went out"):
                    self.host.perform(call, down)
            Fuse.reset()
            accept(self.host.perform(call, down))
            assert not stumbles or Fuse.passed == whole / EPOCHS

    def forwards(self, call: Call, down: Payload) -> int:
        """Passes of an undisturbed turn, tried with a host that keeps nothing."""
        Fuse.reset()
        host = self.host
        trial = ClientHost(host.algorithm, host.task, host.states, host.data, host.codec)
        trial.perform(call, down)
        self.host.states.discard(call.client, call.version)
        return Fuse.passed

    def evaluate(self, readouts: Mapping[str, Weights], clients: Sequence[int]) -> Counts | None:
        return None

    def close(self) -> None: ...


class Unkept:
    """A checkpoint of nothing."""

    def commit(self, payloads: Any, ledger: Any, sign: Any) -> Any:
        self.payloads = payloads
        return sign()


def train(settings: Settings, name: str, folder: Path, stumbles: bool) -> dict[str, bytes]:
    """What is left of a run: readouts, the server's state, private states."""
    assembly, data = assemble(settings, name)
    states = Versions(folder)
    host = assembly.host_of(data, states)
    host.keeps_turns = stumbles
    server = assembly.server(Stumbling(host, stumbles), Storage(states))
    checkpoint: Checkpoint = Unkept()
    readouts = assembly.federation(server, checkpoint).run()
    left = {name: Payload(weights=weights).to_bytes() for name, weights in readouts.items()}
    private = {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}
    return {**left, **private}


EXACT = [n for n in algorithms.names() if continues(algorithms.get(n), OF_ALGORITHMS)]


@pytest.mark.parametrize("name", EXACT)
def test_a_turn_that_broke_off_ends_as_if_it_had_not(
    settings: Settings, tmp_path: Path, name: str
) -> None:
    settings["federation"]["fraction"] = 1.0
    settings["data"]["clients"] = 2
    broken = train(settings, name, tmp_path / "broken", stumbles=True)
    assert broken == train(settings, name, tmp_path / "whole", stumbles=False)


CALL = Call("local_update", 0, 2, None, "2.1")


class Site:
    """A host that keeps turns, and what it is asked for."""

    def __init__(self, settings: Settings, folder: Path, name: str, given: Any = None) -> None:
        settings["data"]["clients"] = 2
        assembly, data = assemble(settings, name, given)
        self.folder = folder
        self.host = assembly.host_of(data, Versions(folder))
        self.host.keeps_turns = True
        self.down = Payload(weights=assembly.task.initial_weights)

    def turn(self, call: Call = CALL, down: Payload | None = None) -> tuple[bytes, int]:
        """The upload, and how many passes in training it took."""
        Fuse.reset()
        upload = self.host.perform(call, down or self.down).upload
        assert upload is not None
        return upload.to_bytes(), Fuse.passed

    def break_off(self, left: int) -> None:
        Fuse.reset(left=left)
        with pytest.raises(StepFailed, match="the power went out"):
            self.host.perform(CALL, self.down)

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.turn"))


@pytest.mark.parametrize("name", ["fedavg", "fedkf"])
def test_a_site_killed_in_the_middle_of_a_turn_loses_an_epoch_at_most(
    settings: Settings, tmp_path: Path, name: str
) -> None:
    undisturbed, whole = Site(settings, tmp_path / "whole", name).turn()
    epoch = whole // EPOCHS
    site = Site(settings, tmp_path / "killed", name)

    def die(left: int) -> None:
        torch.set_num_threads(1)
        Fuse.reset(left, kills=True)
        site.host.perform(CALL, site.down)

    for left, lost in ((epoch // 2, 0), (2 * epoch + 1, 2), (epoch - 1, 2)):
        process = multiprocessing.get_context("fork").Process(target=die, args=(left,))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert len(site.files()) == (1 if lost else 0)
    upload, passed = site.turn()
    assert upload == undisturbed
    assert passed == epoch  # two of three epochs were kept, the last one is done again
    assert site.turn() == (undisturbed, 0)  # nothing is left to do if its answer was lost


def test_what_was_kept_serves_the_same_call_alone(settings: Settings, tmp_path: Path) -> None:
    site = Site(settings, tmp_path, "fedavg")
    undisturbed, whole = site.turn()
    (kept,) = site.files()
    other = {name: tensor + 0.01 for name, tensor in site.down["weights"].items()}
    upload, passed = site.turn(down=Payload(weights=other))
    assert (upload != undisturbed, passed) == (True, whole)
    assert site.turn(Call("local_update", 0, 2, None, "2.2"))[1] == whole
    assert not kept.exists()
    assert len(site.files()) == 1


def test_a_damaged_file_is_as_good_as_none(settings: Settings, tmp_path: Path) -> None:
    site = Site(settings, tmp_path, "fedavg")
    first = site.turn()
    (kept,) = site.files()
    kept.write_bytes(kept.read_bytes()[:100])
    assert site.turn() == first


@dataclass(frozen=True)
class Hesitating(FedProx):
    """Remembers something of its own, of which nobody knows."""

    name: ClassVar[str] = "hesitating"

    def local_loss(self, client: Client, down: Payload) -> Any:
        plain, seen = super().local_loss(client, down), []

        def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            seen.append(len(x))
            return plain(x, y) / len(seen)

        return loss


@pytest.mark.parametrize(("name", "given"), [("ditto", None), ("fedavg", Hesitating())])
def test_an_algorithm_that_does_not_say_it_continues_begins_again(
    settings: Settings, tmp_path: Path, name: str, given: Any
) -> None:
    undisturbed, whole = Site(settings, tmp_path / "whole", name, given).turn()
    site = Site(settings, tmp_path / "broken", name, given)
    site.break_off(whole - 1)
    assert site.files() == []
    assert site.turn() == (undisturbed, whole)


class Fading(Noise):
    """Samples with a memory that they do not tell of."""

    times = 0

    def make(self) -> torch.Tensor:
        self.times += 1
        return super().make() / self.times


def test_samples_that_do_not_say_it_begin_again_too(settings: Settings, tmp_path: Path) -> None:
    settings["generator"]["samples"] = f"{__name__}:Fading"
    undisturbed, whole = Site(settings, tmp_path / "whole", "fedkf").turn()
    site = Site(settings, tmp_path / "broken", "fedkf")
    site.break_off(whole - 1)
    assert site.turn() == (undisturbed, whole)


def test_samples_in_use_over_the_end_of_an_epoch_wait_for_the_next(
    settings: Settings, tmp_path: Path
) -> None:
    settings["generator"].update(samples="noise", reuse=4)
    undisturbed, whole = Site(settings, tmp_path / "whole", "fedkf").turn()
    site = Site(settings, tmp_path / "broken", "fedkf")
    site.break_off(whole - 1)
    upload, passed = site.turn()
    assert upload == undisturbed
    assert 0 < passed <= whole
