"""The log of denials: a line each, few lines in all, and none that a client wrote."""

import logging

import pytest

from fencepost.broker.denials import LINES_MAX, WINDOW_MS
from tests.unit.broker.admin_world import World

LIST_OFFSETS = 2


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path, {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"})
    yield made
    made.close()


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, "fencepost.authorizer")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "fencepost.authorizer"]


def ask(world, topic, count=1):
    partitions = [{"partition_index": index, "timestamp": -1} for index in range(count)]
    answer = world.ask(LIST_OFFSETS, 7, replica_id=-1, topics=[{"name": topic, "partitions": partitions}])
    assert answer.topics[0].partitions[0].error_code == 29


def test_a_line_says_who_may_not_do_what_from_where(world, lines):
    ask(world, "orders")
    assert lines() == [
        "denied principal=User:ANONYMOUS host=127.0.0.1 operation=DESCRIBE resource=TOPIC:orders request=ListOffsets"
    ]


def test_a_request_for_many_partitions_gives_one_line_for_their_topic(world, lines):
    ask(world, "orders", count=50)
    ask(world, "orders", count=50)
    assert len(lines()) == 2


def test_many_denials_give_few_lines_and_their_number(world, lines):
    for number in range(LINES_MAX + 471):
        ask(world, f"t{number}")
    assert len(lines()) == LINES_MAX
    world.clock.run_next()
    assert lines()[LINES_MAX:] == [f"471 more denials in the last {WINDOW_MS // 1000} s were left out"]
    ask(world, "again")
    assert "TOPIC:again" in lines()[-1]


def test_what_was_left_out_is_said_at_the_end(world, lines):
    for _ in range(LINES_MAX + 1):
        ask(world, "orders")
    world.node.denials.close()
    assert lines()[-1].startswith("1 more denials")


def test_nothing_is_said_if_nothing_was_left_out(world, lines):
    ask(world, "orders")
    world.clock.run_next()
    assert len(lines()) == 1


def test_a_name_cannot_forge_a_line_or_fill_the_log(world, lines):
    ask(world, "x\ndenied principal=User:somebody" + "é" * 15_000)
    (line,) = lines()
    assert "\n" not in line
    assert len(line) < 2000


def test_what_nobody_asked_for_is_not_logged(world, lines):
    world.topics.create("orders", 1, {})
    assert world.ask(3, 9, topics=None, include_topic_authorized_operations=True).topics == []
    assert lines() == []
