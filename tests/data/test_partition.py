"""Partitions: nothing lost, nothing twice, and the statistics they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkf.core.errors import UserError
from fedkf.data.partition import Indices, partition

NAMES = ("iid", "dirichlet", "dirichlet-balanced")


def divide(name: str, labels: Indices, clients: int, alpha: float, seed: int = 0) -> list[Indices]:
    return partition(name, labels, clients, alpha, 1, np.random.default_rng(seed))


def class_counts(parts: list[Indices], labels: Indices, classes: int) -> Indices:
    return np.array([np.bincount(labels[part], minlength=classes) for part in parts])


@given(
    name=st.sampled_from(NAMES),
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=80),
    share=st.floats(0.01, 1),
    alpha=st.floats(1e-3, 1e3),
    seed=st.integers(0, 100),
)
def test_every_sample_goes_to_exactly_one_client_and_no_client_is_empty(
    name: str, labels: list[int], share: float, alpha: float, seed: int
) -> None:
    clients = max(1, int(share * len(labels)))
    parts = divide(name, np.array(labels), clients, alpha, seed)
    assert len(parts) == clients
    assert all(len(part) for part in parts)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels)))


@pytest.mark.parametrize("name", NAMES)
def test_a_partition_is_determined_by_its_stream(name: str) -> None:
    labels = np.arange(500) % 10
    first, again, other = (divide(name, labels, 7, 0.5, seed) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_iid_clients_are_of_equal_size() -> None:
    sizes = [len(p) for p in divide("iid", np.arange(103) % 10, 10, 1.0)]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("name", ["dirichlet", "dirichlet-balanced"])
def test_a_large_alpha_gives_every_client_every_class_alike(name: str) -> None:
    labels = np.arange(10_000) % 10
    counts = class_counts(divide(name, labels, 10, 1e6), labels, 10)
    assert np.abs(counts - 100).max() <= 10


@pytest.mark.parametrize("name", ["dirichlet", "dirichlet-balanced"])
def test_a_small_alpha_gives_each_class_to_one_client(name: str) -> None:
    labels = np.arange(10_000) % 10
    counts = class_counts(divide(name, labels, 10, 1e-4), labels, 10)
    assert (counts.max(0) / counts.sum(0)).min() > 0.98


def test_shares_have_the_dirichlets_mean_and_variance() -> None:
    alpha, clients = 0.5, 5
    labels = np.arange(40_000) % 200  # two hundred draws
    shares = class_counts(divide("dirichlet", labels, clients, alpha), labels, 200) / 200
    mean, total = 1 / clients, alpha * clients
    assert shares.mean() == pytest.approx(mean)
    assert shares.var() == pytest.approx(mean * (1 - mean) / (total + 1), rel=0.15)


def test_balanced_sizes_stay_near_equal_where_plain_ones_do_not() -> None:
    labels = np.arange(10_000) % 10
    spread = {}
    for name in ("dirichlet", "dirichlet-balanced"):
        sizes = [len(p) for p in divide(name, labels, 20, 0.01)]
        spread[name] = max(sizes) / (sum(sizes) / len(sizes))
    assert spread["dirichlet-balanced"] < 1.5 < 2 < spread["dirichlet"]


def test_in_a_balanced_group_every_client_leads_before_any_leads_twice() -> None:
    labels = np.arange(26 * 200) % 26
    counts = class_counts(divide("dirichlet-balanced", labels, 20, 0.05), labels, 26)
    leads = np.bincount(counts.argmax(0), minlength=20)
    assert leads.min() >= 1
    assert leads.max() <= 2


def test_clients_below_min_samples_take_from_the_largest() -> None:
    labels = np.arange(1000) % 10
    parts = partition("dirichlet", labels, 20, 0.01, 15, np.random.default_rng(0))
    assert min(len(p) for p in parts) == 15
    assert sorted(np.concatenate(parts).tolist()) == list(range(1000))


def test_impossible_wishes_are_explained() -> None:
    with pytest.raises(UserError, match=r"data\.clients is 11, more than the 10 samples"):
        divide("iid", np.zeros(10, int), 11, 1.0)
    with pytest.raises(UserError, match=r"data\.min_samples is 4.*at most 2"):
        partition("iid", np.zeros(10, int), 5, 1.0, 4, np.random.default_rng(0))
