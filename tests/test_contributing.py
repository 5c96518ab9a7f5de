"""The algorithms that CONTRIBUTING.md shows are run as they stand there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import torch
from conftest import Settings, model_bytes

import fedkf

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
SOURCES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_shown_algorithm_is_short_complete_and_does_what_it_says(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _ = SOURCES
    assert len(source.splitlines()) < 30
    (tmp_path / "fedmedian.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    name = "fedmedian:FedMedian"
    whole = fedkf.run(settings, algorithm=name, rounds=1, fraction=1.0, workers=2)
    half = fedkf.run(settings, algorithm=name, rounds=1, fraction=1.0, step=0.5)
    mean = fedkf.run(settings, algorithm="fedavg", rounds=1, fraction=1.0)
    start = fedkf.run(settings, algorithm=name, rounds=1, fraction=1.0, step=1e-9).weights["aca"]
    for key, median in whole.weights["aca"].items():
        assert half.weights["aca"][key].numpy() == pytest.approx(
            (start[key] + median).numpy() / 2, abs=1e-5
        )
    assert set(whole.weights) == {"aca", "oca"}
    assert (whole.weights["aca"]["linear2.bias"] != mean.weights["aca"]["linear2.bias"]).any()
    with pytest.raises(fedkf.UserError, match=r"algorithm\.step is 2\.0"):
        fedkf.run(settings, algorithm=name, step=2)


def test_the_algorithm_with_memory_goes_on_to_the_same_bytes_and_has_a_neutral_setting(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "remembering.py").write_text(SOURCES[1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    name = "remembering:Remembering"
    fedkf.run(settings, algorithm=name, out=tmp_path / "a")
    fedkf.run(settings, algorithm=name, out=tmp_path / "b", on_round=lambda r: r["round"] != 1)
    fedkf.run(settings, algorithm=name, out=tmp_path / "b", resume=True)
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")
    settings["algorithm"] = {"name": name, "own": 0.0, "momentum": 0.0}
    neutral = fedkf.run(settings)
    plain = fedkf.run(settings, algorithm="fedavg")
    for key, tensor in plain.weights["aca"].items():
        assert torch.allclose(neutral.weights["aca"][key], tensor, atol=1e-5)


def test_the_signatures_that_are_shown_are_those_of_the_source() -> None:
    shown = re.findall(r"^\| `(\w+)\((self[^)]*)\)` \|", TEXT, re.MULTILINE)
    assert len(shown) == 11
    for method, parameters in shown:
        found = inspect.signature(getattr(fedkf.Algorithm, method)).parameters
        assert list(found) == parameters.split(", "), method
