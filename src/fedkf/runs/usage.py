"""A finished run in use, from Python: `fedkf.evaluate` and `fedkf.export`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkf.core.errors import UserError, nearest
from fedkf.data.datasets import from_object
from fedkf.data.targets import Targets
from fedkf.runs.assessment import headline, judge, own_data
from fedkf.runs.prediction import shared_model
from fedkf.runs.result import Result
from fedkf.runs.store import RunFolder
from fedkf.runs.trained import FORMATS, Trained
from fedkf.runs.trained import export as write

if TYPE_CHECKING:
    from torch import nn

    from fedkf.data.federated import FederatedData


def evaluate(
    run: str | Path | Result,
    data: Any = None,
    *,
    readout: str = "oca",
    model: Callable[..., nn.Module] | None = None,
    clients: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What a run's model does for each client and class: accuracies, confusion, calibration.

    Without `data`, on the test samples of the run's own clients; else on new data: an .npz file, a
    folder of images, a Dataset, arrays `(inputs, labels)`, or a mapping from names to these.
    `model` and `clients` are needed for a run on disk that was given them in Python.

    >>> import fedkf
    >>> result = fedkf.run("digits", algorithm="fedavg", rounds=1, workers=0)
    >>> sorted(fedkf.evaluate(result))[:4]
    ['amp', 'calibration', 'classes', 'clients']
    """
    if isinstance(run, Result):
        return run.evaluate(data, readout)
    folder = RunFolder(Path(run))
    trained = shared_model(Path(run), readout, "evaluate", model)

    def own() -> FederatedData:
        source = None
        if clients is not None:
            source = from_object(clients, targets=Targets(trained.objective.name))
        return own_data(folder, lambda text: None, source)

    result = judge(trained, data, own, metric=headline(folder))
    return {"run": str(run), "readout": readout, **result}


def export(
    run: str | Path | Result,
    out: str | Path,
    formats: str | Sequence[str] = ("safetensors", "torch"),
    *,
    readout: str = "oca",
    model: Callable[..., nn.Module] | None = None,
) -> list[Path]:
    """Write a run's model to the folder `out` in each format; the files written.

    Formats are safetensors (`fedkf.load` reads it), torch (a torch.export program) and onnx. A
    `Result` also exports a model that was given to `fedkf.run` as a function; for a run on disk,
    give that function again as `model`.

    >>> import fedkf, tempfile
    >>> result = fedkf.run("digits", algorithm="fedavg", rounds=1, workers=0)
    >>> [path.name for path in fedkf.export(result, tempfile.mkdtemp(), ["safetensors"])]
    ['oca.safetensors', 'model.json']
    """
    wanted = [formats] if isinstance(formats, str) else list(formats)
    if not wanted:
        raise UserError(f"formats is empty; choose from {', '.join(FORMATS)}")
    for name in wanted:
        if name not in FORMATS:
            raise UserError(f"format {name!r}: {nearest(name, FORMATS)}")
    if Path(out).exists() and not Path(out).is_dir():
        raise UserError(f"out is {str(out)!r}, which is a file; give a folder")
    return write(trained_of(run, readout, model), Path(out), readout, wanted)


def trained_of(
    run: str | Path | Result, readout: str, model: Callable[..., nn.Module] | None
) -> Trained:
    """The model of a run, which may be at hand or on disk."""
    if isinstance(run, Result):
        return run.trained(readout, "export")
    return shared_model(Path(run), readout, "export", model)
