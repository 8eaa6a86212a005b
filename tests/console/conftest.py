"""A console on the broker under test, which may be any Kafka (`--bootstrap`, `--apache-kafka`)."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.lab.kit.servers import Ours
from tests.console.browser import chromium
from tests.console.web import Page, opened
from tests.observe.stuck import TRUSTING

pytest.importorskip("starlette", reason="needs fencepost[console]")


@pytest.fixture(scope="session")
def page(bootstrap: str) -> Iterator[Page]:
    """It may change things."""
    with opened(bootstrap, "--allow-changes") as started:
        yield started


@pytest.fixture(scope="session")
def trusting(start_broker: Callable[..., Ours]) -> str:
    """The address of a broker on which a transaction can hang."""
    return start_broker(TRUSTING).bootstrap


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """A new page. Errors in it, and requests to anywhere else, fail the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    tab = context.new_page()
    tab.set_default_timeout(15_000)
    problems: list[str] = []
    elsewhere: list[str] = []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("console", lambda said: problems.append(said.text) if "Content Security" in said.text else None)
    tab.on("request", lambda asked: None if "//127.0.0.1" in asked.url else elsewhere.append(asked.url))
    yield tab
    context.close()
    assert not problems and not elsewhere
