"""Every setting has the type and the default that Apache Kafka's own definition has, or says that it differs."""

from pathlib import Path

import pytest

from bench.harness import java
from fencepost.broker.settings import BROKER_SETTINGS, TOPIC_SETTINGS
from fencepost.lab.kit.java import QUICK
from fencepost.setting import Change

SOURCE = Path(__file__).parent / "java" / "Settings.java"
#: In Kafka a feature, a setting of topics only, and what its authorizer reads by itself.
OURS = {
    "broker": {
        "transaction.version", "internal.segment.bytes", "super.users", "allow.everyone.if.no.acl.found"
    },
    "topic": set(),
}  # fmt: skip
#: Kafka's administrators replace certificates and users by altering these. Here they are read at the start, the files
#: that they name are read again when they change, and users are altered one by one (docs/guide.md).
READ_AT_START = ("listener", "ssl.", "sasl.")


@pytest.fixture(scope="module")
def kafkas() -> dict[str, dict[str, list[str]]]:
    done = java.kafka().run(str(SOURCE), options=QUICK)
    assert done.returncode == 0, done.stderr
    tables: dict[str, dict[str, list[str]]] = {"broker": {}, "topic": {}}
    for line in done.stdout.splitlines():
        table, name, *rest = line.split("\t")
        tables[table][name] = rest
    return tables


@pytest.mark.parametrize(("table", "ours"), [("broker", BROKER_SETTINGS), ("topic", TOPIC_SETTINGS)])
def test_types_and_defaults_are_kafkas_or_say_that_they_differ(kafkas, table, ours):
    assert ours.keys() - kafkas[table].keys() == OURS[table]
    for name in ours.keys() & kafkas[table].keys():
        setting = ours[name]
        kind, default, live = kafkas[table][name]
        assert setting.kind.name == kind, name
        own = setting.format(setting.default) or ("null" if setting.default is None else "")
        if setting.kafka is None:
            assert own == default, name
        else:
            assert own != default, f"{name} does not differ"
            assert setting.kafka == default or default == "(required)", name
        if not name.startswith(READ_AT_START):
            assert (table == "topic" or setting.change is Change.LIVE) == (live == "true"), name


def test_topics_can_have_every_setting_of_kafkas(kafkas):
    assert kafkas["topic"].keys() == TOPIC_SETTINGS.keys()
