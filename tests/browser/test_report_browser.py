"""The report in a browser, opened from disk."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsers import Ear
from folders import write_run

from fedkf.metrics import METRICS
from fedkf.report.page import build
from fedkf.report.runs import read_runs

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(three_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(build(read_runs([three_runs])))
    return path


def open_report(page: Page, path: Path) -> None:
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-drawn]")


def test_it_opens_without_an_error_and_without_the_network(
    page: Page, ear: Ear, report: Path
) -> None:
    open_report(page, report)
    assert page.locator(".plot .main-svg").count() > 10
    assert ear.errors == []
    assert ear.requests == [report.as_uri()]


def test_its_table_shows_summary_json(page: Page, report: Path, three_runs: Path) -> None:
    open_report(page, report)
    for algorithm in ("fedavg", "fedkf"):
        summary = json.loads((three_runs / algorithm / "summary.json").read_text())
        for readout, numbers in summary["readouts"].items():
            row = page.locator(f'tr[data-folder="{algorithm}"][data-readout="{readout}"]')
            for metric, value in numbers.items():
                text = row.locator(f'[data-metric="{metric}"]').inner_text()
                unit = "\N{NO-BREAK SPACE}%" if METRICS[metric].percent else ""
                assert text.split(" ")[0] == METRICS[metric].show(value) + unit


def test_a_series_can_be_hidden_and_shown_with_the_keyboard(page: Page, report: Path) -> None:
    open_report(page, report)
    figure = page.locator('figure[data-kind="curves"]')
    lines = figure.locator(".scatterlayer .trace")
    before = lines.count()
    button = figure.get_by_role("button", name="FedKF (OCA)")
    assert button.get_attribute("aria-pressed") == "true"
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    assert lines.count() == before - len(METRICS)  # in the chart of each
    page.keyboard.press("Enter")
    assert lines.count() == before


def test_pointing_at_a_site_tells_its_name_and_its_cases(page: Page, report: Path) -> None:
    open_report(page, report)
    plot = page.locator('figure[data-kind="clients"] .plot')
    plot.scroll_into_view_if_needed()
    point = plot.locator(".point").first
    box = point.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector('figure[data-kind="clients"] .hoverlayer text')
    assert "client" in (plot.locator(".hoverlayer").text_content() or "")


def test_pictures_have_words_and_headings_are_in_order(page: Page, report: Path) -> None:
    open_report(page, report)
    for plot in page.locator(".plot").all():
        assert plot.get_attribute("role") == "img"
        assert len(plot.get_attribute("aria-label") or "") > 30
    levels = page.eval_on_selector_all("h1,h2,h3,h4", "all => all.map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert page.locator("html[lang=en]").count() == 1
    assert page.locator("th:not([scope])").count() == 0
    assert page.locator("img:not([alt])").count() == 0


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_it_fits_any_width(page: Page, report: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    open_report(page, report)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_phone_shows_the_papers_metrics_without_scrolling(page: Page, report: Path) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    open_report(page, report)
    for metric in ("amp", "fm", "wlp"):
        for cell in page.locator(f'#comparison [data-metric="{metric}"]').all():
            box = cell.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= 360


def lightness(page: Page, selector: str, property: str) -> float:
    colour = page.eval_on_selector(
        selector, f"e => getComputedStyle(e)['{property}'].match(/[0-9.]+/g).map(Number)"
    )
    return float(sum(colour[:3])) / 3


def test_dark_mode_is_dark_with_light_text_in_pictures_and_paper_is_white(
    page: Page, report: Path
) -> None:
    for media, scheme, dark in (
        ("screen", "light", False),
        ("screen", "dark", True),
        ("print", "dark", False),
    ):
        page.emulate_media(media=media, color_scheme=scheme)  # type: ignore[arg-type]
        open_report(page, report)
        assert (lightness(page, "body", "backgroundColor") < 60) == dark
        assert (lightness(page, ".plot .xtick text", "fill") > 200) == dark


def test_hostile_names_do_no_harm(page: Page, ear: Ear, tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)><a href='javascript:alert(1)'>x</a>"
    write_run(tmp_path / "<script>alert(1)<", [[0.5, 1.0]], "'<b>bold<'", names=[evil, "b"])
    path = tmp_path / "report.html"
    path.write_text(build(read_runs([tmp_path])))
    open_report(page, path)
    assert ear.errors == []
    assert page.locator("img, b a, .plot a, .legend b").count() == 0
    assert "<b>bold<" in page.locator("h1").inner_text()
    labels = page.locator('figure[data-kind="clients"] .xtick text').all_text_contents()
    assert labels[0].startswith("<img src=x")


def test_a_screenshot_for_the_readme(page: Page, report: Path) -> None:
    """FEDKF_SCREENSHOT=runs/demo=docs/images/report.png shows the demo's and keeps it."""
    shown = os.environ.get("FEDKF_SCREENSHOT", "")
    folder, _, target = shown.rpartition("=")
    path = report
    if folder:
        path = report.with_name("screenshot.html")
        path.write_text(build(read_runs([Path(folder)])))
    page.set_viewport_size({"width": 1100, "height": 1480})
    open_report(page, path)
    image = path.with_suffix(".png")
    page.screenshot(path=image)
    assert 10_000 < image.stat().st_size < 300_000
    if target:
        shutil.copy(image, target)
