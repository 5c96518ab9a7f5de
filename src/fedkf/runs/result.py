"""Result: a finished run as it is given to the caller, and as it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkf import algorithms
from fedkf.core.algorithm import Algorithm
from fedkf.core.errors import UserError, nearest
from fedkf.core.ledger import Ledger
from fedkf.core.payload import Weights
from fedkf.core.records import Round, Summary, best_round
from fedkf.metrics import METRICS
from fedkf.metrics.sites import ACCURACY
from fedkf.runs.assessment import judge
from fedkf.runs.display import as_html, as_text
from fedkf.runs.judging import make_objective
from fedkf.runs.schema import Config
from fedkf.runs.setup import Objects, model_factory
from fedkf.runs.store import RunFolder
from fedkf.runs.trained import Trained, read_card, read_weights, told

if TYPE_CHECKING:
    from torch import nn

    from fedkf.data.federated import FederatedData


@dataclass(frozen=True, repr=False)
class Result:
    """A finished run: its folder, history, summary, models, and how the data was divided.

    `print` it for a table; in a notebook it shows itself with its curves.

    >>> import fedkf
    >>> print(fedkf.run("digits", algorithm="fedavg", rounds=1, workers=0)) # doctest: +ELLIPSIS
    fedavg: 1 round, seed 0, 10 clients
    readout  AMP %      FM  WLP %
    ACA ...
    OCA ...
    """

    folder: Path
    rounds: list[Round]
    summary: dict[str, Any]
    weights: dict[str, Weights]
    """The readouts' tensors, raw: they expect inputs that are normalised already."""
    make_model: Callable[[], nn.Module]
    about: dict[str, Any]
    """What models/model.json says: the inputs' shape, normalisation, names of classes."""
    data: Callable[[], FederatedData]
    """The clients' data, prepared as for training, where it can still be had."""
    config: Config
    digest: str
    """Of the data, as it was divided."""

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """Every round as rounds.jsonl has it."""
        return [r.as_json() for r in self.rounds]

    @cached_property
    def partition(self) -> dict[str, Any]:
        """Who holds what: partition.json."""
        content: dict[str, Any] = RunFolder(self.folder).read_json("partition.json")
        return content

    @cached_property
    def models(self) -> dict[str, Trained]:
        """The readouts "aca" and "oca", ready for use: they normalise their inputs themselves."""
        return {name: Trained(model, self.about) for name, model in self.raw_models.items()}

    @cached_property
    def raw_models(self) -> dict[str, nn.Module]:
        """The same as the modules that were trained, for inputs that are normalised already."""
        built = {}
        for name, weights in self.weights.items():
            built[name] = self.make_model().eval()
            built[name].load_state_dict(weights)
        return built

    def trained(self, readout: str = "oca", purpose: str = "use") -> Trained:
        """The shared model of a readout, or a sentence that says why there is none."""
        if not algorithms.shares_model(self.summary["algorithm"]):
            raise UserError(f"every client trained alone: there is no shared model to {purpose}")
        if readout not in self.weights:
            raise UserError(f"no readout {readout!r}; {nearest(readout, list(self.weights))}")
        return self.models[readout]

    def predict(self, inputs: Any, readout: str = "oca") -> list[tuple[str, float]]:
        """The likeliest class of each input, as it comes (images in [0, 1]), and how sure.

        Of a table it may be new rows: a CSV or Parquet file, a DataFrame, a mapping for each row.
        """
        return self.trained(readout, "predict with").predict(inputs)

    def evaluate(self, data: Any = None, readout: str = "oca") -> dict[str, Any]:
        """What the model does for each client and class: see `fedkf.evaluate`."""
        trained = self.trained(readout, "evaluate")
        result = judge(trained, data, self.data, metric=self.summary.get("metric"))
        return {"run": str(self.folder), "readout": readout, **result}

    def __repr__(self) -> str:
        return as_text(self.summary, self.rounds, self.config.privacy.delta)

    def _repr_html_(self) -> str:
        return as_html(self.summary, self.rounds, self.partition, self.config.privacy.delta)

    def frame(self) -> Any:
        """A tidy table (pandas) with one row per evaluated round and readout."""
        try:
            import pandas as pd
        except ImportError:
            raise UserError("a table needs pandas: pip install 'fedkf[frame]'") from None

        return pd.DataFrame(
            {"round": r.round, "readout": name, **{k: score[k] for k in METRICS}}
            for r in self.rounds
            for name, score in (r.readouts or {}).items()
        )


def read_result(
    run: RunFolder, config: Config, given: Objects, data: Callable[[], FederatedData]
) -> Result:
    """The result that a finished run's folder holds; `data` gives the clients' data."""
    run.read_record("summary.json", Summary.read)
    card = told(read_card(run / "models"), lambda: config)
    paths = sorted((run / "models").glob("*.safetensors"))
    weights = {path.stem: read_weights(path, card) for path in paths}
    outputs = make_objective(config).outputs(len(card["class_names"]))
    make = model_factory(config, tuple(card["shape"]), outputs, given.model)
    summary = run.read_json("summary.json")
    digest = str(run.provenance().get("data_sha256"))
    return Result(run.path, run.rounds(), summary, weights, make, card, data, config, digest)


def summarise(rounds: list[Round], config: Config, algorithm: Algorithm, ledger: Ledger) -> Summary:
    """The headline is the last round; the best round of each readout is told beside it."""
    last = rounds[-1].readouts or {}
    best = {name: found for name in last if (found := best_round(rounds, name))}
    return Summary(
        algorithm=algorithm.name or config.algorithm.name,
        rounds=rounds[-1].round,
        seed=config.federation.seed,
        readouts=last,
        best=best,
        seconds={key: round(sum(r.seconds[key] for r in rounds), 3) for key in rounds[-1].seconds},
        bytes=ledger.bytes(),
        disclosed=ledger.disclosed(),
        holdout=rounds[-1].holdout,
        metric=next((score.metric for score in last.values()), ACCURACY),
        sites={
            name: replace(score.sites, clients=score.clients)
            for name, score in last.items()
            if score.sites.values
        },
    )
