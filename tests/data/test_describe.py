"""Heterogeneity in numbers, shifts, and the partition command."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Outcome
from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.core.random import Streams
from fedkf.data.describe import describe, lacking, outsized, warnings
from fedkf.data.federated import FederatedData, Preparation, federate
from fedkf.data.shift import rotate, shift
from fedkf.data.source import Source


def make(labels: list[int], owners: list[int], **options: object) -> FederatedData:
    count = max(owners) + 1
    names = [f"site {k}" for k in range(count)]
    inputs = np.zeros((len(labels), 1, 2, 2))
    source = Source(inputs, np.array(labels), ["x", "y", "z"], np.array(owners), names)
    parts = [np.flatnonzero(np.array(owners) == k) for k in range(count)]
    return federate(source, parts, Preparation(**options), Streams(0), names)  # type: ignore[arg-type]


def numbers(labels: NDArray[np.float64], owners: list[int], task: str) -> FederatedData:
    """Clients whose targets are numbers or times."""
    names = [f"site {k}" for k in range(max(owners) + 1)]
    inputs = np.zeros((len(labels), 1, 2, 2))
    source = Source(inputs, labels.astype(np.float32), [], np.array(owners), names, task)
    parts = [np.flatnonzero(np.array(owners) == k) for k in range(len(names))]
    return federate(source, parts, Preparation(), Streams(0), names)


def test_heterogeneity_is_worked_out_by_hand() -> None:
    about = describe(make([0] * 10 + [0] * 5 + [1] * 5, [0] * 10 + [1] * 10))
    # pooled (3/4, 1/4, 0); site 0 (1, 0, 0) is 1/4 away, site 1 (1/2, 1/2, 0) too
    assert [c["total_variation"] for c in about["clients"]] == [0.25, 0.25]
    assert [c["effective_classes"] for c in about["clients"]] == [1.0, 2.0]
    assert about["total_variation"] == 0.25


def test_alike_clients_are_at_distance_zero_and_disjoint_ones_far() -> None:
    alike = describe(make([0, 1, 2] * 20, [k // 30 for k in range(60)]))
    assert alike["total_variation"] == 0
    assert alike["effective_classes"] == pytest.approx(3, abs=1e-3)
    disjoint = describe(make([0] * 20 + [1] * 20 + [2] * 20, [k // 20 for k in range(60)]))
    assert disjoint["total_variation"] == pytest.approx(2 / 3, abs=1e-3)


def test_warnings_name_what_a_practitioner_would_want_to_know() -> None:
    told = warnings(describe(make([0, 1] * 50 + [1, 0, 1], [0] * 100 + [1] * 2 + [2])))
    assert "site 2: no test samples, left out of AMP, FM and WLP" in told
    assert any("site 1: under 10 test samples" in text for text in told)
    assert "class z: nobody holds it" in told
    assert any("sizes go from 1 to 80" in text for text in told)
    told = warnings(describe(make([0, 1] * 50 + [2] * 50, [0] * 100 + [1] * 50)))
    assert "class z: only site 1 holds it" in told


def test_notes_on_classes_that_sites_lack_end_with_how_many_there_are() -> None:
    counts = np.array([[5, 5]] * 20 + [[9, 0]] * 8)
    told = lacking([f"site {k}" for k in range(28)], counts, ["well", "ill"])
    assert len(told) == 6
    assert told[0].startswith("site 20: no ill; a model that always says well is right there")
    assert told[-1] == "and 3 more with one class alone"
    counts = np.array([[5, 5, 5]] * 20 + [[9, 3, 0]] * 6)
    told = lacking([f"site {k}" for k in range(26)], counts, ["a", "b", "c"])
    assert told[4:] == [
        "site 24: no c, which most others hold",
        "and 1 more without a class that most others hold",
    ]


def test_tasks_without_classes_have_notes_of_their_own() -> None:
    owners = [0] * 30 + [1] * 30 + [2] * 30
    times = np.stack([np.arange(90.0), np.array([1, 0] * 30 + [0] * 30)], 1)
    told = warnings(describe(numbers(times, owners, "survival")))
    assert told[1:] == ["site 2: no event, so that the concordance index cannot be said there"]
    high = np.append(np.arange(89.0) % 10, 99.0)
    about = describe(numbers(high, [0] * 45 + [1] * 44 + [2], "regression"))
    assert about["targets"] == "number"
    assert not any("always says" in text or "accuracy" in text for text in warnings(about))


def test_a_folder_that_cannot_be_is_told_in_a_sentence(cli: Callable[..., Outcome]) -> None:
    code, _, err = cli("partition", "digits", "--out", "/proc/nope")
    assert code == 1
    assert err.strip().endswith("cannot write /proc/nope: No such file or directory")


def test_a_rotation_by_a_quarter_turns_the_image_to_the_left() -> None:
    image = torch.arange(9.0).view(1, 1, 3, 3)
    turned = rotate(image, math.pi / 2)
    assert torch.allclose(turned, image.rot90(1, (2, 3)), atol=1e-4)
    assert torch.allclose(rotate(image, 0.0), image)


def test_shifts_differ_between_clients_and_not_between_training_and_test() -> None:
    x = torch.rand(50, 1, 12, 12)
    kinds = ["noise", "rotate", "contrast"]

    def contrast(client: int, count: int) -> float:
        """How far black and white are apart, after everything that was drawn before."""
        flat = torch.stack([torch.zeros(1, 12, 12), torch.ones(1, 12, 12)]).repeat(count, 1, 1, 1)
        amounts = Streams(0).torch_generator("shift", client=client)
        silent = torch.Generator().manual_seed(0)
        y = shift(flat, kinds, 0.3, amounts, silent)
        return (y[1::2, :, 5:7, 5:7].mean() - y[::2, :, 5:7, 5:7].mean()).item()

    assert contrast(3, 400) == pytest.approx(contrast(3, 100), abs=0.02)
    assert contrast(3, 400) != pytest.approx(contrast(4, 400), abs=0.02)
    one = shift(x, ["contrast"], 0.8, *(Streams(0).torch_generator("s", client=3) for _ in "ab"))
    spread = (one - 0.5).std() / (x - 0.5).std()
    assert 0.2 <= spread <= 1.0


def test_noise_and_rotation_keep_images_in_range_and_vectors_cannot_be_rotated() -> None:
    random = torch.Generator().manual_seed(0)
    x = shift(torch.rand(20, 3, 8, 8), ["rotate", "noise", "contrast"], 1.0, random, random)
    assert x.shape == (20, 3, 8, 8)
    assert 0 <= x.min() <= x.max() <= 1
    with pytest.raises(UserError, match="rotate needs images"):
        shift(torch.rand(20, 3), ["rotate"], 1.0, random, random)


def test_the_partition_command_shows_numbers_and_draws_bubbles(
    cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    code, out, _ = cli("partition", "digits", "--out", tmp_path / "p")
    assert code == 0
    assert "heterogeneity: 0." in out
    assert {p.name for p in (tmp_path / "p").iterdir()} == {
        "partition.json",
        "partition.png",
        "partition.svg",
    }
    assert (tmp_path / "p" / "partition.png").read_bytes().startswith(b"\x89PNG")
    more = ("--set", "data.shift=[rotate, noise]", "--set", "data.partition=classes", "--json")
    about = json.loads(cli("partition", "digits", *more, "--out", tmp_path / "q").out)
    held = [sum(1 for n in c["classes"] if n) for c in about["clients"]]
    assert held == [2] * 10
    code, _, err = cli("partition", "digits", "--set", "data.shift=[turn]")
    assert code == 2
    assert "data.shift" in err


def test_a_site_that_claims_far_more_than_the_others_is_named() -> None:
    (text,) = outsized([("north", 100), ("south", 2001), ("east", 90), ("west", 1801)])
    assert text.startswith("south says that it holds 2,001 training samples, where the median is")
    assert outsized([("north", 100), ("south", 2000)]) == []
    assert outsized([]) == []
