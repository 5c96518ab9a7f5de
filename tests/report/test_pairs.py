"""Runs are compared with those on the same data with the same seed, and with no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from folders import write_run

from fedkf.report.fairness import gains
from fedkf.report.page import build, comparison, paired
from fedkf.report.pairs import baseline, contests
from fedkf.report.repeats import repeats
from fedkf.report.runs import read_runs
from fedkf.report.sentences import APART, cautions, headline


def write(folder: Path, algorithm: str, worst: float, seed: int = 0, data: str = "abc") -> Path:
    """A run with two sites; the other one is always right."""
    run = write_run(folder, [[worst, 1.0]], algorithm)
    text = (run / "config.yaml").read_text().replace("seed: 0", f"seed: {seed}")
    (run / "config.yaml").write_text(text.replace("abc", data))
    return run


def said(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def seeds(folder: Path, algorithm: str, *worst: float) -> None:
    """Every seed divides the data in its own way."""
    for seed, value in enumerate(worst):
        write(folder / f"{algorithm}-{seed}", algorithm, value, seed, f"data {seed}")


def test_each_seed_is_compared_with_its_own_baseline(tmp_path: Path) -> None:
    seeds(tmp_path, "fedavg", 0.60, 0.50)
    seeds(tmp_path, "fedkf", 0.66, 0.54)
    runs = read_runs([tmp_path])
    rows = {row["folder"]: row["difference"] for row in comparison(runs)}
    assert rows["fedavg-1"] == {}
    assert rows["fedkf-0"]["wlp"] == pytest.approx(0.06)
    assert rows["fedkf-1"]["wlp"] == pytest.approx(0.04)  # not the -0.06 from FedAvg's first run
    assert said(headline(runs)) == (
        "Compared with FedAvg over 2 seeds, FedKF lifts the worst-served site by 5.0 points and "
        "the average over all sites by 2.5 points."
    )


def test_what_else_differs_in_a_pair_is_told_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "fedavg", "fedavg", 0.5)
    run = write(tmp_path / "fedkf", "fedkf", 0.6)
    (row, *_) = paired(read_runs([tmp_path]))
    assert "baseline" not in row["over"]
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("rounds: 3", "rounds: 9"))
    assert "; rounds 9, the baseline&#39;s 3" in build(read_runs([tmp_path]))


def test_from_three_seeds_on_the_headline_says_what_may_be_chance(tmp_path: Path) -> None:
    seeds(tmp_path, "fedavg", 0.30, 0.50, 0.70)
    seeds(tmp_path, "fedkf", 0.32, 0.54, 0.76)
    assert said(headline(read_runs([tmp_path]))) == (  # 4 ± 4.303 · 2 / √3 = 4 ± 4.97
        "Compared with FedAvg over 3 seeds, FedKF makes no difference beyond chance to the "
        "worst-served site (+4.0 points [-1.0, 9.0]) and makes no difference beyond chance to the "
        "average over all sites (+2.0 points [-0.5, 4.5])."
    )
    page = build(read_runs([tmp_path]))
    assert "+4.0 points [-1.0, 9.0]" in page
    assert "over 3 seeds" in page
    assert "on the same data with the same seed" in page


def test_a_loss_beyond_chance_is_told_without_a_second_minus(tmp_path: Path) -> None:
    seeds(tmp_path, "fedavg", 0.50, 0.60, 0.70)
    seeds(tmp_path, "fedkf", 0.28, 0.40, 0.52)
    assert said(headline(read_runs([tmp_path]))) == (  # 20 ± 4.97, and half of that
        "Compared with FedAvg over 3 seeds, FedKF lowers the worst-served site by 20.0 points "
        "[15.0, 25.0] and the average over all sites by 10.0 points [7.5, 12.5]."
    )


def test_of_many_the_best_is_found_over_the_seeds_that_all_have(tmp_path: Path) -> None:
    seeds(tmp_path, "fedavg", 0.3, 0.5, 0.7)
    seeds(tmp_path, "fedkf", 0.4, 0.6, 0.8)
    seeds(tmp_path, "scaffold", 0.2, 0.4, 0.6, 1.0)
    assert said(headline(read_runs([tmp_path]))) == (
        "Of 3 models, FedKF serves the worst-served site best: 60.0 % on average over 3 seeds, "
        "against 50.0 % with FedAvg: +10.0 points [10.0, 10.0]."
    )


def test_nothing_is_compared_across_different_data(tmp_path: Path) -> None:
    write(tmp_path / "a", "fedavg", 0.3)
    write(tmp_path / "b", "fedkf", 0.9, data="other")
    runs = read_runs([tmp_path])
    assert contests(runs) == []
    assert headline(runs) == APART
    assert all(not row["difference"] for row in comparison(runs))
    told = " ".join(cautions(runs))
    assert "for want of one with its data and seed: FedAvg, FedKF." in told
    write(tmp_path / "c", "fedavg", 0.8, data="other")
    write(tmp_path / "d", "fedkf", 0.2)
    for name in ("b", "c"):
        path = tmp_path / name / "config.yaml"
        path.write_text(path.read_text() + "data: {alpha: 1.0}\n")
    assert headline(read_runs([tmp_path])) == (
        "Of 2 comparisons with FedAvg, each on the same data with the same seeds, 1 lift the "
        "worst-served site and 1 lower it. Runs on different data are not compared."
    )


def test_two_runs_with_the_same_seed_count_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name, "fedavg", 0.5)
    runs = read_runs([tmp_path])
    assert repeats(runs) == []
    assert "FedAvg · b has the settings and the seed of FedAvg · a; the two count once." in (
        cautions(runs)
    )
    write(tmp_path / "c", "fedavg", 0.7, seed=1)
    (row,) = repeats(read_runs([tmp_path]))
    assert row["runs"] == 2
    assert row["metrics"]["wlp"][0] == pytest.approx(0.6)
    assert said(headline(read_runs([tmp_path]))).startswith(
        "On average over 2 seeds, the model of FedAvg is right in 80.0 % of all test cases"
    )


def test_of_two_baselines_the_one_with_the_same_settings_is_taken(tmp_path: Path) -> None:
    for name, algorithm, lr in (("a", "fedavg", 1), ("b", "fedavg", 2), ("c", "fedkf", 2)):
        path = write(tmp_path / name, algorithm, 0.5) / "config.yaml"
        path.write_text(path.read_text().replace("seed: 0", f"seed: 0, lr: {lr}"))
    runs = read_runs([tmp_path])
    assert [base.name if (base := baseline(run, runs)) else None for run in runs] == [
        None,
        "a",
        "b",
    ]


def test_a_gain_over_training_alone_is_one_on_the_same_data(tmp_path: Path) -> None:
    write(tmp_path / "a", "fedavg", 0.6)
    write(tmp_path / "b", "local", 0.1, data="other")
    (run, _) = runs = read_runs([tmp_path])
    assert gains(run, runs) == {}
    write(tmp_path / "c", "local", 0.5)
    assert gains(run, read_runs([tmp_path]))["site 0"] == pytest.approx(0.1)
