"""MLflow and Weights & Biases: trackers that need no network unless their own settings say so."""

from __future__ import annotations

import os
import secrets
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkf.core.errors import UserError
from fedkf.core.extras import check_installed
from fedkf.core.federation import Observer
from fedkf.core.payload import write_atomically
from fedkf.core.records import Round
from fedkf.runs.trackers import scalars

ARTIFACTS = ("config.yaml", "summary.json", "rounds.jsonl", "partition.json", "ledger.json")
"""What of a finished run is handed on beside its models."""


def files_of(folder: Path) -> list[Path]:
    """The files of a finished run that others may want."""
    known = [folder / name for name in ARTIFACTS]
    return [path for path in [*known, *sorted((folder / "models").glob("*"))] if path.is_file()]


class MLflow(Observer):
    """Writes RUN/mlruns for `mlflow ui`, or to where MLFLOW_TRACKING_URI says.

    A run that is resumed goes on as the same run of MLflow's.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        check_installed("mlflow", "logging to MLflow needs one more package", "mlflow")
        self.folder, self.settings = folder, settings
        self.client: Any = None
        self.run = ""

    def round_started(self, round: int, active: Sequence[int]) -> None:
        if self.client is not None:
            return
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own packages, and of folders as a store
            from mlflow import MlflowClient

            where = os.environ.get("MLFLOW_TRACKING_URI") or (self.folder / "mlruns").as_uri()
            self.client = MlflowClient(tracking_uri=where)
            known = self.folder / "mlflow.id"
            if known.exists():
                self.run = known.read_text().strip()
                self.client.update_run(self.run, status="RUNNING")
            else:
                self._begin(known)

    def _begin(self, known: Path) -> None:
        found = self.client.get_experiment_by_name("fedkf")
        place = found.experiment_id if found else self.client.create_experiment("fedkf")
        self.run = self.client.create_run(place, run_name=self.folder.name).info.run_id
        write_atomically(known, self.run.encode())
        from mlflow.entities import Param

        told = [Param(key, str(value)[:500]) for key, value in self.settings.items()]
        self.client.log_batch(self.run, params=told)

    def round_finished(self, record: Round) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        told = [Metric(name, value, now, record.round) for name, value in scalars(record)]
        self.client.log_batch(self.run, metrics=told)

    def run_ended(self) -> None:
        if self.client is not None and sys.exc_info()[0] is not None:
            self.client.set_terminated(self.run, "KILLED")

    def run_finished(self, folder: Path) -> None:
        if self.client is None:
            return
        for path in files_of(folder):
            inner = str(path.parent.relative_to(folder))
            self.client.log_artifact(self.run, str(path), None if inner == "." else inner)
        self.client.set_terminated(self.run, "FINISHED")


class WandB(Observer):
    """Writes RUN/wandb, which `wandb sync` sends; with WANDB_MODE=online it is sent at once."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        check_installed("wandb", "logging to Weights & Biases needs one more package", "wandb")
        self.folder, self.settings = folder, settings
        self.run: Any = None

    def round_started(self, round: int, active: Sequence[int]) -> None:
        if self.run is not None:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import wandb

            known = self.folder / "wandb.id"
            name = known.read_text().strip() if known.exists() else secrets.token_hex(4)
            write_atomically(known, name.encode())
            try:
                self.run = wandb.init(
                    project=os.environ.get("WANDB_PROJECT", "fedkf"),
                    name=self.folder.name,
                    id=name,
                    dir=str(self.folder),
                    config=dict(self.settings),
                    mode=os.environ.get("WANDB_MODE", "offline"),  # type: ignore[arg-type]
                    settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
                )
            except Exception as error:
                raise UserError(f"output.log: Weights & Biases cannot start: {error}") from error

    def round_finished(self, record: Round) -> None:
        self.run.log(dict(scalars(record)), step=record.round)

    def run_ended(self) -> None:
        if self.run is not None and sys.exc_info()[0] is not None:
            self.run.finish(exit_code=1)

    def run_finished(self, folder: Path) -> None:
        if self.run is None:
            return
        import wandb

        artifact = wandb.Artifact(f"run-{self.run.id}", type="fedkf-run")
        for path in files_of(folder):
            artifact.add_file(str(path), str(path.relative_to(folder)))
        self.run.log_artifact(artifact)
        self.run.finish()
