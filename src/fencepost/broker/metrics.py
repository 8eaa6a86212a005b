"""The metrics of a broker as Prometheus' text: `render(node)`. Reads, and changes nothing.

Series are bounded in number, whatever clients do: topics, partitions and groups are the worst few, with totals beside
them. A scrape runs on the event loop, so its work is kept to passes over what is in memory.
"""

import heapq
import os
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost import __version__
from fencepost.coordinator.group.states import State
from fencepost.coordinator.txn.states import TransactionState
from fencepost.errors import ErrorCode
from fencepost.log.partition import PartitionLog
from fencepost.metrics.text import Exposition, Labels
from fencepost.wire.messages import api_names
from fencepost.wire.terms import TopicPartition

if TYPE_CHECKING:
    from fencepost.broker.node import Node

#: How many series a family has for topics, for partitions and for groups.
TOPICS_MAX = 100
PARTITIONS_MAX = 20
GROUPS_MAX = 50


def render(node: "Node") -> str:
    """All of it, as `--metrics` serves it."""
    page = Exposition()
    page.gauge("fencepost_build_info", "The version of the broker, as a label.", [({"version": __version__}, 1)])
    _requests(page, node)
    _connections(page, node)
    _logs(page, node)
    _transactions(page, node)
    _partitions(page, node)
    _groups(page, node)
    _process(page, node)
    return page.text()


def _requests(page: Exposition, node: "Node") -> None:
    names = {key: "".join(word.capitalize() for word in name.split("_")) for key, name in api_names().items()}
    used = [(names[key], counts) for key, counts in node.counts.apis.items() if counts.latency.count or counts.errors]
    page.histogram(
        "fencepost_request_seconds",
        "Time from the start of a request to its answer, by API. A Fetch that waits for records counts its wait.",
        [({"api": name}, counts.latency) for name, counts in used],
    )
    page.counter(
        "fencepost_request_errors_total",
        "Error codes in answers, by API. One answer may hold one for each partition.",
        [
            ({"api": name, "error": _error_name(code)}, count)
            for name, counts in used
            for code, count in counts.errors.items()
        ],
    )


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _connections(page: Exposition, node: "Node") -> None:
    counts = node.counts
    page.gauge("fencepost_connections", "Open connections of clients.", node.connection_count)
    page.counter("fencepost_connections_accepted_total", "Connections that clients made.", counts.accepted)
    page.counter(
        "fencepost_connections_closed_total",
        "Connections that the broker closed because of what the client did or failed to do.",
        counts.closed,
    )
    page.counter("fencepost_received_bytes_total", "Bytes from clients, without TLS.", counts.bytes_in)
    page.counter("fencepost_sent_bytes_total", "Bytes to clients, without TLS.", counts.bytes_out)


def _logs(page: Exposition, node: "Node") -> None:
    counts, logs = node.counts.log, node.topics.logs()
    sizes: dict[str, int] = {}
    for log in logs:
        sizes[log.topic] = sizes.get(log.topic, 0) + log.size_bytes()
    page.gauge("fencepost_topics", "Topics, internal ones among them.", len(node.topics.all()))
    page.gauge("fencepost_partitions", "Partitions that have been used since the start.", len(logs))
    page.gauge(
        "fencepost_partitions_refusing_writes",
        "Partitions that take no writes any more, because the disk failed. A restart reads what is really there.",
        sum(log.failed for log in logs),
    )
    page.gauge("fencepost_log_bytes", "Size of all logs.", sum(sizes.values()))
    page.gauge(
        "fencepost_topic_log_bytes",
        f"Size of the logs of a topic. The largest {TOPICS_MAX}.",
        [({"topic": topic}, sizes[topic]) for topic in heapq.nlargest(TOPICS_MAX, sizes, key=lambda each: sizes[each])],
    )
    page.counter("fencepost_log_appended_batches_total", "Batches appended to logs.", counts.batches)
    page.counter("fencepost_log_appended_records_total", "Records appended, markers among them.", counts.records)
    page.counter("fencepost_log_appended_bytes_total", "Bytes appended to logs.", counts.bytes)
    page.counter(
        "fencepost_log_duplicate_batches_total",
        "Batches that were in the log already, sent again by an idempotent producer.",
        counts.duplicates,
    )
    page.counter("fencepost_log_write_errors_total", "Writes that the disk did not take.", counts.write_errors)
    page.histogram(
        "fencepost_log_sync_seconds",
        "Time of a sync of one log to the disk, which appends share.",
        counts.syncs,
    )
    page.counter("fencepost_log_sync_errors_total", "Syncs that failed, each for good.", counts.sync_errors)


def _transactions(page: Exposition, node: "Node") -> None:
    counts, states, now_ms = node.counts.transactions, node.transactions.states(), node.clock.now_ms()
    unfinished = node.transactions.unfinished()
    begun_ms = [each.start_ms for each in unfinished if each.state is TransactionState.ONGOING]
    ending_ms = [each.updated_ms for each in unfinished if each.state is not TransactionState.ONGOING]
    page.gauge(
        "fencepost_transactional_ids",
        "Transactional ids, by the state of their last transaction.",
        [({"state": state.label}, states[state]) for state in TransactionState if state in states],
    )
    page.gauge("fencepost_transactions_open", "Transactions that are open.", len(begun_ms))
    page.gauge(
        "fencepost_transaction_oldest_open_seconds",
        "Age of the oldest open transaction, 0 if there is none.",
        _age_s(begun_ms, now_ms),
    )
    page.gauge(
        "fencepost_transaction_oldest_ending_seconds",
        "How long the end of a transaction has been decided and not been carried out, at most; 0 if there is none.",
        _age_s(ending_ms, now_ms),
    )
    page.counter("fencepost_transactions_begun_total", "Transactions that began.", counts.begun)
    page.counter("fencepost_transactions_committed_total", "Transactions that were committed.", counts.committed)
    page.counter(
        "fencepost_transactions_aborted_total",
        "Transactions that were aborted: by their client, after their timeout, or because their id was initialised "
        "again.",
        [({"reason": reason.value}, count) for reason, count in counts.aborted.items()],
    )
    page.counter(
        "fencepost_producers_fenced_total",
        "Producers that lost their transactional id: to another one, which also counts normal restarts, or by a "
        "timeout.",
        [({"reason": reason.value}, count) for reason, count in counts.fenced.items()],
    )
    page.counter("fencepost_transactional_ids_expired_total", "Ids forgotten since unused.", counts.expired_ids)
    page.counter(
        "fencepost_admin_markers_total",
        "Markers that an administrator wrote to end a transaction on a partition.",
        counts.markers_by_hand,
    )
    page.histogram(
        "fencepost_transaction_open_seconds",
        "Time from a transaction's first partition to the decision on its end.",
        counts.open_times,
    )
    page.histogram(
        "fencepost_transaction_end_seconds",
        "Time from that decision until all partitions durably have their marker, which is what a commit waits for.",
        counts.ends,
    )


def _age_s(times_ms: list[int], now_ms: int) -> float:
    return max(0, now_ms - min(times_ms, default=now_ms)) / 1000


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A partition whose readers of committed records cannot read to its end."""

    log: PartitionLog
    is_hanging: bool  #: a transaction is open here that the coordinator does not know
    since_ms: int  #: when the oldest transaction began that it does know

    @property
    def lag(self) -> int:
        return self.log.high_watermark - self.log.last_stable_offset

    @property
    def labels(self) -> Labels:
        return {"topic": self.log.topic, "partition": str(self.log.partition)}


def held_back(node: "Node") -> Iterator[HeldBack]:
    """Every partition with an open transaction."""
    now_ms = node.clock.now_ms()
    known = {each.producer_id: each for each in node.transactions.unfinished()}
    for log in node.topics.logs():
        open_here = log.producers.open_transactions
        if not open_here:
            continue
        where, since_ms, is_hanging = TopicPartition(log.topic, log.partition), now_ms, False
        for producer_id in open_here.values():
            transaction = known.get(producer_id)
            if transaction is None or where not in transaction.partitions:
                is_hanging = True
            else:
                since_ms = min(since_ms, transaction.start_ms)
        yield HeldBack(log, is_hanging, since_ms)


def _partitions(page: Exposition, node: "Node") -> None:
    found = list(held_back(node))
    worst = heapq.nsmallest(PARTITIONS_MAX, found, key=lambda each: (not each.is_hanging, each.since_ms, -each.lag))
    which = f"of the {PARTITIONS_MAX} partitions whose open transactions are oldest, hanging ones first"
    page.gauge("fencepost_partitions_held_back", "Partitions with an open transaction.", len(found))
    page.gauge(
        "fencepost_partitions_hanging",
        "Partitions with a hanging transaction: open there, and unknown to the coordinator, so that nobody will end "
        "it.",
        sum(each.is_hanging for each in found),
    )
    page.gauge(
        "fencepost_lso_lag_offsets_max",
        "Largest distance of all partitions from the last stable offset to the high watermark.",
        max((each.lag for each in found), default=0),
    )
    page.gauge(
        "fencepost_partition_lso_lag_offsets",
        f"Distance from the last stable offset to the high watermark, {which}.",
        [(each.labels, each.lag) for each in worst],
    )
    page.gauge(
        "fencepost_partition_last_stable_offset",
        f"Last stable offset, {which}.",
        [(each.labels, each.log.last_stable_offset) for each in worst],
    )
    page.gauge(
        "fencepost_partition_high_watermark",
        f"High watermark, {which}.",
        [(each.labels, each.log.high_watermark) for each in worst],
    )


def _groups(page: Exposition, node: "Node") -> None:
    states = node.groups.states()
    logs = {(log.topic, log.partition): log for log in node.topics.logs()}  # a log that nobody opened has no records
    lags: dict[tuple[str, str], int] = {}
    for group_id, where, offset in node.groups.committed():
        log, topic = logs.get(where), where.topic
        behind = 0 if log is None else max(0, log.last_stable_offset - max(offset, log.log_start_offset))
        lags[group_id, topic] = lags.get((group_id, topic), 0) + behind
    worst = heapq.nlargest(GROUPS_MAX, lags, key=lambda each: lags[each])
    page.gauge(
        "fencepost_groups",
        "Consumer groups, by state.",
        [({"state": state.value}, states[state]) for state in State if state in states],
    )
    page.gauge(
        "fencepost_group_lag_offsets",
        "Offsets between what a group has committed and the last stable offset, by topic. Markers and aborted records "
        f"count, so it is an upper bound of the records to come. The {GROUPS_MAX} largest.",
        [({"group": group, "topic": topic}, lags[group, topic]) for group, topic in worst],
    )


def _process(page: Exposition, node: "Node") -> None:
    """Under the names that Prometheus' client libraries give them."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    page.counter("process_cpu_seconds_total", "CPU time, in user and system mode.", usage.ru_utime + usage.ru_stime)
    page.gauge("process_start_time_seconds", "When the broker started.", node.counts.started_ms / 1000)
    page.gauge("process_resident_memory_bytes", "Resident memory.", _resident_bytes(usage))
    if sys.platform == "linux":
        page.gauge("process_open_fds", "Open files and sockets.", len(os.listdir("/proc/self/fd")))
    page.gauge("process_max_fds", "How many there may be.", resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _resident_bytes(usage: resource.struct_rusage) -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return usage.ru_maxrss * 1024
