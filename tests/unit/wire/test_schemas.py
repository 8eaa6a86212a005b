"""The committed tables are what the tool makes of kio, and nothing lies beside them."""

import pytest

from tools import schemas_from_kio


@pytest.mark.parametrize("key", schemas_from_kio.API_KEYS)
def test_a_table_is_what_kio_says(key):
    name, text = schemas_from_kio.table(key)
    assert (schemas_from_kio.TABLES / name).read_text() == text, "python -m tools.schemas_from_kio --write"


def test_every_api_table_has_its_key_in_the_tool():
    found = {int(path.name.split("_")[0]) for path in schemas_from_kio.TABLES.glob("[0-9]*.txt")}
    assert found == set(schemas_from_kio.API_KEYS)
