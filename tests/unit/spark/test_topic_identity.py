"""Which topic a position belongs to: by its id, or as far as leader epochs go."""

import pytest

from fencepost.client.cluster import PartitionMetadata, TopicMetadata
from fencepost.errors import Malformed
from fencepost.spark.topic_identity import (
    Identity,
    identities_as_dict,
    identity_of,
    is_other,
    parse_identities,
    replaced_topics,
)
from fencepost.wire.codec import NULL_UUID

OLD, NEW = "9vNo6AXTTDaBjM2LZOr3jg", "AAAAAAAAAAAAAAAAAAAAAg"


PAIRS: dict[str, tuple[Identity | None, Identity | None, bool]] = {
    "the same id": (OLD, OLD, False),
    "another id": (OLD, NEW, True),
    "nothing is known now": (OLD, None, False),
    "nothing was known": (None, NEW, False),
    "epochs that grew": ({0: 4, 1: 2}, {0: 4, 1: 3}, False),
    "an epoch that fell": ({0: 4, 1: 2}, {0: 4, 1: 0}, True),
    "a new partition": ({0: 4}, {0: 4, 1: 0}, False),
    "a partition without news": ({0: 4, 1: 2}, {0: 4}, False),
    "an epoch that the cluster does not tell": ({0: 4}, {0: -1}, False),
    "a cluster that has been upgraded": ({0: 4}, NEW, False),
    "a cluster that has been downgraded": (OLD, {0: 0}, False),
}


@pytest.mark.parametrize(("was", "now", "other"), PAIRS.values(), ids=PAIRS)
def test_two_topics_are_others_only_if_that_is_certain(was: Identity | None, now: Identity | None, other: bool) -> None:
    assert is_other(was, now) is other


def test_a_topic_is_its_id_as_kafkas_tools_print_it() -> None:
    topic = TopicMetadata("t", bytes(15) + b"\2", False, {0: PartitionMetadata(1, 7)})
    assert identity_of(topic) == NEW


def test_a_topic_without_an_id_is_the_epochs_of_its_leaders() -> None:
    topic = TopicMetadata("t", NULL_UUID, False, {0: PartitionMetadata(1, 7), 1: PartitionMetadata(2, 3)})
    assert identity_of(topic) == {0: 7, 1: 3}


def test_what_is_gone_or_unknown_is_not_replaced() -> None:
    assert replaced_topics({"a": OLD, "b": OLD, "c": OLD}, {"a": OLD, "b": NEW}) == {"b": OLD}


def test_identities_survive_the_way_to_json_and_back() -> None:
    found: dict[str, Identity] = {"b": {1: 2, 0: 4}, "a": OLD}
    assert parse_identities(identities_as_dict(found)) == found
    assert [*identities_as_dict(found)] == ["a", "b"]


@pytest.mark.parametrize("given", [5, [OLD], {"t": 5}, {"t": {"x": 1}}, {"t": {"0": None}}])
def test_anything_else_is_malformed(given: object) -> None:
    with pytest.raises(Malformed):
        parse_identities(given)
