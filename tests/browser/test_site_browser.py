"""The documentation site, opened from disk in a real browser, wide and narrow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsers import Ear

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
PAGES = ["index", "fairness", "reference/configuration", "reference/errors", "algorithms"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the site's folder."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--quiet",
        "--strict",
        "--site-dir",
        str(folder),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "true"}
    subprocess.run(command, check=True, cwd=ROOT, env=environment)
    return folder.as_uri()


def test_it_can_be_searched_without_a_server(site: str, page: Page, ear: Ear) -> None:
    page.goto(f"{site}/index.html")
    page.click("input.md-search__input")
    page.keyboard.type("staleness")
    page.wait_for_selector(".md-search-result__item h1")
    found = [title.inner_text() for title in page.query_selector_all(".md-search-result h1")]
    assert "T1 and its variants" in found
    assert ear.errors == []
    assert [address for address in ear.requests if not address.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_the_screen(site: str, page: Page, ear: Ear, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    for name in PAGES:
        page.goto(f"{site}/{name}.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    assert ear.errors == []
