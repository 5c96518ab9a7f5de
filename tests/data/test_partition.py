"""Partitions: nothing lost, nothing twice, and the statistics they promise."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkf.core.errors import UserError
from fedkf.data.partition import BY_CLASSES, Division, Indices, partition
from fedkf.runs.data_keys import Partition


def divide(name: str, labels: Indices, clients: int, alpha: float, seed: int = 0) -> list[Indices]:
    return partition(Division(name, clients, alpha), labels, np.random.default_rng(seed))


def class_counts(parts: list[Indices], labels: Indices, classes: int) -> Indices:
    return np.array([np.bincount(labels[part], minlength=classes) for part in parts])


DIVIDING = ("iid", "dirichlet", "dirichlet-balanced", "quantity")


def test_every_partition_is_known() -> None:
    assert set(get_args(Partition)) == {*DIVIDING, *BY_CLASSES, "natural"}


@given(
    name=st.sampled_from(DIVIDING),
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


@pytest.mark.parametrize("name", [*DIVIDING, "classes"])
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
    how = Division("dirichlet", 20, 0.01, min_samples=15)
    parts = partition(how, labels, np.random.default_rng(0))
    assert min(len(p) for p in parts) == 15
    assert sorted(np.concatenate(parts).tolist()) == list(range(1000))


def test_impossible_wishes_are_explained() -> None:
    with pytest.raises(UserError, match=r"data\.clients is 11, more than the 10 samples"):
        divide("iid", np.zeros(10, int), 11, 1.0)
    how = Division("iid", 5, min_samples=4)
    with pytest.raises(UserError, match=r"data\.min_samples is 4.*at most 2"):
        partition(how, np.zeros(10, int), np.random.default_rng(0))


@pytest.mark.parametrize(("clients", "each"), [(10, 2), (7, 3), (20, 1), (5, 10), (13, 4)])
def test_classes_gives_every_client_that_many_classes_divided_evenly(
    clients: int, each: int
) -> None:
    labels = np.arange(6000) % 10
    how = Division("classes", clients, classes_per_client=each)
    parts = partition(how, labels, np.random.default_rng(0))
    counts = class_counts(parts, labels, 10)
    assert ((counts > 0).sum(1) == each).all()
    assert sorted(np.concatenate(parts).tolist()) == list(range(6000))
    holders = (counts > 0).sum(0)
    assert holders.max() - holders.min() <= 1
    for label in range(10):
        held = counts[counts[:, label] > 0, label]
        assert held.max() - held.min() <= 1


def test_classes_that_cannot_be_are_explained() -> None:
    labels = np.arange(100) % 10
    for clients, each, sentence in [
        (5, 11, "classes_per_client is 11 but there are 10 classes"),
        (3, 2, "3 clients would leave out 4 of the 10 classes"),
    ]:
        how = Division("classes", clients, classes_per_client=each)
        with pytest.raises(UserError, match=sentence):
            partition(how, labels, np.random.default_rng(0))


def test_quantity_skews_sizes_and_not_labels() -> None:
    labels = np.arange(20_000) % 10
    parts = divide("quantity", labels, 10, 0.3)
    sizes = np.array([len(p) for p in parts])
    assert sizes.max() > 3 * np.median(sizes)
    shares = class_counts(parts, labels, 10)[sizes.argmax()] / sizes.max()
    assert np.abs(shares - 0.1).max() < 0.02
    even = [len(p) for p in divide("quantity", labels, 10, 1e7)]
    assert max(even) - min(even) < 20


def test_natural_follows_the_owners_and_needs_them() -> None:
    owners = np.array([1, 0, 1, 2, 0])
    parts = partition(Division("natural", 3), np.zeros(5, int), np.random.default_rng(0), owners)
    assert [part.tolist() for part in parts] == [[1, 4], [0, 2], [3]]
    with pytest.raises(UserError, match="does not say who holds what"):
        divide("natural", np.zeros(5, int), 3, 1.0)


@pytest.mark.parametrize(
    ("clients", "groups"), [(15, (10, 5)), (20, (10, 10)), (23, (10, 10, 3)), (7, (7,))]
)
def test_balanced_groups_are_filled_one_after_the_other(
    clients: int, groups: tuple[int, ...]
) -> None:
    """Ten classes: ten clients share each class first, those that are left share the rest."""
    labels = np.repeat(np.arange(10), 40 * clients)
    counts = class_counts(divide("dirichlet-balanced", labels, clients, 0.5), labels, 10)
    ends = np.cumsum(groups)
    for first, last in zip(ends - groups, ends, strict=True):
        assert (counts[first:last].sum(0) == 40 * (last - first)).all()
