"""report, figure and dashboard as a person uses them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Outcome
from folders import write_run

CLI = Callable[..., Outcome]


def test_a_report_lies_beside_its_runs_and_its_path_is_printed(cli: CLI, tmp_path: Path) -> None:
    for name in ("fedavg", "fedkf"):
        write_run(tmp_path / name, [[0.5, 1.0]], name)
    one = cli("report", tmp_path / "fedavg", "--no-samples")
    assert one.out == f"report: {tmp_path / 'fedavg' / 'report.html'}\n"
    both = cli("report", tmp_path / "fedavg", tmp_path / "fedkf", "--no-samples")
    assert both.out == f"report: {tmp_path / 'report.html'}\n"
    assert "Compared with FedAvg" in (tmp_path / "report.html").read_text()


def test_a_report_shows_samples_of_the_final_model(
    cli: CLI, three_runs: Path, tmp_path: Path
) -> None:
    done = cli("report", three_runs, "--out", tmp_path / "new" / "r.html")
    assert done.code == 0, done.err
    page = (tmp_path / "new" / "r.html").read_text()
    assert page.count('src="data:image/png;base64,') >= 6
    assert "there is no shared one" in page  # training alone


def test_a_damaged_run_is_reported_as_far_as_it_goes(cli: CLI, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [[0.5, 1.0]])
    with open(run / "rounds.jsonl", "a") as file:
        file.write("nonsense\n")
    done = cli("report", run, "--no-samples")
    assert done.code == 0
    assert "line 2 is left out" in done.err
    assert "line 2 is left out" in (run / "report.html").read_text()


def test_what_cannot_be_shown_gives_one_sentence(cli: CLI, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_run(tmp_path / "new", [])
    (write_run(tmp_path / "bad", []) / "rounds.jsonl").write_text("nonsense\n")
    good = write_run(tmp_path / "good", [[0.5, 1.0]])
    (tmp_path / "file").write_text("")
    below = tmp_path / "file" / "x"
    for arguments, code, sentence in (
        (["report", tmp_path / "gone"], 2, "no folder"),
        (["report", tmp_path / "empty"], 2, "holds no run"),
        (["report", tmp_path / "new"], 2, "has a finished round yet"),
        (["report", tmp_path / "bad"], 2, "rounds.jsonl is damaged"),
        (["report", good, "--out", tmp_path], 2, "name a file"),
        (["report", good, "--no-samples", "--out", below], 2, "file is no folder"),
        (["figure", "curvs", good], 2, "did you mean 'curves'?"),
        (["figure", "curves", good, "--format", "gif"], 2, "--format gif"),
        (["figure", "gain", good], 2, "algorithm.name=local"),
        (["figure", "curves", good, "--out", "fig.jpg"], 2, "ends in .pdf, .svg, .png"),
        (["figure", "curves", good, "--out", "a.png", "--format", "pdf"], 2, "leave one out"),
        (["figure", "curves", tmp_path / "empty"], 2, "holds no run"),
        (["figure", "curves", good, "--out", below], 2, "file is no folder"),
        (["dashboard", tmp_path / "gone"], 2, "no folder"),
        (["dashboard", tmp_path, "--host", "example.org"], 2, "give an IP address"),
        (["dashboard", tmp_path, "--host", "192.0.2.1"], 2, "cannot listen"),
    ):
        done = cli(*arguments)
        assert done.code == code, (arguments, done)
        assert sentence in done.err
        assert done.err.count("\n") == 1
        assert done.out == ""


def test_figures_are_written_in_the_formats_asked_for(
    cli: CLI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "run", [[0.5, 1.0]])
    monkeypatch.chdir(tmp_path)
    done = cli("figure", "curves", "run", "--format", "svg", "--format", "png")
    assert done.out == "figure: curves.svg\nfigure: curves.png\n"
    assert cli("figure", "clients", "run", "--out", "a/b.pdf").out == "figure: a/b.pdf\n"
    assert cli("figure", "clients", "run", "--out", "a/b.PNG").out == "figure: a/b.PNG\n"
    assert Path("a/b.PNG").read_bytes().startswith(b"\x89PNG")
    both = cli("figure", "clients", "run", "--out", "b.svg", "--format", "svg", "--format", "png")
    assert both.out == "figure: b.svg\nfigure: b.png\n"
    dotted = cli("figure", "clients", "run", "--out", "alpha0.1", "--format", "pdf")
    assert dotted.out == "figure: alpha0.1.pdf\n"
    assert cli("figure", "clients", "run", "--out", ".").out == "figure: clients.pdf\n"
    assert cli("figure", "clients", "run", "--out", "a/").out == "figure: a/clients.pdf\n"
    assert (tmp_path / "a" / "b.pdf").read_bytes().startswith(b"%PDF")


def test_reports_do_not_wait_for_torch(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [[0.5, 1.0]])
    program = """
import sys
sys.argv = ["fedkf", *{arguments!r}]
from fedkf.cli import main
try:
    main()
except SystemExit:
    pass
from fedkf.report import dashboard
dashboard.full_report(dashboard.Listing(__import__("pathlib").Path({folder!r})), ["run"])
print(type(sys.modules["torch"]).__name__)
"""
    for arguments in (
        ["report", str(tmp_path / "run"), "--no-samples"],
        ["report", str(tmp_path / "run")],  # not finished: no model to sample
    ):
        done = subprocess.run(
            [sys.executable, "-c", program.format(arguments=arguments, folder=str(tmp_path))],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.splitlines()[-1] == "Deferred", (arguments, done)
