"""The table of rights, on Apache Kafka: what our broker answers without a right is what the original answers."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.compat import guarded
from tests.security.rights.runner import Case, Scene, broker_settings, cases
from tests.security.rights.table import ROWS

CASES = [case for case in cases(ROWS) if not case.row.only_ours]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    server, users = guarded.make("kafka", tmp_path_factory.mktemp("kafka"), broker_settings(CASES))
    with server.start(), contextlib.closing(Scene(CASES, server.address, users)) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=str)
def test_apache_kafka_answers_as_the_table_says(scene: Scene, case: Case) -> None:
    scene.run(case)
