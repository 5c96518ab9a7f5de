"""Holdings: who holds what, as partition.json says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedkf.core.shapes import finite, many, mapping, maybe, read_record, take, text, whole


@dataclass(frozen=True)
class Holding:
    """What one client holds; class counts in a simulation only."""

    name: str
    train: int = 0
    test: int = 0
    classes: Sequence[int] | None = None

    @staticmethod
    def read(content: object) -> Holding:
        return read_record(
            Holding, content, name=text, train=whole, test=whole, classes=maybe(many(whole))
        )


@dataclass(frozen=True)
class Differences:
    """How different the clients' data are, as far as chance does not explain it."""

    labels: float = 0.0
    inputs: float | None = None
    """How well clients are told apart by inputs: 0 not beyond what labels tell, 1 always."""
    findings: Sequence[str] = ()
    """What follows, in sentences."""

    @staticmethod
    def read(content: object) -> Differences:
        found = mapping(content)
        inputs = mapping(found.get("inputs", {}))
        score = take(inputs, "score", finite) if "score" in inputs else None
        labels = take(found, "labels", finite)
        return Differences(labels, score, take(found, "findings", many(text)))


@dataclass(frozen=True)
class Partition:
    """Who holds what: partition.json."""

    class_names: Sequence[str] = ()
    total_variation: float | None = None
    clients: Sequence[Holding] = ()
    differences: Differences | None = None

    @property
    def heterogeneity(self) -> float:
        """The larger one of what labels show and what inputs do."""
        if self.differences is None:
            return self.total_variation or 0.0
        return max(self.differences.labels, self.differences.inputs or 0.0)

    @staticmethod
    def read(content: object) -> Partition:
        return read_record(
            Partition,
            content,
            class_names=many(text),
            total_variation=maybe(finite),
            clients=many(Holding.read),
            differences=maybe(Differences.read),
        )
