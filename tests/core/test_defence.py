"""The defence: lies are refused and named, slots quarantined, honest clients left alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from conftest import Settings, model_bytes
from torch import tensor

import fedkf
from fedkf.core.algorithm import option
from fedkf.core.defence import Defence, relative_work
from fedkf.core.errors import UserError
from fedkf.core.memory import Memory
from fedkf.core.moves import measure
from fedkf.core.overall import FreshMemory, with_global
from fedkf.core.payload import Payload, Weights
from fedkf.core.robust import median

REST = [0.0] * 10
SENT = Payload(weights={"w": tensor([3.0, 4.0, *REST])})
LIAR = 1


def moved(by: float) -> Payload:
    return Payload(weights={"w": tensor([3.0 + by, 4.0, *REST])})


def judge(defence: Defence, round: int, *by: float, work: dict[int, float] | None = None) -> Any:
    uploads = {client: moved(far) for client, far in enumerate(by)}
    return defence.judge(round, SENT, uploads, work or dict.fromkeys(uploads, 1.0))


# -- the bound -----------------------------------------------------------------------------------


def test_who_moves_absurdly_far_is_refused_with_the_numbers() -> None:
    refused = judge(Defence(), 1, 1.0, 2.0, 200.0)
    assert refused.keys() == {2}
    assert refused[2] == (
        "it moved 200 from the model that was sent, 100 times the median of 2; "
        "up to 23.33 times is taken"
    )


def test_a_lone_liar_is_caught_by_what_former_rounds_were_like() -> None:
    defence = Defence()
    assert judge(defence, 1, 1.0) == {}
    assert judge(defence, 2, 1.1) == {}
    assert judge(defence, 3, 100.0).keys() == {0}
    assert judge(defence, 4, 100.0).keys() == {0}  # a lie is not learned from
    assert judge(defence, 5, 1.2) == {}


def test_many_liars_in_one_round_do_not_shift_the_measure() -> None:
    defence = Defence()
    for round in range(1, 4):
        judge(defence, round, 1.0, 1.5, 2.0)
    assert judge(defence, 4, 200.0, 300.0, 1.0).keys() == {0, 1}


def test_the_first_upload_of_all_is_taken_for_what_it_is() -> None:
    assert judge(Defence(), 1, 1000.0) == {}


def test_a_move_within_half_the_models_norm_is_harmless_however_unusual() -> None:
    defence = Defence()
    for round in range(1, 9):
        judge(defence, round, 0.01, 0.01)
    assert judge(defence, 9, 2.4, 0.01) == {}  # the norm is 5
    assert judge(defence, 9, 2.6, 0.01).keys() == {0}


def test_where_nobody_moves_whoever_does_is_not_suspect() -> None:
    assert judge(Defence(), 1, 0.0, 0.0, 100.0) == {}


def test_who_takes_more_steps_may_go_further() -> None:
    sizes = {0: 10, 1: 10, 2: 500}
    work = relative_work(sizes, 10)
    assert work == {0: 1, 1: 1, 2: 50}
    assert judge(Defence(), 1, 1.0, 1.0, 50.0, work=work) == {}
    assert judge(Defence(), 1, 1.0, 1.0, 50.0).keys() == {2}
    assert relative_work(sizes, None) == dict.fromkeys(sizes, 1.0)


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (tensor([1e30, 4.0, *REST]), "weights holds values up to 1e+30, too large to compute with"),
        (torch.zeros(12), "all its 12 weights are 0"),
        (torch.full((12,), 0.5), "all its 12 weights are 0.5"),
    ],
)
def test_what_no_training_makes_is_refused_at_once(lie: torch.Tensor, reason: str) -> None:
    work = {0: 1.0}
    assert Defence().judge(1, SENT, {0: Payload(weights={"w": lie})}, work) == {0: reason}
    assert Defence("none").judge(1, SENT, {0: Payload(weights={"w": lie})}, work) == {}


def test_further_groups_are_judged_by_their_norm() -> None:
    sent = Payload(weights=SENT["weights"]).add("control", {"c": torch.zeros(2)}, "weights")

    def upload(control: float) -> Payload:
        return moved(1.0).add("control", {"c": tensor([control, 0.0])}, "weights")

    uploads = {0: upload(1.0), 1: upload(2.0), 2: upload(-300.0)}
    refused = Defence().judge(1, sent, uploads, dict.fromkeys(uploads, 1.0))
    assert refused == {
        2: "the norm of its control is 300, 150 times the median of 2; up to 23.33 times is taken"
    }


def test_what_it_remembers_outlives_a_checkpoint() -> None:
    first, second = Defence(), Defence()
    for round in range(1, 4):
        judge(first, round, 1.0, 2.0)
    second.restore(Payload.from_bytes(first.state().to_bytes()))
    assert judge(second, 4, 300.0) == judge(first, 4, 300.0)
    assert judge(second, 4, 300.0).keys() == {0}
    assert judge(second, 20, 300.0) == {}  # too long ago to be a measure


# -- quarantine ----------------------------------------------------------------------------------

SIZES = {0: 1, 1: 2, 2: 3}
START: Weights = {"w": tensor([10.0]), "n": tensor(0)}


def model(value: float, steps: int) -> Weights:
    return {"w": tensor([value]), "n": tensor(steps)}


def filled(memory: Memory) -> Memory:
    for client, value in ((0, 1.0), (1, 4.0), (2, 1e30)):
        memory.put(client, model(value, client + 5))
    return memory


@pytest.mark.parametrize("fresh", [False, True])
def test_a_quarantined_slot_is_left_out_until_it_is_filled_anew(fresh: bool) -> None:
    slots: dict[int, Weights] = {}

    def empty() -> Memory:
        return FreshMemory(slots, SIZES, lambda: 1, 5) if fresh else Memory(slots, SIZES)

    memory = filled(empty())
    memory.quarantine([2])
    memory.quarantine([2])  # once is as good as twice
    resumed = empty()
    resumed.restore(Payload.from_bytes(memory.state().to_bytes()))
    for kept in (memory, resumed):
        for scope in ("seen", "all"):
            mean = kept.mean(scope, START)
            assert mean is not None
            assert mean["w"].item() == 3.0  # (1·1 + 2·4) / 3, without a trace of 1e30
            assert mean["n"].item() == 6
    resumed.put(2, model(5.0, 9))
    mean = resumed.mean("seen", START)
    assert mean is not None
    assert mean["w"].item() == 4.0  # (1·1 + 2·4 + 3·5) / 6
    assert mean["n"].item() == 9
    assert not resumed.quarantined


def test_a_quarantined_slot_that_grows_too_old_is_as_good_as_empty() -> None:
    round = 1
    memory = FreshMemory({}, SIZES, lambda: round, oldest=1)
    memory.put(0, model(4.0, 1))
    memory.quarantine([0])
    round = 3
    memory.put(1, model(1.0, 2))
    mean = memory.mean("all", START)
    assert mean is not None
    assert mean["w"].item() == 7.0  # (1·10 + 2·1 + 3·10) / 6: clients 0 and 2 stand in with w⁰
    assert not memory.quarantined


def test_a_robust_centre_takes_the_place_of_the_mean_over_slots() -> None:
    memory = Memory({}, dict.fromkeys(range(4), 1))
    for client, value in ((0, 1.0), (1, 2.0), (2, 1e6)):
        memory.put(client, model(value, client))
    seen, all_ = (memory.mean(scope, START, median) for scope in ("seen", "all"))
    assert seen is not None
    assert all_ is not None
    assert seen["w"].item() == 2.0
    assert all_["w"].item() == 4.0  # (3·2 + 10) / 4
    trained = {k: model(v, k) for k, v in ((0, 1.0), (1, 2.0), (2, 1e6))}
    found = with_global(trained, dict.fromkeys(range(4), 1), model(10.0, 7), median)
    assert found["w"].item() == 4.0


# -- whole runs ----------------------------------------------------------------------------------

Lie = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
LIES: dict[str, Lie] = {
    "1e30": lambda new, old: torch.full_like(new, 1e30),
    "flip ×100": lambda new, old: old - 100 * (new - old),
    "zeros": lambda new, old: torch.zeros_like(new),
}


@dataclass(frozen=True)
class Lying(fedkf.FedAvg):
    """FedAvg with a client that lies in some rounds."""

    name: ClassVar[str] = "lying"
    lie: str = option("1e30", "what it sends", choices=tuple(LIES))
    first: int = option(2, "the first round in which it lies")
    last: int = option(2, "the last")

    def local_update(self, client: Any, down: Payload) -> Payload:
        upload = super().local_update(client, down)
        if client.id != LIAR or not self.first <= client.round <= self.last:
            return upload
        weights = {n: LIES[self.lie](t, down["weights"][n]) for n, t in upload["weights"].items()}
        return upload.replace(weights=weights)


def lying_run(settings: Settings, lie: str, **more: Any) -> Any:
    options: dict[str, Any] = dict(fraction=1.0, rounds=4, checkpoint_every=1)
    with pytest.warns(UserWarning, match="left out"):
        return fedkf.run(settings, algorithm=Lying(lie), **{**options, **more})


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused_and_named_and_honest_clients_are_not(
    settings: Settings, lie: str, tmp_path: Path
) -> None:
    settings["algorithm"] = {}
    result = lying_run(settings, lie, out=tmp_path / "run")
    refused = [(line["round"], r["client"]) for line in result.history for r in line["refused"]]
    assert refused == [(2, LIAR)]
    for built in result.models.values():
        assert all(p.isfinite().all() and p.abs().max() < 10 for p in built.parameters())
    assert "moves" in result.history[1]


def test_the_slot_of_a_refused_client_is_quarantined_until_it_behaves_and_resumed_exactly(
    settings: Settings, tmp_path: Path
) -> None:
    settings["algorithm"] = {}
    folders, quarantined = [], {}
    for workers, parts in ((0, (5,)), (0, (3, 5)), (2, (5,))):
        folder = tmp_path / f"{workers}-{len(parts)}"
        for rounds in parts:
            more: dict[str, Any] = dict(resume=rounds != parts[0], workers=workers, out=folder)
            liar = Lying("flip ×100", first=2, last=4)
            with pytest.warns(UserWarning, match="client 1 was left out"):
                fedkf.run(settings, algorithm=liar, rounds=rounds, fraction=1.0, **more)
            (kept,) = (folder / "checkpoint").glob("memory-overall.*")
            found = Payload.load(kept)
            quarantined[rounds] = found.tensors.get("quarantined")
        folders.append(folder)
    first, *others = map(model_bytes, folders)
    assert all(other == first for other in others)
    assert quarantined[3] is not None
    assert quarantined[3]["clients"].tolist() == [LIAR]
    assert quarantined[5] is None
    lines = [json.loads(line) for line in (folders[1] / "rounds.jsonl").read_text().splitlines()]
    assert [[r["client"] for r in line["refused"]] for line in lines] == [[], [1], [1], [1], []]


@pytest.mark.parametrize("defence", ["median", "trimmed", "krum", "multikrum", "geometric"])
def test_robust_means_are_for_both_readouts_and_resumed_exactly(
    settings: Settings, tmp_path: Path, defence: str
) -> None:
    settings["algorithm"] = {"name": "fedavg"}
    options: dict[str, Any] = dict(defence=defence, scope="seen", fraction=1.0)
    whole = fedkf.run(settings, rounds=2, out=tmp_path / "whole", **options)
    for rounds in (1, 2):
        parts = tmp_path / "parts"
        fedkf.run(settings, rounds=rounds, out=parts, resume=rounds > 1, **options)
    assert model_bytes(tmp_path / "whole") == model_bytes(tmp_path / "parts")
    # Everybody takes part, so both are the same centre of the same models.
    aca, oca = (whole.models[name].state_dict() for name in ("aca", "oca"))
    assert all(torch.allclose(aca[name], oca[name], atol=1e-6) for name in aca)
    plain = fedkf.run(settings, rounds=2, **{**options, "defence": "none"}).models["aca"]
    assert any(not torch.equal(t, aca[name]) for name, t in plain.state_dict().items())


@pytest.mark.parametrize("algorithm", ["scaffold", "feddf", "fedgen", "mifa"])
def test_an_algorithm_with_a_rule_of_its_own_takes_no_robust_mean(
    settings: Settings, algorithm: str
) -> None:
    settings["algorithm"] = {"name": algorithm}
    with pytest.raises(UserError, match=r"federation.defence is 'median', but .* must be norm"):
        fedkf.run(settings, defence="median", rounds=1)


@pytest.mark.parametrize("algorithm", ["fedavg", "fedkf", "fedprox", "fedgkd", "moon", "local"])
def test_algorithms_that_take_the_servers_mean_take_a_robust_one(algorithm: str) -> None:
    assert fedkf.algorithms.get(algorithm).takes_robust_means()


@pytest.mark.parametrize("algorithm", ["fedavg", "fedkf"])
def test_honest_clients_that_differ_a_lot_are_not_refused_and_nothing_changes(
    algorithm: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = dict(
        algorithm=algorithm,
        rounds=6,
        data={"alpha": 0.01},
        generator={"samples": "noise"},
        workers=0,
        evaluate_every=6,
    )
    result = fedkf.run("digits", out=tmp_path / "norm", **options)
    assert [line["refused"] for line in result.history] == [[]] * 6
    fedkf.run("digits", out=tmp_path / "none", defence="none", **options)
    assert model_bytes(tmp_path / "norm") == model_bytes(tmp_path / "none")


def test_the_moves_of_a_round_tell_how_unusual_each_upload_was(settings: Settings) -> None:
    settings["algorithm"] = {"name": "fedavg"}
    honest = fedkf.run(settings, rounds=2, fraction=1.0).history[1]["moves"]
    lied = lying_run(settings | {"algorithm": {}}, "flip ×100").history[1]["moves"]
    assert lied["clients"] == list(range(6))
    assert lied["distance"][LIAR] == pytest.approx(100 * honest["distance"][LIAR], rel=1e-3)
    assert max(lied["ratio"]) == lied["ratio"][LIAR] > 20
    assert lied["cosine"][LIAR] == pytest.approx(-honest["cosine"][LIAR], rel=1e-3)
    assert lied["distance"][:LIAR] == honest["distance"][:LIAR]


def test_cosines_are_with_the_mean_direction_of_the_others() -> None:
    start = {"w": torch.zeros(2), "n": tensor(3)}
    ends = ([5.0, 0.0], [0.0, 1.0], [0.0, 100.0], [0.0, 0.0])
    found = measure(start, {k: {"w": tensor(end), "n": tensor(9)} for k, end in enumerate(ends)})
    assert found.distance == [5.0, 1.0, 100.0, 0.0]
    assert found.ratio == [5.0, 1.0, 100.0, 0.0]
    # To (0, 2); to (1, 1), twice; who did not move has no direction.
    assert found.cosine == [0.0, 0.7071, 0.7071, None]
