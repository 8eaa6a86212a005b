"""The raw numbers of `python -m bench.growth --json` as points that a model can be fitted to. Pure."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.harness.report import median

#: Curves whose points the time of a batch is fitted to, and the one that it is checked against.
FITTED = ("batch-size", "record-size", "output-partitions", "input-partitions")
CHECKED = "executors"
#: Curves of a broker and of the client alone.
OTHERS = ("commit-partitions", "producers", "client")


@dataclass(frozen=True, slots=True)
class Batch:
    """One point of a curve of Spark: the median batch."""

    curve: str
    records: float
    record_bytes: int
    input_partitions: int
    output_partitions: int
    cores: int
    ms: float


@dataclass(frozen=True, slots=True)
class Observations:
    """Of one broker."""

    batches: list[Batch]
    commits: list[tuple[int, float]]  #: partitions, ms until visible
    commit_cpu_ms: float | None  #: of the broker, with as many producers as were measured
    send_s_per_gb: float | None  #: of one writer, with records of about 1 KB


def documents(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, one after the other: a curve each."""
    decoder, position = json.JSONDecoder(), 0
    while (position := _skip(text, position)) < len(text):
        document, position = decoder.raw_decode(text, position)
        yield document


def observed(found: Iterable[dict[str, Any]], broker: str) -> Observations:
    """What was measured on `broker` (fencepost, kafka). A curve that is missing leaves its part empty."""
    raw = [entry for document in found for entry in document["raw"]]
    mine = [entry for entry in raw if entry.get("broker") == broker]
    producers = [entry for entry in mine if entry["curve"] == "producers"]
    clients = [entry for entry in mine if entry["curve"] == "client"]
    near_1_kb = min(clients, key=lambda entry: abs(entry["bytes"] - 1000), default=None)
    return Observations(
        [_batch(entry) for entry in mine if entry["curve"] in (*FITTED, CHECKED) and entry["system"] == "fencepost"],
        [
            (entry["x"], median([visible for _, visible in entry["call_and_visible_ms"]]))
            for entry in mine
            if entry["curve"] == "commit-partitions"
        ],
        max(producers, key=lambda entry: entry["producers"])["cpu_ms"] if producers else None,
        median([run["send"] for run in near_1_kb["runs"]]) if near_1_kb else None,
    )


def _batch(entry: dict[str, Any]) -> Batch:
    shape = entry["shape"]
    return Batch(
        entry["curve"],
        median([batch["rows"] for batch in entry["batches"]]),
        shape["record_bytes"],
        shape["input_partitions"],
        shape["output_partitions"],
        shape["cores"],
        median([batch["ms"] for batch in entry["batches"]]),
    )


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position
