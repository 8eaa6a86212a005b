"""confluent-kafka (librdkafka) as a client, in a process of its own; prints what it did as one line of JSON.

    python -m bench.clients.rdkafka produce|consume|transactions|commits --config FILE --topic T --records N …

What Python does per record is kept small: one value for all records, no delivery callbacks, consuming in lists. The
benches print how many cores the client used: at one core and more, the client is the limit and not the broker.
"""

import argparse
import json
import subprocess
import sys
import time
import uuid
from typing import Any

from bench.clients.outcome import Work
from bench.harness.brokers import Server, client_file, read_client_file

TIMEOUT_S = 900
RECORDS_PER_CONSUME = 10_000
IDLE_TIMEOUT_S = 30.0


class ClientFailed(RuntimeError):
    """The client process failed."""


def call(server: Server, action: str, *arguments: str) -> dict[str, Any]:
    """Run one action in a process of its own and give back what it printed."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bench.clients.rdkafka", action),
            *("--config", str(client_file(server, "confluent")), *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise ClientFailed(f"confluent-kafka {action} on {server.name}:\n{done.stderr[-3000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def run(server: Server, action: str, topic: str, records: int, record_size: int, *more: str) -> Work:
    words = ("--topic", topic, "--records", str(records), "--record-size", str(record_size), *more)
    answer = call(server, action, *words)
    return Work(records, answer["bytes"], answer["seconds"], answer.get("latency_ms", {}))


# ---------------------------------------------------------------------------------------------------------------------
# What runs in the client's process


def producer(options: argparse.Namespace, **more: Any) -> Any:
    from confluent_kafka import Producer

    made = Producer(
        {
            **options.config,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 64 * 1024,
            "log_level": 3,
            **more,
        }
    )
    made.list_topics(options.topic, timeout=30)  # connect before the clock starts
    return made


def send(made: Any, topic: str, value: bytes, count: int) -> None:
    produce = made.produce
    sent = 0
    while sent < count:
        try:
            produce(topic, value)
        except BufferError:
            made.poll(0.002)
            continue
        sent += 1


def produce_action(options: argparse.Namespace) -> dict[str, Any]:
    made = producer(options)
    # librdkafka tries for a producer id again only after half a second if its first connection was not up yet.
    made.produce(options.topic, b"before the clock starts")
    made.flush(30)
    value = bytes(i * 7 % 251 for i in range(options.record_size))
    began = time.perf_counter()
    send(made, options.topic, value, options.records)
    left = made.flush(120)
    seconds = time.perf_counter() - began
    if left:
        raise ClientFailed(f"{left} records were not delivered")
    return {"bytes": options.records * options.record_size, "seconds": seconds}


def consume_action(options: argparse.Namespace) -> dict[str, Any]:
    from confluent_kafka import Consumer

    made = Consumer(
        {
            **options.config,
            "group.id": f"bench-{uuid.uuid4().hex[:8]}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": options.isolation_level,
            "queued.max.messages.kbytes": 64 * 1024,
            "fetch.message.max.bytes": 1024 * 1024,
            "log_level": 3,
        }
    )
    made.subscribe([options.topic])
    size = count = 0
    began = None
    idle_since = time.monotonic()
    while count < options.records:
        batch = made.consume(RECORDS_PER_CONSUME, 0.1)
        if not batch:
            if time.monotonic() - idle_since > IDLE_TIMEOUT_S:
                raise ClientFailed(f"nothing arrives after {count} of {options.records} records")
            continue
        idle_since = time.monotonic()
        if began is None:  # the group has formed and reading has begun; the first list is not counted
            began = time.perf_counter()
            count += len(batch)
            continue
        count += len(batch)
        size += sum(map(len, batch))
    seconds = time.perf_counter() - (began or time.perf_counter())
    made.close()
    return {"bytes": size, "seconds": seconds}


def transactions_action(options: argparse.Namespace) -> dict[str, Any]:
    """As many records, with a commit every `--commit-ms`."""
    made = producer(options, **{"transactional.id": f"bench-{uuid.uuid4().hex[:8]}"})
    made.init_transactions(30)
    value = bytes(i * 7 % 251 for i in range(options.record_size))
    interval_s = options.commit_ms / 1000
    latencies_ms = []
    began = time.perf_counter()
    made.begin_transaction()
    next_commit = began + interval_s
    sent = 0
    while sent < options.records:
        chunk = min(200, options.records - sent)
        send(made, options.topic, value, chunk)
        sent += chunk
        if time.perf_counter() >= next_commit or sent == options.records:
            before = time.perf_counter()
            made.commit_transaction(60)
            latencies_ms.append((time.perf_counter() - before) * 1000)
            if sent < options.records:
                made.begin_transaction()
            next_commit = time.perf_counter() + interval_s
    seconds = time.perf_counter() - began
    latencies_ms.sort()
    return {
        "bytes": options.records * options.record_size,
        "seconds": seconds,
        "latency_ms": {
            "commits": len(latencies_ms),
            "p50": latencies_ms[len(latencies_ms) // 2],
            "max": latencies_ms[-1],
        },
    }


def commits_action(options: argparse.Namespace) -> dict[str, Any]:
    """How long commit_transaction takes once all records of the transaction are acknowledged."""
    made = producer(options, **{"transactional.id": f"bench-{uuid.uuid4().hex[:8]}"})
    made.init_transactions(30)
    value = bytes(options.record_size)
    latencies_ms = []
    for _ in range(options.commits):
        made.begin_transaction()
        send(made, options.topic, value, options.records)
        if made.flush(120):
            raise ClientFailed("records were not delivered")
        before = time.perf_counter()
        made.commit_transaction(60)
        latencies_ms.append((time.perf_counter() - before) * 1000)
    return {"latencies_ms": latencies_ms}


ACTIONS = {
    "produce": produce_action,
    "consume": consume_action,
    "transactions": transactions_action,
    "commits": commits_action,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=ACTIONS)
    parser.add_argument("--config", required=True, type=read_client_file, help="settings of the connection, in a file")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--record-size", type=int, default=1024)
    parser.add_argument("--isolation-level", default="read_uncommitted")
    parser.add_argument("--commit-ms", type=float, default=100)
    parser.add_argument("--commits", type=int, default=20, help="how many transactions `commits` measures")
    options = parser.parse_args()
    print(json.dumps(ACTIONS[options.action](options)))


if __name__ == "__main__":
    main()
