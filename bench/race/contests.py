"""What is raced: the topics, who must write what into them, and how much of the work each record stands for.

Invariant: `check` raises unless every output is what `expected` says, byte by byte, so no rate is told of other work.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from bench.harness.brokers import Server
from bench.race import compare, expected, outputs
from bench.race.outputs import Weights
from fencepost.shop import DEAD_LETTERS, INVOICES, PURCHASES, SHIPMENTS
from fencepost.wire.terms import TopicPartition

TOTALS_TOPIC = "totals"


class Contest(ABC):
    job: str  #: of bench.clients.spark_job
    job_words: Sequence[str] = ()
    program: str  #: in bench/java
    program_words: Sequence[str]
    topics: Sequence[str]  #: the outputs

    @property
    @abstractmethod
    def work(self) -> float:
        """How many purchases have an effect that can be seen."""

    @abstractmethod
    def check(self, who: str, server: Server) -> dict[TopicPartition, Weights]:
        """Compare what was written. Raises OutputsDiffer."""


class ShopContest(Contest):
    """A purchase becomes an invoice and a shipment, half of it each; a bad one becomes a dead letter."""

    job, program = "pipeline", "ShopStreams"
    topics = (INVOICES, SHIPMENTS, DEAD_LETTERS)
    program_words = (PURCHASES, *topics)

    def __init__(self, server: Server) -> None:
        self._expected = expected.shop_outputs(outputs.read(server, PURCHASES))

    @property
    def work(self) -> float:
        return float(len(self._expected[INVOICES]) + len(self._expected[DEAD_LETTERS]))

    def check(self, who: str, server: Server) -> dict[TopicPartition, Weights]:
        found = {topic: outputs.read(server, topic, include_headers=topic == DEAD_LETTERS) for topic in self.topics}
        for topic, table in found.items():
            compare.same_records(f"{who}, {topic}", self._expected[topic], table)
        return outputs.record_weights([(found[INVOICES], 0.5), (found[SHIPMENTS], 0.5), (found[DEAD_LETTERS], 1.0)])


class TotalsContest(Contest):
    """A purchase raises the count of its key. A system may write a key as often as it likes: its last record counts."""

    job, program = "state", "TotalsStreams"
    topics = (TOTALS_TOPIC,)

    def __init__(self, server: Server, keys: int) -> None:
        self.job_words = ("--keys", str(keys))
        self.program_words = (PURCHASES, *self.topics, str(keys))
        self._expected = expected.totals(outputs.read(server, PURCHASES), keys)

    @property
    def work(self) -> float:
        values = pa.array(list(self._expected.values()), pa.binary())
        return float(pc.sum(_counts(values)).as_py())

    def check(self, who: str, server: Server) -> dict[TopicPartition, Weights]:
        table = outputs.read(server, TOTALS_TOPIC)
        keys, values = (table.column(name).to_pylist() for name in ("key", "value"))
        compare.same_last_values(f"{who}, {TOTALS_TOPIC}", self._expected, dict(zip(keys, values, strict=True)))
        return outputs.count_weights(table, _counts(table.column("value")).to_numpy())


def _counts(values: Any) -> Any:
    """The field `purchases` of totals."""
    found = pc.struct_field(pc.extract_regex(values, r'"purchases":(?P<count>\d+)'), "count")
    return found.cast(pa.string()).cast(pa.int64())
