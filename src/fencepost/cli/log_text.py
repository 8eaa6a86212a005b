"""What `fencepost log dump` prints: lines for people, dictionaries for `--json`. Pure."""

import json
from dataclasses import asdict
from typing import Any

from fencepost.cli.tables import moment
from fencepost.dump.decoding import decoder_of
from fencepost.dump.segments import BatchAt, Damage
from fencepost.errors import Malformed
from fencepost.lines import json_lines
from fencepost.lines.reading import Seen
from fencepost.wire.records import Record
from fencepost.wire.terms import TopicPartition
from fencepost.wording import plural

_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def is_good(found: BatchAt | Damage) -> bool:
    return isinstance(found, BatchAt) and not found.problem


def batch_as_dict(found: BatchAt | Damage, topic: str) -> dict[str, Any]:
    if isinstance(found, Damage):
        return {"position": found.position, "problem": found.text}
    header = found.header
    codec = header.attributes & 0x07
    shown: dict[str, Any] = {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "position": found.position,
        "size": header.size,
        "leader_epoch": header.leader_epoch,
        "timestamp": header.max_timestamp,
        "compression": _COMPRESSIONS[codec] if codec < len(_COMPRESSIONS) else str(codec),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "valid": found.is_valid,
    }
    if found.marker is not None:
        shown["marker"] = "commit" if found.marker.commit else "abort"
        shown["coordinator_epoch"] = found.marker.coordinator_epoch
    elif found.records is not None:
        shown["records"] = [_record(record, topic) for record in found.records]
    return {**shown, "problem": found.problem} if found.problem else shown


def _record(record: Record, topic: str) -> dict[str, Any]:
    decode = decoder_of(topic)
    if decode is not None:
        try:
            decoded = decode(record)
        except Malformed as error:
            decoded = {"problem": str(error)}
        if decoded is not None:
            return {"offset": record.offset, "timestamp": record.timestamp, "decoded": decoded}
    shown = json_lines.as_dict(Seen(TopicPartition(topic, 0), record))
    return {name: shown[name] for name in ("offset", "timestamp", "key", "value", "headers")}


def batch(shown: dict[str, Any]) -> list[str]:
    """One line for the batch, and an indented one for each record."""
    if "base_offset" not in shown:
        return [f"at {shown['position']}: {shown['problem']}"]
    what = plural(shown["count"], "record") if "marker" not in shown else f"{shown['marker']} marker"
    words = [
        f"{shown['base_offset']}-{shown['last_offset']}",
        what,
        str(moment(shown["timestamp"])),
        f"at {shown['position']}",
    ]
    words.append(f"{shown['size']} bytes")
    if shown["compression"] != "none":
        words.append(shown["compression"])
    if shown["producer_id"] >= 0:
        kind = "transactional producer" if shown["transactional"] else "producer"
        words.append(f"{kind} {shown['producer_id']} epoch {shown['producer_epoch']}")
        if shown["base_sequence"] >= 0:
            words.append(f"sequence {shown['base_sequence']}-{shown['last_sequence']}")
    words.append(f"leader epoch {shown['leader_epoch']}")
    if shown.get("problem"):
        words.append(f"DAMAGED: {shown['problem']}")
    return [", ".join(words), *(f"  {json.dumps(record, ensure_ascii=False)}" for record in shown.get("records", ()))]


def entry_as_dict(entry: Any) -> dict[str, Any]:
    """Of an index, a snapshot or a checkpoint: a dataclass of numbers."""
    return {name: value for name, value in asdict(entry).items() if name != "problem" or value}


def entry(shown: dict[str, Any]) -> str:
    return "  ".join(f"{name}: {'-' if value is None else value}" for name, value in shown.items())
