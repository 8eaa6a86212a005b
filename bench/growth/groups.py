"""Consumer groups: what many of them cost the broker in memory, and what they do to the ones that are used.

Each group has one member, which has joined, been assigned its partition and committed an offset. They share a
connection and send no heartbeats (their sessions last half an hour), so that what is measured is the groups.
"""

import argparse
import time
from typing import Any

from bench.growth.show import TITLES, Axes, add
from bench.harness.arena import arena
from bench.harness.brokers import Flush, Server
from bench.harness.process import usage
from bench.harness.report import Report, median
from fencepost.client.cluster import Cluster, Coordinates
from fencepost.client.connection import Connection
from fencepost.client.groups import committed_offsets
from fencepost.errors import ErrorCode
from fencepost.wire.codec import Message

OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT, SYNC_GROUP, LIST_GROUPS = 8, 11, 12, 14, 16
#: The versions that both brokers speak alike: offsets by topic name, and members that name themselves.
JOIN_VERSION, SYNC_VERSION, COMMIT_VERSION, HEARTBEAT_VERSION = 5, 3, 7, 3
SESSION_MS = 1_800_000
SAMPLES = 200
MEGABYTE = 1024 * 1024


class Refused(RuntimeError):
    """The coordinator did not do what it was asked."""


class Members:
    """The members of all groups, over one connection to their coordinator."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection = connection
        self._topic = topic
        self._members: list[tuple[str, str, int]] = []  #: group, member, generation

    def __len__(self) -> int:
        return len(self._members)

    def join(self) -> float:
        """One more group. Milliseconds until its member has its assignment, and has committed."""
        group = f"group-{len(self._members)}"
        before_s = time.perf_counter()
        answer = self._join(group, "")
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            answer = self._join(group, answer.member_id)
        _require(answer.error_code, "JoinGroup")
        member, generation = str(answer.member_id), int(answer.generation_id)
        fields: dict[str, Any] = {"group_id": group, "generation_id": generation, "member_id": member}
        given = {"assignments": [{"member_id": member, "assignment": b""}]}
        _require(self._call(SYNC_GROUP, SYNC_VERSION, {**fields, **given}).error_code, "SyncGroup")
        self._members.append((group, member, generation))
        self.commit(-1)
        return 1000 * (time.perf_counter() - before_s)

    def commit(self, index: int) -> float:
        group, member, generation = self._members[index]
        place = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        fields = {
            "group_id": group,
            "generation_id_or_member_epoch": generation,
            "member_id": member,
            "topics": [{"name": self._topic, "partitions": [place]}],
        }
        before_s = time.perf_counter()
        answer = self._call(OFFSET_COMMIT, COMMIT_VERSION, fields)
        _require(answer.topics[0].partitions[0].error_code, "OffsetCommit")
        return 1000 * (time.perf_counter() - before_s)

    def heartbeat(self, index: int) -> float:
        group, member, generation = self._members[index]
        before_s = time.perf_counter()
        fields = {"group_id": group, "member_id": member, "generation_id": generation}
        _require(self._call(HEARTBEAT, HEARTBEAT_VERSION, fields).error_code, "Heartbeat")
        return 1000 * (time.perf_counter() - before_s)

    def list(self) -> float:
        before_s = time.perf_counter()
        found = self._connection.call(LIST_GROUPS, {})
        if len(found.groups) < len(self._members):
            raise Refused(f"ListGroups names {len(found.groups)} of {len(self._members)}")
        return 1000 * (time.perf_counter() - before_s)

    def _join(self, group: str, member: str) -> Message:
        fields = {
            "group_id": group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": 60_000,
            "member_id": member,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        return self._call(JOIN_GROUP, JOIN_VERSION, fields)

    def _call(self, api_key: int, version: int, fields: dict[str, Any]) -> Message:
        return self._connection.call(api_key, fields, lowest=version, highest=version, timeout_s=60)


def _require(code: int, what: str) -> None:
    if code:
        raise Refused(f"{what}: {ErrorCode(code).name}")


def measure(server: Server, members: Members, count: int) -> dict[str, float]:
    joined = [members.join() for _ in range(count - len(members))]
    step = max(1, len(members) // SAMPLES)
    used = range(0, len(members), step)
    commits = sorted(members.commit(index) for index in used)
    return {
        "join_ms": median(joined[-SAMPLES:]),
        "rss_mb": usage(server.pid).rss_bytes / MEGABYTE,
        "commit_p50_ms": median(commits),
        "commit_p99_ms": commits[int(0.99 * len(commits))],
        "heartbeat_ms": median([members.heartbeat(index) for index in used]),
        "list_ms": median([members.list() for _ in range(5)]),
    }


def groups(options: argparse.Namespace, report: Report) -> None:
    """10,000 groups."""
    points = options.points or [10, 100, 1_000, 10_000]
    rows: list[list[Any]] = []
    series: dict[str, list[tuple[float, float]]] = {}
    for kind in options.brokers:
        with arena([kind], Flush.NEVER.settings) as where:
            server = where.servers[0]
            with where.topic(server, 1) as topic, Cluster(server.client_config("java")) as cluster:
                committed_offsets(cluster, "group-0", None)  # waits until there is a coordinator
                members = Members(cluster.coordinator(Coordinates.GROUP, "group-0"), topic)
                for count in points:
                    found = measure(server, members, count)
                    rows.append([TITLES[kind], f"{count:,}", *found.values()])
                    series.setdefault(TITLES[kind], []).append((count, found["commit_p50_ms"]))
                    report.raw.append({"curve": "groups", "broker": kind, "groups": count, **found})
    columns = ["broker", "groups", "join, sync and commit, ms", "broker MB", "a commit p50, ms", "p99, ms"]
    columns += ["a heartbeat, ms", "ListGroups, ms"]
    add(report, "groups", "Consumer groups", Axes("groups", "median ms of a commit"), columns, rows, series)
