"""What an algorithm of one's own comes to: its next state and a model that fits, or a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest
from conftest import Settings

import fedkf
from fedkf.core.errors import UserError
from fedkf.core.payload import Weights


class Careless(fedkf.FedAvg):
    """Its mistake is in how it aggregates."""

    name: ClassVar[str] = "careless"
    mistake: ClassVar[Callable[[Weights], Any]]

    def aggregate(self, server: Any, state: Any, uploads: Sequence[Any]) -> Any:
        made = type(self).mistake(dict(super().aggregate(server, state, uploads)["weights"]))
        return made if made is None else state.replace(weights=made)


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda weights: None, "round 1 of careless came to NoneType, not to a Payload"),
        (
            lambda weights: {name: t[:1] for name, t in weights.items()},
            r"careless came to weights with \[1\] for 'conv1.bias', where the model has \[6\]",
        ),
        (
            lambda weights: {k: t for k, t in weights.items() if k != "linear2.bias"},
            "with nothing for 'linear2.bias'",
        ),
        (
            lambda weights: {**weights, "more": weights["linear2.bias"]},
            "for 'more', where the model has nothing",
        ),
    ],
)
def test_what_is_no_model_is_told_by_name(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, mistake: Any, told: str
) -> None:
    monkeypatch.setattr(Careless, "mistake", staticmethod(mistake), raising=False)
    with pytest.raises(UserError, match=told):
        fedkf.run(settings, algorithm=Careless())
