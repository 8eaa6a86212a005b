"""Plays a case, act by act, in one Spark session on one cluster.

Invariant: whatever an act does, after a run that ended well the committed output is compared with a batch query over
the same topics, read again.
"""

import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient

from tests.conftest import topic_maker, unique
from tests.spark.queries.acts import Act, Check, Death, Grow, How, LoseCheckpoint, Run, RunRefused, Write
from tests.spark.queries.case import Case, Kind, Query, Source, Written
from tests.spark.queries.deaths import DIED
from tests.spark.queries.given import Given, Place
from tests.spark.queries.inputs import COMPACTED_CONFIG, Inputs
from tests.spark.queries.models import complaints
from tests.spark.queries.outside import Outside, Seen
from tests.spark.queries.runner import Runner
from tests.spark.queries.sinks import PARQUET

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

ONCE_MAX = 4
HEADERS = "transform(headers, header -> header.key || '=' || CAST(header.value AS STRING))"


class Wrong(AssertionError):
    """The output is not the batch query's, or a run did not end as it should. Says after which acts."""


class Play:
    """One case, with topics, a checkpoint and a pipeline of its own."""

    def __init__(
        self,
        spark: "SparkSession",
        bootstrap: str,
        case: Case,
        home: Path,
        *,
        topics: Mapping[str, tuple[str, ...]] | None = None,
        sources_bootstrap: str | None = None,
        must_die: bool = True,
    ) -> None:
        """`topics` are those of sources that somebody else fills; `sources_bootstrap` is the cluster of all sources.

        `must_die`: a death has to be reached.
        """
        self.case = case
        self._spark = spark
        self._must_die = must_die
        self._played: list[str] = []
        self.deaths = 0  #: that were reached
        home.mkdir(parents=True, exist_ok=True)
        pipeline = unique("pipeline")
        make = topic_maker(AdminClient({"bootstrap.servers": bootstrap}))
        make_input = topic_maker(AdminClient({"bootstrap.servers": sources_bootstrap or bootstrap}))
        made = {name: _make_topics(make_input, name, source) for name, source in case.sources.items()}
        outputs = {label: make(partitions, prefix=label) for label, partitions in case.outputs.items()}
        self.place = Place(bootstrap, pipeline, home, {**made, **(topics or {})}, outputs, sources_bootstrap)
        for name, source in case.sources.items():
            if source.kind is Kind.FILES:
                self.place.files(name).mkdir()
        self.runner = Runner(spark, case, self.place)
        self._inputs = Inputs(self.place, dict(case.sources), case.waves)
        self.outside = Outside(bootstrap, pipeline, outputs)

    # -- acts --------------------------------------------------------------------------------------------------------

    def play(self) -> None:
        for act in self.case.script:
            began_s = time.monotonic()
            self.act(act)
            self._played.append(f"{act} ({time.monotonic() - began_s:.1f} s)")
            logger.info("%s", self._played[-1])

    def act(self, act: Act) -> None:
        if isinstance(act, Write):
            self._inputs.write(act.wave)
        elif isinstance(act, Run):
            self.run(act.death)
        elif isinstance(act, LoseCheckpoint):
            shutil.rmtree(self.place.checkpoint, ignore_errors=True)
        elif isinstance(act, Grow):
            self._inputs.grow(act.source)
        elif isinstance(act, Check):
            self.check()
        else:
            self.run_refused(act)

    def run(self, death: Death | None = None) -> None:
        said = self._run(death)
        self.deaths += said is not None and DIED in said
        if death is None and said is not None:
            raise self._wrong(f"the query failed: {said}")
        if death is not None and death.how in (How.STOPPED, How.REPEATED):
            if said is not None:
                raise self._wrong(f"the query was to end well ({death.how.name}), and failed: {said}")
        elif death is not None and said is None and self._must_die:
            raise self._wrong(f"it was to die: {death}")
        if said is not None and DIED not in said:
            raise self._wrong(f"the query failed before it could die: {said}")

    def run_refused(self, act: RunRefused) -> None:
        before = self._standing()
        said = self._run(None)
        if said is None or any(words not in said for words in act.words):
            raise self._wrong(
                f"it was to be refused with {act.words}, and it {f'said {said}' if said else 'ended well'}"
            )
        if (after := self._standing()) != before:
            raise self._wrong(f"it was refused, and something changed: {before} became {after}")

    def check(self) -> None:
        case = self.case
        batch = self.batch(case.expected or case.query)
        found = self.outside.records(chosen=any(record.partition is not None for record in batch))
        running = None if case.running is None else self.batch(case.running)
        wrong = complaints(case.match, found, batch, running)
        wrong += self._offsets_complaints() + self._parquet_complaints(found)
        if wrong:
            raise self._wrong("; ".join(wrong))

    # -- inside ------------------------------------------------------------------------------------------------------

    def batch(self, query: Query) -> list[Seen]:
        """The records that a query makes of all that is there."""
        records = query(Given(self._spark, self.place, self.case.sources, is_stream=False))
        labels = {topic: label for label, topic in self.place.outputs.items()}
        has = set(records.columns)
        rows = records.selectExpr(
            "topic" if "topic" in has else f"'{self.place.outputs['out']}' AS topic",
            "CAST(key AS STRING) AS key" if "key" in has else "CAST(NULL AS STRING) AS key",
            "CAST(value AS STRING) AS value",
            f"{HEADERS if 'headers' in has else 'NULL'} AS headers",
            "partition" if "partition" in has else "NULL AS partition",
            "unix_millis(timestamp) AS time_ms" if "timestamp" in has else "NULL AS time_ms",
        ).collect()
        return [
            Seen(labels[row.topic], row.key, row.value, tuple(row.headers or ()), row.partition, row.time_ms)
            for row in rows
        ]

    def _run(self, death: Death | None) -> str | None:
        """What the query failed with, if it did.

        Triggered once, a query repeats an unfinished batch and ends; so it is started until nothing is left.
        """
        said = self.runner.run(death)
        for _ in range(ONCE_MAX if "once" in self.case.trigger and death is None else 0):
            if said is not None or not self._offsets_complaints():
                break
            said = self.runner.run(None)
        return said

    def _input_topics(self) -> list[str]:
        """Those whose group is where the output is."""
        if self.place.other_bootstrap is not None:
            return []
        return sorted({topic for topics in self.place.topics.values() for topic in topics})

    def _offsets_complaints(self) -> list[str]:
        """The group stands at the end of every input."""
        topics = self._input_topics() if self.case.moves_group else []
        ends, committed = self.outside.ends(topics), self.outside.committed(topics)
        odd = [f"{where}: {committed[where]} of {end}" for where, end in ends.items() if committed[where] != end]
        return [f"the group does not stand at the end: {', '.join(odd)}"] if odd else []

    def _parquet_complaints(self, found: list[Seen]) -> list[str]:
        """Files beside Kafka hold the same, as long as batches keep their numbers."""
        directory = self.place.home / PARQUET
        if not directory.exists() or LoseCheckpoint() in self.case.script:
            return []
        rows = self._spark.read.parquet(str(directory)).select("key", "value").collect()
        files, topics = Counter((row.key, row.value) for row in rows), Counter((each.key, each.value) for each in found)
        return [] if files == topics else [f"files and topics differ: {files - topics} and {topics - files}"]

    def _standing(self) -> object:
        return self.outside.written(), self.outside.committed(self._input_topics())

    def _wrong(self, what: str) -> Wrong:
        return Wrong(f"{self.case.name}: {what}\nafter: " + "\n       ".join(self._played))


def _make_topics(make: Callable[..., str], name: str, source: Source) -> tuple[str, ...]:
    if source.kind not in (Kind.FENCEPOST, Kind.KAFKA) or source.same_as is not None:
        return ()
    config = COMPACTED_CONFIG if source.written is Written.COMPACTED else {}
    stem = unique(name)
    return tuple(make(source.partitions, config=config, name=f"{stem}-{index}") for index in range(source.topics))
