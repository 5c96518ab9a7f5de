"""The dashboard in a browser, while runs come, grow, end and go."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsers import Ear
from dashboards import dashboard
from folders import append, finish, record, set_status, write_run

from fedkf.metrics import METRICS

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def cell(page: Page, run: str, column: int) -> str:
    row = page.locator("#runs tbody tr", has=page.get_by_role("rowheader", name=run, exact=True))
    return row.locator(f":nth-child({column})").first.inner_text()


def wait(page: Page, run: str, text: str) -> None:
    """Until the row of a run shows a text."""
    page.locator("#runs tbody tr", has_text=run).get_by_text(text, exact=True).wait_for()


def test_a_run_appears_grows_ends_and_goes_without_reloading(
    page: Page, ear: Ear, tmp_path: Path
) -> None:
    with dashboard(tmp_path) as server:
        page.goto(server.url)
        page.get_by_text("There is no run here yet").wait_for()
        page.evaluate("window.same = true")
        run = write_run(tmp_path / "mine", [[0.5, 1.0]])
        wait(page, "mine", "1/3")
        assert cell(page, "mine", 4) == "running"
        assert cell(page, "mine", 7).replace("\N{NO-BREAK SPACE}", " ") == "75.0 %"
        curves = page.locator('figure[data-kind="curves"]')
        curves.locator(".point").nth(len(METRICS) - 1).wait_for()
        assert curves.locator(".point").count() == len(METRICS)  # of one round
        page.get_by_text("Active now: site 0.").wait_for()
        refused = [{"client": 1, "reason": "not a number <b>"}]
        append(run, record(2, {"oca": [0.7, 0.9]}, refused=refused))
        wait(page, "mine", "2/3")
        curves.locator(".point").nth(2 * len(METRICS) - 1).wait_for()
        page.get_by_text("site 1, 1 times: not a number <b>").wait_for()
        append(run, record(3, {"oca": [0.8, 0.9]}))
        finish(run)
        set_status(run, "finished")
        wait(page, "mine", "finished")
        page.get_by_text("1 run: 1 finished").wait_for()
        assert cell(page, "mine", 9).replace("\N{NO-BREAK SPACE}", " ") == "80.0 %"
        shutil.rmtree(run)
        page.get_by_text("There is no run here yet").wait_for()
        assert page.evaluate("window.same")
    page.get_by_text("No answer from fedkf dashboard").wait_for()
    assert [e for e in ear.errors if "ERR_CONNECTION" not in e and "Failed to fetch" not in e] == []
    assert all(url.startswith(("http://127.0.0.1", "data:")) for url in ear.requests)


def test_runs_are_found_sorted_selected_and_reported(page: Page, ear: Ear, tmp_path: Path) -> None:
    for name, worst in (("low", 0.2), ("high", 0.8), ("mid", 0.5)):
        finish(write_run(tmp_path / name, [[worst, 0.9]]))
    with dashboard(tmp_path) as server:
        page.goto(server.url)
        page.locator("#runs tbody tr").nth(2).wait_for()
        names = page.locator("#runs tbody th")
        page.get_by_role("button", name="WLP").click()
        assert names.all_inner_texts() == ["high", "mid", "low"]
        page.get_by_role("button", name="WLP").click()
        assert names.all_inner_texts() == ["low", "mid", "high"]
        page.get_by_label("Find").fill("MI")
        assert names.all_inner_texts() == ["mid"]
        page.get_by_label("Find").fill("")
        page.get_by_label("State").select_option("running")
        page.get_by_text("No run fits what you look for.").wait_for()
        page.get_by_label("State").select_option("")
        page.get_by_role("button", name="Select none").click()
        for name in ("low", "high"):
            page.get_by_label(f"select {name}", exact=True).check()
        with page.expect_popup() as popup:
            page.get_by_role("link", name="Report of the selected runs").click()
        report = popup.value
        report.wait_for_selector("body[data-drawn]")
        rows = report.locator("#comparison tbody tr")
        assert [row.get_attribute("data-folder") for row in rows.all()] == ["low", "high"]
        report.close()
    assert ear.errors == []


def test_a_phone_shows_the_papers_metrics_without_scrolling(page: Page, tmp_path: Path) -> None:
    finish(write_run(tmp_path / "a-run-with-a-rather-long-name", [[0.123, 0.987]], rounds=100))
    page.set_viewport_size({"width": 360, "height": 800})
    with dashboard(tmp_path) as server:
        page.goto(server.url)
        row = page.locator("#runs tbody tr").first
        row.wait_for()
        shown = {
            number: row.locator(f":nth-child({number})").bounding_box() for number in (7, 8, 9)
        }
        for box in shown.values():
            assert box is not None
            assert box["x"] + box["width"] <= 360


def test_a_run_named_like_a_script_does_no_harm(page: Page, ear: Ear, tmp_path: Path) -> None:
    name = "<script>alert(1)<"
    write_run(tmp_path / name, [[0.5, 1.0]], "'<img src=x onerror=alert(1)>'")
    with dashboard(tmp_path) as server:
        page.goto(server.url)
        page.get_by_role("rowheader", name=name).wait_for()
        page.locator('figure[data-kind="clients"] .point').first.wait_for()
        assert page.locator("img").count() == 0
        page.goto(server.url + "report?run=gone")
        page.get_by_text("There is no such run").wait_for()
        page.get_by_role("link", name="All runs").click()
        page.get_by_role("rowheader", name=name).wait_for()
    assert [e for e in ear.errors if "404" not in e] == []


def test_five_hundred_runs_paint_at_once_in_little_memory(page: Page, tmp_path: Path) -> None:
    """500 runs of 100 rounds and 100 clients; the numbers are printed, memory is bounded."""
    accuracies = [(k * 37 % 100) / 100 for k in range(100)]
    first = write_run(tmp_path / "run-000", [accuracies], rounds=100)
    line = record(1, {"oca": accuracies, "aca": accuracies})
    lines = [json.dumps(line | {"round": n}) for n in range(1, 101)]
    (first / "rounds.jsonl").write_text("\n".join(lines) + "\n")
    for number in range(1, 500):
        other = tmp_path / f"run-{number:03d}"
        other.mkdir()
        for path in first.iterdir():
            (other / path.name).hardlink_to(path)
    with dashboard(tmp_path) as server:
        page.goto(server.url)
        page.locator("#runs tbody tr").nth(499).wait_for()
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        for start in range(0, 500, 25):
            names = "&".join(f"run=run-{k:03d}" for k in range(start, start + 8))
            assert server.get(f"/api/compare?{names}").code == 200
        assert server.get(f"/report?{names}").code == 200
        print(f"first paint {paint:.0f} ms, memory {server.memory() / 1e6:.0f} MB")
        assert server.memory() < 300e6
        assert not re.search("Traceback", server.get("/").text)
