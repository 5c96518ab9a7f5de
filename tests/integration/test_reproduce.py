"""`fedkf reproduce` and `fedkf distill` from the command line, on the embedded digits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., tuple[int, str, str]]
QUICK = ("--set", "federation.rounds=2", "--set", "federation.local_epochs=1", "--quiet")


MADE_OF_THE_SAME_RUNS = {
    "rounds-to-target": "[> 100]",
    "time": "ratio to FedAvg",
    "time-to-target": "[> 403 s]",
    "bytes-to-target": "data sent (MB)",
    "robustness": "Change from round to round",
    "drift": "first half of the rounds",
    "ablation": "T2, taught by T1: FedKF (ACA)",
    "curves": "curves-digits.svg",
    "t1": "[78.38 ± 0.64]",
    "findings": "27 of 54 cells",
}


def test_one_set_of_runs_serves_all_tables(tmp_path: Path, cli: Cli) -> None:
    folder, kept = tmp_path / "runs", tmp_path / "kept"
    code, text, _ = cli("reproduce", "performance", "--out", folder, *QUICK)
    assert code == 0
    for alpha in ("α = 1.0", "α = 0.1", "α = 0.01"):
        assert f"(beside: EMNIST), {alpha}" in text
    assert "[83.78 ± 0.24]" in text  # FedAvg, α = 1
    assert "[41.91 ± 4.68]" in text  # FedKF- (OCA), WLP, α = 0.01
    assert "scales differ" in text
    for ending in ("md", "csv", "tex"):
        assert (folder / "tables" / f"performance.{ending}").stat().st_size > 1000
    # Records alone are enough, whatever their folders are called, and nothing is run again.
    for run in folder.glob("digits,*"):
        (kept / f"renamed {run.name}").mkdir(parents=True)
        for name in ("config.yaml", "summary.json", "rounds.jsonl"):
            shutil.copy(run / name, kept / f"renamed {run.name}" / name)
    assert cli("reproduce", "performance", "--out", kept, *QUICK)[0] == 0
    tables = [base / "tables" / "performance.csv" for base in (folder, kept)]
    assert tables[0].read_text() == tables[1].read_text()
    assert not list(kept.glob("digits,*"))
    for what, sentence in MADE_OF_THE_SAME_RUNS.items():
        code, text, _ = cli("reproduce", what, "--out", kept, "--existing", *QUICK)
        assert code == 0
        assert sentence in text
        drawn = [line[8:] for line in text.splitlines() if line.startswith("figure: ")]
        assert all(Path(path).stat().st_size > 1000 for path in drawn)


def test_heterogeneity_needs_no_training(tmp_path: Path, cli: Cli) -> None:
    code, text, _ = cli("reproduce", "heterogeneity", "--out", tmp_path)
    assert code == 0
    assert text.count("figure: ") == 6
    shown = [float(line.split("|")[2]) for line in text.splitlines() if line.startswith("| α")]
    assert len(shown) == 3
    assert shown[0] < min(shown[1:])  # α = 1 is the mildest
    cli("reproduce", "heterogeneity", "--out", tmp_path / "again")
    for file in (tmp_path / "figures").iterdir():
        assert (tmp_path / "again" / "figures" / file.name).read_bytes() == file.read_bytes()


def test_rate_sweep_draws_aca_and_oca_of_fedavg_and_fedkf_minus(tmp_path: Path, cli: Cli) -> None:
    code, text, _ = cli("reproduce", "rate-sweep", "--out", tmp_path, *QUICK)
    assert code == 0
    assert (tmp_path / "figures" / "rate-sweep.png").exists()
    for method in ("FedAvg", "FedKF-"):
        own = [line for line in text.splitlines() if line.startswith(f"| {method}, C = ")]
        assert len(own) == 3
        aca, oca = own[-1].split("|")[2:4]
        assert aca == oca  # with every client active, both are the same mean


def test_alpha_sweep_has_every_point_of_its_grid(tmp_path: Path, cli: Cli) -> None:
    code, text, _ = cli("reproduce", "alpha-sweep", "--out", tmp_path, *QUICK)
    assert code == 0
    rows = [line for line in text.splitlines() if line.startswith("| K = ")]
    assert len(rows) == len({row.split("|")[1] for row in rows}) == 8
    assert "–" not in "".join(rows)
    assert (tmp_path / "figures" / "alpha-sweep-digits.png").exists()


def test_tuning_compares_the_values_of_each_baseline(tmp_path: Path, cli: Cli) -> None:
    code, text, _ = cli("reproduce", "tuning", "--out", tmp_path, *QUICK)
    assert code == 0
    for title in ("FedProx's mu", "FedGKD's gamma", "q-FFL's q"):
        assert f"### {title} on digits, α = 0.1" in text
    found = {line.split("|")[2] for line in text.splitlines() if line.startswith("| q = ")}
    assert len(found) == 2  # the value makes a difference


def test_the_paper_counts_the_operations_that_we_measure(tmp_path: Path, cli: Cli) -> None:
    code, text, _ = cli("reproduce", "operations", "--out", tmp_path, "--algorithm", "fedkf")
    assert code == 0
    assert text.count("| FedKF | 3.0 [3.0] | 3.0 [3.0] |") == 1
    assert text.count("| FedKF | 1.0 [1.0] | 1.0 [1.0] |") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("preformance",), "did you mean 'performance'"),
        (("performance", "--scale", "smal"), "did you mean 'small'"),
        (("performance", "--data", "emnits"), "did you mean 'emnist'"),
        (("performance", "--algorithm", "fedavgg"), "did you mean 'fedavg'"),
        (("performance", "--set", "data.alfa=1"), "did you mean 'data.alpha'"),
        (("performance", "--existing"), "no finished run in"),
        (("performance", "--scale", "paper"), "no emnist here"),
    ],
)
def test_mistakes_are_one_sentence(
    tmp_path: Path,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.setenv("FEDKF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("FEDKF_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    code, _, err = cli("reproduce", *arguments, "--out", tmp_path / "out")
    assert code == 2
    assert sentence in err.splitlines()[-1]


def test_a_student_learns_without_data(tmp_path: Path, cli: Cli) -> None:
    quick = ("--steps", 250, "--teacher-epochs", 20, "--set", "generator.width=8", "--quiet")
    code, text, _ = cli("distill", "digits", "--out", tmp_path, *quick)
    assert code == 0
    numbers = json.loads((tmp_path / "distillation-digits-works.json").read_text())
    assert numbers["teacher"] > 0.8
    assert numbers["students"]["data-free"] > 0.5  # chance is 0.1
    assert (tmp_path / "figures" / "distillation-digits-works.png").exists()
    again, same, _ = cli("distill", "digits", "--out", tmp_path, *quick)
    assert (again, same) == (0, text)
    assert cli("distill", "digits", "--settings", "work")[0] == 2
