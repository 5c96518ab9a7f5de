"""What the tests of algorithms share: uploads by hand, a client, a site that is different."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
from torch import nn, tensor
from torch.utils.data import TensorDataset

import fedkf
from fedkf.core.payload import Payload, Weights, weighted_mean
from fedkf.core.server import Upload
from fedkf.core.task import Training


@dataclass(frozen=True)
class Unweighted(fedkf.Algorithm):
    """FedAvg that counts clients alike."""

    name: ClassVar[str] = "unweighted"

    def aggregate(self, server: Any, state: Payload, uploads: Sequence[Upload]) -> Payload:
        return state.replace(weights=weighted_mean((1, u["weights"]) for u in uploads))


def close(a: Weights, b: Weights) -> bool:
    return all(torch.allclose(a[name], b[name], atol=1e-6) for name in b)


def upload(client: int, size: int, w: list[float], **groups: Any) -> Upload:
    """An upload of a model with the one tensor `w`."""
    payload = Payload(weights={"w": tensor(w)})
    for name, values in groups.items():
        payload.add(name, values, "weights" if name == "control" else None)
    return Upload(client, size, payload)


def varying(item: Upload, variance: float) -> Upload:
    """The same upload of a model that has batch norm's running variance, too."""
    weights = {**item["weights"], "running_var": tensor([variance])}
    return Upload(item.client, item.size, item.payload.replace(weights=weights))


def server(lr: float = 0.5, momentum: float = 0.0, clients: int = 4) -> Any:
    """As much of a server as aggregation looks at."""
    training = Training(lr=lr, momentum=momentum)
    names = {"parameters": ["w"], "distinct": ["w"], "first_names": {"w": "w"}}
    task = SimpleNamespace(training=training, **names)
    sizes = dict.fromkeys(range(clients), 1)
    return SimpleNamespace(task=task, sizes=sizes, mean=weighted_mean)


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


@cache
def sites() -> dict[str, TensorDataset]:
    """Handwritten digits: three sites that see 0 to 5, and a smaller one that sees 4 to 9."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images / 16, dtype=torch.float32).view(-1, 1, 8, 8)
    y = torch.tensor(labels)

    def some(classes: range, count: int, skip: int) -> TensorDataset:
        found = [torch.nonzero(y == c).flatten()[skip : skip + count] for c in classes]
        chosen = torch.cat(found)
        return TensorDataset(x[chosen], y[chosen])

    alike = {name: some(range(6), 20, 20 * k) for k, name in enumerate("abc")}
    return {**alike, "odd": some(range(4, 10), 10, 60)}


@cache
def score(algorithm: str, **options: Any) -> dict[str, float]:
    """AMP, FM and WLP of a linear model after forty rounds on the sites."""
    settings: dict[str, Any] = dict(
        fraction=1.0, local_epochs=1, lr=0.1, rounds=40, evaluate_every=40, checkpoint_every=40
    )
    settings |= dict(fidelity="text", batch_size=64)
    options = {**settings, **options}
    result = fedkf.run(model=linear, clients=sites(), algorithm=algorithm, workers=0, **options)
    found: dict[str, float] = result.summary["readouts"]["aca"]
    return found


def lines_of_code(path: str) -> int:
    """Lines that are neither blank nor comment nor docstring."""
    import ast
    import io
    import tokenize

    with open(path, encoding="utf-8") as file:
        source = file.read()
    counted: set[int] = set()
    skip = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (*skip, tokenize.ENDMARKER):
            counted |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            counted -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(counted)
