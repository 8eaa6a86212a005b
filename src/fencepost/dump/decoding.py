"""What the records of internal topics mean: `__transaction_state`, `__consumer_offsets` and `fencepost.ledger`.

The result is for people and for JSON, so it is a mapping. A record of a kind that is not known here (of Kafka's newer
groups) is not decoded.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from fencepost.coordinator.group import records as offsets
from fencepost.coordinator.group.records import OffsetKey
from fencepost.coordinator.txn import model as transactions
from fencepost.errors import Malformed
from fencepost.wire.records import Record
from fencepost.wire.terms import CONSUMER_OFFSETS, TRANSACTION_STATE

LEDGER = "fencepost.ledger"

Decoded = Mapping[str, Any]
Decode = Callable[[Record], Decoded | None]


def decoder_of(topic: str) -> Decode | None:
    """None for topics whose records are their users'. The decoder gives None for what it does not know."""
    return _DECODERS.get(topic)


def _transaction(record: Record) -> Decoded | None:
    name = transactions.decode_key(record.key or b"")
    if name is None:
        return None
    if record.value is None:
        return {"transactional_id": name, "state": None}
    found = transactions.decode(name, record.value, record.offset)
    return {
        "transactional_id": name,
        "state": found.state.label,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "partitions": sorted(f"{where.topic}-{where.partition}" for where in found.partitions),
        "start_ms": found.start_ms,
        "updated_ms": found.updated_ms,
        "previous_producer_id": found.previous_producer_id,
        "next_producer_id": found.next_producer_id,
        "client_version": int(found.client_version),
    }


def _offset(record: Record) -> Decoded | None:
    key = offsets.read_key(record)
    if key is None:
        return None
    if isinstance(key, OffsetKey):
        commit = offsets.read_commit(record)
        shown: dict[str, Any] = {"group": key.group_id, "topic": key.where.topic, "partition": key.where.partition}
        if commit is None:
            return {**shown, "offset": None}
        return {
            **shown,
            "offset": commit.offset,
            "leader_epoch": commit.leader_epoch,
            "metadata": commit.metadata,
            "commit_ms": commit.commit_ms,
        }
    group = offsets.read_group(record)
    if group is None:
        return {"group": key.group_id, "members": None}
    members = [
        {name: value for name, value in asdict(each).items() if name not in ("subscription", "assignment")}
        for each in group.members
    ]
    return {
        "group": key.group_id,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "generation": group.generation,
        "leader": group.leader,
        "members": members,
    }


def _ledger(record: Record) -> Decoded | None:
    try:
        pipeline = (record.key or b"").decode()
        entry = None if record.value is None else json.loads(record.value)
    except ValueError:
        raise Malformed("an entry of the ledger is no JSON") from None
    return {"pipeline": pipeline, "entry": entry}


_DECODERS: dict[str, Decode] = {
    TRANSACTION_STATE: _transaction,
    CONSUMER_OFFSETS: _offset,
    LEDGER: _ledger,
}
