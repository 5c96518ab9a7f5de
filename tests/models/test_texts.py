"""Inputs that are whole numbers, such as those of words."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import fedkf
from fedkf.core.errors import UserError


class Reader(nn.Module):
    """The mean of the words' vectors; words 0 to 9 tell class 0, 10 to 19 class 1."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 6)
        self.last = nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(self.words(x).mean(1))
        return out


@pytest.fixture(scope="module")
def texts() -> dict[str, TensorDataset]:
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(40) % 2
    words = torch.randint(0, 10, (40, 5), generator=random) + 10 * labels[:, None]
    return {name: TensorDataset(words, labels) for name in ("a", "b")}


def train(texts: dict[str, TensorDataset], **more: Any) -> fedkf.Result:
    common: dict[str, Any] = dict(workers=0, rounds=3, fraction=1.0, lr=1.0, local_epochs=30)
    return fedkf.run(clients=texts, model=Reader, **common, **more)


def test_a_model_with_an_embedding_learns_from_whole_numbers(
    texts: dict[str, TensorDataset],
) -> None:
    result = train(texts, algorithm="fedavg")
    assert result.summary["readouts"]["oca"]["amp"] == 1.0
    words, labels = texts["a"].tensors
    assert [int(name) for name, _ in result.predict(words)] == labels.tolist()
    assert result.predict(words.float()) == result.predict(words)
    with pytest.raises(UserError, match="no whole numbers, which the model looks up"):
        result.predict(words / 2)


def test_made_up_texts_are_refused_with_a_source_that_works(
    texts: dict[str, TensorDataset],
) -> None:
    with pytest.raises(UserError, match=r"generator\.samples=own distils on each client's own"):
        train(texts, algorithm="fedkf")
    result = train(texts, algorithm="fedkf", samples="own")
    assert result.summary["readouts"]["oca"]["amp"] == 1.0
