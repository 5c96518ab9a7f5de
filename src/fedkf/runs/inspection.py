"""Which clients and uploads of a run were unusual, the most unusual first."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.holdings import Partition
from fedkf.core.records import Round
from fedkf.core.shapes import Damage
from fedkf.runs.store import RunFolder

STILL = 1e-3
"""A smaller ratio is as unusual as this one: the client hardly moved."""
MOST = 1e6
"""More unusual than any upload whose distance can be told."""


@dataclass(frozen=True)
class Upload:
    """One upload, and how it stood next to the others of its round."""

    round: int
    client: int
    name: str
    distance: float | None
    ratio: float | None
    cosine: float | None
    unusual: float
    refused: str = ""


def inspect(folder: Path) -> dict[str, Any]:
    """The clients and the uploads of a run, finished or not, the most unusual first."""
    run = RunFolder(folder)
    if not (run / "rounds.jsonl").is_file():
        raise UserError(f"{folder} holds no run with a finished round")
    rounds = run.rounds()
    names = dict(enumerate(client.name for client in partition(run).clients))
    uploads = [upload for record in rounds for upload in uploads_of(record, names)]
    if not uploads:
        raise UserError(f"{folder} says nothing of its uploads: it was made by an earlier fedkf")
    by_client: dict[int, list[Upload]] = {}
    for upload in uploads:
        by_client.setdefault(upload.client, []).append(upload)
    refused = Counter(refusal.client for record in rounds for refusal in record.refused)
    clients = [
        of_client(client, names.get(client, f"client {client}"), by_client.get(client, []))
        | {"refused": refused[client]}
        for client in sorted({*by_client, *refused})
    ]
    return {
        "clients": sorted(clients, key=lambda c: (-c["unusual"], c["client"])),
        "uploads": [asdict(u) for u in sorted(uploads, key=lambda u: (-u.unusual, u.round))],
    }


def partition(run: RunFolder) -> Partition:
    try:
        return Partition.read(run.read_json("partition.json"))
    except Damage as error:
        raise FedkfError(f"{run / 'partition.json'} is damaged: {error}") from None


def uploads_of(record: Round, names: Mapping[int, str]) -> Iterator[Upload]:
    refused, moves = {r.client: r.reason for r in record.refused}, record.moves
    for client, far, ratio, cosine in zip(
        moves.clients, moves.distance, moves.ratio, moves.cosine, strict=True
    ):
        score = unusualness(far, ratio, cosine)
        name, why = names.get(client, f"client {client}"), refused.get(client, "")
        yield Upload(record.round, client, name, far, ratio, cosine, score, why)


def of_client(client: int, name: str, uploads: Sequence[Upload]) -> dict[str, Any]:
    """What a client's uploads come to; it counts as unusual as its most unusual upload."""
    ratios = [u.ratio for u in uploads if u.ratio is not None]
    cosines = [u.cosine for u in uploads if u.cosine is not None]
    return {
        "client": client,
        "name": name,
        "uploads": len(uploads),
        "ratio": {"median": middle(ratios), "largest": max(ratios, default=None)},
        "cosine": {"median": middle(cosines), "least": min(cosines, default=None)},
        "unusual": max((u.unusual for u in uploads), default=0.0),
    }


def middle(values: Sequence[float]) -> float | None:
    return float(f"{statistics.median(values):.4g}") if values else None


def unusualness(distance: float | None, ratio: float | None, cosine: float | None) -> float:
    """|log₂ ratio| + (1 − cosine): 0 for an upload like all others.

    Twice or half as far as the median counts 1, straight against the others 2.

    >>> unusualness(3.0, 4.0, 0.5)
    2.5
    """
    if distance is None:  # beyond what a number can hold
        return MOST
    length = abs(math.log2(max(ratio, STILL))) if ratio is not None else 0.0
    return round(length + (1 - cosine if cosine is not None else 0.0), 3)
