"""What noise costs: next to another library's word, and as a budget."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import pytest

from fedkf.core.errors import UserError
from fedkf.core.privacy import Mechanism
from fedkf.runs.accounting import Accounts, calibrated, epsilon

MECHANISMS = [
    (Mechanism(1.1, 0.01, 100), 10),
    (Mechanism(2.3, 64 / 448, 70), 8),
    (Mechanism(5.7, 1.0, 10), 8),
    (Mechanism(0.8, 0.05, 1), 1),
]


def opacus_accounts() -> Any:
    """The one module of Opacus that counts; all of it takes seconds to import."""
    found = importlib.util.find_spec("opacus")
    assert found is not None
    folder = Path(str(found.origin)).parent / "accountants" / "analysis"
    about = importlib.util.spec_from_file_location("opacus_rdp", folder / "rdp.py")
    assert about is not None
    assert about.loader is not None
    module = importlib.util.module_from_spec(about)
    about.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("mechanism", "turns"), MECHANISMS)
def test_another_library_says_the_same(mechanism: Mechanism, turns: int) -> None:
    """Opacus has Rényi divergences of its own."""
    rdp, orders = opacus_accounts(), [*range(2, 64), 128, 256]
    steps = mechanism.steps * turns
    spent = rdp.compute_rdp(
        q=mechanism.rate, noise_multiplier=mechanism.noise, steps=steps, orders=orders
    )
    theirs, _ = rdp.get_privacy_spent(orders=orders, rdp=spent, delta=1e-5)
    assert epsilon(((mechanism, turns),), 1e-5) == pytest.approx(float(theirs), rel=0.02)


def test_it_is_never_below_the_exact_cost_of_a_single_gaussian() -> None:
    """Balle and Wang's exact δ(ε) of one release at sensitivity 1."""

    def delta(noise: float, at: float) -> float:
        def phi(t: float) -> float:
            return 0.5 * math.erfc(-t / math.sqrt(2))

        a, b = 1 / (2 * noise), at * noise
        return phi(a - b) - math.exp(at) * phi(-a - b)

    ours = epsilon(((Mechanism(2.0, 1.0, 1), 1),), 1e-5)
    assert delta(2.0, ours) <= 1e-5
    assert delta(2.0, 0.8 * ours) > 1e-5  # and not far above it


@pytest.mark.parametrize("target", [0.5, 8.0, 1000.0])
def test_the_noise_for_an_epsilon_is_enough_and_not_much_more(target: float) -> None:
    found = calibrated(target, 1e-5, Mechanism(0.0, 0.1, 20), turns=5)
    assert epsilon(((found, 5),), 1e-5) <= target
    less = Mechanism(found.noise / 1.01, found.rate, found.steps)
    assert epsilon(((less, 5),), 1e-5) > target


def test_clients_pay_for_their_own_turns() -> None:
    mechanism = Mechanism(2.0, 0.2, 10)
    price = [epsilon(((mechanism, turns),), 1e-5) for turns in range(4)]
    assert price[0] == 0 < price[1] < price[2] < price[3]
    accounts = Accounts(dict.fromkeys(range(3), mechanism), 1e-5, price[2])
    accounts.charge([0, 1])
    accounts.charge([1])
    assert accounts.spent([0, 1, 2]).epsilon == [round(p, 6) for p in (price[1], price[2], 0.0)]
    assert [accounts.allows(k) for k in range(3)] == [True, False, True]
    again = Accounts(dict.fromkeys(range(3), mechanism), 1e-5, price[2])
    again.restore(accounts.state())
    assert again.turns == {0: 1, 1: 2}


def test_different_mechanisms_add_up() -> None:
    one, other = Mechanism(2.0, 0.2, 10), Mechanism(4.0, 1.0, 3)
    both = epsilon(((one, 1), (other, 1)), 1e-5)
    assert both > max(epsilon(((one, 1),), 1e-5), epsilon(((other, 1),), 1e-5))


def test_an_epsilon_that_no_noise_keeps_is_refused() -> None:
    with pytest.raises(UserError, match="no noise keeps"):
        calibrated(1e-9, 1e-5, Mechanism(0.0, 1.0, 1000), turns=1000)


@pytest.mark.parametrize("noise", [1e-152, 1e-157, 1e-161, 9e-3, 1.1e6, 1e30, math.inf, math.nan])
@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_noise_that_cannot_be_accounted_for_allows_nothing(noise: float, rate: float) -> None:
    """Next to nothing overflows, and what overflows must not end as an ε of zero."""
    assert epsilon(((Mechanism(noise, rate, 10), 1),), 1e-5) == math.inf


def test_more_steps_than_can_be_accounted_for_allow_nothing() -> None:
    assert epsilon(((Mechanism(2.0, 0.1, 10**6), 11),), 1e-5) == math.inf
    assert epsilon(((Mechanism(1e6, 0.1, 10**15), 1),), 1e-5) == math.inf


def test_no_mechanism_gives_back_what_another_has_spent() -> None:
    """Much noise and many steps used to count as less than nothing, by rounding."""
    told = (Mechanism(1e6, 1.0, 1), 1)
    alone = epsilon((told,), 1e-9)
    assert epsilon((told, (Mechanism(1e6, 1e-5, 10**7), 1)), 1e-9) >= alone > 0
