"""The page on how a transaction works is one program, which says what it expects."""

from typing import Any

from tests.conftest import ROOT
from tests.pages import blocks

PAGE = ROOT / "docs" / "how-a-transaction-works.md"


def test_the_page_is_a_program_that_runs() -> None:
    found: dict[str, Any] = {}
    try:
        for each in blocks(PAGE):
            assert each.name is not None and each.language == "python"
            exec(compile(each.text, f"{PAGE.name}: {each.name}", "exec"), found)
    finally:
        if "broker" in found:
            found["broker"].close()
    assert found["states"][-1] == "COMPLETE_COMMIT"
