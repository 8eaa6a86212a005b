"""What runs: a few queries of each kind by default, all of them with `--all-queries` (`make queries`)."""

import pytest

MARKER = "all_queries"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-queries", action="store_true", help="run all queries, not a few of each kind")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}: runs with --all-queries only (make queries)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all-queries", default=False):
        return
    left_out = [item for item in items if item.get_closest_marker(MARKER) is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker(MARKER) is None]
