"""The report and the dashboard say what is promised, to whom, and what is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import tiny

import fedkf
from fedkf.core.errors import UserError
from fedkf.core.records import Round, Spent
from fedkf.report.page import build
from fedkf.report.privacy import certainty, promise, so_far
from fedkf.report.runs import Run, read_runs
from fedkf.runs.personalize import personalize


@pytest.fixture(scope="module")
def folder(npz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("private") / "run"
    settings = tiny(npz) | {"algorithm": {"name": "fedavg"}, "privacy": {"epsilon": 3.0}}
    fedkf.run(settings, out=folder, rounds=2)
    return folder


def test_the_report_of_a_private_run_says_what_is_promised_and_what_is_not(folder: Path) -> None:
    page = build(read_runs([folder]))
    assert "learns of whether any one training sample took part no more than ε =" in page
    assert "with δ = 1e-05" in page
    assert "beyond ε = 3 is not asked again" in page
    assert "Not protected: how many samples a site has" in page
    assert "the test samples that the models were judged by here" in page
    assert "whoever knows that can take it away" in page


def test_its_table_has_every_site_that_took_part(folder: Path) -> None:
    (run,) = read_runs([folder])
    found = promise(run)
    assert found is not None
    spent = {
        k: e
        for r in run.rounds
        if r.privacy
        for k, e in zip(*vars(r.privacy).values(), strict=True)
    }
    assert [row["epsilon"] for row in found["rows"]] == [f"{spent[k]:.3g}" for k in sorted(spent)]
    assert sum(row["rounds"] for row in found["rows"]) == sum(len(r.active) for r in run.rounds)
    most = max(spent.values())
    assert so_far(run) == (
        f"Privacy: no site has spent more than ε = {most:.3g} of ε = 3 at most (δ = 1e-05)"
    )


def test_the_ledger_has_everyones_account(folder: Path) -> None:
    ledger = json.loads((folder / "ledger.json").read_text())["privacy"]
    assert ledger["planned"] == {"epsilon": 3.0, "delta": 1e-5, "turns": 2}
    assert ledger["spent"]["clients"] == list(range(6))
    assert 0 < max(ledger["spent"]["epsilon"]) <= 3


def test_runs_without_privacy_promise_nothing() -> None:
    run = Run(Path("x"), "x", "fedavg", rounds=[Round(1)], config={"privacy": {"epsilon": None}})
    assert promise(run) is None
    assert so_far(run) == ""


def test_a_patient_is_named_and_a_deployment_is_no_rehearsal() -> None:
    config = {"privacy": {"noise": 1.0, "delta": 1e-6}, "data": {"unit": "patient"}}
    rounds = [Round(1, [0], privacy=Spent([0], [2.0]))]
    run = Run(Path("x"), "x", "fedavg", rounds=rounds, config=config)
    found = promise(run)
    assert found is not None
    assert "all training samples of any one patient" in found["promise"]
    assert "right in 88.1 % of them at the very most." in found["promise"]
    assert len(found["notes"]) == 2
    real = promise(
        Run(Path("x"), "x", "a", rounds=rounds, config=config | {"provenance": {"experiment": "e"}})
    )
    assert real is not None
    assert len(real["notes"]) == 1


def test_certainty_is_never_rounded_up_to_all() -> None:
    assert certainty(0.0) == "50.0"
    assert certainty(20.0) == "over 99.9"


def test_a_private_run_is_not_personalised(folder: Path) -> None:
    with pytest.raises(UserError, match="fedkf personalize is refused"):
        personalize(folder)


@pytest.mark.parametrize("odd", ["text", 3, ["x"], None])
def test_a_configuration_that_is_none_keeps_no_report_from_being_made(odd: object) -> None:
    rounds = [Round(1, [0], privacy=Spent([0], [0.5]))]
    sections = {"data": odd, "provenance": odd, "transport": {"secure": True}}
    for privacy in ({"epsilon": odd}, odd):
        run = Run(Path("x"), "x", "fedavg", rounds=rounds, config={**sections, "privacy": privacy})
        assert "three sites or more" in build([run])
        assert so_far(run).startswith("Privacy" if isinstance(privacy, dict) else "")
