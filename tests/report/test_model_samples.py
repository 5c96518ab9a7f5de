"""Samples come from a new generator on the final model, cost little and are made once."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

import pytest
from torch import nn

from fedkf.report import samples
from fedkf.runs.trained import Trained


@pytest.fixture
def run(three_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(samples, "STEPS", 3)
    return Path(shutil.copytree(three_runs / "fedkf", tmp_path / "run"))


def test_they_need_the_model_alone_and_are_the_same_every_time(run: Path, tmp_path: Path) -> None:
    for path in run.iterdir():  # neither data nor a client's generator can play a part
        if path.name != "models":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    other = shutil.copytree(run, tmp_path / "other")
    made = samples.make(run)
    assert made.images
    assert made == samples.make(other)
    assert all(base64.b64decode(i.png).startswith(b"\x89PNG") for i in made.images)


def test_they_are_kept_for_this_model_only(run: Path) -> None:
    assert samples.cached(run) is None
    made = samples.make(run)
    assert samples.cached(run) == made
    shutil.copy(run / "models" / "aca.safetensors", run / "models" / "oca.safetensors")
    assert samples.cached(run) is None


@pytest.mark.parametrize("content", ["{", '{"key": "x", "images": [{"png": "<svg onload=1>"}]}'])
def test_a_forged_cache_is_not_shown(run: Path, content: str) -> None:
    (run / samples.CACHE).write_text(content)
    assert samples.cached(run) is None


def change_card(run: Path, **more: object) -> None:
    path = run / "models" / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | more))


def test_code_that_a_folder_names_is_imported_on_request_only(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted.py").write_text("raise RuntimeError('it was imported')")
    monkeypatch.chdir(tmp_path)
    change_card(run, model="planted:Model")
    with pytest.raises(samples.NoSamples, match="code of its own"):
        samples.make(run)
    with pytest.raises(samples.NoSamples, match="it was imported"):
        samples.make(run, own_code=True)


def test_so_is_code_that_its_task_names(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hidden.py").write_text("raise RuntimeError('it was imported')")
    monkeypatch.chdir(tmp_path)
    change_card(run, task="hidden:Loss")
    with pytest.raises(samples.NoSamples, match="the task is code of its own"):
        samples.make(run)
    with pytest.raises(samples.NoSamples, match="it was imported"):
        samples.make(run, own_code=True)


def test_a_yes_or_no_is_told_by_its_one_logit() -> None:
    """The model says yes to bright images."""
    last = nn.Linear(16, 1)
    nn.init.constant_(last.weight, 1.0)
    nn.init.constant_(last.bias, 0.0)
    model = nn.Sequential(nn.Flatten(), last)
    card = {"model": "x", "shape": [1, 4, 4], "task": "binary", "class_names": ["dark", "bright"]}
    found = samples.draw(Trained(model, {**card, "mean": [0.5], "std": [0.5]}))
    assert {sample.taken_for for sample in found} == {"dark", "bright"}
    assert all(0.5 <= sample.sure < 1 for sample in found)


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        ({"shape": [5]}, "no images"),
        ({"shape": [1, 10_000, 10_000]}, "larger than"),
        ({"shape": "x"}, "cannot be sampled"),
        ({"mean": ["a"]}, "mean must be a finite number"),
        ({"model": "resnet8"}, "do not fit the model"),
        ({"task": "regression", "class_names": []}, "tells numbers"),
    ],
)
def test_why_a_model_has_no_samples_is_said(
    run: Path, card: dict[str, object], reason: str
) -> None:
    change_card(run, **card)
    with pytest.raises(samples.NoSamples, match=reason):
        samples.make(run)
