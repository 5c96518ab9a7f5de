"""Noisy gradients: what one sample can do to them, and that nothing else reaches the samples."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from fedkf.core.client import Client, ClientData
from fedkf.core.gradients import clipped_sum
from fedkf.core.payload import Weights
from fedkf.core.privacy import Mechanism, Privacy, SecretChance, Withheld
from fedkf.core.random import Streams
from fedkf.core.task import Task, Training, copy_of


def linear() -> nn.Module:
    return nn.Linear(4, 3)


def samples(count: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    return torch.randn(count, 4, generator=random), torch.arange(count) % 3


def make_client(
    data: tuple[Tensor, Tensor],
    mechanism: Mechanism,
    seed: int = 0,
    clip: float = 1.0,
    units: Tensor | None = None,
) -> Client:
    """A client that trains a linear model with step 1, so that it moves by its gradients."""
    x, y = data
    privacy = Privacy(clip, {len(y): mechanism})
    training = Training(local_epochs=mechanism.steps, batch_size=len(y), lr=1.0)
    task = Task(linear, (4,), 3, training, Streams(seed), parts=[privacy])
    own = ClientData(x, y, x[:0], y[:0], units)
    return Client(0, 1, own, task)


START = {"weight": torch.zeros(3, 4), "bias": torch.zeros(3)}


def move(client: Client, start: Weights = START) -> Tensor:
    """How far a turn moves the model, all tensors in a row."""
    client.start(start)
    for x, y in client.batches():
        client.step(client.loss(x, y))
    after = copy_of(client.model)
    return torch.cat([(start[name] - after[name]).flatten() for name in start])


QUIET = Mechanism(noise=1e-12, rate=1.0, steps=1)


def test_without_noise_and_clipping_it_is_the_mean_gradient() -> None:
    x, y = samples(150)  # more than one chunk
    model = linear()
    model.load_state_dict(START)
    nn.functional.cross_entropy(model(x), y).backward()
    plain = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    moved = move(make_client((x, y), QUIET, clip=1e6))
    assert torch.allclose(moved, plain, atol=1e-6)


@pytest.mark.parametrize("scale", [1e3, 1e12, 1e30, math.inf, math.nan])
def test_an_enormous_sample_moves_the_sum_by_no_more_than_the_clip(scale: float) -> None:
    x, y = samples(20)
    model = linear()
    model.load_state_dict(START)
    total = clipped_sum(model, nn.functional.cross_entropy, (x, y), 0.5)
    more = torch.cat([x, scale * torch.ones(1, 4)]), torch.cat([y, y[:1]])
    beside = clipped_sum(model, nn.functional.cross_entropy, more, 0.5)
    difference = torch.cat([(beside[name] - total[name]).flatten() for name in total]).norm()
    assert difference <= 0.5 * (1 + 1e-5)
    if scale <= 1e12:
        assert difference == pytest.approx(0.5, rel=1e-4)


def test_a_unit_counts_once_however_many_samples_it_has() -> None:
    """Ninety copies of a sample are one unit: they move the sum as the one sample does."""
    x, y = samples(10)
    alone = torch.arange(10)
    copies = torch.cat([x, x[:1].repeat(89, 1)]), torch.cat([y, y[:1].repeat(89)])
    units = torch.cat([alone, torch.zeros(89, dtype=torch.long)])
    once = move(make_client((x, y), QUIET, units=alone))
    many = move(make_client(copies, QUIET, units=units))
    assert torch.allclose(once, many, atol=1e-6)


def test_the_noise_has_the_deviation_that_was_asked_for() -> None:
    data, noisy = samples(8), Mechanism(noise=3.0, rate=1.0, steps=150)
    plain = releases(make_client(data, QUIET, clip=0.5))
    noise = releases(make_client(data, noisy, clip=0.5)) - plain
    # σ · clip, divided by the eight samples of a batch
    assert float(noise.std()) == pytest.approx(3.0 * 0.5 / 8, rel=0.07)
    assert abs(float(noise.mean())) < 0.02


def test_a_batch_is_a_poisson_sample() -> None:
    """Its size varies as a binomial does, and no batch depends on the one before."""
    client = make_client(samples(100), Mechanism(1.0, 0.2, 400))
    sizes = torch.tensor([float(len(x.open())) for x, _ in client.batches()])  # type: ignore[attr-defined]
    assert float(sizes.mean()) == pytest.approx(20, abs=1)
    assert float(sizes.var()) == pytest.approx(16, rel=0.25)


def releases(client: Client) -> Tensor:
    """What every step of a turn would add to the model, if it never moved: a row for each."""
    model = client.start(START)
    found = []
    for x, y in client.batches():
        gradients = torch.autograd.grad(client.loss(x, y), list(model.parameters()))
        found.append(torch.cat([g.flatten() for g in gradients]))
    return torch.stack(found)


def advantage(noise: float) -> float:
    """How much better than a coin one tells from a step whether a sample took part.

    The attacker knows everything else, and how far the sample moves the model.
    """
    x, y = samples(12)
    x[-1] = 40 * torch.ones(4)
    nothing = torch.cat([x[:-1], torch.full((1, 4), math.nan)])  # counts as none
    there, gone = (releases(make_client((inputs, y), QUIET))[0] for inputs in (x, nothing))
    direction, cut = there - gone, 0.5 * (there + gone) @ (there - gone)
    many = Mechanism(noise, 1.0, 1000)
    taken, left = (
        releases(make_client((inputs, y), many, seed)) @ direction > cut
        for seed, inputs in enumerate((x, nothing))
    )
    return float(taken.float().mean() - left.float().mean())


def test_one_sample_can_hardly_be_told_from_a_step() -> None:
    """No test tells two normal distributions 1/σ apart better than 2Φ(1/2σ) − 1."""
    bound = math.erf(1 / (2 * 2.0) / math.sqrt(2))
    assert advantage(2.0) < bound + 0.1
    assert advantage(1.0) > bound + 0.1  # half of the noise would be noticed
    assert advantage(1e-12) == 1  # without noise the attacker is always right


def test_a_private_turn_is_repeated_by_its_seed_and_not_by_another() -> None:
    noisy = Mechanism(1.0, 0.5, 3)
    first, again = (move(make_client(samples(20), noisy, seed=5)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, move(make_client(samples(20), noisy, seed=6)))


def test_secret_chance_is_normal_and_never_the_same() -> None:
    draws = SecretChance().normal(torch.Size((101, 99)))
    assert draws.shape == (101, 99)
    assert abs(float(draws.mean())) < 0.05
    assert float(draws.std()) == pytest.approx(1, abs=0.05)
    assert float(draws.square().square().mean()) == pytest.approx(3, abs=0.5)
    assert not torch.equal(draws, SecretChance().normal(torch.Size((101, 99))))


def test_nothing_else_reaches_the_samples() -> None:
    client = make_client(samples(20), Mechanism(1.0, 0.5, 2))
    client.start(START)
    ways: list[Callable[[], object]] = [
        lambda: client.data.images,
        lambda: client.data.labels,
        lambda: client.data.test_images,
        lambda: next(client.indices()),
        lambda: client.loss(*samples(3)),
    ]
    for ask in ways:
        with pytest.raises(Withheld, match=r"through client\.loss alone"):
            ask()
    x, y = next(client.batches())
    assert not isinstance(x, Tensor)
    client.loss(x, y)
    with pytest.raises(Withheld):
        client.loss(x, y)  # a second look would cost twice


def test_a_turn_has_no_more_steps_than_it_pays_for() -> None:
    client = make_client(samples(20), Mechanism(1.0, 0.5, 2))
    client.start(START)
    for x, y in client.batches():
        client.loss(x, y)
    x, y = next(client.batches())
    with pytest.raises(Withheld):
        client.loss(x, y)


def test_the_loss_on_the_samples_is_not_among_what_is_sent() -> None:
    client = make_client(samples(20), Mechanism(1.0, 0.5, 2))
    move(client)
    assert client.upload().numbers["monitoring"] == {}


def test_terms_that_see_no_samples_are_clipped_to_the_same_length() -> None:
    """A steep penalty moves the model by `clip` at most; a gentle one as it would anyway."""
    data, moves = samples(20), {}
    for steepness in (0.0, 0.1, 1e6):
        client = make_client(data, Mechanism(1.0, 0.5, 1), clip=0.5)
        model = client.start(START)
        for x, y in client.batches():
            client.step(client.loss(x, y) + steepness * sum(p.sum() for p in model.parameters()))
        moves[steepness] = torch.cat([t.flatten() for t in copy_of(model).values()])
    assert float((moves[1e6] - moves[0.0]).norm()) == pytest.approx(0.5, rel=1e-4)
    assert torch.allclose(moves[0.0] - moves[0.1], torch.tensor(0.1), atol=1e-6)


def test_a_sum_is_divided_by_the_size_that_is_expected_and_not_by_the_one_that_came() -> None:
    """With one sample that is in every second batch, a step is twice its gradient, or nothing."""
    data = samples(1)
    whole = releases(make_client(data, QUIET))[0]
    rows = releases(make_client(data, Mechanism(1e-12, 0.5, 20)))
    sizes = [float(row.norm() / whole.norm()) for row in rows]
    assert {round(size, 3) for size in sizes} == {0.0, 2.0}
