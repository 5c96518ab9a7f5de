"""A real Chromium, headless, that may speak to nobody but this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Dialog, Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def missing(reason: str) -> NoReturn:
    if os.environ.get("FEDKF_BROWSER") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[BrowserContext]:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        missing("no Chromium on this machine (Debian: apt-get install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed (pip install 'fedkf[dev]')")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=program,
            headless=True,
            args=list(FLAGS),
            viewport={"width": 1280, "height": 900},
        )
        context.set_default_timeout(30_000)
        yield context
        context.close()


@pytest.fixture
def page(browser: BrowserContext) -> Iterator[Page]:
    """A new page."""
    made = browser.new_page()
    yield made
    made.close()


class Ear:
    """Keeps what a page complains about and asks for."""

    def __init__(self, page: Page) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", self.dismiss)

    def dismiss(self, dialog: Dialog) -> None:
        self.errors.append(f"a dialog: {dialog.message}")
        dialog.dismiss()


@pytest.fixture
def ear(page: Page) -> Ear:
    """What the page complains about and asks for."""
    return Ear(page)
