"""Ways of making a shared model a client's own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from conftest import Settings, make_client
from torch import nn

from fedkf.core.client import Client
from fedkf.models.personal import Personal, best_share, freeze_features, held_out, loss_on, mixed


@pytest.fixture
def client(settings: Settings) -> Client:
    settings["data"] |= {"clients": 2, "train_fraction": 0.6}
    settings["model"] = {"name": "mlp"}
    return make_client(settings, 3)


def test_all_of_the_model_learns_or_its_head_alone(client: Client) -> None:
    shared = client.task.initial_weights
    tuned = Personal("finetune", 2)(client, shared)
    head = Personal("head", 2)(client, shared)
    changed = {k for k in shared if not torch.equal(tuned[k], shared[k])}
    assert changed == set(shared)
    assert {k for k in shared if not torch.equal(head[k], shared[k])} == {
        "linear.weight",
        "linear.bias",
    }
    assert all(p.requires_grad for p in client.model.parameters())
    everything = torch.arange(client.size)
    assert loss_on(client, tuned, everything) < loss_on(client, shared, everything)
    assert loss_on(client, head, everything) < loss_on(client, shared, everything)


@pytest.mark.parametrize("schedule", ["cosine", "linear", "step"])
def test_personal_training_has_the_whole_rate_whatever_a_schedule_has_left(
    client: Client, schedule: str
) -> None:
    shared, training = client.task.initial_weights, client.task.training
    whole = Personal("finetune", 2)(client, shared)
    client.task.training = replace(training, schedule=schedule, rounds=client.round)
    late = Personal("finetune", 2)(client, shared)
    assert all(torch.equal(whole[k], late[k]) for k in shared)


def test_the_head_of_any_module_is_what_its_features_do_not_depend_on() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    freeze_features(model, torch.randn(1, 4))
    assert [p.requires_grad for p in model.parameters()] == [False, False, True, True]
    whole = nn.Sequential(nn.Linear(4, 2))
    freeze_features(whole, torch.randn(1, 4))
    assert all(p.requires_grad for p in whole.parameters())


@pytest.mark.parametrize("method", ["finetune", "head", "interpolate"])
def test_layers_that_were_not_to_learn_are_not_to_learn_afterwards(
    client: Client, method: str
) -> None:
    shared = client.task.initial_weights
    first, parameter = next(client.start(shared).named_parameters())
    parameter.requires_grad_(False)
    made = Personal(method, 1)(client, shared)
    assert [n for n, p in client.model.named_parameters() if not p.requires_grad] == [first]
    assert torch.equal(made[first], shared[first])


def test_held_out_samples_are_a_fifth_of_the_training_ones(client: Client) -> None:
    trains, held = held_out(client)
    assert len(held) == round(0.2 * client.size)
    assert sorted([*trains.tolist(), *held.tolist()]) == list(range(client.size))


def test_test_samples_have_no_say_in_a_personal_model(client: Client) -> None:
    shared, how = client.task.initial_weights, Personal("interpolate", 3)
    before = how(client, shared)
    spoilt = torch.full_like(client.data.test_images, float("nan"))
    client.data = replace(
        client.data, test_images=spoilt, test_labels=client.data.test_labels.flip(0)
    )
    after = how(client, shared)
    assert all(torch.equal(before[k], after[k]) for k in before)


def test_the_mixture_has_the_least_loss_on_what_was_held_out(client: Client) -> None:
    shared = client.task.initial_weights
    trains, held = held_out(client)
    own = Personal("interpolate", 5).trained(client, shared, trains)
    share = best_share(client, shared, own, held)
    losses = [loss_on(client, mixed(shared, own, k / 10), held) for k in range(11)]
    assert share == losses.index(min(losses)) / 10
    assert best_share(client, shared, shared, held) == 0  # of equals, the shared one
    broken = {k: torch.full_like(w, float("nan")) for k, w in own.items()}
    assert best_share(client, shared, broken, held) == 0


def test_a_client_that_can_hold_nothing_out_keeps_the_shared_model(client: Client) -> None:
    client.data = replace(client.data, images=client.data.images[:4], labels=client.data.labels[:4])
    client.size = 4
    shared = client.task.initial_weights
    assert Personal("interpolate", 2)(client, shared) is shared


def test_batches_of_one_are_passed_over_where_batches_are_normalised(client: Client) -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(256, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))

    client.task.make_model = make
    client.task.__dict__.pop("initial_weights", None)
    client.task._residents.clear()
    shared = client.task.initial_weights
    nine = torch.arange(9)  # a batch of eight and one of one
    tuned = Personal("finetune", 1).trained(client, shared, nine)
    assert int(tuned["2.num_batches_tracked"]) == 1
    head = Personal("head", 1).trained(client, shared, nine)
    assert int(head["2.num_batches_tracked"]) == 0  # its features stay as they are
