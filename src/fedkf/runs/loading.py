"""`fedkf.load`: the model of a run, also of one that has not ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fedkf.core.errors import UserError, nearest
from fedkf.core.holdings import Partition
from fedkf.core.payload import Weights
from fedkf.core.versions import RemoteVersions, Versions
from fedkf.runs import trained
from fedkf.runs.assembly import Assembly
from fedkf.runs.checkpoint import CheckpointFolder
from fedkf.runs.setup import Objects
from fedkf.runs.storage import RunStorage
from fedkf.runs.store import RunFolder

if TYPE_CHECKING:
    from torch import nn

    from fedkf.core.server import Engine


def load(
    run: str | Path, readout: str = "oca", model: Callable[..., nn.Module] | None = None
) -> trained.Trained:
    """The model of a run, or of a folder that `fedkf export` or `output.keep` wrote.

    Of a run that has not ended it is that of the last checkpoint. `model` is the factory, for a run
    whose model was given to `fedkf.run` as a function.

    >>> import fedkf, tempfile, torch
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> result = fedkf.run("digits", algorithm="fedavg", rounds=1, workers=0, out=folder)
    >>> fedkf.load(folder)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """
    folder = RunFolder(Path(run))
    if not trained.unfinished(folder.path):
        return trained.load(run, readout, model)
    if not folder.manifest.exists() or not (folder / "models" / "model.json").exists():
        raise UserError(f"the run in {run} has no checkpoint yet that a model could be read from")
    about = trained.read_card(folder / "models")
    found = saved_readouts(folder, about, Objects(model=model))
    if readout not in found:
        raise UserError(f"{run} has no readout {readout!r}; {nearest(readout, list(found))}")
    return trained.rebuilt(run, about, found[readout], model)


def saved_readouts(
    folder: RunFolder, about: Mapping[str, Any], given: Objects
) -> dict[str, Weights]:
    """The readouts as of the last checkpoint."""
    config = folder.config()
    assert config is not None
    remote = "experiment" in folder.provenance()
    checkpoint = CheckpointFolder(folder / "checkpoint", RemoteVersions if remote else Versions)
    saved = checkpoint.read()
    assert saved is not None
    checkpoint.look()
    clients = folder.read_record("partition.json", Partition.read).clients
    known = Known(
        [client.name for client in clients],
        {k: client.train for k, client in enumerate(clients)},
        [client.test for client in clients],
        tuple(about["shape"]),
        list(about["class_names"]),
    )
    assembly = Assembly.of(config, known, given)
    assembly = assembly.starting_from(saved.payloads["start"]["weights"])
    storage = RunStorage(checkpoint, config.overall.max_staleness)
    server = assembly.server(cast("Engine", None), storage)  # nobody is asked for anything
    server.round = saved.round
    federation = assembly.federation(server, checkpoint)
    federation.restore(saved)
    return federation.readouts(saved.payloads["state"])


@dataclass(frozen=True)
class Known:
    """Who takes part, as the run's files say."""

    names: Sequence[str]
    sizes: Mapping[int, int]
    test_sizes: Sequence[int]
    shape: tuple[int, ...]
    class_names: list[str]
