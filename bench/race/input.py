"""The input of a race: the shop's purchases, one in a thousand of them bad, in transactions as the shop writes them.

Every way in which a purchase can be bad takes its turn. Owns the topics as well: a run begins with empty outputs.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.harness.brokers import Server
from bench.race.outputs import await_stable
from fencepost.client.cluster import Cluster
from fencepost.client.encode import Encoder
from fencepost.client.shapes import shape_of
from fencepost.client.transaction import SharedTransaction
from fencepost.client.writing import TransactionWriter
from fencepost.shop.purchases import purchase_rows
from fencepost.wire.terms import TopicPartition

SEED = 1
BAD_EVERY = 1000
ROWS_PER_TRANSACTION = 100_000
DELETE_TIMEOUT_S = 60.0

Fields = dict[str, Any]


def _with(**changes: object) -> Callable[[Fields], bytes | None]:
    return lambda fields: _json({**fields, **changes})


def _without(name: str) -> Callable[[Fields], bytes | None]:
    return lambda fields: _json({key: value for key, value in fields.items() if key != name})


def _json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


#: What makes a purchase bad.
SPOILERS: tuple[Callable[[Fields], bytes | None], ...] = (
    _with(quantity=0),
    _without("userFullName"),
    _with(userFullName=17),
    _with(totalPrice=-1.5),
    _with(totalPrice=2e9),
    _without("productId"),
    _with(userId=-4),
    _without("totalPrice"),
    lambda fields: _json(fields) + b" and more",
    lambda fields: b"no JSON at all: %d" % fields["purchaseId"],
    lambda fields: _json(fields)[:-9],
    lambda fields: None,
)


def rows(first: int, count: int) -> Any:
    """The purchases `first` to `first + count - 1`, bad ones included."""
    made = purchase_rows(SEED, first, count)
    wanted = [index for index in range(count) if (first + index) % BAD_EVERY == BAD_EVERY // 2]
    if not wanted:
        return made
    values = made.column("value").to_pylist()
    for index in wanted:
        spoil = SPOILERS[(first + index) // BAD_EVERY % len(SPOILERS)]
        spoilt = spoil(json.loads(values[index]))
        values[index] = None if spoilt is None else spoilt.decode()
    return pa.RecordBatch.from_arrays([made.column("key"), pa.array(values, pa.string())], ["key", "value"])


def fill(
    server: Server, topic: str, records: int, make: Callable[[int, int], Any] = rows, per_transaction: int = 0
) -> None:
    """Write `records` rows of `make(first, count)`. They are visible when this returns."""
    with Cluster(server.client_config("java")) as cluster:
        transaction = SharedTransaction(cluster, f"fill-{topic}")
        transaction.init()
        encoder = Encoder({topic: shape_of(cluster, topic)})
        step = per_transaction or ROWS_PER_TRANSACTION
        for first in range(0, records, step):
            with TransactionWriter(cluster, transaction.begin()) as writer:
                for blob in encoder.encode(make(first, min(step, records - first))):
                    writer.write(TopicPartition(blob.topic, blob.partition), blob.data)
            transaction.commit()
    await_stable(server, [topic])


def admin(server: Server) -> Any:
    return AdminClient({**server.client_config("confluent"), "log_level": 0})


def create(server: Server, topics: Sequence[str], partitions: int, config: Mapping[str, str] | None = None) -> None:
    made = [NewTopic(name, partitions, 1, config=dict(config or {})) for name in topics]
    client = admin(server)  # without a name it is gone before it has answered
    for created in client.create_topics(made).values():
        created.result(60)


def recreate(server: Server, topics: Sequence[str], partitions: int, *, keep: Sequence[str]) -> None:
    """Empty `topics`, and nothing else left of earlier runs but `keep` and what is internal to Kafka and to us."""
    client = admin(server)
    there = [name for name in client.list_topics(timeout=30).topics if name not in keep and not name.startswith("__")]
    if there:
        for deleted in client.delete_topics(there, operation_timeout=30).values():
            deleted.result(60)
        deadline_s = time.monotonic() + DELETE_TIMEOUT_S
        while any(any(server.directory.glob(f"{name}-*")) for name in there) and time.monotonic() < deadline_s:
            time.sleep(0.05)
    create(server, topics, partitions)
