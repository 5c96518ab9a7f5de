"""Sites held out: nothing is trained on them, and the models are judged there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Outcome

from fedkf.core.errors import UserError
from fedkf.core.federation import Observer, Stop
from fedkf.core.records import Round
from fedkf.data.holdout import held_out
from fedkf.data.source import Source
from fedkf.flower.settings import outgoing
from fedkf.runs.config import parse
from fedkf.runs.setup import load_samples, make_data, make_holdout, settle

SITES = ("east", "north", "south", "west")


def rows(sites: tuple[str, ...] = SITES) -> list[str]:
    """A table with a line per patient; each site's first column has a level of its own."""
    found = ["site,a,b,ill,fold"]
    for site in sites:
        random = np.random.default_rng(SITES.index(site))
        for k in range(30):
            ill = k % 2
            a, b = random.normal(ill + 10 * SITES.index(site)), random.normal(ill)
            found.append(f"{site},{a:.4f},{b:.4f},{ill},{k % 3}")
    return found


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    (folder / "all.csv").write_text("\n".join(rows()))
    (folder / "three.csv").write_text("\n".join(rows(("east", "north", "west"))))
    return folder


def settings(path: Path, **data: Any) -> dict[str, Any]:
    own = {"source": "table", "path": str(path), "target": "ill", "site": "site", **data}
    return {
        "data": {"columns": ["a", "b"], "partition": "natural", **own},
        "model": {"name": "mlp"},
        "algorithm": {"name": "fedkf", "gamma": 1.0},
        "generator": {"name": "mlp"},
        "federation": {"rounds": 3, "fraction": 0.5, "local_epochs": 1, "batch_size": 8},
        "engine": {"workers": 0},
    }


def run(config: dict[str, Any], folder: Path, **more: Any) -> Any:
    from fedkf.runs.experiment import execute

    return execute(parse(config), folder, **more)


@pytest.fixture(scope="module")
def held(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "held"
    run(settings(tables / "all.csv", holdout="south"), folder)
    return folder


def weights(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in (folder / "models").glob("*.safetensors")}


def judged(folder: Path) -> list[Any]:
    return [
        json.loads(line)["holdout"] for line in (folder / "rounds.jsonl").read_text().splitlines()
    ]


def test_the_models_are_those_of_a_run_without_the_site(
    held: Path, tables: Path, tmp_path: Path
) -> None:
    """Neither training, nor T1, nor the agreed scale has seen a sample of it."""
    run(settings(tables / "three.csv"), tmp_path / "three")
    assert weights(held) == weights(tmp_path / "three")
    lines = [(folder / "rounds.jsonl").read_text() for folder in (held, tmp_path / "three")]
    assert '"holdout"' in lines[0]
    assert '"holdout"' not in lines[1]
    first, second = (json.loads(text.splitlines()[-1])["readouts"] for text in lines)
    assert first == second


def test_all_its_samples_test_and_are_scaled_by_what_the_others_agreed(tables: Path) -> None:
    config = parse(settings(tables / "all.csv", holdout="south"))
    samples = load_samples(config)
    settled = settle(config, samples.source)
    data, held = make_data(settled, samples.source), make_holdout(settled, samples.holdout)
    assert data.names == ["east", "north", "west"]
    assert held is not None
    assert held.test_sizes == [30]
    assert held.sizes == {0: 0}
    level = held.test_images[:, 0].mean().item()  # 20 of 0, 10 and 30 on the others' scale
    mean, std = settled.data.mean, settled.data.std
    assert mean is not None and std is not None  # noqa: PT018
    assert level == pytest.approx((20.5 - mean[0]) / std[0], abs=0.05)


def test_a_limit_takes_the_same_samples_with_the_site_and_without(tables: Path) -> None:
    limit = {"limit": 10}
    held = load_samples(parse(settings(tables / "all.csv", holdout="south", **limit)))
    without = load_samples(parse(settings(tables / "three.csv", **limit)))
    assert np.array_equal(held.source.inputs, without.source.inputs)
    assert held.source.labels.tolist().count(0) == 10
    assert held.holdout is not None
    assert len(held.holdout.labels) == 20


def test_where_the_source_says_what_tests_only_that_does() -> None:
    tested = np.array([True, False, False, True, False, False])
    owners = np.array([0, 0, 0, 1, 1, 1])
    source = Source(
        np.zeros((6, 2), np.float32), np.array([0, 1, 0, 1, 0, 1]), ["x", "y"], owners, ["a", "b"]
    )
    from dataclasses import replace

    source = replace(source, tested=tested)
    config = parse({"data": {"holdout": "b", "split": "given"}, "model": {"name": "mlp"}})
    rest, other = held_out(source, ["b"])
    settled = settle(config, rest)
    held = make_holdout(settled, other)
    assert held is not None
    assert held.test_sizes == [1]


def test_workers_and_resuming_change_nothing(held: Path, tables: Path, tmp_path: Path) -> None:
    content = settings(tables / "all.csv", holdout="south")
    short = {**content, "federation": {**content["federation"], "rounds": 1}}
    run(short, tmp_path / "run")
    content["engine"] = {"workers": 2}
    run(content, tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == weights(held)
    assert judged(tmp_path / "run")[1:] == judged(held)[1:]
    assert len(judged(held)) == 3


def test_gamma_0_is_fedavg_at_the_held_out_site_too(tables: Path, tmp_path: Path) -> None:
    content = settings(tables / "all.csv", holdout=["south", "east"])
    for name, more in (("fedkf", {"gamma": 0.0}), ("fedavg", {})):
        run({**content, "algorithm": {"name": name, **more}}, tmp_path / name)
    assert weights(tmp_path / "fedkf") == weights(tmp_path / "fedavg")
    assert judged(tmp_path / "fedkf") == judged(tmp_path / "fedavg")
    assert judged(tmp_path / "fedavg")[0]["sites"] == ["south", "east"]


@pytest.mark.parametrize("algorithm", ["fedavg", "ccvr"])
@pytest.mark.parametrize("evaluate_every", [1, 5])
def test_a_stopped_run_judges_its_last_model_there(
    tables: Path, tmp_path: Path, algorithm: str, evaluate_every: int
) -> None:
    """CCVR changes its model after the last round, whichever that turns out to be."""
    content = settings(tables / "all.csv", holdout="south")
    content["algorithm"] = {"name": algorithm}
    content["federation"]["evaluate_every"] = evaluate_every
    run({**content, "federation": {**content["federation"], "rounds": 2}}, tmp_path / "planned")
    run(content, tmp_path / "stopped", observers=[InRoundTwo()])
    found = [
        json.loads((tmp_path / name / "summary.json").read_text())["holdout"]
        for name in ("stopped", "planned")
    ]
    assert found[0] == found[1]


class InRoundTwo(Observer):
    def round_finished(self, record: Round) -> None:
        if record.round == 2:
            raise Stop


def test_training_alone_has_no_model_for_it(tables: Path, tmp_path: Path) -> None:
    said: list[str] = []
    content = settings(tables / "all.csv", holdout="south")
    run({**content, "algorithm": {"name": "local"}}, tmp_path / "run", say=said.append)
    assert "local makes no shared model: nothing is held out to judge" in said
    assert "holdout" not in json.loads((tmp_path / "run" / "summary.json").read_text())


def test_it_is_in_summary_tables_evaluation_and_report(
    held: Path, cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    summary = json.loads((held / "summary.json").read_text())
    last = judged(held)[-1]
    assert summary["holdout"] == last
    assert last["sites"] == ["south"]
    assert last["tested"] == [30]
    about = json.loads((held / "partition.json").read_text())
    assert about["holdout"] == [{"name": "south", "test": 30, "classes": [15, 15]}]
    found = json.loads(cli("evaluate", held, "--json").out)
    assert found["holdout"][0]["accuracy"] == last["readouts"]["oca"]["accuracy"][0]
    assert "held out: not trained on" in cli("evaluate", held).out
    assert cli("report", held, "--out", tmp_path / "report.html").code == 0
    assert "Sites that took no part" in (tmp_path / "report.html").read_text()


def test_only_sites_that_took_part_are_told_to_be_trained_on(
    tmp_path: Path, cli: Callable[..., Outcome]
) -> None:
    header, *lines = rows()
    for site in SITES:
        own = [line for line in lines if line.startswith(site)]
        (tmp_path / "sites" / f"{site}.csv").parent.mkdir(exist_ok=True)
        (tmp_path / "sites" / f"{site}.csv").write_text("\n".join([header, *own]))
    run(settings(tmp_path / "sites", site=None, ignore=["site"], holdout="south"), tmp_path / "run")
    told = [
        cli("evaluate", tmp_path / "run", "--data", tmp_path / "sites" / f"{site}.csv").err
        for site in ("south", "east")
    ]
    assert ["that it trained on" in err for err in told] == [False, True]


def test_mistakes_are_told_in_a_sentence(
    tables: Path, cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    base = ("data.source=table", f"data.path={tables / 'all.csv'}", "data.target=ill")
    sited = (*base, "data.site=site")

    def told(*sets: str) -> str:
        more = [part for s in sets for part in ("--set", s)]
        code, _, err = cli("partition", *more, "--out", tmp_path / "p")
        assert code == 2
        return err

    assert "no site 'sout'; did you mean 'south'?" in told(*sited, "data.holdout=sout")
    all_of_them = "data.holdout=[east, north, south, west]"
    assert "names all sites, so that none is left" in told(*sited, all_of_them)
    assert "does not say whose its samples are" in told(*base, "data.holdout=south")
    assert "must be a name, or a list of names" in told(*sited, "data.holdout=[]")
    with pytest.raises(UserError, match="for rehearsals"):
        outgoing(parse({"data": {"holdout": "south"}}))


def test_a_result_shows_the_site(tables: Path, tmp_path: Path) -> None:
    result = run(settings(tables / "all.csv", holdout="south"), tmp_path / "run")
    heads, site = str(result).splitlines()[-2:]
    assert heads.split() == [
        "held",
        "out",
        "tested",
        "ACA",
        "accuracy",
        "%",
        "OCA",
        "accuracy",
        "%",
    ]
    score = result.summary["holdout"]["readouts"]["oca"]["accuracy"][0]
    assert site.split()[:2] == ["south", "30"]
    assert site.split()[-1] == f"{100 * score:.1f}"
    html = result._repr_html_()
    assert "<th>held out</th>" in html
    assert f"<td>south</td><td>30</td><td>{site.split()[2]}</td>" in html


def test_sites_called_by_numbers_are_held_out_by_them(tables: Path) -> None:
    assert parse(settings(tables / "all.csv", holdout=142)).data.holdout == "142"
    assert parse(settings(tables / "all.csv", holdout=[142, "a"])).data.holdout == ["142", "a"]


def test_evaluate_tells_the_gain_by_what_the_run_is_judged_by(tables: Path, tmp_path: Path) -> None:
    from fedkf.runs.assessment import assess
    from fedkf.runs.comparison import add_gain

    config = settings(tables / "all.csv", task="binary")
    run(config, tmp_path / "one")
    run(config | {"algorithm": {"name": "fedavg"}}, tmp_path / "other")
    result = assess(tmp_path / "one", "oca", None, None, print)
    add_gain(result, tmp_path / "one", tmp_path / "other")
    last = json.loads((tmp_path / "other" / "rounds.jsonl").read_text().splitlines()[-1])
    theirs = last["readouts"]["oca"]["sites"]["values"]["auroc"]
    for client, there in zip(result["clients"], theirs, strict=True):
        assert client["against"] == there
        assert client["gain"] == pytest.approx(client["metrics"]["auroc"] - there)
