"""What sums of several rounds give away together, against linear algebra."""

from __future__ import annotations

import random

import numpy as np
import pytest

from fedkf.secure.exposure import KEPT, Line, after, bare, countable


def known(lines: list[Line]) -> set[Line]:
    """The uploads that follow from the sums: those whose unit vector is in the span of the sums."""
    rounds = sorted({made for _, made, _ in lines})
    sums = [[float(made == r) for _, made, _ in lines] for r in rounds]
    # What T1 holds after each round is known as well.
    for r in rounds:
        in_t1 = [made <= r and (t == KEPT or t > r) for _, made, t in lines]
        sums.append([float(inside) for inside in in_t1])
    matrix = np.array(sums)
    rank = np.linalg.matrix_rank(matrix)
    found = set()
    for k, line in enumerate(lines):
        unit = np.zeros(len(lines))
        unit[k] = 1
        if np.linalg.matrix_rank(np.vstack([matrix, unit])) == rank:
            found.add(line)
    return found


def test_nine_after_ten_bare_the_tenth() -> None:
    first = after([], 1, range(10), range(10))
    assert bare(first) == []
    second = after(first, 2, range(9), range(9))
    assert bare(second) == [(9, 1, KEPT)]
    assert bare(after(first, 2, range(8), range(8))) == []


def test_one_that_comes_back_among_new_ones_is_bared_by_what_is_taken_out() -> None:
    first = after([], 1, [0, 1, 2], [0, 1, 2])
    assert bare(after(first, 2, [0, 3, 4], [0, 3, 4])) == [(0, 1, 2)]
    counted = countable(first, 2, [0, 3, 4])
    assert 0 not in counted
    assert not bare(after(first, 2, counted, [0, 3, 4]))


def test_one_left_out_alone_is_bared_by_the_sum_without_it() -> None:
    assert bare(after([], 1, [0, 1, 2], [0, 1, 2, 3])) == [(3, 1, 1)]
    assert bare(after([], 1, [0, 1], [0, 1, 2, 3])) == []


@pytest.mark.parametrize("seed", range(6))
def test_the_lines_that_are_bridges_are_the_uploads_that_the_sums_determine(seed: int) -> None:
    dice = random.Random(seed)
    lines: list[Line] = []
    for round in range(1, 7):
        clients = dice.sample(range(7), dice.randint(3, 5))
        lines = after(lines, round, [k for k in clients if dice.random() < 0.8], clients)
        assert set(bare(lines)) == known(lines)


@pytest.mark.parametrize(("clients", "active"), [(10, 5), (20, 4), (6, 3)])
def test_nobody_is_ever_bared_and_t1_leaves_out_few(clients: int, active: int) -> None:
    dice = random.Random(0)
    lines: list[Line] = []
    left_out = 0
    for round in range(1, 41):
        chosen = sorted(dice.sample(range(clients), active))
        counted = countable(lines, round, chosen)
        lines = after(lines, round, counted, chosen)
        left_out += active - len(counted)
        assert not bare(lines)
    assert left_out <= 0.1 * 40 * active
