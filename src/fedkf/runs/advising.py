"""Advising: what is run for an advice, and how each site fares under every model of these runs.

Here all sites' data are on one machine. So every model answers for every test sample, and ways are
compared on the same samples drawn again and again.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fedkf import models
from fedkf.core.errors import UserError
from fedkf.core.evaluation import measured, outputs, right
from fedkf.core.objective import Classification, uncommon
from fedkf.core.threads import threads
from fedkf.data.cells import ending
from fedkf.data.source import Say
from fedkf.metrics.sites import ACCURACY, SITE_METRICS, SiteMetric
from fedkf.runs import config as configuration
from fedkf.runs.defaults import chosen
from fedkf.runs.judging import judgement_of
from fedkf.runs.personal import ClientModels, client_models
from fedkf.runs.resuming import refuse_changes
from fedkf.runs.schema import Config
from fedkf.runs.setup import load_source, settle
from fedkf.runs.store import RunFolder
from fedkf.runs.verdicts import ALONE, AVERAGED, PERSONAL, SHARED, Draws, Hits, Judged

if TYPE_CHECKING:
    from torch import Tensor

RUNS = {ALONE: "local", AVERAGED: "fedavg", SHARED: "fedkf+"}
"""What is trained, by the way that it is for."""
READOUTS = {ALONE: (ALONE, "oca"), AVERAGED: (AVERAGED, "oca"), SHARED: (SHARED, "oca")}
READOUTS[PERSONAL] = (SHARED, "personal")
"""Each way's run and readout."""
ANSWERS = ("counts", "confusion")
"""Statistics that know answers only, not how sure a model is of them."""
DRAWS = 300
ROUNDS = 20
"""Of a small budget."""
ALL = 20
"""Up to so many sites all take part in every round."""
PLAIN = Classification.name
TABLES, ARRAYS = (".csv", ".tsv", ".parquet"), (".npz",)


# -- what is run -----------------------------------------------------------------------------------


def runs(data: str, given: Mapping[str, Any], say: Say = lambda text: None) -> dict[str, Config]:
    """The configuration of each run, by the way that it is for.

    DATA is a preset, a configuration, a file or a folder. What was given wins over the rest; rounds
    are cut to a small budget.
    """
    content, overrides = base(data, given, say)
    found = {}
    for way, algorithm in RUNS.items():
        personal = "interpolate" if way == SHARED else "none"
        more = {"algorithm.name": algorithm, "evaluation.personal": personal}
        found[way] = configuration.resolve(content, {**overrides, **more})
    return found


@threads(1)  # the runs that follow may have workers with several, see `execute`
def base(data: str, given: Mapping[str, Any], say: Say) -> tuple[dict[str, Any], dict[str, Any]]:
    """What all runs have in common: a configuration's content, and what is to be set in it."""
    own: dict[str, Any] = {}
    if data in configuration.presets() or data.endswith((".yaml", ".yml")):
        content = configuration.read(data)[0]
    else:
        kind = "signals" if "data.window" in given else kind_of(Path(data))
        own = {"data.source": kind, "data.path": data}
        content = chosen(None, {**own, **given})[0]
    config = configuration.resolve(content, {**own, **given})
    source = load_source(config, say)
    if own:
        own["model.name"] = fitting(tuple(source.inputs.shape[1:]))
        if source.classes == 2 and "data.task" not in given:
            own["data.task"] = "binary"
            say(f"two classes: data.task is binary, judged by AUROC ({PLAIN}: by accuracy)")
        config = configuration.resolve(content, {**own, **given})
    sites = settle(config, source).data.clients
    if own:
        own["federation.batch_size"] = batch_for(len(source.labels) / sites)
    if sites < 2:
        raise UserError(f"{data} is of one site; an advice is about two or more (data.site)")
    own["federation.rounds"] = min(ROUNDS, config.federation.rounds)
    if sites <= ALL:
        own["federation.fraction"] = 1.0
    return content, {**own, **given}


def refuse_other(folder: Path, configs: Mapping[str, Config]) -> None:
    """Refuse a folder with an advice that was begun with other data or settings."""
    for way, config in configs.items():
        run = RunFolder(folder / way)
        began = run.config() if run.begun() else None
        if began is None:
            continue
        asked = config.model_copy(update={"privacy": began.privacy})  # settled when it runs
        try:
            refuse_changes(began, asked, len(run.rounds()), settled=False)
        except UserError as error:
            why = str(error).partition(";")[0]
            raise UserError(
                f"{folder} holds another advice ({why}); --out names another folder"
            ) from None


def batch_for(size: float) -> int:
    """A batch for sites of about so many samples: small ones need steps enough to learn at all."""
    return 8 if size < 100 else 16 if size < 300 else 32


def kind_of(path: Path) -> str:
    """The source that reads a file or a folder."""
    if not path.exists():
        raise UserError(
            f"DATA is {str(path)!r}, which is no preset ({', '.join(configuration.presets())}), "
            "no configuration (.yaml) and no file or folder"
        )
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    endings = {ending(file) for file in files if file.is_file()}
    if endings & {*TABLES}:
        return "table"
    if endings & {*ARRAYS}:
        first = next(file for file in files if file.suffix.lower() in ARRAYS)
        return "signals" if path.is_dir() or holds_signals(first) else "npz"
    if path.is_file():
        raise UserError(f"DATA is {str(path)!r}; it may be a .csv, .tsv, .parquet or .npz file")
    return "folder"


def holds_signals(file: Path) -> bool:
    try:
        with zipfile.ZipFile(file) as archive:
            return "signals.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False  # whoever reads it says what is wrong


def fitting(shape: tuple[int, ...]) -> str:
    """A small model for inputs of this shape."""
    return {"images": "lenet5", "signals": "cnn1d"}.get(models.kind_of(shape), "mlp")


# -- how sites fare --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fared:
    """How every site fared, and by what that was measured."""

    sites: Sequence[Judged]
    metric: SiteMetric
    two_classes: bool = False
    """Whether it is told as a choice between classes, of which there are two."""


def fared(folders: Mapping[str, Path], say: Say = lambda text: None) -> Fared:
    """Every site's metric under each way, from the finished runs."""
    found = {way: client_models(folder, say=say) for way, folder in folders.items()}
    first = found[ALONE]
    config = first.assembly.config
    metric = SITE_METRICS[judgement_of(config).metric]
    sites = [judged(found, metric, id) for id in range(len(first.data.names))]
    return Fared(sites, metric, config.data.task == PLAIN and first.data.classes == 2)


def judged(found: Mapping[str, ClientModels], metric: SiteMetric, id: int) -> Judged:
    """A site under every way, on its test samples and on draws from them."""
    first = found[ALONE]
    data, task = first.client(id), first.assembly.task
    targets = data.test_labels.cpu()
    tested = len(targets)
    random = task.streams.numpy_generator("advice", client=id)
    places = torch.from_numpy(random.integers(max(1, tested), size=(DRAWS, tested)))
    values: dict[str, float | None] = {}
    draws: dict[str, Draws] = {}
    hits: dict[str, Hits] = {}
    kinds: set[int] = set()
    for way, (run, readout) in READOUTS.items():
        if not tested:
            values[way], draws[way] = None, np.full(DRAWS, np.nan)
            continue
        own = found[run]
        model = own.assembly.task.load("student", own.weights(readout, id)).eval()
        measure = Measure(own, metric, outputs(model, data.test_images), targets)
        values[way] = measure(torch.arange(tested))
        kinds |= measure.kinds()
        draws[way] = measure.drawn(places)
        if metric.name == ACCURACY:
            hits[way] = measure.hits().numpy()
    several = metric.statistic in ANSWERS and len(targets.unique()) > 1
    blind = len(kinds) == 1 if several else None
    rare = None if hits else uncommon(task.objective, targets)
    return Judged(first.data.names[id], tested, values, draws, hits, blind, rare)


@dataclass(frozen=True)
class Measure:
    """A metric of a model's answers, on any of the samples."""

    of: ClientModels
    metric: SiteMetric
    answers: Tensor
    targets: Tensor

    def __call__(self, chosen: Tensor) -> float | None:
        task = self.of.assembly.task
        answers, targets = self.answers[chosen], self.targets[chosen]
        return measured(self.metric, answers, targets, task.objective, task.classes)

    def hits(self) -> Tensor:
        """Which of the samples it has right."""
        return right(self.answers, self.targets, self.of.assembly.task.objective).bool()

    def kinds(self) -> set[int]:
        """The classes that are answered, where the task has any."""
        aim = self.of.assembly.task.objective
        return {*aim.logits(self.answers).argmax(1).tolist()} if aim.labelled() else set()

    def drawn(self, places: Tensor) -> Draws:
        """The metric of each draw, NaN where it has none."""
        if self.metric.name == ACCURACY:
            return np.asarray(self.hits().double()[places].mean(1))
        found = (self(row) for row in places)
        return np.array([np.nan if number is None else number for number in found])
