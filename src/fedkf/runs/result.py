"""Result: a finished run as it is given to the caller, and as it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkf.core.algorithm import Algorithm
from fedkf.core.errors import UserError
from fedkf.core.ledger import Ledger
from fedkf.core.payload import Weights, write_atomically
from fedkf.core.records import Round, Summary, best_round
from fedkf.metrics import METRICS
from fedkf.runs.manifest import digest
from fedkf.runs.schema import Config
from fedkf.runs.setup import Objects, model_factory
from fedkf.runs.store import RunFolder
from fedkf.runs.trained import read_card, read_weights

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Result:
    """A finished run: its folder, history, summary, models, and how the data was divided."""

    folder: Path
    rounds: list[Round]
    summary: dict[str, Any]
    weights: dict[str, Weights]
    make_model: Callable[[], nn.Module]

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
    def models(self) -> dict[str, nn.Module]:
        """The readouts "aca" and "oca" as modules, ready for evaluation."""
        built = {}
        for name, weights in self.weights.items():
            built[name] = self.make_model().eval()
            built[name].load_state_dict(weights)
        return built

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


def read_result(run: RunFolder, config: Config, given: Objects) -> Result:
    """The result that a finished run's folder holds."""
    run.read_record("summary.json", Summary.read)
    card = read_card(run / "models")
    paths = sorted((run / "models").glob("*.safetensors"))
    weights = {path.stem: read_weights(path, card) for path in paths}
    make = model_factory(config, tuple(card["shape"]), len(card["class_names"]), given.model)
    return Result(run.path, run.rounds(), run.read_json("summary.json"), weights, make)


def write_models(run: RunFolder, readouts: dict[str, Weights], about: dict[str, Any]) -> None:
    """RUN/models: a file for each readout, and what is needed to rebuild them."""
    from safetensors.torch import save

    (run / "models").mkdir(exist_ok=True)
    digests = {}
    for name, weights in readouts.items():
        tensors = {k: tensor.detach().cpu().clone().contiguous() for k, tensor in weights.items()}
        content = save(tensors)
        digests[f"{name}.safetensors"] = digest(content)
        write_atomically(run / "models" / f"{name}.safetensors", content)
    run.write_json("models/model.json", {**about, "sha256": digests})


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
    )
