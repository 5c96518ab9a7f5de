"""Paired differences in a sweep's table and below the paper's, on records chosen by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from fedkf.paper import analyses
from fedkf.paper.differences import difference_table, paired_notes
from fedkf.paper.scales import choose
from fedkf.runs.collect import Group, gather
from fedkf.runs.config import read, resolve
from fedkf.runs.suite import Finished, Plan


def run(folder: Path, name: str, accuracies: Sequence[float], seed: int = 0) -> Finished:
    """A record of one round; both readouts are alike and all clients have ten tests."""
    path = folder / f"{name}-{seed}"
    path.mkdir(parents=True)
    amp = sum(accuracies) / len(accuracies)
    clients = list(range(len(accuracies)))
    score = {
        "amp": amp,
        "fm": 0.01,
        "wlp": min(accuracies),
        "clients": clients,
        "accuracy": list(accuracies),
    }
    readouts = {"aca": score, "oca": score}
    (path / "rounds.jsonl").write_text(json.dumps({"round": 1, "readouts": readouts}) + "\n")
    summary = {"algorithm": name, "seed": seed, "rounds": 1, "readouts": readouts}
    (path / "summary.json").write_text(json.dumps(summary))
    sites = [{"name": f"site {k}", "train": 10, "test": 10} for k in clients]
    (path / "partition.json").write_text(json.dumps({"clients": sites}))
    overrides = {"algorithm.name": name, "federation.seed": seed, "engine.workers": 0}
    return Finished(path, resolve(read("digits")[0], overrides))


def group(name: str, runs: Sequence[Finished], alpha: float = 0.1) -> Group:
    return Group({"algorithm.name": name, "data.alpha": alpha}, runs)


@pytest.fixture
def groups(tmp_path: Path) -> list[Group]:
    """FedAvg's seeds scatter by 20 points; FedKF is 1, 2 and 3 points above, seed by seed."""
    base = [run(tmp_path, "fedavg", [a, a], s) for s, a in enumerate((0.3, 0.5, 0.7))]
    other = [run(tmp_path, "fedkf", [a, a], s) for s, a in enumerate((0.31, 0.52, 0.73))]
    return [group("fedkf", other[::-1]), group("fedavg", base)]


def test_seeds_are_paired_whatever_their_order(groups: list[Group]) -> None:
    table = difference_table("a sweep", groups)
    assert table is not None
    assert list(table.rows) == ["FedKF (ACA)", "FedKF (OCA)"]
    assert [column.name for column in table.columns][:3] == ["AMP", "FM", "WLP"]
    cell = table.rows["FedKF (OCA)"][0]
    assert sorted(cell.values) == pytest.approx([0.01, 0.02, 0.03])
    assert cell.text == "+2.00 [-0.48, 4.48]"  # 4.3027 / √3 = 2.484
    assert (
        "less that of FedAvg with the same data and seed: the mean, over 3 seeds"
        in (table.notes[0])
    )
    assert table.marks(0) == {}


def test_a_star_marks_what_is_beyond_chance(groups: list[Group], tmp_path: Path) -> None:
    other = [run(tmp_path, "scaffold", [a, a], s) for s, a in enumerate((0.4, 0.6, 0.8))]
    table = difference_table("", [*groups, group("scaffold", other)])
    assert table is not None
    assert table.rows["SCAFFOLD (ACA)"][0].text == "+10.00 [10.00, 10.00] *"
    assert "+10.00 [10.00, 10.00] *" in table.csv()


def test_nothing_is_compared_across_data_or_seeds(groups: list[Group], tmp_path: Path) -> None:
    elsewhere = group("fedkf", [run(tmp_path / "b", "fedkf", [0.9, 0.9])], alpha=1.0)
    assert difference_table("", [groups[1], elsewhere]) is None
    later = group("fedkf", [run(tmp_path / "c", "fedkf", [0.9, 0.9], seed=7)])
    assert difference_table("", [groups[1], later]) is None
    files = [run(tmp_path / name, "fedavg", [0.5, 0.5]) for name in ("d", "e")]
    for number, one in enumerate(files):
        (one.path / "config.yaml").write_text(f"provenance: {{data_sha256: data {number}}}\n")
    points = [{"federation.lr": lr} for lr in (0.1, 0.2)]
    grid = [Group(point, [one]) for point, one in zip(points, files, strict=True)]
    assert difference_table("", grid) is None


def test_without_fedavg_the_first_row_is_the_baseline(tmp_path: Path) -> None:
    grid = [
        Group({"federation.lr": lr}, [run(tmp_path / str(lr), "fedkf", [a] * 5)])
        for lr, a in ((0.1, 0.5), (0.2, 0.6))
    ]
    table = difference_table("", grid)
    assert table is not None
    assert [column.group for column in table.columns[:1]] == ["lr = 0.2"]
    assert table.rows["OCA"][0].text == "+10.00 [10.00, 10.00] *"
    assert "one seed: interval over 5 clients" in table.notes[0]


def test_the_same_seed_counts_once(tmp_path: Path) -> None:
    first, again = (run(tmp_path / name, "fedavg", [a, a]) for name, a in (("a", 0.5), ("b", 0.6)))
    point = {"algorithm.name": "fedavg"}
    plans = [
        Plan(name, {**point, "federation.seed": seed}, first.config)
        for name, seed in (("one", 0), ("two", 0.0))
    ]
    (found,) = gather(plans, {"one": first, "two": again})
    assert found.runs == [first]


def test_the_papers_tables_say_what_fedkf_gains_over_fedavg(groups: list[Group]) -> None:
    assert paired_notes(groups)[1] == (
        "FedKF (OCA) less FedAvg (OCA), α = 0.1: AMP +2.0 points [-0.5, 4.5] over 3 seeds, no "
        "difference beyond chance; FM +0.0000 [0.0000, 0.0000] over 3 seeds, no difference beyond "
        "chance; WLP +2.0 points [-0.5, 4.5] over 3 seeds, no difference beyond chance."
    )
    members = [Group({"config": "digits", **g.point}, g.runs) for g in groups]
    (table,) = analyses.performance(members, choose("smoke"))
    assert list(table.notes[1:]) == paired_notes(groups)
    assert paired_notes(groups[:1]) == []
