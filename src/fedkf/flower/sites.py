"""The sites of a run: who takes part, settled when the run begins, and what is known of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.holdings import Holding
from fedkf.core.objective import find
from fedkf.core.shapes import many, mapping, take, text, whole
from fedkf.flower.carrier import Grid
from fedkf.flower.handshake import Introduction, Invitation, Members, introductions
from fedkf.flower.settings import outgoing
from fedkf.runs.schema import Config
from fedkf.runs.store import RunFolder


class Sites(Members):
    """The sites of a run."""

    def settled(self, config: Config) -> Config:
        """As for other members, but scaling stays as it is: the coordinator's stand-in for the
        data has no samples to scale by."""
        scaling = config.data.scaling
        if scaling in (None, "none"):
            return super().settled(config)
        hidden = config.data.model_copy(update={"scaling": None})
        found = super().settled(config.model_copy(update={"data": hidden}))
        return found.model_copy(update={"data": found.data.model_copy(update={"scaling": scaling})})

    def only(self, names: Collection[str]) -> Sites:
        """Some of them, numbered anew."""
        kept = [k for k, name in enumerate(self.names) if name in names]
        return replace(
            self,
            names=[self.names[k] for k in kept],
            sizes={new: self.sizes[k] for new, k in enumerate(kept)},
            test_sizes=[self.test_sizes[k] for k in kept],
        )

    def described(self) -> bytes:
        """partition.json, with sizes only: the classes that a site holds are its own affair."""
        clients = [
            {"id": k, "name": name, "train": self.sizes[k], "test": self.test_sizes[k]}
            for k, name in enumerate(self.names)
        ]
        classes = len(self.class_names)
        about = {"classes": classes, "class_names": self.class_names, "shape": self.shape}
        return (json.dumps({**about, "clients": clients}, indent=2) + "\n").encode()

    @classmethod
    def read(cls, run: RunFolder) -> Sites:
        """Those of a run that has begun, as `described`."""

        def read(content: object) -> Sites:
            about = mapping(content)
            clients = take(about, "clients", many(Holding.read))
            return cls(
                [client.name for client in clients],
                {k: client.train for k, client in enumerate(clients)},
                [client.test for client in clients],
                tuple(take(about, "shape", many(whole))),
                take(about, "class_names", many(text)),
            )

        return run.read_record("partition.json", read)

    def digest(self) -> str:
        return hashlib.sha256(self.described()).hexdigest()


def gather(
    grid: Grid,
    registered: Mapping[str, int],
    config: Config,
    experiment: str,
    wait: float,
    say: Callable[[str], None],
) -> Sites:
    """Ask every registered site for its sizes; those that agree to the run are its clients."""
    if not registered:
        raise UserError("no site is registered; fedkf coordinator add registers one")
    if config.data.class_names is None and find(config.data.task).labelled():
        raise UserError("data.class_names is missing: in a deployment the configuration names them")
    names = {node: name for name, node in registered.items()}
    invitation = Invitation(outgoing(config), experiment)
    found: dict[int, Introduction | str] = {}
    for node, answer in introductions(grid, list(names), invitation, wait):
        found[node] = answer
        if isinstance(answer, str):
            say(f"{names[node]} does not take part: {answer}")
        else:
            say(f"{names[node]} takes part with {answer.train} training samples")
    if silent := [name for node, name in names.items() if node not in found]:
        say(f"not connected within {wait:g} s: {', '.join(silent)}")
    answers = {name: found.get(node) for node, name in names.items()}
    fine = {name: about for name, about in answers.items() if isinstance(about, Introduction)}
    return agreed(fine, config, say)


def agreed(found: Mapping[str, Introduction], config: Config, say: Callable[[str], None]) -> Sites:
    """The sites whose samples have the shape that most have."""
    shapes = [about.shape for about in found.values()]
    shape = max(shapes, key=shapes.count, default=())
    for name, about in found.items():
        if about.shape != shape:
            say(f"{name} does not take part: its samples have shape {list(about.shape)}")
    return enough(Sites.of({n: a for n, a in found.items() if a.shape == shape}, config), config)


def enough(sites: Sites, config: Config) -> Sites:
    """The sites, if a run can begin with so many."""
    least = config.federation.min_clients
    if len(sites.names) < least:
        raise FedkfError(
            f"{len(sites.names)} sites take part and federation.min_clients is {least}"
        )
    return sites
