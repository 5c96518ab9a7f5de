"""FedAvg: the weighted mean by hand, and with one client plain SGD."""

from __future__ import annotations

import pytest
import torch
from conftest import Settings, make_client
from helpers import server, upload
from torch import tensor

import fedkf
from fedkf.core.payload import Payload


def test_a_round_worked_out_by_hand() -> None:
    state = Payload(weights={"w": tensor([9.0, 9.0])})
    uploads = [upload(0, 3, [0.0, 4.0]), upload(2, 1, [8.0, 0.0])]
    new = fedkf.FedAvg().aggregate(server(), state, uploads)
    assert new["weights"]["w"].tolist() == pytest.approx([2.0, 3.0])


def test_a_client_does_plain_sgd_on_its_own_batches(settings: Settings) -> None:
    client = make_client(settings, 1)
    start = client.task.initial_weights
    sent = fedkf.FedAvg().local_update(client, Payload(weights=start))["weights"]

    model = client.task.make_model()
    model.load_state_dict(start)
    order = torch.randperm(client.size, generator=client.random("batches"))
    for _ in range(2):
        for index in order.split(8):
            logits = model(client.data.images[index]).log_softmax(1)
            loss = -logits[torch.arange(len(index)), client.data.labels[index]].mean()
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            with torch.no_grad():
                for p, g in zip(model.parameters(), gradients, strict=True):
                    p.sub_(0.05 * g)
    for name, expected in model.state_dict().items():
        assert torch.allclose(sent[name], expected, atol=1e-5)
