import pytest

from tests.unit.log.support import Fixture


@pytest.fixture
def home() -> Fixture:
    return Fixture()
