"""Groups of people: no inputs, but what models are judged by, across sites and within them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Outcome
from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.core.groups import Group, GroupScores, group_scores
from fedkf.data.groups import grouped, with_groups
from fedkf.data.reading import MISSING_VALUES, Reading
from fedkf.data.source import Source
from fedkf.data.sources import read
from fedkf.flower.settings import outgoing
from fedkf.metrics.sites import SITE_METRICS
from fedkf.report.groups import sentence
from fedkf.runs.config import parse

SIZES = {"north": 60, "south": 60}


def text(path: Path) -> Path:
    """Women's column a says nothing; at both sites every third row is a woman's."""
    random = np.random.default_rng(0)
    lines = ["site,sex,age,a,b,ill"]
    for site, count in SIZES.items():
        for k in range(count):
            ill, woman = k % 2, k % 3 == 0
            a = random.normal() if woman else 6 * ill - 3 + random.normal()
            age = "" if k == 5 else 20 + k
            lines.append(
                f"{site},{'f' if woman else 'm'},{age},{a:.3f},{random.normal():.3f},{ill}"
            )
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text(tmp_path_factory.mktemp("groups") / "people.csv")


def settings(csv: Path, **data: Any) -> dict[str, Any]:
    own = {"source": "table", "path": str(csv), "target": "ill", "site": "site", **data}
    return {
        "data": {"partition": "natural", "train_fraction": 0.3, **own},
        "model": {"name": "mlp"},
        "algorithm": {"name": "fedavg"},
        "federation": {"rounds": 2, "fraction": 1.0, "local_epochs": 8, "batch_size": 8, "lr": 0.1},
        "engine": {"workers": 0},
    }


@pytest.fixture(scope="module")
def run(csv: Path) -> Path:
    from fedkf.runs.experiment import execute

    folder = csv.parent / "run"
    execute(parse(settings(csv, groups=["sex", "age"])), folder)
    return folder


def test_a_group_is_no_input_unless_it_is_named_as_one(csv: Path) -> None:
    reading = Reading(target="ill", site="site", groups=["sex"])
    source = read("table", str(csv), reading)
    assert source.layout is not None
    assert source.layout.columns == ["age", "a", "b"]
    named = Reading(target="ill", site="site", groups=["sex"], columns=["a", "sex"])
    both = read("table", str(csv), named)
    assert both.layout is not None
    assert both.layout.columns == ["a", "sex"]
    assert sorted(set(both.groups["sex"].tolist())) == ["f", "m"]


def test_numbers_become_bands_and_what_is_missing_a_group_of_its_own(csv: Path) -> None:
    ages = read("table", str(csv), Reading(target="ill", site="site", groups=["age"])).groups["age"]
    assert set(ages.tolist()) == {
        "under 35",
        "35 to under 50",
        "50 to under 65",
        "65 and over",
        "unknown",
    }
    assert grouped("x", np.array([1.0, 0.0, np.nan]), MISSING_VALUES).tolist() == [
        "1",
        "0",
        "unknown",
    ]
    with pytest.raises(UserError, match="has 60 different values"):
        grouped("name", np.array([f"p{k}" for k in range(60)]), MISSING_VALUES)


@pytest.mark.parametrize(
    ("values", "bands"),
    [
        (
            np.arange(1940, 2000),
            {"under 1950", "1950 to under 1970", "1970 to under 1980", "1980 and over"},
        ),
        (
            20_250_000 + np.arange(100),
            {
                "under 20250020",
                "20250020 to under 20250050",
                "20250050 to under 20250070",
                "20250070 and over",
            },
        ),
        (np.repeat([0.0, *range(2000, 2010)], [90, *[1] * 10]), {"0 and over"}),
    ],
)
def test_limits_of_bands_have_as_many_digits_as_keep_them_apart(
    values: NDArray[Any], bands: set[str]
) -> None:
    assert set(grouped("x", values, MISSING_VALUES).tolist()) == bands


def test_groups_go_with_their_samples() -> None:
    source = Source(np.zeros((3, 2)), np.array([0, 1, 0]), ["x", "y"])
    source = with_groups(source, {"sex": np.array(["f", "m", "f"])}, ["sex"])
    assert source.take(np.array([1, 2])).groups["sex"].tolist() == ["m", "f"]


def test_gaps_across_and_within_sites_are_worked_out_by_hand() -> None:
    """Each site serves both groups alike; one site holds the women, and is served worse."""
    groups = np.array(["f"] * 20 + ["m"] * 20 + ["f"] * 10 + ["m"] * 30)
    right = np.array([1, 0] * 20 + [1] * 40)
    sites = [("a", range(40)), ("b", range(40, 80)), ("c", range(80, 80))]
    found = group_scores("accuracy", lambda rows: (float(right[rows].mean()), None), groups, sites)
    assert [(g.name, g.tested, g.value) for g in found.groups] == [("f", 30, 2 / 3), ("m", 50, 0.8)]
    assert found.gap == pytest.approx(0.8 - 2 / 3)
    assert found.within == 0
    few = group_scores(
        "accuracy", lambda rows: (1.0, (0.9, 1.0)), np.array(["f"] * 9 + ["m"] * 10), []
    )
    assert [(g.value, g.interval) for g in few.groups] == [(None, None), (1.0, (0.9, 1.0))]
    assert few.gap is None


def test_a_gap_does_not_hang_on_one_positive() -> None:
    groups = np.array(["f"] * 20 + ["m"] * 20 + ["unknown"] * 11)
    ill = np.array([1, 0] * 20 + [1] + [0] * 10)
    served = {"f": 0.7, "m": 0.8, "unknown": 0.95}

    def judge(rows: NDArray[np.int64]) -> tuple[float, tuple[float, float]]:
        value = served[str(groups[rows[0]])]
        return value, (value - 0.01, value + 0.01)

    def rare(rows: NDArray[np.int64]) -> int:
        return int(min(ill[rows].sum(), (1 - ill[rows]).sum()))

    found = group_scores("auroc", judge, groups, [("a", range(51))], rare)
    assert [(g.rare, g.telling) for g in found.groups] == [(10, True), (10, True), (1, False)]
    assert found.gap == pytest.approx(0.1)
    assert found.within == pytest.approx(0.1)
    assert sentence("FedAvg", found, SITE_METRICS["auroc"]) == (
        "FedAvg: by AUROC, f is served worst (70.0 %) and m best (80.0 %); within a site, groups "
        "are 10.0 points apart on average. Not compared, with fewer than 5 cases of the rarer "
        "kind: unknown."
    )
    again = GroupScores.read(json.loads(json.dumps(found.as_json())))
    assert [g.rare for g in again.groups] == [10, 10, 1]


def test_a_gap_may_be_chance_where_an_interval_is_missing_or_overlaps() -> None:
    caveat = "which the number of cases does not rule out to be chance"
    for ends, chance in (((0.6, 0.99), True), (None, True), ((0.7, 0.8), False)):
        groups = [Group("f", 30, 0.75, ends), Group("m", 30, 1.0, (0.95, 1.0))]
        said = sentence("FedAvg", GroupScores("auroc", groups), SITE_METRICS["auroc"])
        assert (caveat in said) == chance


def test_groups_of_older_runs_without_counts_are_read() -> None:
    old = {"name": "f", "tested": 11, "value": 0.9, "interval": None}
    assert Group.read(old) == Group("f", 11, 0.9)
    assert Group.read(old).telling


def test_a_run_says_how_groups_fare(run: Path, cli: Callable[..., Outcome], tmp_path: Path) -> None:
    found = json.loads((run / "summary.json").read_text())["groups"]
    women, men = found["sex"]["oca"]["groups"]
    assert men["value"] > women["value"] + 0.2
    assert women["interval"][0] < women["value"] < women["interval"][1] < men["interval"][0]
    assert found["sex"]["oca"]["gap"] == pytest.approx(men["value"] - women["value"])
    assert found["sex"]["oca"]["within"] > 0.1
    assert [site["name"] for site in found["sex"]["oca"]["sites"]] == ["north", "south"]
    total = json.loads((run / "partition.json").read_text())["clients"]
    assert women["tested"] + men["tested"] == sum(client["test"] for client in total)
    again = json.loads(cli("evaluate", run, "--json").out)["groups"]["sex"]
    assert again == found["sex"]["oca"]
    assert "by sex" in cli("evaluate", run).out
    assert cli("report", run, "--out", tmp_path / "report.html").code == 0
    page = (tmp_path / "report.html").read_text()
    assert "By sex" in page
    assert "f is served worst" in page


def test_a_run_judged_by_auroc_counts_the_rarer_kind_of_each_group(
    csv: Path, tmp_path: Path
) -> None:
    from fedkf.runs.experiment import execute

    execute(parse(settings(csv, groups="sex", task="binary")), tmp_path / "run")
    found = json.loads((tmp_path / "run" / "summary.json").read_text())["groups"]["sex"]["oca"]
    assert found["metric"] == "auroc"
    assert all(5 <= group["rare"] <= group["tested"] / 2 for group in found["groups"])


def test_without_groups_nothing_of_it_is_written_and_models_are_the_same(
    csv: Path, run: Path, tmp_path: Path
) -> None:
    from fedkf.runs.experiment import execute

    execute(parse(settings(csv, columns=["a", "b"])), tmp_path / "run")
    assert "groups" not in json.loads((tmp_path / "run" / "summary.json").read_text())
    models = [
        (folder / "models" / "oca.safetensors").read_bytes() for folder in (run, tmp_path / "run")
    ]
    assert models[0] == models[1]


def test_arrays_of_an_npz_are_groups_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    images, labels = np.zeros((4, 8, 8), np.uint8), np.array([0, 1, 0, 1])
    np.savez(path, images=images, labels=labels, device=np.array(["p", "q", "p", "q"]))
    source = read("npz", str(path), Reading(groups=["device"]))
    assert source.groups["device"].tolist() == ["p", "q", "p", "q"]
    with pytest.raises(UserError, match=r"data\.groups: the source knows no 'age'"):
        read("npz", str(path), Reading(groups=["age"]))
    np.savez(path, images=images, labels=labels, device=np.zeros(3))
    with pytest.raises(UserError, match="4 labels but device has shape"):
        read("npz", str(path), Reading(groups=["device"]))


def test_a_window_is_of_the_commonest_group_of_its_rows(tmp_path: Path) -> None:
    devices = ["watch"] * 10 + ["phone"] * 14 + ["watch"] * 6
    rows = [f"{k % 5},{'walk' if k % 20 < 10 else 'sit'},{d}" for k, d in enumerate(devices)]
    (tmp_path / "rec.csv").write_text("\n".join(["ax,label,device", *rows]))
    reading = Reading(target="label", window=10, groups=["device"])
    source = read("signals", str(tmp_path / "rec.csv"), reading)
    assert source.inputs.shape == (3, 1, 10)  # the device is no channel
    assert source.groups["device"].tolist() == ["watch", "phone", "watch"]


def test_mistakes_are_told_in_a_sentence(csv: Path) -> None:
    with pytest.raises(UserError, match=r"data\.groups: .* no column 'sexx'; did you mean 'sex'"):
        read("table", str(csv), Reading(target="ill", groups=["sexx"]))
    with pytest.raises(UserError, match="knows no 'sex'; it says nothing of its samples"):
        read("digits", None, Reading(groups=["sex"]))
    with pytest.raises(UserError, match=r"data\.groups is for rehearsals"):
        outgoing(parse({"data": {"groups": "sex"}}))
