"""An observer that hands every round to a tracker of your choice.

Here it is a CSV file, one row per round; with MLflow, `write` would be `mlflow.log_metrics`, with
Weights & Biases `wandb.log`, with Aim `run.track`. Run it with: python examples/tracker.py

From the command line the same class is named as `--log tracker:Csv` in the folder of this file.
"""

import csv
from pathlib import Path

import fedkf
from fedkf.runs.trackers import scalars


class Csv(fedkf.Observer):
    """Made with the run's folder and its settings, such as settings["federation.rounds"]."""

    def __init__(self, folder, settings):
        self.path = Path(folder) / "metrics.csv"
        self.settings = settings

    def round_started(self, round, active):
        """Before the clients start; also the place to open a connection."""

    def client_finished(self, reply):
        """One client has answered, or failed."""

    def round_finished(self, record):
        """`record` is the round's line of rounds.jsonl."""
        self.write({"round": record["round"], **dict(scalars(record))})

    def run_ended(self):
        """Once, whether the run finished, failed or was stopped."""

    def write(self, row):
        new = not self.path.exists()
        with open(self.path, "a", newline="") as file:
            table = csv.DictWriter(file, row)
            if new:
                table.writeheader()
            table.writerow(row)


if __name__ == "__main__":
    result = fedkf.run(
        "digits", algorithm="fedavg", rounds=3, out="runs/tracked", log="tracker:Csv"
    )
    print((result.folder / "metrics.csv").read_text())
