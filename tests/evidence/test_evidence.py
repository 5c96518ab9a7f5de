"""From records to differences and tables, on numbers chosen by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import again
import every_step
import pytest
from evidence import answer, leaving, pages, paper, tables, worlds
from evidence.contrasts import (
    Contrast,
    Model,
    contrast,
    corrected,
    doubt,
    shown,
    signed,
    standing,
)
from evidence.reading import UNCHANGED, Evidence, Setting, point_of, read_records, setting_of
from evidence.sentences import not_behind, pair_of

from fedkf.paper.experiments import EXPERIMENTS
from fedkf.paper.scales import choose
from fedkf.runs.collect import Group
from fedkf.runs.config import read, resolve
from fedkf.runs.statistics import CHANCE, Difference
from fedkf.runs.store import RunFolder
from fedkf.runs.suite import Finished

SAME = "with the same accuracy of every client after every round"


def record(
    folder: Path,
    name: str,
    oca: Sequence[float],
    seed: int = 0,
    digest: str = "d",
    **settings: Any,
) -> Finished:
    """A finished run of one round whose clients end with these accuracies; ACA's are 0.1 lower."""
    path = folder / name
    path.mkdir(parents=True)
    overrides = {"federation.rounds": 1, "federation.seed": seed, "engine.workers": 0, **settings}
    config = resolve(read("digits")[0], overrides)
    RunFolder(path).write_config(config, {"data_sha256": digest})
    readouts = {}
    for readout, accuracy in (("oca", list(oca)), ("aca", [a - 0.1 for a in oca])):
        mean = sum(accuracy) / len(accuracy)
        readouts[readout] = {
            **{"amp": mean, "fm": 0.01, "wlp": min(accuracy)},
            **{"clients": list(range(len(accuracy))), "accuracy": accuracy},
        }
    sent = {"down": 2_000_000, "up": 1_000_000}
    line = {"round": 1, "active": [0], "readouts": readouts, "bytes": sent}
    (path / "rounds.jsonl").write_text(json.dumps(line) + "\n")
    about = {"algorithm": config.algorithm.name, "seed": seed, "rounds": 1, "readouts": readouts}
    more = {
        "seconds": {"train": 1800.0, "total": 1800.0},
        "bytes": {"down": 2000000, "up": 1000000},
    }
    (path / "summary.json").write_text(json.dumps({**about, **more}))
    return Finished(path, config)


def setting(*runs: Finished) -> Setting:
    return Setting("method", "", Group({}, runs))


def test_a_difference_is_between_runs_of_one_seed_and_over_the_clients(tmp_path: Path) -> None:
    base = setting(*(record(tmp_path, f"a{k}", [0.5, 0.6, 0.7], k) for k in range(3)))
    other = setting(
        record(tmp_path, "b0", [0.6, 0.7, 0.7], 0),
        record(tmp_path, "b1", [0.6, 0.7, 0.9], 1),
        record(tmp_path, "b9", [0.1, 0.1, 0.1], 9),  # without a partner
    )
    found = contrast(Model(other, "oca"), Model(base, "oca"))
    assert found is not None
    assert found.seeds == 2
    assert found.metrics["amp"].mean == pytest.approx((0.2 / 3 + 0.4 / 3) / 2)
    assert found.metrics["amp"].interval is None  # two seeds are too few
    assert found.metrics["wlp"].mean == pytest.approx(0.1)
    assert found.clients is not None
    assert found.clients.mean == pytest.approx(0.1)  # each client gains 0.1 on average over seeds
    assert (found.better, found.worse, found.count) == (3, 0, 3)
    alone = contrast(Model(base, "oca"), Model(base, "aca"))  # the same runs, read in two ways
    assert alone is not None
    assert alone.metrics["amp"].mean == pytest.approx(0.1)
    assert alone.seeds == 3


def test_a_natural_client_is_one_client_whatever_the_seed_of_the_division(tmp_path: Path) -> None:
    def runs(name: str, value: float, **settings: Any) -> Setting:
        seeds = ((k, {"data.seed": k, **settings}) for k in (0, 1))
        found = [record(tmp_path, f"{name}{k}", [value] * 4, k, f"d{k}", **s) for k, s in seeds]
        return setting(*found)

    natural = {"data.source": "har", "data.partition": "natural"}
    for name, settings, clients in (("dealt", {}, 8), ("natural", natural, 4)):
        pair = [Model(runs(f"{name}{v}", v, **settings), "oca") for v in (0.6, 0.5)]
        found = contrast(pair[0], pair[1])
        assert found is not None
        assert found.count == clients


def test_verdicts_follow_from_seeds_where_there_are_three() -> None:
    clients = Difference(0.05, 20, (0.01, 0.09))
    seeds = Difference(0.05, 3, (-0.01, 0.11))
    assert Contrast({"amp": seeds, "wlp": clients.reversed()}, None, clients).verdict() == CHANCE
    assert Contrast({"amp": seeds, "wlp": clients.reversed()}).verdict("wlp") == "worse"
    assert Contrast({"amp": clients}).verdict() == "better"
    assert Contrast({"amp": Difference(0.05, 2)}, None, clients).verdict() == "too few seeds"
    assert shown(seeds) == "+5.0 [−1.0, 11.0]"
    assert shown(Difference(0, 3, (0, 0))) == "0 with every seed"
    assert shown(clients) == "+5.0 [1.0, 9.0] *"
    assert signed(-0.04) == "+0.0"  # rounds to nothing


def test_a_run_that_is_in_no_suite_tells_by_its_name_what_it_is(tmp_path: Path) -> None:
    run = record(tmp_path, "x", [0.5])
    assert point_of("letters,fedkf,alpha=0.1,seed=0", run) == {
        "config": "letters",
        "algorithm.name": "fedkf",
        "data.alpha": 0.1,
    }
    assert point_of("letters,beta=0,pool=64,seed=1", run)["variant"] == "beta=0, pool=64"
    assert point_of("letters,seed=1", run)["variant"] == UNCHANGED
    assert point_of("no.pool,seed=1", run, variants=True) == {"variant": "no pool"}


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    """Two attempts, each with two seeds, and the runs of a suite of one."""
    plain = {"algorithm.name": "fedavg"}
    for seed in (0, 1):
        record(tmp_path / "results/search", f"letters,beta=0,seed={seed}", [0.4, 0.6], seed)
        record(tmp_path / "results/search", f"letters,seed={seed}", [0.5, 0.7 + seed / 10], seed)
    record(tmp_path / "results/rivals", "fedavg,seed=0", [0.5], 0, "d", **plain)
    record(tmp_path / "results/rivals", "fedkf,seed=0", [0.6], 0)
    steps = {"load": 0.1, "steps": {"fedavg": 1.0, "fedkf": 2.9}}
    (tmp_path / "results/rivals/steps.json").write_text(json.dumps(steps))
    (tmp_path / "suites").mkdir()
    suite = "base: {config: digits, federation.rounds: 1}\ngrid:\n"
    suite += "  algorithm.name: [fedavg, fedkf, fedntd]\n  federation.seed: [0]\n"
    (tmp_path / "suites/rivals.yaml").write_text(suite)
    return Evidence(tmp_path / "results", tmp_path / "suites")


def test_every_attempt_stands_beside_what_was_left_as_it_is(evidence: Evidence) -> None:
    assert tables.attempts(evidence, "search").splitlines()[2:] == [
        "| as it is | 52.5 / 62.5 | the base | 40.0 / 50.0 | the base | 2 |",
        "| beta=0 | 40.0 / 50.0 | −12.5 / −12.5 | 30.0 / 40.0 | −10.0 / −10.0 | 2 |",
    ]


def test_all_algorithms_in_one_table_with_what_a_step_costs(evidence: Evidence) -> None:
    assert tables.rivals(evidence).splitlines()[2:] == [
        "| FedKF | 50.0 / 60.0 | 10.0 / 10.0 | 50.0 / 60.0 | 2.90 | 3 | 1 |",
        "| FedAvg | 40.0 / 50.0 | 10.0 / 10.0 | 40.0 / 50.0 | 1.00 | 3 | 1 |",
        "| FedNTD | – | – | – | – | – | – |",
        "",
        "Steps were measured under a load of 0.1.",
    ]


def test_what_is_complete_is_counted_in_runs_and_hours(evidence: Evidence) -> None:
    *rows, _, unsaved = tables.complete(evidence).splitlines()[2:]
    suite = "`fedkf sweep benchmarks/suites/rivals.yaml`"
    assert rows[0] == f"| rivals: {suite} | 2 of 3 | 2 | 1.0 |"
    assert rows[1] == "| search | – | 4 | 2.0 |"
    assert rows[-1] == "| all |  | 6 | 3.0 |"
    assert unsaved == "0 of these records are of a program with unsaved changes."


def test_only_what_stands_between_marks_is_written_anew(evidence: Evidence) -> None:
    page = "by hand\n<!-- begin rivals -->\nold\n<!-- end rivals -->\nby hand\n"
    fresh = pages.filled(page, evidence)
    assert fresh.startswith("by hand\n<!-- begin rivals -->\n\n| ACA / OCA |")
    assert fresh.endswith("\n\n<!-- end rivals -->\nby hand\n")
    assert "old" not in fresh
    assert pages.filled(fresh, evidence) == fresh


def test_any_folder_of_records_has_a_block_of_its_scores(evidence: Evidence) -> None:
    page = pages.filled("<!-- begin scores-rivals -->\n<!-- end scores-rivals -->", evidence)
    assert "| FedKF (OCA) | 60.0 | 10.0 | 60.0 | 1 |" in page
    with pytest.raises(SystemExit, match="no block 'nothing'"):
        pages.filled("<!-- begin nothing -->\n<!-- end nothing -->", evidence)


def test_not_behind_is_what_the_seeds_do_not_tell_from_the_best(tmp_path: Path) -> None:
    def model(name: str, *values: float) -> Model:
        found = [record(tmp_path, f"{name}{k}", [v] * 3, k) for k, v in enumerate(values)]
        return Model(setting(*found), "oca")

    best = model("best", 0.70, 0.71, 0.72)
    assert not_behind(best, best)
    assert not_behind(model("near", 0.69, 0.71, 0.725), best)
    assert not not_behind(model("behind", 0.695, 0.7051, 0.715), best)  # by half a point, always
    assert not_behind(model("unsure", 0.50, 0.71, 0.80), best)  # the seeds disagree
    assert not_behind(model("few", 0.50, 0.51), best)  # two seeds show nothing


def test_of_many_differences_fewer_stand() -> None:
    sure, likely = Difference(0.05, 3, (0.049, 0.051)), Difference(0.05, 3, (0.001, 0.099))
    assert doubt(likely) == pytest.approx(1 - 4.391 / (2 + 4.391**2) ** 0.5, abs=1e-4)
    assert doubt(Difference(0.05, 2)) == 1
    assert standing({"one": likely}) == ["one"]
    assert standing({"a": likely, "b": sure}) == ["a", "b"]  # the last is held against 0.05
    several = {"a": likely, "b": sure, "c": Difference(0, 3, (-1, 1)), "d": Difference(0.05, 2)}
    assert standing({name: several[name] for name in "abc"}) == ["b"]
    assert corrected(several) == (
        "of these 3 differences 2 have a star; after Holm's correction for their number there "
        "stand: b"
    )


def test_the_last_rounds_have_a_mean_of_their_own(tmp_path: Path) -> None:
    base, other = (setting(record(tmp_path, name, [0.5])) for name in ("base", "other"))
    lines = [json.loads((tmp_path / "other/rounds.jsonl").read_text())]
    for k in range(2, 13):
        lines.append(json.loads(json.dumps(lines[0])))
        lines[-1]["round"] = k
        lines[-1]["readouts"]["oca"]["amp"] = 0.6 if k == 12 else 0.7
    (tmp_path / "other/rounds.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    found = contrast(Model(other, "oca"), Model(base, "oca"))
    assert found is not None
    assert found.late is not None
    assert found.late.mean == pytest.approx((9 * 0.7 + 0.6) / 10 - 0.5)


def test_without_any_variant_of_fedkf_nothing_is_advised(evidence: Evidence) -> None:
    assert leaving.advice_against(worlds.worlds(evidence)) == ""


def test_a_world_may_be_better_with_fedkf_and_better_still_alone(tmp_path: Path) -> None:
    def method(name: str, *values: float) -> Setting:
        algorithm = {"algorithm.name": name}
        runs = [
            record(tmp_path, f"{name}{k}", [value, value - 0.1], k, **algorithm)
            for k, value in enumerate(values)
        ]
        return Setting(name, "", Group({"algorithm.name": name}, runs))

    base, ours = method("fedavg", 0.5, 0.51, 0.52), method("fedkf", 0.6, 0.61, 0.62)
    unsure, alone = method("fedkf-", 0.4, 0.51, 0.7), method("local", 0.8, 0.8, 0.8)
    found = [
        worlds.World("letters", "α = 0.1", [base, ours, alone]),
        worlds.World("photographs, ResNet-8", "α = 0.1", [base, unsure]),
    ]
    gain, level, own, missing = leaving.advice_against(found).split(". ")
    assert gain.endswith(
        "beyond chance: FedKF- above FedAvg on 0 of 1; "
        "FedKF above FedAvg on 1 of 1 (letters α = 0.1)"
    )
    assert level.endswith("which costs less, on photographs, ResNet-8 α = 0.1")
    assert own.endswith("on letters α = 0.1 (fedkf (OCA) −9.0 [−11.5, −6.5] *)")
    assert missing == "Training alone was not run on photographs, ResNet-8 α = 0.1."
    assert found[1].data == "photographs α = 0.1"
    told = answer.alone_line(found)
    assert "ahead of every shared model on 1 of 1 (letters α = 0.1), on 1 beyond chance" in told
    left = answer.leave_line(found)
    assert "FedKF- on 0 of 1; FedKF on 1 of 1; none of them on photographs, ResNet-8 α = 0." in left
    assert answer.plus_line(found) == ""  # FedKF+ was not run
    assert "FedKF better on 1 of 1, worse on 0" in answer.worst_line(found)
    assert answer.t2_line(found).endswith("letters +10.0 *; photographs, ResNet-8 –.")
    assert answer.overlap_line(found[:1]).startswith("**The two replace each other in part.**")
    assert pair_of(Model(base, "aca")) == "36.0 / 31.0"
    assert pair_of(None) == "–"


def test_means_over_other_seeds_are_not_ranked(tmp_path: Path) -> None:
    """A suite under way: what has fewer seeds than others waits, and so does a place without it."""
    names = ("fedavg", "fedkf+", "fedkf")
    file = tmp_path / "suites" / "photographs-resnet.yaml"
    file.parent.mkdir()
    seeds, kinds = {"federation.seed": [0, 1, 2]}, {"algorithm.name": list(names)}
    suite = {"base": {"config": "digits"}, "grid": {"data.alpha": [0.1, 0.01], **kinds, **seeds}}
    file.write_text(json.dumps(suite))
    runs = [("fedavg", 0.1, 3), ("fedkf+", 0.1, 3), ("fedkf", 0.1, 1), ("fedavg", 0.01, 3)]
    for name, alpha, count in [*runs, ("fedkf+", 0.01, 2)]:
        for k in range(count):
            settings: dict[str, Any] = {"algorithm.name": name, "data.alpha": alpha}
            folder = tmp_path / "results" / "photographs-resnet"
            place = f"alpha={alpha},{name},seed={k}"
            record(folder, place, [0.9 if name == "fedkf" else 0.5] * 2, k, f"d{alpha}", **settings)
    evidence = Evidence(tmp_path / "results", tmp_path / "suites")
    (world,) = worlds.worlds(evidence)
    assert world.title == "photographs, ResNet-8 α = 0.1"
    assert world.best("amp").setting.algorithm != "fedkf"
    assert world.method("fedkf") is None
    left = ["FedKF on photographs, ResNet-8 α = 0.1"]
    left += ["FedKF+ and FedKF on photographs, ResNet-8 α = 0.01"]
    assert worlds.unfinished(evidence) == left
    assert leaving.still_to_run(evidence).endswith(f"of it: {'; '.join(left)}.")


def test_a_round_costs_what_was_measured_on_data_of_its_kind(tmp_path: Path) -> None:
    about = {"load": 0.1, "workers": 2}
    paces = {"heart": {"seconds": {}, **about}}
    paces["har"] = {"seconds": {"fedavg": 2.0, "fedkf": 6.0}, **about}
    (tmp_path / "paces.json").write_text(json.dumps(paces))
    run = setting(record(tmp_path, "r", [0.5]))
    letters, heart, har = (
        worlds.World(kind, where, [run])
        for kind, where in (("letters", "α = 0.01"), ("", "heart"), ("", "har"))
    )
    (tmp_path / "letters").mkdir()
    seconds = [["letters", "fedavg", 2.0], ["letters", "fedkf", 5.0]]
    (tmp_path / "letters" / "pace.json").write_text(json.dumps({"seconds": seconds, **about}))
    evidence = Evidence(tmp_path)
    assert worlds.round_cost(evidence, letters, "fedkf") == 2.5
    assert worlds.round_cost(evidence, letters, "fedkf+") is None
    assert worlds.round_cost(evidence, heart, "fedkf") is None
    assert worlds.round_cost(evidence, har, "fedkf") == 3.0


def test_a_suite_of_one_algorithm_tells_its_name(tmp_path: Path) -> None:
    group = Group({"data.alpha": 0.1}, [record(tmp_path, "x", [0.5])])
    assert setting_of(group, several=False).method == "FedKF"


def test_fedavg_has_its_better_readout_and_a_part_left_out_is_no_algorithm(tmp_path: Path) -> None:
    made = record(tmp_path, "fedavg0", [0.5, 0.5], 0, "d", **{"algorithm.name": "fedavg"})
    base = Setting("FedAvg", "", Group({"algorithm.name": "fedavg"}, [made]))
    empty = Setting("FedKF", "", Group({"algorithm.name": "fedkf"}, []))
    other = record(tmp_path, "fedkf0", [0.5, 0.5], 0, "d", **{"algorithm.name": "fedkf"})
    part = Setting("FedKF without a part", "", Group({"algorithm.name": "fedkf"}, [other]))
    world = worlds.World("letters", "α = 0.1", [base, empty, part])
    means = {readout: Model(base, readout).mean("amp") or 0 for readout in ("aca", "oca")}
    assert means["aca"] != means["oca"]
    assert world.better("fedavg") == Model(base, max(means, key=lambda readout: means[readout]))
    assert world.method("fedkf") is None
    rows = worlds.less_row(world, part, base)
    assert rows == [["letters α = 0.1: less FedAvg", *["+0.0"] * 4, "1"]]


@pytest.mark.parametrize("name", ["fedavg", "fedkf+", "feddf", "perfedavg"])
def test_a_clients_turn_is_timed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every_step, "SAMPLES", 64)
    seconds, cost = every_step.cost(name, every_step.turns("fedavg"), repetitions=1)
    assert seconds > 0
    assert cost > 0


def test_a_folder_without_records_holds_none(tmp_path: Path) -> None:
    assert read_records(tmp_path / "nowhere") == {}


def test_records_that_were_trained_again_are_counted(tmp_path: Path) -> None:
    old, new = (record(tmp_path, name, [0.5, 0.6]) for name in "ab")
    assert again.compared(old, new) == {"rounds": 1, "same": 1, "amp": {"aca": 0.0, "oca": 0.0}}
    moved = again.compared(old, record(tmp_path, "c", [0.5, 0.8]))  # one client is served better
    assert moved == {"rounds": 1, "same": 0, "amp": {"aca": 0.1, "oca": 0.1}}

    evidence = Evidence(tmp_path)
    assert tables.repeated(evidence) == tables.NOTHING
    found = {"f/a": {"of": "1", "rounds": 1, "same": 1, "amp": {"aca": 0.0, "oca": 0.0}}}
    (tmp_path / "again.json").write_text(json.dumps(found))
    assert tables.repeated(evidence).endswith("1 came out again " + SAME + ".")
    found["f/c"] = {"of": "2", "rounds": 9, "same": 3, "amp": {"aca": -0.01, "oca": 0.03}}
    (tmp_path / "again.json").write_text(json.dumps(found))
    assert tables.repeated(evidence) == (
        f"Of 2 records of 2 versions of the program, drawn by lot, 1 came out again {SAME}. The "
        "AMP of the other 1 moved by 2.0 points in the mean, 3.0 at most."
    )


def test_a_sweep_has_the_seeds_that_all_of_its_runs_have(tmp_path: Path) -> None:
    """T1's worth at each rate counts those that are there."""
    folder, found = tmp_path / "results" / paper.SHORT, Evidence(tmp_path / "results", tmp_path)
    for plan in EXPERIMENTS["rate-sweep"].plans(choose("small", seeds=3)):
        seed, rate = plan.config.federation.seed, plan.config.federation.fraction
        if seed < 2 or rate == 1:
            record(folder, plan.name, [0.5 + rate / 10 * seed], seed)
    assert len(paper.sweep_scale(found, "rate-sweep").seeds) == 2
    assert "--seeds 2" in paper.sweep(found, "rate-sweep")
    rows = paper.by_rate(found).splitlines()
    assert rows[0].endswith("| 80 % | 100 % |")
    assert rows[2].startswith("| FedAvg | +10.0 | +10.0 |")
    assert rows[2].endswith("| +10.0 [10.0, 10.0] * |")
    assert rows[-1] == "2 to 3 seeds."
    assert paper.by_rate(Evidence(tmp_path / "none", tmp_path)) == tables.NOTHING
