"""Turn: a client's local training kept on its disk epoch by epoch, so that a crash loses little.

Whoever trains does everything again up to the first batch, which costs little, and goes on from the
end of the last epoch that was kept: with the same bits as if nothing had happened.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from fedkf.core.objects import declares
from fedkf.core.optimizers import memory_of, remember
from fedkf.core.payload import Payload, PayloadError
from fedkf.core.task import copy_of

if TYPE_CHECKING:
    from fedkf.core.algorithm import Algorithm
    from fedkf.core.client import Call, Client

SAMPLES = "samples."
"""What the names of groups begin with that the source of samples keeps."""
OF_ALGORITHMS = ("local_update", "local_loss", "samples", "train_generator", "generator_loss")
OF_SAMPLES = ("__init__", "draw", "learn", "make")
"""The methods whose class must say that training with them `continues`."""


def continues(kind: type, methods: tuple[str, ...], word: str = "continues") -> bool:
    """Whether training with this class can go on after any epoch, as the class itself says.

    Other promises of classes, each with its `word`, hold in the same way.
    """
    return declares(kind, word, methods)


class Turn:
    """The file of one call. It holds for what the training depends on, and for nothing else."""

    def __init__(self, folder: Path, call: Call, depends: bytes) -> None:
        digest = hashlib.sha256(depends).hexdigest()[:32]
        self.path = folder / f"{call.client}-{call.version}-{digest}.turn"
        for pattern in (f"{call.client}-*.turn", f".{call.client}-*.turn.*.tmp"):
            for file in folder.glob(pattern):
                if file != self.path:
                    file.unlink(missing_ok=True)  # of another call, which nobody repeats

    @classmethod
    def of(cls, folder: Path, call: Call, wire: Payload, algorithm: Algorithm) -> Turn | None:
        """The turn of a call with this payload; None where only the whole can be repeated."""
        if not continues(type(algorithm), OF_ALGORITHMS):
            return None
        about = json.dumps(asdict(call)) + repr(algorithm)
        return cls(folder, call, about.encode() + wire.to_bytes())

    def keep(self, client: Client, batches: int) -> None:
        """Write down all that the rest of the training depends on, after so many batches."""
        kept = snapshot(client)
        if kept is not None:
            kept.add("position", {"batches": batches, "steps": client.steps}).save(self.path)

    def restore(self, client: Client) -> int:
        """Go on from what was kept; the batches that are done, 0 if there is nothing of use."""
        try:
            kept = Payload.load(self.path)
        except (OSError, PayloadError):
            return 0
        if len(client.generators) != sum(name.startswith("own") for name in kept["random"]):
            return 0  # training makes streams as it goes, so that not all of them are here yet
        put_back(client, kept)
        client.steps = int(kept.number("position", "steps"))
        return int(kept.number("position", "batches"))


def snapshot(client: Client) -> Payload | None:
    """The state of local training between two epochs; None if not all of it can be had."""
    source, stream = client.source, client.aside_stream
    if source is not None and not continues(type(source), OF_SAMPLES):
        return None
    if source is not None and client.steps % source.reuse:
        return None  # a batch of samples is in use, and only the algorithm has it
    random = {f"global {k}": state for k, state in enumerate(stream.current())}
    random |= {f"aside {k}": state for k, state in enumerate(stream.ours or ())}
    random |= {f"own {k}": own.get_state() for k, own in enumerate(client.generators)}
    kept = Payload(
        model=copy_of(client.model),
        optimizer=memory_of(client.optimizer, client.model),
        losses=client.losses,
        logged=client.logged,
        random=random,
    )
    made = source.progress() if source is not None else Payload()
    for group in made:
        kept.add(SAMPLES + group, {**made[group], **made.numbers[group]})
    return kept


def put_back(client: Client, kept: Payload) -> None:
    """Set everything to what `snapshot` saw."""
    device, stream = client.task.device, client.aside_stream
    client.model.load_state_dict(kept["model"])
    remember(client.optimizer, client.model, kept["optimizer"])
    client.losses = {name: total.to(device) for name, total in kept["losses"].items()}
    client.logged = Counter({k: int(n) for k, n in kept.numbers["logged"].items()})
    if client.source is not None:
        made = Payload()
        for group in kept:
            if group.startswith(SAMPLES):
                values = {**kept[group], **kept.numbers[group]}
                made.add(group.removeprefix(SAMPLES), values)
        client.source.resume(made)
    random = kept["random"]
    for k, own in enumerate(client.generators):
        own.set_state(random[f"own {k}"])
    aside = [state for name, state in sorted(random.items()) if name.startswith("aside")]
    stream.ours = aside or None
    stream.set_current([s for name, s in sorted(random.items()) if name.startswith("global")])
