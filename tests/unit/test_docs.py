"""Pages that are made from the code say what the code says."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_protocol_page_is_what_the_handlers_declare():
    spec = importlib.util.spec_from_file_location("protocol_page", ROOT / "tools" / "protocol_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "protocol.md").read_text() == module.page(), "run tools/protocol_page.py > docs/protocol.md"
