"""Sources and the tensors made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedkf.core.errors import UserError
from fedkf.core.normalisation import normalise
from fedkf.core.random import Streams
from fedkf.data.digits import digits
from fedkf.data.federated import Preparation, as_floats, federate, resize
from fedkf.data.npz import npz
from fedkf.data.reading import Reading
from fedkf.data.source import Source, limit_per_class
from fedkf.data.sources import read

IMAGES, LABELS = np.zeros((6, 8, 8), np.uint8), np.arange(6) % 3


def save(path: Path, **arrays: Any) -> str:
    np.savez(path / "data.npz", **arrays)
    return str(path / "data.npz")


def test_digits_ship_with_the_package() -> None:
    source = digits()
    assert source.inputs.shape == (1797, 1, 8, 8)
    assert (source.inputs.min(), source.inputs.max()) == (0, 1)
    assert source.classes == 10


@pytest.mark.parametrize("shape", [(6, 9, 7), (6, 9, 7, 1), (6, 9, 7, 3)])
@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.float64])
def test_npz_takes_grey_and_colour_in_uint8_and_float(
    tmp_path: Path, shape: tuple[int, ...], kind: type
) -> None:
    images: np.ndarray[Any, Any] = (
        np.random.default_rng(0).random(shape) * (255 if kind is np.uint8 else 1)
    ).astype(kind)
    source = npz(save(tmp_path, images=images, labels=LABELS))
    assert source.inputs.shape == (6, shape[3] if len(shape) > 3 else 1, 9, 7)
    assert source.classes == 3


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"images": IMAGES}, "has no array 'labels'"),
        ({"labels": LABELS, "x": IMAGES}, "has no array 'images' (it has labels, x)"),
        ({"images": IMAGES, "labels": LABELS[:5]}, "6 samples but labels of shape (5,)"),
        ({"images": IMAGES, "labels": LABELS - 1}, "labels go down to -1"),
        ({"images": IMAGES, "labels": LABELS * 0.5}, "labels are float64"),
        ({"images": IMAGES, "labels": LABELS * 10**9}, "labels go up to 2000000000 but only 3"),
        ({"images": np.zeros((6, 3, 8, 9)), "labels": LABELS}, "looks like N×C×H×W"),
        ({"images": np.zeros((6, 8, 0)), "labels": LABELS}, "so they are empty"),
        ({"images": IMAGES, "labels": LABELS * 0}, "a classifier needs at least two"),
        ({"images": IMAGES, "labels": np.array(["a"] * 6)}, "a classifier needs at least two"),
        ({"images": IMAGES[0, 0], "labels": LABELS}, "images has shape (8,)"),
        ({"images": IMAGES, "labels": LABELS, "client": LABELS[:2]}, "client has shape (2,)"),
        ({"images": IMAGES[:0], "labels": LABELS[:0]}, "it holds no samples"),
        ({"images": IMAGES + np.nan, "labels": LABELS}, "images hold NaN"),
        ({"images": IMAGES + 3.0, "labels": LABELS}, "must lie in [0, 1], these go from 3 to 3"),
        ({"images": IMAGES.astype(np.uint16), "labels": LABELS}, "images are uint16"),
        ({"images": np.array([None] * 6), "labels": LABELS}, "no objects: save texts as"),
    ],
)
def test_a_bad_npz_is_explained(tmp_path: Path, arrays: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        npz(save(tmp_path, **arrays))
    assert sentence in str(caught.value)
    assert "data.path" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 broken"])
def test_a_broken_npz_is_explained(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.npz is not a readable \.npz file"):
        npz(str(tmp_path / "x.npz"))


def test_npz_is_also_looked_for_below_fedkf_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, images=IMAGES, labels=LABELS)
    with pytest.raises(UserError, match=r"no file .*FEDKF_DATA may name"):
        npz("data.npz")
    monkeypatch.setenv("FEDKF_DATA", str(tmp_path))
    assert len(npz("data.npz").labels) == 6


@pytest.mark.parametrize("source", ["digits", "npz", "heart"])
def test_which_label_is_positive_is_asked_of_tables_and_signals_only(source: str) -> None:
    with pytest.raises(UserError, match=f"the classes of {source} are its own, so give"):
        read(source, None, Reading(task="binary", positive="2"))


def test_the_limit_is_per_class() -> None:
    labels = np.repeat([0, 1, 2], [80, 15, 5])
    source = Source(np.zeros((100, 1, 2, 2)), labels, ["a", "b", "c"])
    limited = limit_per_class(source, 10, np.random.default_rng(0))
    assert np.bincount(limited.labels).tolist() == [10, 10, 5]


def test_the_split_is_80_to_20_and_loses_nothing() -> None:
    images = np.arange(40, dtype=np.float32).reshape(40, 1, 1, 1) / 40
    source = Source(images, np.arange(40) % 2, ["a", "b"])
    parts = [np.arange(30), np.arange(30, 39), np.array([39])]
    data = federate(source, parts, Preparation(), Streams(0))
    assert data.sizes == {0: 24, 1: 7, 2: 1}
    assert data.test_sizes == [6, 2, 0]
    everything = torch.cat([data.images.flatten(), data.test_images.flatten()])
    assert torch.equal(everything.sort().values, torch.from_numpy(images.flatten()))
    first = data.client(0)
    assert set((first.images.flatten() * 40).round().int().tolist()) < set(range(30))
    assert len(data.client(2).test_labels) == 0


def test_images_that_would_not_fit_into_the_memory_are_not_made() -> None:
    source = Source(np.zeros((2, 1, 4, 4), np.uint8), np.arange(2), ["a", "b"])
    with pytest.raises(
        UserError, match=r"data\.image_size is 10000000, for which 2 images take 800"
    ):
        federate(source, [np.arange(2)], Preparation(image_size=10**7), Streams(0))


def test_normalisation_is_per_channel_and_resizing_keeps_the_mean() -> None:
    images = np.full((2, 4, 4, 3), [0, 51, 255], np.uint8).transpose(0, 3, 1, 2)
    source = Source(images, np.arange(2), ["a", "b"])
    x = resize(as_floats(source, np.arange(2)), 8)
    x = normalise(x, [0.0, 0.2, 0.5], [1.0, 1.0, 0.25])
    assert x.shape == (2, 3, 8, 8)
    assert x[0, :, 3, 3].tolist() == pytest.approx([0.0, 0.0, 2.0], abs=1e-6)


def test_a_path_for_the_embedded_digits_is_refused() -> None:
    with pytest.raises(UserError, match=r"digits; set it to npz, folder, table, signals$"):
        read("digits", "scans.csv", Reading())
