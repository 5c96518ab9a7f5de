"""FedKF against Algorithm 1 written out anew, in plain PyTorch, as one reads it in the paper.

The reference shares the modules, their initial weights, the data and the random streams with the
project, and nothing else: it has loops, losses, optimizers, slots and averages of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Settings
from torch import Tensor
from torch.nn import functional as F

import fedkf
from fedkf.core.payload import Payload
from fedkf.core.random import Streams
from fedkf.data.federated import FederatedData
from fedkf.distillation.generators import Generation
from fedkf.models.generator import DCGAN, ReleasedGenerator
from fedkf.models.lenet import LeNet5
from fedkf.runs.config import resolve
from fedkf.runs.setup import load_source, make_data, make_task, settle

State = dict[str, Tensor]
ROUNDS, LR, BETA, BATCH, NOISE, EPOCHS = 4, 0.05, 0.01, 8, 8, 2
LAMBDA1, LAMBDA2, GAMMA = 0.3, 0.05, 0.7


class Reference:
    """Server and clients of Algorithm 1."""

    def __init__(self, data: FederatedData, w0: State, theta: State, released: bool) -> None:
        self.data, self.w0, self.theta, self.released = data, w0, theta, released
        self.adversarial = False
        self.sizes = [len(data.client(k).labels) for k in range(len(data.names))]
        self.slots: dict[int, State] = {}
        self.generators: dict[int, Any] = {}
        self.teachers: list[State] = []

    def run(self, selections: list[list[int]]) -> tuple[State, State]:
        aca, oca = self.w0, self.w0
        for number, active in enumerate(selections, 1):
            self.teachers.append(oca)
            local = {k: self.client_update(k, number, aca, oca) for k in active}
            self.slots.update(local)
            aca = self.average({k: (self.sizes[k], w) for k, w in local.items()})
            if self.released:
                held = {k: (self.sizes[k], w) for k, w in self.slots.items()}
            else:
                held = {k: (n, self.slots.get(k, self.w0)) for k, n in enumerate(self.sizes)}
            oca = self.average(held)
        return aca, oca

    @staticmethod
    def average(items: dict[int, tuple[int, State]]) -> State:
        total = sum(n for n, _ in items.values())
        names = next(iter(items.values()))[1]
        return {
            name: (sum(n * w[name].double() for n, w in items.values()) / total).float()  # type: ignore[union-attr]
            for name in names
        }

    def batches(self, k: int, number: int) -> Iterator[Tensor]:
        random = Streams(0).torch_generator("batches", number, k)
        n = self.sizes[k]
        if not self.released:  # the client's own batches, split once
            order = torch.randperm(n, generator=random)
            for _ in range(EPOCHS):
                for start in range(0, n, BATCH):
                    yield order[start : start + BATCH]
            return
        wanted = EPOCHS * max(1, sum(self.sizes) // (len(self.sizes) * BATCH))
        size = min(BATCH, n)
        while wanted:
            order = torch.randperm(n, generator=random)
            for start in range(0, n - size + 1, size):
                if wanted:
                    wanted -= 1
                    yield order[start : start + size]

    def client_update(self, k: int, number: int, aca: State, oca: State) -> State:
        shape, classes = self.data.shape, self.data.classes
        student = LeNet5(shape, classes)
        student.load_state_dict(aca)
        teacher = LeNet5(shape, classes)
        teacher.load_state_dict(oca)
        if k not in self.generators:
            kind = ReleasedGenerator if self.released else DCGAN
            generator = kind(shape, NOISE, 4, [0.5], [0.5])
            generator.load_state_dict(self.theta)
            self.generators[k] = generator, torch.optim.Adam(generator.parameters(), lr=BETA)
        generator, adam = self.generators[k]
        random = Streams(0).torch_generator("generator noise", number, k)
        x_all, y_all = self.data.client(k).images, self.data.client(k).labels

        def sgd(loss: Tensor) -> None:
            gradients = torch.autograd.grad(loss, list(student.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(student.parameters(), gradients, strict=True):
                    parameter.sub_(LR * gradient)

        def cross_entropy(index: Tensor) -> Tensor:
            logs: Tensor = student(x_all[index]).log_softmax(1)
            return -logs[torch.arange(len(index)), y_all[index]].mean()

        def kl(p: Tensor, x: Tensor) -> Tensor:
            logs: Tensor = student(x).log_softmax(1)
            return (p * (p.log() - logs)).sum(1).mean()

        def generator_loss(x: Tensor) -> Tensor:
            f = teacher.features(x)
            p = teacher.classify(f).softmax(1)
            one_hot = -p.max(1).values.log().mean()
            mean = p.mean(0)
            entropy = (mean * mean.log()).sum()
            activation = -f.abs().sum(1).mean()
            if self.released:
                entropy = 1 + entropy / math.log(classes)
                activation = -f.abs().mean()
            return entropy + LAMBDA1 * one_hot + LAMBDA2 * activation

        def adam_step(loss: Tensor) -> None:
            adam.zero_grad()
            loss.backward()
            adam.step()

        for index in self.batches(k, number):
            if self.released and number == 1:  # the released first round is plain
                sgd(cross_entropy(index))
                continue
            x = generator(torch.randn(BATCH, NOISE, generator=random))
            if not self.released:
                adam_step(generator_loss(x))
                x = generator(torch.randn(BATCH, NOISE, generator=random))
            p = teacher(x).softmax(1).detach()
            sgd(cross_entropy(index) + GAMMA * kl(p, x.detach()))
            if self.released:
                loss = generator_loss(x)
                if self.adversarial:
                    loss = loss - GAMMA * kl(p, x)
                adam_step(loss)
        return {name: tensor.detach().clone() for name, tensor in student.state_dict().items()}


# A bias before a batch norm has no effect and no gradient but rounding, which Adam blows up.
MEANINGLESS = {"conv1.bias", "conv2.bias", "norm1.running_mean", "norm2.running_mean"}


def meaningful(state: State) -> State:
    return {name: tensor for name, tensor in state.items() if name not in MEANINGLESS}


def close(a: State, b: State, tolerance: float = 2e-5) -> bool:
    return a.keys() == b.keys() and all(
        torch.allclose(a[name], b[name], atol=tolerance, rtol=1e-3) for name in a
    )


@pytest.mark.parametrize("variant", ["text", "released", "adversarial"])
def test_weights_generators_and_adam_are_those_of_algorithm_1(
    settings: Settings, tmp_path: Path, variant: str
) -> None:
    released = variant != "text"
    settings["fidelity"] = "released" if released else "text"
    settings["algorithm"] |= {"gamma": GAMMA, "lambda1": LAMBDA1, "lambda2": LAMBDA2}
    settings["algorithm"]["adversarial"] = variant == "adversarial"
    settings["federation"] |= {"rounds": ROUNDS, "lr": LR, "batch_size": BATCH}
    settings["federation"]["local_epochs"] = EPOCHS
    settings["generator"] |= {"lr": BETA, "noise": NOISE, "width": 4}
    settings["data"]["partition"] = "dirichlet"

    sent: list[Payload] = []
    broadcast = fedkf.FedKF.broadcast

    def spy(self: fedkf.FedKF, server: Any, state: Payload) -> Payload:
        sent.append(broadcast(self, server, state))
        return sent[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fedkf.FedKF, "broadcast", spy)
        result = fedkf.run(settings, out=tmp_path)

    config = resolve(settings)
    source = load_source(config)
    config = settle(config, source)
    data = make_data(config, source)
    task = make_task(config, data, fedkf.FedKF())
    reference = Reference(data, task.initial_weights, task.part(Generation).initial(task), released)
    reference.adversarial = variant == "adversarial"
    selections = [record["active"] for record in result.history]
    aca, oca = reference.run(selections)

    assert close(result.weights["aca"], aca)
    assert close(result.weights["oca"], oca)
    assert not close(aca, oca, 1e-3)
    assert not close(aca, task.initial_weights, 1e-3)
    for number, down in enumerate(sent):
        if released and number == 0:
            assert "teacher" not in down
        else:
            assert close(down["teacher"], reference.teachers[number])
    states = {
        int(p.name.split("-")[0]): Payload.load(p)
        for p in (tmp_path / "checkpoint" / "clients").iterdir()
    }
    distilled = selections[1:] if released else selections
    assert set(states) == {k for active in distilled for k in active}
    repeated = 0
    for k, state in states.items():
        generator, adam = reference.generators[k]
        made = meaningful(dict(generator.state_dict()))
        assert close(meaningful(state["generator"]), made, 1e-4)
        for name, parameter in generator.named_parameters():
            for field in ("exp_avg", "exp_avg_sq"):
                kept = state["adam"][f"{field}:{name}"]
                assert torch.allclose(kept, adam.state[parameter][field], atol=1e-4, rtol=1e-2)
        repeated += sum(k in active for active in distilled) > 1
    assert repeated  # some generator was taken up again


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 10, 10)])
def test_the_released_generator_is_the_one_described(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    g = ReleasedGenerator(shape, 7, 6, [0.2], [0.4]).train()
    z = torch.randn(5, 7)
    side = math.ceil(shape[1] / 4)

    def norm(x: Tensor, eps: float) -> Tensor:
        centred = x - x.mean((0, 2, 3), keepdim=True)
        return centred / (centred.square().mean((0, 2, 3), keepdim=True) + eps).sqrt()

    def leaky(x: Tensor) -> Tensor:
        return torch.where(x > 0, x, 0.2 * x)

    def double(x: Tensor) -> Tensor:
        return x.repeat_interleave(2, 2).repeat_interleave(2, 3)

    x = norm((z @ g.linear.weight.T + g.linear.bias).view(5, 6, side, side), 1e-5)
    x = leaky(norm(F.conv2d(double(x), g.conv1.weight, g.conv1.bias, padding=1), 0.8))
    x = leaky(norm(F.conv2d(double(x), g.conv2.weight, g.conv2.bias, padding=1), 0.8))
    x = torch.sigmoid(F.conv2d(x, g.conv3.weight, g.conv3.bias, padding=1))
    cut = (4 * side - shape[1]) // 2
    x = x[:, :, cut : cut + shape[1], cut : cut + shape[2]]
    assert torch.allclose(g(z), (x - 0.2) / 0.4, atol=1e-4)


def test_generators_start_from_the_distributions_described() -> None:
    torch.manual_seed(0)
    released, dcgan = ReleasedGenerator((1, 32, 32)), DCGAN((1, 32, 32))
    assert released.conv1.weight.std().item() == pytest.approx((2 / (9 * 128)) ** 0.5, rel=0.02)
    assert released.conv2.weight.std().item() == pytest.approx((2 / (9 * 64)) ** 0.5, rel=0.02)
    assert dcgan.conv1.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert (dcgan.conv1.kernel_size, dcgan.conv1.stride) == ((4, 4), (2, 2))
    assert dcgan.start == (4, 4)
