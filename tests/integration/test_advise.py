"""`fedkf advise` on made tables where the answer is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from fedkf.cli.advise import in_words, with_interval
from fedkf.core.errors import UserError
from fedkf.metrics.sites import SITE_METRICS
from fedkf.runs.advising import base, kind_of, runs

Cli = Callable[..., tuple[int, str, str]]
SITES = ("north", "east", "west", "south")
QUICK = ["--set", "federation.rounds=3", "--set", "federation.lr=0.3", "--quiet"]
QUICK += ["--set", "model.name=linear", "--set", "data.train_fraction=0.3", "--workers", "0"]


def table(path: Path, flipped: Sequence[str] = (), rows: int = 150, inputs: int = 8) -> Path:
    """Sites alike, but that some have their two classes the other way round."""
    random = np.random.default_rng(0)
    direction = random.standard_normal(inputs)
    lines = [",".join(["hospital", *(f"x{k}" for k in range(inputs)), "ill"])]
    for site in SITES:
        x = random.standard_normal((rows, inputs))
        y = (x @ direction > 0) ^ (site in flipped)
        for row, label in zip(x.round(3), y, strict=True):
            lines.append(",".join([site, *map(str, row), str(int(label))]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_site_with_flipped_labels_is_better_off_alone(elsewhere: Path, cli: Cli) -> None:
    data = table(elsewhere / "patients.csv", flipped=["south"])
    asked = ["advise", data, "--target", "ill", "--site", "hospital", *QUICK]
    asked += ["--set", "data.task=classification"]
    code, text, error = cli(*asked)
    assert code == 0, error
    told = json.loads(Path("runs/advice-patients/advice.json").read_text())
    assert told["metric"] == "accuracy"
    verdicts = {site["name"]: site["verdict"] for site in told["sites"]}
    assert verdicts["south"] in ("either", "mended", "alone")
    south = next(site for site in told["sites"] if site["name"] == "south")
    assert south["shared"]["value"] < 0.4 < 0.7 < south["alone"]["value"]
    assert south["gain"]["shared"]["interval"][1] < 0
    assert "south loses" in told["advice"]
    assert f"advice: {told['advice']}" in text
    # What is finished is not trained again, and says the same.
    before = Path("runs/advice-patients/shared/rounds.jsonl").stat().st_mtime_ns
    again = cli(*asked, "--json")
    assert json.loads(again[1]) == told
    assert Path("runs/advice-patients/shared/rounds.jsonl").stat().st_mtime_ns == before


def test_sites_that_are_alike_gain(elsewhere: Path, cli: Cli) -> None:
    data = table(elsewhere / "alike.csv")
    asked = ["advise", data, "--target", "ill", "--site", "hospital", *QUICK]
    more = ["--set", "data.train_fraction=0.1", "--set", "federation.rounds=20"]
    code, text, error = cli(*asked, "--json", "--out", "alike", *more)
    assert code == 0, error
    told = json.loads(text)
    assert {site["verdict"] for site in told["sites"]} <= {"shared", "personal", "open"}
    gain = told["overall"]["shared over alone"]
    assert gain["value"] > 0.03
    assert gain["interval"][0] > 0
    assert "gain" in told["advice"]


def test_mistakes_are_told(elsewhere: Path, cli: Cli) -> None:
    code, _, error = cli("advise", "nothing.csv")
    assert code == 2
    assert "no preset" in error
    (elsewhere / "page.pdf").touch()
    assert cli("advise", "page.pdf")[0] == 2
    one = table(elsewhere / "one.csv").read_text().replace("east", "north")
    (elsewhere / "one.csv").write_text(one.replace("west", "north").replace("south", "north"))
    code, _, error = cli("advise", "one.csv", "--target", "ill", "--site", "hospital")
    assert code == 2
    assert "one.csv is of one site" in error
    code, _, error = cli("advise", "one.csv", "--site", "hospital")
    assert code == 2
    assert "data.target is missing" in error


def test_a_source_is_found_for_what_is_there(elsewhere: Path) -> None:
    np.savez(elsewhere / "beats.npz", signals=np.zeros((4, 8)), labels=[0, 1, 0, 1])
    np.savez(elsewhere / "images.npz", images=np.zeros((4, 8, 8)), labels=[0, 1, 0, 1])
    (elsewhere / "tables").mkdir()
    (elsewhere / "tables" / "a.csv").touch()
    (elsewhere / "scans" / "north" / "ill").mkdir(parents=True)
    found = [kind_of(elsewhere / n) for n in ("beats.npz", "images.npz", "tables", "scans")]
    assert found == ["signals", "npz", "table", "folder"]


def test_the_budget_is_small_and_what_is_given_wins() -> None:
    configs = runs("digits", {"federation.lr": 0.5})
    assert {way: c.algorithm.name for way, c in configs.items()} == {
        "alone": "local",
        "fedavg": "fedavg",
        "shared": "fedkf+",
    }
    for config in configs.values():
        settings = config.federation
        assert (settings.rounds, settings.fraction, settings.lr) == (20, 1.0, 0.5)
    assert (
        base("digits", {"federation.rounds": 30}, lambda text: None)[1]["federation.rounds"] == 30
    )
    with pytest.raises(UserError, match="one site"):
        runs("digits", {"data.clients": 1, "data.partition": "iid"})


def test_models_that_learned_nothing_are_no_ground_for_advice(elsewhere: Path, cli: Cli) -> None:
    data = table(elsewhere / "patients.csv")
    asked = ["advise", data, "--target", "ill", "--site", "hospital", *QUICK, "--json"]
    asked += ["--set", "data.task=classification"]
    (elsewhere / "stubborn.py").write_text(
        "import torch\n\n\n"
        "class Stubborn(torch.nn.Module):\n"
        "    def __init__(self, shape, classes):\n"
        "        super().__init__()\n"
        "        self.linear = torch.nn.Linear(shape[0], classes)\n"
        "        torch.nn.init.zeros_(self.linear.weight)\n\n"
        "    def features(self, x):\n"
        "        return x\n\n"
        "    def classify(self, x):\n"
        "        return self.linear(x)\n\n"
        "    def forward(self, x):\n"
        "        return self.linear(x)\n"
    )
    settings = ["--set", "federation.lr=1.0e-9", "--set", "model.name=stubborn:Stubborn"]
    code, text, error = cli(*asked, *settings, "--out", "nothing")
    assert code == 0, error
    told = json.loads(text)["advice"]
    assert told.startswith("The models answer one and the same class")
    assert "--set data.task=binary" in told
    # The same folder for another advice is refused by name, before anything is trained.
    code, _, error = cli(*asked, "--out", "nothing")
    assert code == 2
    assert "nothing holds another advice (" in error
    assert "--out names another folder" in error


def test_two_classes_are_judged_by_auroc_and_notes_are_said_once(elsewhere: Path, cli: Cli) -> None:
    data = table(elsewhere / "rare.csv", rows=40)
    lines = data.read_text().splitlines()
    constant = [lines[0] + ",same", *(f"{line},1" for line in lines[1:])]
    data.write_text("\n".join(constant) + "\n")
    code, text, error = cli("advise", data, "--target", "ill", "--site", "hospital", *QUICK)
    assert code == 0, error
    assert "AUROC % of each site" in text
    assert error.count("column same: the same value in all rows") == 1
    assert error.count("data.task is binary, judged by AUROC") == 1
    rows = text.split("over all sites")[0].splitlines()
    assert max(map(len, rows)) <= 80
    told = json.loads(Path("runs/advice-rare/advice.json").read_text())
    for name, found in told["overall"].items():
        (line,) = (row for row in text.splitlines() if row.startswith(f"over all sites, {name}:"))
        assert line.endswith(", which may be chance") != found["beyond_chance"]


def test_ends_of_a_difference_are_shown_like_its_middle() -> None:
    found = {"value": 0.017, "interval": [0.0158, 0.0213], "beyond_chance": True}
    auroc = SITE_METRICS["auroc"]
    assert in_words(found, auroc) == "+1.7 (1.6 to 2.1)"
    assert in_words({**found, "beyond_chance": False}, auroc) == (
        "+1.7 (1.6 to 2.1), which may be chance"
    )
    assert with_interval({"value": 0.831, "interval": [0.752, 1.0]}, auroc) == "83.1 (75–100)"


def test_small_sites_get_small_batches_unless_told_otherwise(elsewhere: Path) -> None:
    data = str(table(elsewhere / "patients.csv", rows=40))
    asked = {"data.target": "ill", "data.site": "hospital"}
    assert base(data, asked, lambda text: None)[1]["federation.batch_size"] == 8
    given = {**asked, "federation.batch_size": 20}
    assert base(data, given, lambda text: None)[1]["federation.batch_size"] == 20


def test_a_task_that_was_given_stays(elsewhere: Path) -> None:
    data = str(table(elsewhere / "patients.csv", rows=40))
    asked = {"data.target": "ill", "data.site": "hospital"}
    assert base(data, asked, lambda text: None)[1]["data.task"] == "binary"
    given = {**asked, "data.task": "classification"}
    assert base(data, given, lambda text: None)[1]["data.task"] == "classification"


def test_a_window_makes_a_folder_of_tables_one_of_recordings(elsewhere: Path) -> None:
    for person in ("ann", "ben"):
        (elsewhere / "raw" / person).mkdir(parents=True)
        for act in ("sit", "run"):
            rows = [f"{k % 5},{act}" for k in range(40)]
            (elsewhere / "raw" / person / f"{act}.csv").write_text("\n".join(["x,act", *rows]))
    asked = {"data.target": "act", "data.window": 4}
    assert base("raw", asked, lambda text: None)[1]["data.source"] == "signals"
