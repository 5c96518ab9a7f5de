"""Training and test samples as the user divided them, and files that cannot be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

import fedkf
from fedkf.core.errors import UserError
from fedkf.data.datasets import from_object
from fedkf.data.folder import folder
from fedkf.data.source import Source
from fedkf.data.targets import Targets
from fedkf.runs.config import parse
from fedkf.runs.setup import make_data, settle


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDKF_CACHE", str(tmp_path_factory.mktemp("cache")))


X, Y = torch.rand(12, 1, 8, 8), torch.arange(12) % 3


def test_pairs_of_datasets_or_arrays_are_training_and_test() -> None:
    data = TensorDataset(X, Y)
    source = from_object(
        {
            "north": (data, TensorDataset(X[:4], Y[:4])),
            "south": ((X.numpy(), Y.numpy()), (X[:2], Y[:2])),
        }
    )
    assert source.owner_names == ["north", "south"]
    assert source.owners is not None
    assert source.tested is not None
    assert source.owners.tolist() == [0] * 16 + [1] * 14
    assert source.tested.tolist() == [False] * 12 + [True] * 4 + [False] * 12 + [True] * 2
    with pytest.raises(UserError, match="'south' is not; give pairs for all of them"):
        from_object({"north": (data, data), "south": data})


def test_a_run_trains_on_the_first_of_a_pair_and_tests_on_the_second() -> None:
    clients = {"a": ((X, Y), (X[:3], Y[:3])), "b": ((X, Y), (X[:6], Y[:6]))}
    result = fedkf.run(clients=clients, algorithm="fedavg", rounds=1, workers=0, model="mlp")
    found = [(c["name"], c["train"], c["test"]) for c in result.partition["clients"]]
    assert found == [("a", 12, 3), ("b", 12, 6)]


def divided(of_b: bool) -> Source:
    """Two sites, of which b only tests, or only trains."""
    pair = (TensorDataset(X, Y), TensorDataset(X[:3], Y[:3]))
    found = from_object({"a": pair, "b": pair})
    assert found.tested is not None
    return replace(found, tested=np.where(found.owners == 1, of_b, found.tested))


def test_a_site_that_only_tests_is_refused_until_somebody_decides() -> None:
    source = divided(of_b=True)
    with pytest.raises(UserError, match="all samples of b are test samples"):
        settle(parse({"model": {"name": "mlp"}}), source)
    anew = parse({"model": {"name": "mlp"}, "data": {"split": "stratified"}})
    assert settle(anew, source).data.split == "stratified"


def test_a_site_that_only_trains_has_nothing_to_test_with() -> None:
    source = divided(of_b=False)
    settled = settle(parse({"model": {"name": "mlp"}}), source)
    assert settled.data.split == "given"
    assert make_data(settled, source).test_sizes == [3, 0]


def picture(path: Path, colour: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    seed = int.from_bytes(path.name.encode()[:4], "big")
    shape = (8, 8, 3) if colour else (8, 8)
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, shape, np.uint8)).save(path)


def draw(root: Path, *places: str) -> None:
    for place in places:
        picture(root / place)


def read(root: Path, skip: bool = False) -> tuple[Any, list[str]]:
    said: list[str] = []
    return folder(str(root), Targets(), 8, said.append, skip), said


def test_folders_train_and_test_divide_each_site(tmp_path: Path) -> None:
    for site in ("north", "south"):
        draw(tmp_path, *(f"{site}/train/{c}/{k}.png" for c in "ab" for k in range(3)))
        draw(tmp_path, f"{site}/test/a/9.png")
    source, _ = read(tmp_path)
    assert list(source.owner_names) == ["north", "south"]
    assert source.tested.sum() == 2
    assert np.bincount(source.owners).tolist() == [7, 7]
    draw(tmp_path, "south/c/1.png")
    with pytest.raises(UserError, match=r"images must lie in .* south/c/1\.png does not"):
        read(tmp_path)


@pytest.mark.parametrize("sides", [("train", "test"), ("Train", "Test"), ("TRAINING", "test")])
def test_folders_train_and_test_above_classes_are_no_clients(
    tmp_path: Path, sides: tuple[str, str]
) -> None:
    draw(tmp_path, *(f"{side}/{c}/{k}.png" for side in sides for c in "ab" for k in "12"))
    source, _ = read(tmp_path)
    assert source.owners is None
    assert source.tested.sum() == 4


def test_unreadable_files_are_named_or_skipped_and_counted(tmp_path: Path) -> None:
    draw(tmp_path, *(f"{site}/{c}/{k}.png" for site in ("n", "s") for c in "ab" for k in "123"))
    for k in range(22):
        (tmp_path / "n" / "a" / f"broken{k:02}.png").write_bytes(b"nothing")
    (tmp_path / "s" / "b" / "broken.png").write_bytes(b"nothing")
    with pytest.raises(UserError) as caught:
        read(tmp_path)
    assert str(caught.value).count(".png") == 20
    assert str(caught.value).count("are no readable images") == 1
    assert "and 3 more" in str(caught.value)
    for _ in range(2):  # decoded, and from the cache
        source, said = read(tmp_path, skip=True)
        assert len(source.labels) == 12
        assert np.bincount(source.owners).tolist() == [6, 6]
        assert any("23 files" in text and "(n 22, s 1)" in text for text in said)


def test_grey_among_colour_is_said(tmp_path: Path) -> None:
    draw(tmp_path, "a/1.png", "b/1.png")
    picture(tmp_path / "b" / "2.png", colour=True)
    source, said = read(tmp_path)
    assert source.inputs.shape[1] == 3
    assert any("2 of 3 images" in text and "grey" in text for text in said)
