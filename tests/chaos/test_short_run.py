"""A short run of chaos on our broker, with faults from a seed: no anomalies.

`FENCEPOST_SEED` repeats the workload and the faults of a run, `FENCEPOST_CHAOS_SECONDS` makes it longer. The long one
is `make chaos`. The history of the run is then spoilt in small ways, each of which is found.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.lab.chaos.anomaly import Kind
from fencepost.lab.chaos.checkers import check
from fencepost.lab.chaos.facts import READ_COMMITTED
from fencepost.lab.chaos.history import Function, Op, Status, load
from fencepost.lab.chaos.plan import CLIENTS, Family
from fencepost.lab.chaos.report import Result
from fencepost.lab.chaos.run import Run, Settings
from fencepost.lab.kit.servers import Ours
from fencepost.security.names import Protocol

SECONDS = float(os.environ.get("FENCEPOST_CHAOS_SECONDS", "12"))

pytestmark = pytest.mark.timeout(SECONDS + 240)


#: Small segments, so that rolling, snapshots and compaction, of internal topics too, are part of every recovery.
TINY = {
    "log.index.interval.bytes": "200",
    "internal.segment.bytes": "20000",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.delete.retention.ms": "1000",
}


def run(history: Path, families: frozenset[Family], security: Protocol | None = None, **broker_settings: str) -> Result:
    given = os.environ.get("FENCEPOST_SEED")
    seed = int(given) if given else random.SystemRandom().randrange(2**31)
    broker = {name.replace("_", "."): value for name, value in broker_settings.items()}
    settings = Settings(seconds=SECONDS, seed=seed, families=families, history=history)
    return Run(settings, ours=lambda home, given: Ours(home, {**given, **TINY, **broker}, security=security)).execute()


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run(tmp_path_factory.mktemp("chaos") / "history", frozenset(Family))


@pytest.fixture(scope="module")
def ops(result: Result) -> list[Op]:
    assert result.history is not None
    return load(result.history)


def test_nothing_is_lost_doubled_torn_or_out_of_order_under_random_faults(result: Result, ops: list[Op]) -> None:
    print("\n".join(result.lines()))
    assert [str(anomaly) for anomaly in result.anomalies] == [], "\n".join(result.lines())
    assert result.counts.transactions["committed"] > 50
    assert result.counts.transactions["aborted"] > 5
    assert result.counts.inputs > 50
    odd = {op.process for op in ops if op.status is Status.OK and op.function in (Function.TXN, Function.CHURN)}
    assert odd >= {"h1", "h2", "k1", "c1"}


def test_nothing_is_lost_by_kills_of_a_secured_broker_that_leaves_syncing_to_the_kernel(tmp_path: Path) -> None:
    """Over SASL_SSL, and on a bad network as well: a login may be cut anywhere."""
    families = frozenset({Family.KILL, Family.NET})
    result = run(tmp_path / "history", families, Protocol.SASL_SSL, log_flush_interval_messages=str(2**63 - 1))
    assert [str(anomaly) for anomaly in result.anomalies] == [], "\n".join(result.lines())
    assert result.counts.transactions["committed"] > 50
    assert result.history is not None
    done = {op.process for op in load(result.history) if op.status is Status.OK}
    assert done >= {name for name, _, _ in CLIENTS}, "every client has logged in and done something"
    password = json.loads((result.history / "broker" / "data" / "security" / "user.json").read_text())["password"]
    said = [path for path in result.history.iterdir() if path.is_file()] + [result.history / "broker" / "log"]
    assert [path.name for path in said if password in path.read_text(errors="replace")] == []


# -- the same history, spoilt -----------------------------------------------------------------------------------------

Records = list[list[Any]]


def spoil_drains(ops: list[Op], change: Callable[[Records], Records], isolation: str = READ_COMMITTED) -> list[Op]:
    """`change` is applied to the first line of records of one partition, for every reader of that isolation."""
    where = next(
        (op.data["topic"], op.data["partition"])
        for op in ops
        if op.function is Function.DRAIN and len(op.data["records"]) > 10
    )
    changed: set[str] = set()
    spoilt = []
    for op in ops:
        data = op.data
        is_it = op.function is Function.DRAIN and (data["topic"], data["partition"]) == where
        if is_it and data["isolation"] == isolation and data["reader"] not in changed:
            changed.add(data["reader"])
            op = replace(op, data={**data, "records": change(data["records"])})
        spoilt.append(op)
    assert changed
    return spoilt


def kinds(ops: list[Op]) -> set[Kind]:
    return {anomaly.kind for anomaly in check(ops)}


def test_one_record_twice_is_a_duplicate(ops: list[Op]) -> None:
    found = kinds(spoil_drains(ops, lambda records: [*records, [10**9, records[0][1]]]))
    assert Kind.DUPLICATE in found


def test_two_records_of_one_producer_in_each_others_place_are_reordered(ops: list[Op]) -> None:
    def swap(records: Records) -> Records:
        by_client: dict[str, int] = {}
        for index, (_, value) in enumerate(records):
            client = value.rpartition(".")[0].rpartition(".")[0]
            if client in by_client:
                first, second = records[by_client[client]], records[index]
                records = list(records)
                records[by_client[client]], records[index] = [first[0], second[1]], [second[0], first[1]]
                return records
            by_client[client] = index
        raise AssertionError("no producer has two records here")

    assert {Kind.REORDERED, Kind.INCONSISTENT_OFFSET} <= kinds(spoil_drains(ops, swap))


def test_a_poll_that_is_left_out_was_skipped(ops: list[Op]) -> None:
    polls = [op for op in ops if op.function is Function.POLL and op.process == "r1"]
    client, count = Counter(op.client for op in polls).most_common(1)[0]
    victim = [op for op in polls if op.client == client][count // 2]
    assert Kind.SKIPPED_POLL in kinds([op for op in ops if op is not victim])


def test_a_committed_offset_that_is_one_less_in_the_end_is_found(ops: list[Op]) -> None:
    victim = next(
        op
        for op in reversed(ops)
        if op.function is Function.COMMITTED and op.data["group"] == "loops" and op.data["offsets"]
    )
    offsets = [[topic, partition, offset - 1] for topic, partition, offset in victim.data["offsets"]]
    spoilt = [replace(op, data={**op.data, "offsets": offsets}) if op is victim else op for op in ops]
    assert kinds(spoilt) & {Kind.WRONG_OFFSET, Kind.NOT_EXACTLY_ONCE, Kind.TORN_TRANSACTION}
