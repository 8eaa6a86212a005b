"""Pages that are made from the code say what the code says."""

import importlib.util
import re
from pathlib import Path

import pytest

from tools import diagrams

ROOT = Path(__file__).parents[2]


def test_the_protocol_page_is_what_the_handlers_declare():
    spec = importlib.util.spec_from_file_location("protocol_page", ROOT / "tools" / "protocol_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "protocol.md").read_text() == module.page(), "run tools/protocol_page.py > docs/protocol.md"


@pytest.mark.parametrize("name", diagrams.PICTURES)
def test_diagrams_show_the_tables_of_states(name: str):
    drawn = (ROOT / "docs" / "img" / name).read_text()
    assert drawn == diagrams.draw(diagrams.PICTURES[name]), "run python -m tools.diagrams"


@pytest.mark.parametrize("picture", diagrams.PICTURES.values(), ids=diagrams.PICTURES)
def test_every_state_and_event_is_in_its_diagram(picture: diagrams.Picture):
    drawn = diagrams.draw(picture)
    for start, event, end in picture.moves:
        assert f">{start}</text>" in drawn and f">{end}</text>" in drawn
        assert re.search(rf"\b{event}\b", drawn)
