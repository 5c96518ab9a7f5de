"""The task: parts for kinds of algorithms, and modules that stay in their process."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import nn

from fedkf.core.random import Streams
from fedkf.core.task import Task, Training


@dataclass(frozen=True)
class Curriculum:
    """What an algorithm of one's own might need."""

    levels: int


def linear() -> nn.Module:
    return nn.Linear(2, 1)


make_task = partial(Task, linear, (2,), 1, Training(), Streams(0))


def test_a_part_is_found_by_its_type() -> None:
    task = make_task(parts=["text", Curriculum(3)])
    assert task.part(Curriculum).levels == 3
    with pytest.raises(ValueError, match="this task has no Curriculum"):
        make_task().part(Curriculum)


def test_every_module_is_announced_once_with_its_role() -> None:
    seen: list[tuple[nn.Module, str]] = []
    task = make_task(on_resident=lambda module, role: seen.append((module, role)))
    student = task.load("student", task.initial_weights)
    head = task.resident("head", nn.Identity)
    assert task.resident("student") is student
    assert seen == [(student, "student"), (head, "head")]


def test_modules_do_not_travel_to_other_processes_but_the_first_weights_do() -> None:
    task = make_task()
    first, here = task.initial_weights, task.load("student", task.initial_weights)
    there = pickle.loads(pickle.dumps(task))
    assert torch.equal(vars(there)["initial_weights"]["weight"], first["weight"])
    assert there.resident("student") is not here
    assert task.resident("student") is here
