"""Split: training and test samples of each client."""

from __future__ import annotations

import numpy as np
import pytest

from fedkf.core.errors import UserError
from fedkf.data.source import Source
from fedkf.data.split import drawn_by_size, split

LABELS = np.array([0] * 30 + [1] * 10)
PART = [np.arange(40)]


def source(**more: object) -> Source:
    return Source(np.zeros((40, 1)), LABELS, ["a", "b"], **more)  # type: ignore[arg-type]


def sides(samples: Source, how: str, fraction: float = 0.8) -> tuple[set[int], set[int]]:
    train, test = split(samples, PART, fraction, np.random.default_rng(0), how)
    assert sorted([*train[0], *test[0]]) == list(range(40))
    return set(train[0].tolist()), set(test[0].tolist())


def test_every_class_is_divided_in_proportion() -> None:
    _, test = sides(source(), "stratified")
    assert np.bincount(LABELS[list(test)]).tolist() == [6, 2]


def test_a_class_with_one_sample_trains() -> None:
    rare = Source(np.zeros((40, 1)), np.array([1] + [0] * 39), ["a", "b"])
    assert 0 in sides(rare, "stratified", 0.5)[0]


@pytest.mark.parametrize("how", ["random", "stratified"])
def test_a_unit_is_on_one_side(how: str) -> None:
    units = np.arange(40) // 4
    train, test = sides(source(units=units), how)
    assert {units[k] for k in train}.isdisjoint({units[k] for k in test})
    assert len(test) == 8


def test_units_test_each_class_in_proportion() -> None:
    units = np.arange(40) // 4  # the last two of ten hold the second class alone
    for seed in range(10):
        random = np.random.default_rng(seed)
        _, (test,) = split(source(units=units), PART, 0.5, random, "stratified")
        tested = {int(units[k]) for k in test}
        assert len(tested) == 5
        assert len(tested & {8, 9}) == 1


def test_a_unit_with_samples_at_several_clients_is_on_one_side_at_all_of_them() -> None:
    units = np.arange(40) // 4
    parts = [np.arange(k, 40, 3) for k in range(3)]
    for seed in range(5):
        train, test = split(source(units=units), parts, 0.7, np.random.default_rng(seed), "random")
        sides = [{int(units[k]) for part in side for k in part} for side in (train, test)]
        assert sides[0].isdisjoint(sides[1])
        assert len(sides[1]) == 3
        for part, one, two in zip(parts, train, test, strict=True):
            assert sorted([*one, *two]) == part.tolist()
            assert len(one)


def test_a_client_of_one_shared_unit_trains_and_so_does_that_unit_elsewhere() -> None:
    units = np.arange(40) // 20
    parts = [np.arange(5, 40), np.arange(5)]  # the second has samples of the first unit only
    for seed in range(5):
        train, test = split(source(units=units), parts, 0.5, np.random.default_rng(seed), "random")
        assert len(train[1]) == 5
        assert set(units[test[0]].tolist()) <= {1}


def test_a_single_unit_trains() -> None:
    assert sides(source(units=np.zeros(40, np.int64)), "random")[1] == set()


def test_the_source_may_say_what_tests() -> None:
    samples = source(tested=np.arange(40) >= 35)
    assert sides(samples, "given")[1] == set(range(35, 40))
    with pytest.raises(UserError, match=r"samples of client 1 are test samples.* fewer clients"):
        split(samples, [*PART, np.arange(36, 40)], 0.8, np.random.default_rng(0), "given")


def test_a_client_without_training_samples_is_refused() -> None:
    owners = np.zeros(40, np.int64)
    samples = source(tested=np.ones(40, bool), owners=owners, owner_names=["north"])
    with pytest.raises(UserError, match=r"all samples of north are test samples.* data\.holdout"):
        split(samples, PART, 0.8, np.random.default_rng(0), "given")
    with pytest.raises(UserError, match="says nothing of training and test"):
        split(source(), PART, 0.8, np.random.default_rng(0), "given")


def test_all_may_train() -> None:
    for samples in (source(), source(units=np.arange(40) // 4)):
        assert sides(samples, "stratified", 1.0)[1] == set()


def test_people_with_one_recording_of_each_class_test_all_classes_between_them() -> None:
    labels = np.tile(np.repeat(np.arange(6), 2), 30)  # thirty people, six recordings of two windows
    units = np.arange(len(labels)) // 2
    samples = Source(np.zeros((len(labels), 1)), labels, list("abcdef"), units=units)
    people = np.split(np.arange(len(labels)), 30)
    _, test = split(samples, people, 0.8, np.random.default_rng(0))
    assert all(len(own) == 2 for own in test)  # each can spare one recording
    assert np.unique(labels[np.concatenate(test)]).tolist() == [0, 1, 2, 3, 4, 5]


def test_units_of_very_unequal_sizes_are_divided_by_their_samples() -> None:
    # One unit of a single sample beside long ones: as a count of units it would be a fifth.
    units = np.repeat(np.arange(6), [1, 12, 12, 6, 5, 4])
    samples = Source(np.zeros((40, 1)), np.zeros(40, np.int64), ["a"], units=units)
    for seed in range(20):
        train, test = split(samples, [np.arange(40)], 0.8, np.random.default_rng(seed), "random")
        assert 4 <= len(test[0]) <= 16
        assert {*units[train[0]]}.isdisjoint({*units[test[0]]})


def test_where_every_unit_is_too_long_the_shortest_tests() -> None:
    sizes, strata = np.array([50, 20, 50]), np.array([0, 1, 2])
    chosen = drawn_by_size(strata, sizes, 5.0, np.random.default_rng(0))
    assert chosen.tolist() == [False, True, False]
