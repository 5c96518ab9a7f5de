"""The local engine: crashes, mistakes and refused uploads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from conftest import Settings, model_bytes

import fedkf
from fedkf.core.client import Client
from fedkf.core.errors import FedkfError, UserError
from fedkf.core.federation import Observer
from fedkf.core.payload import Payload
from fedkf.core.records import Round
from fedkf.core.server import TooFewUploads
from fedkf.runs.config import resolve
from fedkf.runs.experiment import execute
from fedkf.runs.setup import Objects


@dataclass(frozen=True)
class Remembering(fedkf.Algorithm):
    """FedAvg whose clients count the rounds in which they took part."""

    name: ClassVar[str] = "remembering"

    def local_update(self, client: Client, down: Payload) -> Payload:
        before = int(client.state.number("private", "rounds")) if client.state else 0
        client.state = Payload(private={"rounds": before + 1})
        return self.spoil(client, super().local_update(client, down))

    def spoil(self, client: Client, upload: Payload) -> Payload:
        return upload


@dataclass(frozen=True)
class Dying(Remembering):
    """Client 2's worker is killed while it works: once, or every time if no flag can be left."""

    flag: str = ""

    def spoil(self, client: Client, upload: Payload) -> Payload:
        if client.id == 2 and not (self.flag and Path(self.flag).exists()):
            if self.flag:
                Path(self.flag).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return upload

    def __post_init__(self) -> None: ...


def run(settings: Settings, algorithm: fedkf.Algorithm, folder: Path, said: list[str]) -> Any:
    config = resolve({**settings, "algorithm": {"name": "fedavg"}}, {"engine.workers": 2})
    return execute(config, folder, given=Objects(algorithm), say=said.append)


def test_a_worker_that_dies_is_replaced_and_the_result_is_the_same(
    settings: Settings, tmp_path: Path
) -> None:
    said: list[str] = []
    settings["federation"]["fraction"] = 1.0
    run(settings, Remembering(), tmp_path / "whole", said)
    assert said == []
    result = run(settings, Dying(flag=str(tmp_path / "died")), tmp_path / "crashed", said)
    assert len(said) == 1
    assert "died (signal SIGKILL) on client 2 (local_update)" in said[0]
    assert all(record["refused"] == [] for record in result.history)
    assert model_bytes(tmp_path / "crashed") == model_bytes(tmp_path / "whole")


def test_a_client_whose_worker_always_dies_is_named_and_the_round_goes_on(
    settings: Settings, tmp_path: Path
) -> None:
    settings["federation"].update(fraction=1.0, rounds=2)
    result = run(settings, Dying(), tmp_path, [])
    for record in result.history:
        assert [r["client"] for r in record["refused"]] == [2]
        assert "died twice" in record["refused"][0]["reason"]


@dataclass(frozen=True)
class Spoiling(Remembering):
    """Client 1 sends something unusable in round 2."""

    how: str = ""
    everyone: bool = False

    def __post_init__(self) -> None: ...

    def spoil(self, client: Client, upload: Payload) -> Payload:
        weights = upload["weights"]
        name = "linear2.bias"
        if client.round == 2 and (client.id == 1 or self.everyone):
            match self.how:
                case "nan":
                    weights[name][0] = float("nan")
                case "infinite":
                    weights[name][1] = float("inf")
                case "shape":
                    weights[name] = torch.zeros(7)
                case "missing":
                    del weights[name]
                case "extra":
                    weights["surprise"] = torch.zeros(1)
                case "type":
                    weights[name] = weights[name].double()
                case "raises":
                    raise RuntimeError("the site's disk is on fire")
                case "leak":
                    upload.add("label_counts", {"n": torch.ones(3)})
        return upload


REASONS = {
    "nan": "'linear2.bias' holds NaN or infinite values",
    "infinite": "'linear2.bias' holds NaN or infinite values",
    "shape": "'linear2.bias' has shape [7], not [3]",
    "missing": "weights lack 'linear2.bias'",
    "extra": "weights have 'surprise'",
    "type": "'linear2.bias' is torch.float64, not torch.float32",
    "raises": "RuntimeError: the site's disk is on fire",
    "leak": "would send 'label_counts'",
}


class Counting(Observer):
    """Reads the private states that stand after each round."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counts: list[dict[int, int]] = []

    def round_finished(self, record: Round) -> None:
        found = {}
        for path in (self.folder / "checkpoint" / "clients").iterdir():
            client = int(path.name.split("-")[0])
            assert client not in found
            found[client] = int(Payload.load(path).number("private", "rounds"))
        self.counts.append(found)


@pytest.mark.parametrize("how", REASONS)
def test_an_unusable_upload_is_refused_and_named_and_its_state_is_dropped(
    settings: Settings, tmp_path: Path, how: str
) -> None:
    settings["federation"]["fraction"] = 1.0
    config = resolve({**settings, "algorithm": {"name": "fedavg"}}, {"engine.workers": 1})
    watcher = Counting(tmp_path)
    result = execute(config, tmp_path, given=Objects(Spoiling(how=how)), observers=[watcher])
    first, second, third = result.history
    assert first["refused"] == third["refused"] == []
    assert [r["client"] for r in second["refused"]] == [1]
    assert REASONS[how] in second["refused"][0]["reason"]
    assert watcher.counts[0] == dict.fromkeys(range(6), 1)
    assert watcher.counts[1] == {**dict.fromkeys(range(6), 2), 1: 1}
    assert watcher.counts[2] == {**dict.fromkeys(range(6), 3), 1: 2}
    for weights in result.weights.values():
        assert all(tensor.isfinite().all() for tensor in weights.values())


def test_if_all_are_refused_the_run_stops_and_can_be_resumed(
    settings: Settings, tmp_path: Path
) -> None:
    config = resolve({**settings, "algorithm": {"name": "fedavg"}}, {"engine.workers": 1})
    with pytest.raises(TooFewUploads, match="round 2 has 0 usable uploads of 3") as caught:
        execute(config, tmp_path / "a", given=Objects(Spoiling(how="nan", everyone=True)))
    assert caught.value.exit_code == 1
    execute(config, tmp_path / "a", resume=True, given=Objects(Remembering()))
    execute(config, tmp_path / "b", given=Objects(Remembering()))
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")


def test_a_round_needs_min_clients(settings: Settings, tmp_path: Path) -> None:
    settings["federation"].update(fraction=1.0, min_clients=6)
    config = resolve({**settings, "algorithm": {"name": "fedavg"}})
    with pytest.raises(TooFewUploads, match="5 usable uploads of 6, and 6 are needed"):
        execute(config, tmp_path, given=Objects(Spoiling(how="nan")))


def test_min_clients_beyond_the_active_ones_is_refused(settings: Settings) -> None:
    with pytest.raises(UserError, match=r"min_clients is 4 but a round has 3 clients"):
        fedkf.run(settings, min_clients=4)


def test_without_workers_an_error_names_client_and_stage(settings: Settings) -> None:
    config = resolve({**settings, "algorithm": {"name": "fedavg"}})
    with pytest.raises(FedkfError, match=r"client \d, local_update in round 2: RuntimeError") as e:
        execute(config, given=Objects(Spoiling(how="raises", everyone=True)))
    assert isinstance(e.value.__cause__, RuntimeError)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_model_without_a_linear_layer_is_explained(settings: Settings, workers: int) -> None:
    def convolutional() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Conv2d(1, 3, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
        )

    with pytest.raises(UserError, match=r"runs no nn\.Linear layer"):
        fedkf.run(settings, model=convolutional, workers=workers)


def test_lambdas_and_local_classes_work_with_workers(settings: Settings) -> None:
    make: Callable[[], torch.nn.Module] = lambda: torch.nn.Sequential(  # noqa: E731
        torch.nn.Flatten(), torch.nn.Linear(256, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
    )
    result = fedkf.run(settings, model=make, workers=2)
    assert result.models["oca"](torch.zeros(1, 1, 16, 16)).shape == (1, 3)


def test_workers_are_gone_after_the_run_and_threads_are_as_before(settings: Settings) -> None:
    import multiprocessing

    torch.set_num_threads(2)
    fedkf.run(settings, workers=2)
    assert not [p for p in multiprocessing.active_children() if p.name.startswith("fedkf-")]
    assert torch.get_num_threads() == 2


def test_replies_of_an_exchange_that_was_given_up_are_not_taken_for_others(
    settings: Settings, tmp_path: Path
) -> None:
    from fedkf.core.client import Call, ClientHost, Reply
    from fedkf.core.versions import Versions
    from fedkf.engines import EngineSettings
    from fedkf.engines.local import LocalEngine
    from fedkf.runs.setup import load_source, make_data, make_task, settle

    @dataclass(frozen=True)
    class Naming(fedkf.Algorithm):
        name: ClassVar[str] = "naming"

        def local_update(self, client: Client, down: Payload) -> Payload:
            return Payload(monitoring={"client": client.id, "round": client.round})

    config = resolve(settings)
    source = load_source(config)
    config = settle(config, source)
    data = make_data(config, source)
    task = make_task(config, data, Naming())
    host = ClientHost(Naming(), task, Versions(tmp_path), data.client)
    engine = LocalEngine(host, data, EngineSettings(workers=2))

    def give_up(reply: Reply) -> bool:
        raise KeyboardInterrupt

    try:
        for number in range(1, 6):
            calls = [Call("local_update", k, number, None, str(number)) for k in range(6)]
            replies: list[Reply] = []
            if number % 2:
                with pytest.raises(KeyboardInterrupt):
                    engine.exchange(calls, Payload(), give_up)
                continue
            engine.exchange(calls, Payload(), lambda reply, to=replies: bool(to.append(reply)))  # type: ignore[misc]
            assert len(replies) == len(calls)
            for reply in replies:
                assert reply.upload is not None
                numbers = reply.upload.numbers["monitoring"]
                assert numbers == {"client": reply.call.client, "round": number}
    finally:
        engine.close()


def test_an_algorithm_starts_once_however_often_the_run_is_resumed(
    settings: Settings, tmp_path: Path
) -> None:
    starts = []

    @dataclass(frozen=True)
    class Starting(fedkf.Algorithm):
        name: ClassVar[str] = "starting"

        def start(self, server: Any) -> Payload:
            starts.append(server.round)
            return super().start(server)

    for rounds in (1, 2, 3):
        fedkf.run(settings, algorithm=Starting(), rounds=rounds, out=tmp_path, resume=True)
    assert len(starts) == 1


ALONE = """
import sys
import torch
import fedkf

class Threads(fedkf.FedAvg):
    name = "threads"
    used = []

    def aggregate(self, server, state, uploads):
        self.used += [torch.get_num_threads(), int(uploads[0].number("monitoring", "threads"))]
        return super().aggregate(server, state, uploads)

    def local_update(self, client, down):
        client.log(threads=torch.tensor(float(torch.get_num_threads())))
        return super().local_update(client, down)

torch.set_num_threads(2)  # as on a machine with two cores, whatever this one has
folder, common = sys.argv[1], {"rounds": 1, "threads": 2}
fedkf.run("digits", algorithm="fedavg", workers=1, out=folder, **common)
found = fedkf.personalize(folder, epochs=1, workers=1)
for workers in (1, 0):  # this process uses several threads in the last run only
    fedkf.run("digits", algorithm=Threads(), workers=workers, **common)
print(len(found["clients"]), torch.get_num_threads(), *Threads.used)
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    """What is said by a program that nobody told how many threads to use."""
    surroundings = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", ALONE, str(tmp_path_factory.mktemp("alone") / "run")]
    ended = subprocess.run(
        command, env=surroundings, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return [int(word) for word in ended.stdout.split()]


def test_workers_with_several_threads_start_in_a_program_of_their_own(alone: list[int]) -> None:
    clients, threads_after, *_ = alone
    assert (clients, threads_after) == (10, 2)


def test_the_server_has_one_thread_and_clients_have_theirs_with_workers_or_not(
    alone: list[int],
) -> None:
    assert alone[2:] == [1, 2] * 2
