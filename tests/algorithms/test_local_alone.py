"""Each site alone: nothing of the others reaches it."""

from __future__ import annotations

from pathlib import Path

import torch
from conftest import Settings, model_bytes

import fedkf
from fedkf import algorithms
from fedkf.core.payload import Payload


def test_with_one_client_it_is_fedavg_byte_for_byte(settings: Settings, tmp_path: Path) -> None:
    settings["data"]["clients"] = 1
    for name in ("local", "fedavg"):
        fedkf.run(settings, algorithm=name, fraction=1.0, out=tmp_path / name)
    assert model_bytes(tmp_path / "local") == model_bytes(tmp_path / "fedavg")


def test_a_client_goes_on_from_its_own_model_and_is_judged_by_it(
    settings: Settings, tmp_path: Path
) -> None:
    one = fedkf.run(settings, algorithm="local", rounds=1, fraction=1.0, out=tmp_path)
    kept = {
        int(p.name.split("-")[0]): Payload.load(p)["own"]
        for p in (tmp_path / "checkpoint" / "clients").iterdir()
    }
    assert sorted(kept) == list(range(6))
    first, second = (kept[k]["linear2.bias"] for k in (0, 1))
    assert not torch.equal(first, second)
    readouts = one.history[0]["readouts"]
    assert readouts["aca"] == readouts["oca"]  # there is no shared model that could differ


def test_only_training_alone_has_no_shared_model() -> None:
    assert [name for name in algorithms.names() if not algorithms.shares_model(name)] == ["local"]
    assert algorithms.shares_model("module.that.is.not.imported:Own")
