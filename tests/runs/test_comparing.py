"""fedkf.compare and fedkf.sweep."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import tiny
from torch import nn

import fedkf
from fedkf.core.errors import UserError


@pytest.fixture(scope="module")
def runs(npz: Path) -> list[fedkf.Result]:
    """Two algorithms, three seeds; results without files."""
    return [
        fedkf.run(tiny(npz), algorithm=name, rounds=2, seed=seed)
        for name in ("fedprox", "fedavg")
        for seed in (0, 1, 2)
    ]


def amp(run: fedkf.Result) -> float:
    found: float = run.summary["readouts"]["oca"]["amp"]
    return found


def test_runs_are_paired_by_seed_whatever_their_order(runs: list[fedkf.Result]) -> None:
    found = fedkf.compare([*reversed(runs[:3]), *runs[3:], runs[0]])
    assert found.baseline == "fedavg"
    (row,) = [
        r for r in found.rows if (r["name"], r["readout"], r["metric"]) == ("fedprox", "oca", "amp")
    ]
    changes = [amp(a) - amp(b) for a, b in zip(runs[:3], runs[3:], strict=True)]
    assert row["seeds"] == 3
    assert row["difference"] == pytest.approx(statistics.fmean(changes))
    assert row["low"] <= row["difference"] <= row["high"]
    text = str(found)
    assert "against fedavg" in text.splitlines()[0]
    assert "over 3 seeds" in text
    assert found._repr_html_().count("<tr>") == len(found.rows) + 1


def test_nothing_is_compared_across_seeds(runs: list[fedkf.Result]) -> None:
    found = fedkf.compare({"a": runs[3], "b": [runs[1]]})
    other = [row for row in found.rows if row["name"] == "b"]
    assert all(row["difference"] is None for row in other)
    assert other[0]["words"] == "no run on the same data with the same seed"


def test_what_else_differs_between_runs_is_told(npz: Path, runs: list[fedkf.Result]) -> None:
    common: dict[str, Any] = {"algorithm": "fedprox", "seed": 0, "workers": 0}
    found = fedkf.compare([fedkf.run(tiny(npz), rounds=1, **common), runs[3]], metrics=["amp"])
    assert found.rows[0]["words"].endswith("; rounds 1, the baseline's 2")
    few = fedkf.run(tiny(npz), rounds=2, fraction=0.9, model="mlp", **common)
    (row, *_) = fedkf.compare([few, runs[3]], metrics=["amp"]).rows
    assert "; model mlp, the baseline's lenet5; fraction of clients 0.9, the" in row["words"]
    assert ";" not in fedkf.compare([runs[0], runs[3]], metrics=["amp"]).rows[0]["words"]


def test_of_two_runs_with_one_seed_neither_is_left_out(
    npz: Path, tmp_path: Path, runs: list[fedkf.Result]
) -> None:
    long = fedkf.run(
        tiny(npz), algorithm="fedprox", rounds=3, seed=0, workers=0, out=tmp_path / "long"
    )
    with pytest.raises(
        UserError, match=r"long are runs of fedprox, but differ in federation\.rounds and"
    ):
        fedkf.compare([runs[0], long])
    assert fedkf.compare({"short": runs[0], "long": long}).rows
    assert len(fedkf.compare([long, long.folder], metrics=["amp"]).rows) == 2  # the same run


def test_other_data_are_no_other_seed(npz: Path, runs: list[fedkf.Result]) -> None:
    common: dict[str, Any] = {"algorithm": "fedprox", "rounds": 2, "workers": 0}
    alike = fedkf.run(tiny(npz), data={"alpha": 100.0}, seed=1, **common)
    with pytest.raises(UserError, match=r"differ in data\.alpha and not in their seeds alone"):
        fedkf.compare([runs[0], alike])
    scaled = fedkf.run(tiny(npz), data={"mean": [0.1], "std": [0.3]}, seed=1, **common)
    with pytest.raises(UserError, match=r"differ in data\.mean, data\.std and not in their seeds"):
        fedkf.compare([runs[0], scaled])
    x = np.random.default_rng(0).random((12, 1, 8, 8), dtype=np.float32)
    made = [
        fedkf.run(
            clients={"a": (x * k, np.arange(12) % 2), "b": (x, np.arange(12) % 2)},
            federation={"rounds": 1, "fraction": 1.0},
            algorithm="fedprox",
            seed=seed,
            workers=0,
        )
        for k, seed in ((1, 0), (0.5, 1))
    ]
    with pytest.raises(UserError, match=r"on other data with the same data\.seed; give each divis"):
        fedkf.compare(made)
    other = fedkf.run(tiny(npz), data={"seed": 5}, seed=1, **common)
    assert fedkf.compare([runs[0], other], metrics=["amp"]).rows[0]["seeds"] == 2


FREE: list[dict[str, Any]] = [
    {"federation": {"round_timeout": 99.0}},
    {"federation": {"evaluate_every": 2}},
    {"federation": {"patience": 9}},
    {"generator": {"width": 6}},
    {"evaluation": {"personal": "head"}},
    {"evaluation": {"metric": "accuracy"}},
]


@pytest.mark.parametrize("free", FREE)
def test_seeds_may_differ_in_what_has_no_influence(npz: Path, free: dict[str, Any]) -> None:
    common: dict[str, Any] = {"algorithm": "fedavg", "rounds": 2, "workers": 0}
    made = [fedkf.run(tiny(npz), seed=0, **common), fedkf.run(tiny(npz), seed=1, **common, **free)]
    rows = {r["readout"]: r for r in fedkf.compare(made, metrics=["amp"]).rows}
    assert rows["oca"]["seeds"] == 2
    assert rows["oca"]["mean"] == pytest.approx(statistics.fmean(map(amp, made)))
    assert ("personal" in rows) == ("evaluation" in free and "personal" in free["evaluation"])


def test_the_patience_that_ended_a_run_is_a_setting_of_its_own(npz: Path) -> None:
    common: dict[str, Any] = {"algorithm": "fedavg", "workers": 0, "lr": 1e-9}
    ended, whole = (
        fedkf.run(tiny(npz), seed=seed, rounds=4, **common, federation=settings)
        for seed, settings in ((0, {"patience": 2}), (1, {"patience": 9, "evaluate_every": 2}))
    )
    assert (len(ended.rounds), len(whole.rounds)) == (3, 4)
    with pytest.raises(UserError, match=r"evaluate_every, federation\.patience and not in their"):
        fedkf.compare([ended, whole])


def test_personal_models_of_two_kinds_have_no_mean(npz: Path, runs: list[fedkf.Result]) -> None:
    common: dict[str, Any] = {"algorithm": "fedavg", "rounds": 2, "workers": 0}
    made = [
        fedkf.run(tiny(npz), seed=seed, evaluation={"personal": personal}, **common)
        for seed, personal in ((0, "head"), (1, "finetune"))
    ]
    with pytest.raises(UserError, match=r"differ in evaluation\.personal and"):
        fedkf.compare([runs[5], *made])


def test_divisions_in_files_of_their_own_are_seeds(npz: Path, tmp_path: Path) -> None:
    with np.load(npz) as content:
        np.savez(tmp_path / "other.npz", images=content["images"], labels=content["labels"][::-1])
    common: dict[str, Any] = {"rounds": 1, "workers": 0}
    made = [
        fedkf.run(tiny(path), algorithm=name, data={"seed": seed}, **common)
        for name in ("fedavg", "fedprox")
        for path, seed in ((npz, 0), (tmp_path / "other.npz", 1), (tmp_path / "other.npz", 0))
    ]
    found = fedkf.compare([*made[:2], *made[3:5]], metrics=["amp"])
    assert {(row["name"], row["seeds"]) for row in found.rows} == {("fedavg", 2), ("fedprox", 2)}
    assert "over 2 seeds" in found.rows[-1]["words"]
    for several in (made[:3], made[::2]):
        with pytest.raises(UserError, match=r"give each division a data\.seed of its own"):
            fedkf.compare(several)


def test_of_two_models_given_in_python_neither_is_left_out(npz: Path, tmp_path: Path) -> None:
    def flat(size: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(256, size), nn.ReLU(), nn.Linear(size, 3))

    one, two = (
        fedkf.run(
            tiny(npz),
            model=lambda size=size: flat(size),
            algorithm="fedavg",
            rounds=2,
            workers=0,
            out=tmp_path / str(size),
        )
        for size in (2, 40)
    )
    with pytest.raises(UserError, match=r"2 and .*40 are runs of fedavg on the same data with the"):
        fedkf.compare([one, two])
    assert len(fedkf.compare([one, one.folder], metrics=["amp"]).rows) == 2
    told = fedkf.compare({"small": one, "large": two}, metrics=["amp"]).rows[-1]["words"]
    assert told.endswith("; models given in Python, which are not known to be the same")


def test_scales_that_other_divisions_agree_on_are_no_other_setting(tmp_path: Path) -> None:
    lines = [f"{'ab'[k % 2]},{k * k % 17},{k % 3 // 2}" for k in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["site,x,ill", *lines]))
    table = {"source": "table", "path": str(tmp_path / "t.csv"), "target": "ill", "site": "site"}
    base = {**{f"data.{key}": value for key, value in table.items()}, "federation.rounds": 1}
    grid: dict[str, list[Any]] = {"algorithm.name": ["fedavg"], "data.seed": [0, 1]}
    found = fedkf.sweep(grid, base, out=tmp_path / "runs", jobs=1)
    assert found["all"].rows[0]["seeds"] == 2
    scales = [fedkf.load(path).about["mean"] for path in sorted((tmp_path / "runs").glob("*seed*"))]
    assert scales[0] != scales[1]


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ({}, "grid is empty"),
        ([("algorithm.name", ["fedavg"])], "grid is a list; it maps keys to lists"),
        ({1: ["fedavg"]}, "no key '1'"),
        ({"algorithm.name": "fedavg"}, "grid must map keys to lists"),
        ({"data.alpha": 0.1}, "grid must map keys to lists"),
    ],
)
def test_a_grid_of_no_lists_is_refused(grid: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        fedkf.sweep(grid, out=tmp_path)


def test_a_baseline_without_personal_models_is_told(npz: Path, runs: list[fedkf.Result]) -> None:
    own = {**tiny(npz), "evaluation": {"personal": "head"}}
    found = fedkf.compare([fedkf.run(own, algorithm="fedprox", rounds=2, seed=0), runs[3]])
    (row, *_) = [row for row in found.rows if row["readout"] == "personal"]
    assert row["words"] == "the baseline has no personal models"


def test_means_over_other_seeds_than_the_difference_are_told(runs: list[fedkf.Result]) -> None:
    found = fedkf.compare([*runs[:2], *runs[3:]], metrics=["amp"])
    told = {row["name"]: row["words"] for row in found.rows}
    assert told["fedprox"].endswith("; the mean is over 2 seeds, the baseline's over 3 seeds")


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, fedkf.Result]:
    """Runs on the same data and seed, judged by the error or by the variance explained."""
    x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    clients = {name: (x + k, 10 * x[:, 0] + 7 * k) for k, name in enumerate("abc")}
    made, folder = {}, tmp_path_factory.mktemp("judged")
    for algorithm, metric in (("fedavg", "rmse"), ("fedprox", "rmse"), ("fedprox", "r2")):
        made[f"{algorithm} {metric}"] = fedkf.run(
            clients=clients,
            algorithm=algorithm,
            model="mlp",
            data={"task": "regression"},
            federation={"rounds": 1, "fraction": 1.0, "local_epochs": 1},
            evaluation={"metric": metric},
            workers=0,
            out=folder / f"{algorithm}-{metric}",
        )
    return made


def test_errors_are_no_percentages(numbers: dict[str, fedkf.Result]) -> None:
    found = fedkf.compare([numbers["fedavg rmse"], numbers["fedprox rmse"]], metrics=["amp"])
    for row in found.rows:
        assert row["shown"] == f"{row['mean']:.4f}"
        assert "points" not in row["words"]
    assert found.rows[-1]["difference"] is not None


@pytest.mark.parametrize("files", [False, True])
def test_runs_judged_by_different_metrics_are_no_pair(
    numbers: dict[str, fedkf.Result], files: bool
) -> None:
    given = {name: run.folder if files else run for name, run in numbers.items()}
    found = fedkf.compare(given, baseline="fedavg rmse", metrics=["amp"])
    (row, *_) = [row for row in found.rows if row["name"] == "fedprox r2"]
    assert row["difference"] is None
    assert row["words"] == "judged by r2, the baseline by rmse"
    assert row["shown"] == f"{100 * row['mean']:.1f}"
    with pytest.raises(UserError, match="judged by different metrics"):
        fedkf.compare({"all": list(given.values())[1:]})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"runs": []}, "nothing to compare"),
        ({"runs": {"a": []}}, "nothing to compare"),
        ({"runs": "runs/mine"}, "must be a list"),
        ({"runs": [3]}, "holds a int"),
        ({"runs": ["/nowhere"]}, "holds no finished run"),
    ],
)
def test_what_cannot_be_compared_is_told(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        fedkf.compare(**arguments)


def test_other_mistakes_are_told(runs: list[fedkf.Result]) -> None:
    with pytest.raises(UserError, match="no metric 'apm'; did you mean 'amp'"):
        fedkf.compare(runs, metrics=["apm"])
    with pytest.raises(UserError, match="baseline is 'fedagv'; did you mean 'fedavg'"):
        fedkf.compare(runs, baseline="fedagv")


def test_a_sweep_is_compared_for_each_setting_of_the_data(npz: Path, tmp_path: Path) -> None:
    base = {**tiny(npz), "federation.rounds": 1}
    grid: dict[str, list[Any]] = {"algorithm.name": ["fedavg", "fedprox"], "data.alpha": [0.5, 5.0]}
    found = fedkf.sweep(grid, base, out=tmp_path, jobs=1)
    assert list(found) == ["data.alpha=0.5", "data.alpha=5.0"]
    assert {row["name"] for row in found["data.alpha=0.5"].rows} == {"fedavg", "fedprox"}
    again = fedkf.sweep(grid, base, out=tmp_path, jobs=1)  # nothing is repeated
    assert str(again) == str(found)
    with pytest.raises(UserError, match=r"no key 'data\.alhpa'"):
        fedkf.sweep({"data.alhpa": [1]}, base, out=tmp_path)
