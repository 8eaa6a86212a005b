"""What `fencepost topic` prints: tables for people, dictionaries for `--json`. Pure."""

import uuid
from collections.abc import Sequence
from typing import Any

from fencepost.cli.tables import table
from fencepost.client.cluster import TopicMetadata
from fencepost.client.configs import Config, Source
from fencepost.manage.topics import PartitionFacts, TopicFacts, problem_of
from fencepost.wire.codec import NULL_UUID
from fencepost.wording import plural

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(size_bytes: int | None) -> str | None:
    if size_bytes is None:
        return None
    amount, unit = float(size_bytes), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} {_UNITS[unit]}" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


def listed(found: Sequence[TopicMetadata]) -> list[str]:
    if not found:
        return ["there is no topic, or none that you may see"]
    rows = [(each.name, len(each.partitions), each.replication_factor, problem_of(each)) for each in found]
    if not any(row[-1] for row in rows):
        return table(("TOPIC", "PARTITIONS", "REPLICAS"), [row[:-1] for row in rows])
    return table(("TOPIC", "PARTITIONS", "REPLICAS", "PROBLEM"), rows)


def listed_as_dict(topic: TopicMetadata) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "id": None if topic.id == NULL_UUID else str(uuid.UUID(bytes=topic.id)),
        "partitions": len(topic.partitions),
        "replicas": topic.replication_factor,
        "internal": topic.is_internal,
        "problem": problem_of(topic) or None,
    }


def described(found: TopicFacts) -> list[str]:
    topic = found.metadata
    lines = [f"topic       {topic.name}" + (" (internal)" if topic.is_internal else "")]
    if topic.id != NULL_UUID:
        lines.append(f"id          {uuid.UUID(bytes=topic.id)}")
    lines.append(f"partitions  {len(topic.partitions)}, {plural(topic.replication_factor, 'replica')} each")
    if found.configs is None:
        lines.append("settings    hidden: you lack the right DescribeConfigs")
    for number, config in enumerate(found.configs or ()):
        lines.append(f"{'settings' if number == 0 else '':<12}{config.name}={_shown(config)}")
    rows = [
        (
            each.where.partition,
            each.metadata.leader if each.metadata.leader >= 0 else None,
            _ids(each.metadata.replicas),
            _ids(each.metadata.in_sync),
            each.begin,
            each.stable,
            each.end,
            size(each.size_bytes),
            each.problem,
        )
        for each in found.partitions
    ]
    headings = ("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "START", "STABLE", "END", "SIZE", "PROBLEM")
    width = len(headings) if found.has_problem else len(headings) - 1
    return [*lines, *table(headings[:width], [row[:width] for row in rows])]


def described_as_dict(found: TopicFacts) -> dict[str, Any]:
    return {
        **listed_as_dict(found.metadata),
        "configs": None if found.configs is None else {each.name: each.value for each in found.configs},
        "partitions": [_partition_as_dict(each) for each in found.partitions],
    }


def _partition_as_dict(found: PartitionFacts) -> dict[str, Any]:
    return {
        "partition": found.where.partition,
        "leader": found.metadata.leader if found.metadata.leader >= 0 else None,
        "leader_epoch": found.metadata.leader_epoch,
        "replicas": list(found.metadata.replicas),
        "in_sync": list(found.metadata.in_sync),
        "start_offset": found.begin,
        "last_stable_offset": found.stable,
        "end_offset": found.end,
        "size_bytes": found.size_bytes,
        "problem": found.problem or None,
    }


def configs(found: Sequence[Config]) -> list[str]:
    if not found:
        return ["all settings are the cluster's defaults; --all shows them"]
    return table(("SETTING", "VALUE", "FROM"), [(each.name, _shown(each), _source(each.source)) for each in found])


def config_as_dict(config: Config) -> dict[str, Any]:
    return {"name": config.name, "value": config.value, "from": _source(config.source)}


def deleted(found: TopicFacts, *, is_done: bool) -> str:
    sizes = [each.size_bytes for each in found.partitions if each.size_bytes is not None]
    held = f", {size(sum(sizes))}" if sizes else ""
    said = "deleted" if is_done else "would be deleted"
    return f"{found.metadata.name}: {said}, with {plural(len(found.partitions), 'partition')}{held}"


def deleted_as_dict(found: TopicFacts, *, is_done: bool) -> dict[str, Any]:
    return {"topic": found.metadata.name, "partitions": len(found.partitions), "deleted": is_done}


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _shown(config: Config) -> str:
    return "(secret)" if config.is_sensitive else config.value or ""


def _source(source: Source) -> str:
    return {Source.TOPIC: "topic", Source.DEFAULT: "default"}.get(source, "broker")
