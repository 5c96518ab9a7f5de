"""Personal models of a finished run: every client's own, made again where its data lies.

No step sends them and no file of a run holds them, but for those that an algorithm keeps as a
client's private state. They follow from the shared model, the client's training samples and the
run's seed, so they come out as they were when the run judged them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkf.core.client import Client, ClientData
from fedkf.core.errors import UserError, nearest
from fedkf.core.holdings import Partition
from fedkf.core.payload import Payload, Weights
from fedkf.core.personal import STEP
from fedkf.core.random import GlobalStream
from fedkf.core.threads import threads
from fedkf.data.federated import FederatedData
from fedkf.data.source import Say
from fedkf.data.targets import Targets
from fedkf.runs.assembly import Assembly
from fedkf.runs.checkpoint import CheckpointFolder
from fedkf.runs.personalize import data_of
from fedkf.runs.recipe import refuse_unscaled
from fedkf.runs.setup import Objects
from fedkf.runs.store import RunFolder
from fedkf.runs.trained import Trained, card, read_card, read_weights

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class ClientModels:
    """What each client of a finished run uses, by readout; `round` is the run's last."""

    assembly: Assembly
    data: FederatedData
    checkpoint: CheckpointFolder
    round: int
    shared: Mapping[str, Weights]

    @property
    def has_personal(self) -> bool:
        """Whether clients have models of their own."""
        algorithm = self.assembly.algorithm
        own = algorithm.personal_models or not algorithm.shared_model
        return own or self.assembly.config.evaluation.personal != "none"

    @cached_property
    def _clients(self) -> Callable[[int], Any]:
        task = self.assembly.task
        return self.data.resident(task.device, task.layout)

    def client(self, id: int) -> ClientData:
        """A client's samples, scaled, on the run's device."""
        found: ClientData = self._clients(id)
        return found

    def weights(self, readout: str, id: int) -> Weights:
        """The model of a client: a shared one, or its own for the readout "personal"."""
        algorithm, task = self.assembly.algorithm, self.assembly.task
        if readout != "personal" and algorithm.shared_model:
            return self.shared[readout]
        state = self.checkpoint.state_of(id)
        client = Client(id, self.round, self._clients(id), task, state)
        step = "evaluate" if algorithm.personal_models or not algorithm.shared_model else STEP
        readouts = Payload()
        for name, weights in self.shared.items():
            readouts.add(name, weights, "weights")
        seed = task.streams.integer(f"global {step}", self.round, id)
        count = self.assembly.config.engine.threads
        with threads(count), GlobalStream(seed, task.device).active():
            return algorithm.personal(client, readouts)


def client_models(
    run: str | Path,
    given: Objects = Objects(),  # noqa: B008
    say: Say = lambda text: None,
) -> ClientModels:
    """The models of a finished run, whose data must be at hand."""
    folder = RunFolder(Path(run))
    config = folder.config()
    if config is None or not folder.finished():
        raise UserError(f"{run} holds no finished run")
    config, data = data_of(folder, config, say, given.source)
    checkpoint = CheckpointFolder(folder / "checkpoint")
    saved = checkpoint.read()
    if saved is None:
        raise UserError(f"{run} has lost its checkpoint, which the clients' own models begin from")
    about = read_card(folder / "models")
    paths = sorted((folder / "models").glob("*.safetensors"))
    shared = {path.stem: read_weights(path, about) for path in paths}
    assembly = Assembly.of(config, data, given)
    assembly = assembly.starting_from(saved.payloads["start"]["weights"])
    return ClientModels(assembly, data, checkpoint, saved.round, shared)


def personal_model(
    run: str | Path,
    client: str | None,
    model: Callable[..., nn.Module] | None = None,
    clients: Mapping[str, Any] | None = None,
    say: Say = lambda text: None,
) -> Trained:
    """A client's own model of a finished run, ready for use.

    `model` and `clients` are needed for a run that was given them in Python.

    >>> import fedkf, tempfile
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> result = fedkf.run("digits", algorithm="ditto", rounds=1, workers=0, out=folder)
    >>> fedkf.personal_model(folder, "client 3").class_names[:3]
    ['0', '1', '2']
    """
    from fedkf.data.datasets import from_object

    config = RunFolder(Path(run)).config()
    source = None
    if clients is not None and config is not None:
        source = from_object(clients, targets=Targets(config.data.task))
    found = client_models(run, Objects(model=model, source=source), say)
    names = found.data.names
    if not found.has_personal:
        raise UserError(f"{run} has no personal models: evaluation.personal was none")
    if client is None:
        raise UserError(
            f"a personal model is one client's: name it (--client), such as {names[0]!r}"
        )
    if client not in names:
        raise UserError(f"{run} has no client {client!r}; {nearest(client, names)}")
    about = card(found.assembly.config, found.data)
    refuse_unscaled(about)
    module = found.assembly.task.make_model()
    module.load_state_dict(found.weights("personal", names.index(client)))
    return Trained(module, about)


def file_name(run: Path, client: str | None) -> str:
    """What the file of a client's model is called; no two clients of a run share one."""
    clients = RunFolder(run).read_record("partition.json", Partition.read).clients
    plain = plain_name(client or "")
    alike = [c.name for c in clients if plain_name(c.name).casefold() == plain.casefold()]
    digits = sha256((client or "").encode()).hexdigest()[:8] if len(alike) > 1 else ""
    return "-".join(filter(None, ("personal", plain, digits)))


def plain_name(client: str) -> str:
    return re.sub(r"[^\w.-]+", "_", client)
