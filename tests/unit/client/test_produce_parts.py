"""The Produce request that is written in parts, against the reader of the broker and against the tables."""

import pytest

from fencepost.client.produce_parts import Records, produce_parts
from fencepost.client.raw import produce_fields
from fencepost.wire import messages, produce

VERSIONS = range(produce.VERSIONS[0], produce.VERSIONS[1] + 1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", ["shop", None])
def test_every_version_is_read_as_it_was_meant(version, transactional_id):
    by_id = version >= produce.FIRST_WITH_TOPIC_IDS
    first: str | bytes = bytes(range(16)) if by_id else "invoices"
    second: str | bytes = bytes(16) if by_id else "shipments"
    batches = {(first, 0): b"head" + b"x" * 300, (first, 7): b"whole", (second, 2): b"other"}
    topics = {
        first: [Records(0, [bytearray(b"head"), memoryview(b"x" * 300)]), Records(7, [b"whole"])],
        second: [Records(2, [b"other"])],
    }
    body = b"".join(bytes(part) for part in produce_parts(version, transactional_id, 1234, topics))

    read = produce.decode_request(version, memoryview(body), 0)
    assert (read.transactional_id, read.acks, read.timeout_ms) == (transactional_id, -1, 1234)
    assert {(topic, partition): bytes(records or b"") for topic, partition, records in read.partitions} == batches
    fields = {**produce_fields(batches, transactional_id), "timeout_ms": 1234}
    assert messages.api(produce.API_KEY).request.encode(version, fields) == body


def test_batches_are_not_copied():
    batch = memoryview(b"y" * 1000)
    parts = produce_parts(12, "shop", 1, {"t": [Records(0, [batch])]})
    assert any(part is batch for part in parts)
