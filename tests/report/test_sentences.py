"""What a report says, and how fair a model is, in numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from folders import append, finish, record, write_run

from fedkf.metrics.intervals import wilson
from fedkf.report.fairness import deciles, fairness, site_scores
from fedkf.report.repeats import repeats
from fedkf.report.runs import Run, read_runs
from fedkf.report.sentences import about_gain, below_headline, cautions, headline


def said(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def pair(tmp_path: Path, before: list[float], after: list[float]) -> list[Run]:
    write_run(tmp_path / "a", [before])
    write_run(tmp_path / "b", [after], "fedkf")
    return read_runs([tmp_path])


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            [0.41, 0.81],
            [0.61, 0.91],
            "FedKF lifts the worst-served site from 41.0 % to 61.0 % and the average over all "
            "sites from 61.0 % to 76.0 %.",
        ),
        (
            [0.6, 0.8],
            [0.5, 1.0],
            "FedKF lowers the worst-served site from 60.0 % to 50.0 % and lifts the average over "
            "all sites from 70.0 % to 75.0 %.",
        ),
        (
            [0.6, 0.8],
            [0.6, 0.8],
            "FedKF leaves the worst-served site at 60.0 % and the average over all sites at "
            "70.0 %.",
        ),
    ],
)
def test_the_headline_says_which_way_it_went(
    tmp_path: Path, before: list[float], after: list[float], sentence: str
) -> None:
    assert said(headline(pair(tmp_path, before, after))) == f"Compared with FedAvg, {sentence}"


def test_the_other_readout_is_told_below_the_headline(tmp_path: Path) -> None:
    for name, aca in (("fedavg", [0.2, 0.4]), ("fedkf", [0.3, 0.5])):
        run = write_run(tmp_path / name, [], name)
        append(run, record(1, {"oca": [0.5, 0.7], "aca": aca}))
    runs = read_runs([tmp_path])
    assert "FedKF leaves the worst-served site at 50.0 %" in said(headline(runs))
    below = said(below_headline(runs))
    assert below.startswith("This is about the OCA model, averaged over the latest contribution")
    assert below.endswith(
        "With the ACA model, FedKF lifts the worst-served site from 20.0 % to 30.0 % and the "
        "average over all sites from 30.0 % to 40.0 %."
    )


def test_the_headline_of_one_run_names_the_worst_site(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [[0.9, 0.5, 0.7]], names=["north", "south", "coast"])
    assert said(headline(read_runs([tmp_path]))) == (
        "The model that 3 sites trained together with FedAvg is right in 70.0 % of all test cases; "
        "at south, the site that it serves worst, in 50.0 %."
    )


def test_of_many_models_the_one_that_serves_the_worst_site_best_is_named(tmp_path: Path) -> None:
    for name, worst in (("fedavg", 0.3), ("fedprox", 0.6), ("scaffold", 0.5)):
        write_run(tmp_path / name, [[worst, 0.9]], name)
    assert said(headline(read_runs([tmp_path]))) == (
        "Of 3 models, FedProx serves the worst-served site best: 60.0 %, against 30.0 % with "
        "FedAvg."
    )


def test_models_that_serve_the_worst_site_alike_have_no_winner(tmp_path: Path) -> None:
    for name, worst in (("fedavg", 0.0), ("fedprox", 0.0), ("scaffold", 0.0)):
        write_run(tmp_path / name, [[worst, 0.9]], name)
    assert said(headline(read_runs([tmp_path]))) == (
        "Of 3 models, FedAvg and FedProx serve the worst-served site alike, and best: 0.0 %."
    )


def test_gain_over_training_alone_counts_winners_and_names_the_loser(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [[0.9, 0.5, 0.7]], "fedavg")
    write_run(tmp_path / "b", [[0.8, 0.6, 0.7]], "local")
    assert about_gain(read_runs([tmp_path])) == [
        "With FedAvg (OCA), 1 of 3 sites are better off than alone, 1 the same; site 1 loses most, "
        "10.0 points."
    ]


def test_what_weakens_a_comparison_is_said(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [[0.9, 0.5]])
    append(run, record(2, {"oca": [0.9, 0.4]}))
    finish(run)
    other = write_run(tmp_path / "b", [[0.9, 0.5]], "fedkf", tests=40)
    text = (other / "config.yaml").read_text()
    (other / "config.yaml").write_text(text.replace("abc", "def"))
    write_run(tmp_path / "c", [], "fedprox")
    told = " ".join(cautions(read_runs([tmp_path])))
    assert "differ in their data" in told
    assert "differ in their number of rounds" in told
    assert "differ in their seed" not in told
    assert "FedKF is not finished: its numbers are those after round 1 of 3" in told
    assert "FedProx has no finished round yet" in told
    assert "site 1 was tested on 10 cases only" in told
    assert "by 10.0 points" in told


def test_runs_that_differ_in_their_seed_only_are_taken_together(tmp_path: Path) -> None:
    for seed, worst in enumerate((0.4, 0.5, 0.6)):
        run = write_run(tmp_path / f"seed-{seed}", [[worst, 1.0]])
        text = (run / "config.yaml").read_text()
        (run / "config.yaml").write_text(text.replace("seed: 0", f"seed: {seed}"))
    other = write_run(tmp_path / "other", [[0.1, 1.0]])
    text = (other / "config.yaml").read_text()
    (other / "config.yaml").write_text(text.replace("seed: 0", "seed: 0, lr: 1.0"))
    (row,) = repeats(read_runs([tmp_path]))
    assert (row["what"], row["runs"], row["like"]) == ("FedAvg", 3, "seed-0")
    assert row["metrics"]["wlp"] == pytest.approx((0.5, 0.1))
    assert row["metrics"]["amp"] == pytest.approx((0.75, 0.05))
    assert "one training run" not in " ".join(cautions(read_runs([tmp_path])))


def test_fairness_beyond_one_variance(tmp_path: Path) -> None:
    accuracies = [k / 20 for k in range(20, 0, -1)]  # 1.00 down to 0.05
    write_run(tmp_path / "a", [accuracies])
    (run,) = read_runs([tmp_path])
    assert [site.name for site in site_scores(run, "oca")[:2]] == ["site 19", "site 18"]
    assert deciles([0.0, 1.0]) == pytest.approx([k / 10 for k in range(11)])
    numbers = fairness(run, "oca")
    assert numbers is not None
    assert numbers["spread"] == pytest.approx(0.95)
    assert numbers["mixtures"]["bound"] == 0.05
    assert numbers["mixtures"]["worst"] > 0.05


def test_an_interval_holds_the_share_and_narrows_with_cases() -> None:
    for tested in (1, 10, 1000):
        for right in (0, tested // 2, tested):
            low, high = wilson(right, tested)
            assert 0 <= low <= right / tested <= high <= 1
    assert wilson(500, 1000)[0] > wilson(5, 10)[0]


def test_sites_without_tests_do_not_count(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [[0.9, None, 0.7]])
    (run,) = read_runs([tmp_path])
    assert [site.client for site in site_scores(run, "oca")] == [2, 0]
