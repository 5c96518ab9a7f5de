"""The report is one file that needs nothing else and takes nothing at its word."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from pathlib import Path

from folders import record, write_run

from fedkf.metrics import METRICS
from fedkf.report.page import build
from fedkf.report.runs import read_runs

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


def test_it_asks_for_nothing_outside_and_allows_only_its_own_scripts(three_runs: Path) -> None:
    page = build(read_runs([three_runs]))
    assert not re.search(r"<(?:script|img|link|iframe)[^>]+(?:src|href)=[\"'](?!data:)", page)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    allowed = policy[1].replace("&#39;", "'")
    assert "default-src 'none'" in allowed
    assert "unsafe" not in allowed
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 3
    for text in scripts:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in allowed


def test_its_table_holds_the_numbers_of_summary_json(three_runs: Path) -> None:
    page = build(read_runs([three_runs]))
    for algorithm in ("fedavg", "fedkf"):
        summary = json.loads((three_runs / algorithm / "summary.json").read_text())
        for readout, numbers in summary["readouts"].items():
            row = re.search(
                rf'data-folder="{algorithm}" data-readout="{readout}">(.*?)</tr>', page, re.DOTALL
            )
            assert row is not None
            shown = dict(re.findall(r'data-metric="(\w+)" data-value="([^"]+)"', row[1]))
            found = {name: float(value) for name, value in shown.items()}
            assert found.items() >= numbers.items()
            assert set(found) == set(METRICS)


def test_names_from_disk_are_text_everywhere(tmp_path: Path) -> None:
    folder = tmp_path / EVIL.replace("/", "∕")
    write_run(folder, [[0.5, 1.0]], "'" + EVIL + "'", names=[EVIL, "{{ 7 * 7 }}"])
    refused = [{"client": 0, "reason": EVIL}]
    line = record(2, {"oca": [0.5, 1.0]}, refused=refused, losses={EVIL: 1.0})
    with open(folder / "rounds.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")
    (folder / "ledger.json").write_text(json.dumps({"disclosed": [EVIL], "leakage": [EVIL]}))
    page = build(read_runs([tmp_path]))
    assert EVIL not in page
    assert "<img src=x" not in page
    assert page.count("<script") == 4  # three of its own, and the data
    assert "{{ 7 * 7 }}" in page
    data = re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    json.loads(data[1])


def test_a_run_without_rounds_gives_a_page_that_says_so(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [])
    page = build(read_runs([tmp_path]))
    assert "nothing to report" in page
    assert "has no finished round yet" in page


def test_real_sites_show_no_class_counts(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [[0.5, 1.0]])
    assert "Who holds what" in build(read_runs([tmp_path]))
    about = json.loads((run / "partition.json").read_text())
    for client in about["clients"]:
        del client["classes"]
    (run / "partition.json").write_text(json.dumps(about))
    assert "Who holds what" not in build(read_runs([tmp_path]))


def test_many_large_runs_stay_under_four_megabytes(tmp_path: Path) -> None:
    accuracies = [(k % 97) / 97 for k in range(1000)]
    for number in range(15):
        run = write_run(tmp_path / f"run-{number:02d}", [accuracies], f"method-{number}")
        scores = record(1, {"oca": accuracies, "aca": accuracies})
        slim = {k: s | {"clients": [], "accuracy": []} for k, s in scores["readouts"].items()}
        lines = [json.dumps(scores | {"round": n, "readouts": slim}) for n in range(2, 1000)]
        lines.append(json.dumps(scores | {"round": 1000}))
        (run / "rounds.jsonl").write_text("\n".join(lines) + "\n")
    page = build(read_runs([tmp_path]))
    assert len(page.encode()) < 4_000_000
    assert "3 more runs are in the table but not in the pictures" in page
    assert page.count("data-folder=") == 30


def test_a_run_that_began_on_a_busy_machine_is_said_to_have(
    three_runs: Path, tmp_path: Path
) -> None:
    runs = Path(shutil.copytree(three_runs, tmp_path / "runs"))
    for load, told in ((3.2, True), (0.2, False)):
        (runs / "fedkf" / "config.yaml").write_text(f"provenance: {{machine: {{load: {load}}}}}\n")
        assert ("FedKF began on a busy machine (load 3.2)" in build(read_runs([runs]))) == told


def test_only_divisions_that_were_simulated_are_called_so(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [[0.5, 1.0]])
    assert "the division was simulated" in build(read_runs([folder]))
    with open(folder / "config.yaml", "a") as file:
        file.write("data: {partition: natural}\n")
    page = build(read_runs([folder]))
    assert "simulated" not in page.split("How the data differ")[1].split("</section>")[0]
    assert "known because all of the data was in one place; real sites do not tell it" in page
