"""How different clients are beyond labels: near 0 by chance, far from it where they differ."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Outcome

from fedkf.core.holdings import Partition
from fedkf.core.random import Streams
from fedkf.data.federated import FederatedData, Preparation, federate
from fedkf.data.findings import findings
from fedkf.data.heterogeneity import explained, label_shift, measure, quantity
from fedkf.data.source import Source

SITES, EACH, CLASSES = 6, 80, 3


Change = Callable[[Any, Any, int], Any]


def federation(
    change: Change = lambda x, y, k: (x, y), shuffled: bool = False, own_class: float = 0.0
) -> FederatedData:
    """Six sites with images of three classes, changed site by site, then perhaps dealt out anew.

    A share of a site's labels is of a class of its own, before anything else.
    """
    random = np.random.default_rng(0)
    classes = random.random((CLASSES, 1, 6, 6)) * 0.5
    owners = np.repeat(np.arange(SITES), EACH)
    labels = np.arange(SITES * EACH) % CLASSES
    labels = np.where(np.arange(SITES * EACH) % EACH < own_class * EACH, owners % CLASSES, labels)
    images = classes[labels] + 0.2 * random.random((len(labels), 1, 6, 6))
    for k in range(SITES):
        own = owners == k
        images[own], labels[own] = change(images[own], labels[own], k)
    if shuffled:
        owners = random.permutation(owners)
    names = [f"site {k}" for k in range(SITES)]
    source = Source(images.astype(np.float32), labels, list("xyz"), owners, names)
    parts = [np.flatnonzero(owners == k) for k in range(SITES)]
    return federate(source, parts, Preparation(), Streams(0), names)


def brighter(x: Any, y: Any, k: int) -> Any:
    return x + 0.05 * k, y


def renamed(x: Any, y: Any, k: int) -> Any:
    """The same images everywhere; half of the sites call two of the classes each other's names."""
    return x, np.where(y < 2, (y + k) % 2, y)


def test_samples_dealt_out_at_random_are_near_0_in_everything() -> None:
    for change in (lambda x, y, k: (x, y), brighter):
        found = measure(federation(change, shuffled=True))
        assert found["labels"] < 0.03
        assert found["quantity"] < 0.01
        assert found["inputs"]["score"] < 0.05
        assert found["inputs"]["means"] < 0.02
        assert abs(found["transfer"]["gap"]) <= max(0.03, 2 * found["transfer"]["error"])
        assert [text.partition(":")[0] for text in found["findings"]] == [
            "labels",
            "inputs",
            "meaning",
        ]


def test_inputs_that_differ_between_sites_show_where_labels_do_not() -> None:
    found = measure(federation(brighter))
    assert found["labels"] == 0
    assert found["inputs"]["score"] > 0.5
    assert found["inputs"]["means"] > 0.2
    assert any("labels are alike everywhere, but a small" in text for text in found["findings"])
    assert set(found["inputs"]["clients"]) == {f"site {k}" for k in range(SITES)}


def test_a_noise_of_its_own_shows_in_the_spread() -> None:
    noise = np.random.default_rng(1)
    found = measure(federation(lambda x, y, k: (x + 0.1 * k * noise.normal(size=x.shape), y)))
    assert found["inputs"]["spreads"] > 0.1 > found["inputs"]["means"]
    assert found["inputs"]["score"] > 0.2


def test_labels_that_differ_are_not_taken_for_inputs_that_do() -> None:
    found = measure(federation(own_class=0.8))
    assert found["labels"] > 0.4
    assert found["inputs"]["score"] < 0.1
    assert found["inputs"]["means"] < 0.05


def test_labels_that_mean_something_else_show_in_the_transfer() -> None:
    found = measure(federation(renamed))
    assert found["labels"] < 0.03
    assert found["inputs"]["score"] < 0.1
    assert found["transfer"]["gap"] > 0.1
    assert any("mean something else" in text for text in found["findings"])


def test_the_same_data_give_the_same_numbers() -> None:
    data = federation(brighter)
    assert measure(data, 3) == measure(data, 3)


def test_label_shift_and_quantity_are_worked_out_by_hand() -> None:
    assert quantity(np.array([10, 10])) == 0
    assert quantity(np.array([30, 10])) == pytest.approx(1 - 1 / (2 * 0.625))
    # large clients with opposite classes are half of all labels away, and chance is next to nothing
    assert label_shift(np.array([[10**6, 0], [0, 10**6]])) == pytest.approx(0.5, abs=1e-3)
    assert label_shift(np.array([[50, 50], [50, 50]])) == 0


def test_the_explained_share_is_omega_squared() -> None:
    x = np.array([[0.0], [2.0], [10.0], [12.0]])
    # within 4 (2 degrees, so 2 each), between 100: (100 - 2) / (104 + 2)
    groups = np.zeros(4, np.int64)
    assert explained(x, groups, np.array([0, 0, 1, 1])) == pytest.approx(98 / 106)


def test_too_little_to_compare_is_said_by_saying_nothing() -> None:
    assert findings({"labels": 0.0, "quantity": 0.0}) == ["labels: alike at all clients"]
    apart = measure(federation(own_class=1.0))
    assert "transfer" in apart
    assert "gap" not in apart["transfer"]


def test_runs_of_natural_sites_keep_it_and_reports_tell_it(
    cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    labels = np.tile([0, 1], 60)
    images = (random.random((120, 8, 8)) * 0.4 + 0.1 * labels[:, None, None]).astype(np.float32)
    images[60:] += 0.4
    sites = np.repeat(["north", "south"], 60)
    np.savez(tmp_path / "mine.npz", images=images, labels=labels, client=sites)
    data = ("--set", "data.source=npz", "--set", f"data.path={tmp_path / 'mine.npz'}")
    code, out, err = cli("partition", *data, "--out", tmp_path / "p")
    assert code == 0, err
    assert "heterogeneity: 1.00" in out
    small = [f"federation.{s}" for s in ("rounds=1", "fraction=1.0", "local_epochs=1")]
    sets = [part for s in (*small, "algorithm.name=fedavg") for part in ("--set", s)]
    assert cli("run", *data, *sets, "--workers", 0, "--out", tmp_path / "run").code == 0
    about = json.loads((tmp_path / "run" / "partition.json").read_text())
    assert about["differences"]["inputs"]["score"] == 1
    assert Partition.read(about).heterogeneity == 1
    assert cli("report", tmp_path / "run", "--out", tmp_path / "report.html").code == 0
    assert "a small classifier names the client of 100%" in (tmp_path / "report.html").read_text()


@pytest.mark.skipif("FEDKF_DATA" not in os.environ, reason="FEDKF_DATA names no data")
@pytest.mark.parametrize(("name", "clients"), [("audiomnist", 60), ("pacs", 4)])
def test_real_sites_are_told_apart_and_random_ones_are_not(
    name: str, clients: int, cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    def heterogeneity(*sets: str) -> float:
        more = [part for s in sets for part in ("--set", s)]
        outcome = cli("partition", name, *more, "--json", "--out", tmp_path / "p")
        if outcome.code == 2 and "no " in outcome.err:
            pytest.skip(outcome.err)
        return Partition.read(json.loads(outcome.out)).heterogeneity

    assert heterogeneity() > 0.5
    assert heterogeneity("data.partition=iid", f"data.clients={clients}") < 0.05


@pytest.mark.parametrize(
    ("gap", "error", "told"),
    [
        (0.06, 0.09, "whether what clients learn carries over cannot be told; a small model"),
        (0.09, 0.046, "whether what clients learn carries over cannot be told; a small model"),
        (-0.2, 0.12, "whether what clients learn carries over cannot be told; a small model"),
        (0.01, 0.02, "what clients learn carries over; a small model"),
        (0.2, 0.02, "a small model of a client's own samples is right 20 ± 4 points more often"),
    ],
)
def test_that_learning_carries_over_is_said_where_little_else_is_possible(
    gap: float, error: float, told: str
) -> None:
    measured = {"labels": 0.0, "quantity": 0.0, "transfer": {"gap": gap, "error": error}}
    assert findings(measured)[-1].startswith(f"meaning: {told}")
