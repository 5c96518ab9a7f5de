"""Samples from torch Datasets, from Python and by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Outcome, Settings
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import fedkf
from fedkf.core.errors import UserError
from fedkf.data.datasets import from_object
from fedkf.data.targets import Targets

X, Y = torch.rand(30, 1, 16, 16), torch.arange(30) % 3


def test_a_dataset_per_site_is_a_natural_partition(settings: Settings, tmp_path: Path) -> None:
    del settings["data"]
    sites = {"a": TensorDataset(X[:20], Y[:20]), "b": TensorDataset(X[20:], Y[20:])}
    result = fedkf.run(settings, clients=sites, fraction=1.0, workers=2, out=tmp_path)
    assert [c["name"] for c in result.partition["clients"]] == ["a", "b"]
    assert [c["train"] for c in result.partition["clients"]] == [16, 8]
    with pytest.raises(UserError, match=r"was given to fedkf\.run in a program"):
        fedkf.run(tmp_path / "config.yaml")


def test_one_dataset_is_divided(settings: Settings) -> None:
    del settings["data"]
    result = fedkf.run(
        settings, dataset=TensorDataset(X, Y), clients=5, data={"partition": "iid"}, rounds=1
    )
    assert [c["train"] + c["test"] for c in result.partition["clients"]] == [6] * 5


def test_labels_that_are_bytes_are_names() -> None:
    labels = np.array([b"no", b"yes"] * 3)
    assert from_object({"a": (np.zeros((6, 1, 4, 4)), labels)}).class_names == ["no", "yes"]
    with pytest.raises(UserError, match=r"clients\['a'\]: 'labels' holds bytes that are no text"):
        from_object({"a": (np.zeros((2, 1, 4, 4)), np.array([b"n\xf6", b"yes"]))})


class Strings(Dataset[Any]):
    """Arrays and names instead of tensors and numbers."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return np.zeros((1, 4, 4), np.float32), "yes" if index % 2 else "no"


class Pictures(Strings):
    def __getitem__(self, index: int) -> Any:
        return "a picture", 1


class Broken(Strings):
    def __getitem__(self, index: int) -> Any:
        raise RuntimeError("the archive\nis closed")


class Ragged(Strings):
    def __getitem__(self, index: int) -> Any:
        return np.zeros((1, 4, 4 + index)), 0


def test_names_as_labels_are_numbered_in_order() -> None:
    source = from_object(Strings())
    assert source.class_names == ["no", "yes"]
    assert source.labels.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "holds no clients"),
        ({"a": TensorDataset(X[:0], Y[:0])}, "clients['a'] holds no samples"),
        ({"a": iter([1])}, "is a list_iterator, not a Dataset with a length"),
        ({"a": Pictures()}, "samples are str; they must be tensors or arrays"),
        (
            {"a": Broken()},
            "sample 0 could not be read as an (input, label) pair (RuntimeError: the archive is",
        ),
        ({"a": Ragged()}, "samples differ in shape, such as (1, 4, 4) and (1, 4, 5)"),
        ({"a": TensorDataset(X, Y), "b": TensorDataset(X[:, :, :9], Y)}, "differ in shape between"),
        ({"a": TensorDataset(X * 5, Y)}, "float images must lie in [0, 1]"),
        ({"a": TensorDataset(X, Y * 0)}, "a classifier needs at least two"),
        (lambda: 1 / 0, "clients raised ZeroDivisionError"),
    ],
)
def test_what_cannot_be_used_is_explained(given: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=re.escape(sentence)):
        from_object(given)


def test_a_source_of_the_users_own_is_found_by_name(
    cli: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mysites.py").write_text(
        "import torch\n"
        "from torch.utils.data import TensorDataset\n"
        "def load():\n"
        "    torch.manual_seed(0)\n"
        "    x, y = torch.rand(30, 6), torch.arange(30) % 3\n"
        "    return {'p': TensorDataset(x[:20], y[:20]), 'q': TensorDataset(x[20:], y[20:])}\n"
        "def model(shape, classes):\n"
        "    return torch.nn.Linear(shape[0], classes)\n"
        "def generator(shape, noise):\n"
        "    return torch.nn.Linear(noise, shape[0])\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names = ("data.source=mysites:load", "model.name=mysites:model", "federation.rounds=2")
    more = ("generator.name=mysites:generator", "federation.fraction=1")
    arguments = [part for text in (*names, *more) for part in ("--set", text)]
    code, out, err = cli("run", *arguments, "--out", "run")
    assert code == 0, err
    assert fedkf.load("run")(torch.rand(4, 6)).shape == (4, 3)
    code, out, err = cli("evaluate", "run")
    assert code == 0, err
    assert "p " in out


class Wide(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(x), 9)


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(256, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(x.sub_(0.5).flatten(1))
        return out


class Overwriting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(256, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.exp(x.flatten(1))
        out: torch.Tensor = self.linear(y)
        y.zero_()
        return out


def raises() -> nn.Module:
    raise RuntimeError("no such weights")


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (Wide, "Wide returns [2, 9] for two inputs; it must return one number for each of the 3"),
        (lambda: nn.Linear(7, 3), "Linear cannot take a batch of shape [2, 1, 16, 16]"),
        (InPlace, "InPlace changes its input in place"),
        (Overwriting, "no gradient passes through Overwriting"),
        (raises, "the factory raised RuntimeError: no such weights"),
        (lambda: 3, "the factory returned a int, not an nn.Module"),
        (lambda a, b, c: None, "the factory asks for a, b, c"),
        (lambda: nn.Sequential(nn.Flatten(), nn.Identity()), "returns [2, 256] for two inputs"),
        (nn.Linear(2, 2), "model is a module; give a function that builds one"),
    ],
)
def test_a_models_mistakes_are_found_before_training(
    settings: Settings, model: Any, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=re.escape(sentence)):
        fedkf.run(settings, model=model, out=tmp_path / "run")
    # and the corrected command is not refused
    fedkf.run(settings, algorithm="fedavg", rounds=1, out=tmp_path / "run")


def test_a_generators_mistakes_are_found_before_training(settings: Settings) -> None:
    mistakes: list[tuple[Any, str]] = [
        (lambda noise: nn.Linear(noise, 5), "Linear makes [2, 5] of noise for two inputs"),
        (lambda: nn.Linear(5, 5), "Linear cannot take noise of shape [2, 8]"),
    ]
    for generator, sentence in mistakes:
        with pytest.raises(UserError, match=re.escape(sentence)):
            fedkf.run(settings, generator=generator)


def test_images_need_a_model_for_them_and_vectors_another(settings: Settings) -> None:
    del settings["data"]
    vectors = TensorDataset(torch.randn(40, 6), torch.arange(40) % 2)
    with pytest.raises(UserError, match=r"lenet5 takes images, but inputs have shape \[6\]"):
        fedkf.run(settings, dataset=vectors, clients=2)
    result = fedkf.run(settings, dataset=vectors, clients=2, model="mlp", rounds=2)
    assert "kl" in result.history[1]["losses"]


class Named(TensorDataset):
    """A Dataset that numbers its own classes, as an image folder does."""

    def __init__(self, classes: list[str]) -> None:
        super().__init__(X[:10], torch.arange(10) % len(classes))
        self.classes = classes


def test_sites_that_number_their_own_classes_are_matched_by_name() -> None:
    sites = {"a": Named(["ill", "well"]), "b": Named(["ill", "unsure"])}
    source = from_object(sites)
    assert source.class_names == ["ill", "unsure", "well"]
    assert source.labels[:2].tolist() == [0, 2]
    assert source.labels[10:12].tolist() == [0, 1]
    ordered = from_object(sites, targets=Targets(class_names=["well", "unsure", "ill"]))
    assert ordered.labels[:2].tolist() == [2, 0]


def test_class_names_and_limit_apply_to_data_given_in_python(settings: Settings) -> None:
    del settings["data"]
    wanted = {"class_names": ["x", "y", "z"], "limit": 4, "partition": "iid"}
    result = fedkf.run(settings, dataset=TensorDataset(X, Y), clients=2, data=wanted, rounds=1)
    assert result.partition["class_names"] == ["x", "y", "z"]
    assert sum(c["train"] + c["test"] for c in result.partition["clients"]) == 12
    for data, sentence in [
        ({"class_names": ["x", "y"]}, "has 2 names but the labels go up to 2"),
        ({"class_names": ["x", "x", "y"]}, "must be names that all differ"),
    ]:
        with pytest.raises(UserError, match=sentence):
            fedkf.run(settings, dataset=TensorDataset(X, Y), clients=2, data=data)


def test_clients_in_another_form_are_refused(settings: Settings) -> None:
    data = TensorDataset(X, Y)
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"clients": [data]}, "clients is a list; it must be a number, or map names"),
        ({"clients": {"a": data}, "dataset": data}, "not both"),
    ]
    for given, sentence in mistakes:
        with pytest.raises(UserError, match=sentence):
            fedkf.run(settings, **given)


def test_simulated_clients_do_not_carry_the_names_of_sites(settings: Settings) -> None:
    del settings["data"]
    sites = {"north": TensorDataset(X[:20], Y[:20]), "south": TensorDataset(X[20:], Y[20:])}
    mixed = {"partition": "iid", "clients": 2}
    result = fedkf.run(settings, clients=sites, data=mixed, fraction=1.0, rounds=1)
    assert [c["name"] for c in result.partition["clients"]] == ["client 0", "client 1"]
