"""What is announced is what the handlers declare, and every declared version has a table."""

from fencepost.broker.dispatch import announced, handlers
from fencepost.observe.groups import CONSUMER_GROUP_DESCRIBE
from fencepost.wire import messages

#: What only our commands ask, and only other brokers answer.
ASKED_ONLY = {CONSUMER_GROUP_DESCRIBE}


def test_every_handlers_versions_have_tables():
    for entry in handlers().values():
        assert entry.api.request.versions.first <= entry.first <= entry.last <= entry.api.request.versions.last


def test_every_table_has_a_handler():
    assert handlers().keys() | ASKED_ONLY == messages.api_names().keys()
    assert not handlers().keys() & ASKED_ONLY


def test_what_is_announced_comes_from_the_handlers():
    registry = handlers()
    said = {entry["api_key"]: (entry["min_version"], entry["max_version"]) for entry in announced(registry)}
    assert said.pop(0) == (0, 13)  # an old librdkafka needs to see Produce begin at 0
    assert said == {key: (entry.first, entry.last) for key, entry in registry.items() if key != 0}
