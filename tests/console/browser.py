"""A real browser: Debian's Chromium, driven by Playwright. Where either is missing, tests that want it are skipped."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.console.web import Page

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Any]:
    """Skips the test if there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def go(tab: Any, page: Page, view: str) -> None:
    """Return when the view is there: until then its predecessor would take what is typed."""
    tab.goto(f"{page.url}#/{view}")
    tab.locator(f'#content[data-view="{view.partition("?")[0]}"]').wait_for()


def row(tab: Any, key: str) -> Any:
    return tab.locator(f'.tr[data-key="{key}"]')


def filtered(tab: Any, key: str) -> Any:
    """The row of a table of any length. Only rows in sight are elements, and other tests have rows, too."""
    tab.get_by_label("Filter").fill(key)
    return row(tab, key)
