"""A stateful step as Spark operations on a micro-batch: rows to the owner of their key, changes and outputs to records.

Only for use inside the sink: after fencing and before writing, the committed end of the state is certain.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fencepost.client.cluster import Cluster
from fencepost.client.replication import Models
from fencepost.errors import ConfigError
from fencepost.spark.arrow_types import arrow_schema, spark_type
from fencepost.spark.ledger import ChangelogEntry
from fencepost.spark.naming import changelog_name
from fencepost.spark.sessions import parallelism
from fencepost.spark.shuffle import repartition_by_id
from fencepost.spark.state import changelog, values
from fencepost.spark.state.records import SCHEMA, records_of
from fencepost.spark.state.restoring import Restoring
from fencepost.spark.state.stage import KEY, PARTITION, STATE, StateStage
from fencepost.spark.state.step import StatefulStep

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

PARTITIONS_MIN = 4
#: One text for one key, whatever the session's settings are, and another for any other key: by default Spark writes
#: times in the session's time zone, to the millisecond. Never to be changed, or old state would not be found again.
KEY_JSON = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "true",
}


class State:
    """The state of a pipeline during one attempt at one batch."""

    def __init__(
        self,
        cluster: Cluster,
        pipeline: str,
        directory: str,
        remembered: Mapping[str, ChangelogEntry],
        models: Models,
        restoring: Restoring | None = None,
    ) -> None:
        """`remembered` are the changelogs in the ledger, by step. New ones are replicated like `models`. `restoring`
        is told how long it takes to catch up with them."""
        self._cluster = cluster
        self._pipeline = pipeline
        self._directory = directory
        self._remembered = remembered
        self._models = models
        self._restored = None if restoring is None else restoring.accumulator
        self.changelogs: dict[str, ChangelogEntry] = {}  #: those that were used, by step
        self._kept: list[DataFrame] = []

    def update(self, rows: "DataFrame", step: StatefulStep) -> "DataFrame":
        """The records that the step makes of these rows: its outputs and its changes of state.

        All of them must be among the records of the batch, unchanged.
        """
        from pyspark.sql import functions as sql
        from pyspark.sql.types import IntegerType, StringType, StructField, StructType

        if step.name in self.changelogs:
            raise ConfigError(f"step {step.name!r} is used twice in one batch: a key can only have one new state")
        _check_columns(rows, step)
        log = self._changelog(step, parallelism(rows.sparkSession))
        state, output = _schema(step.state), _schema(step.output)
        state_schema, output_schema = arrow_schema(state), arrow_schema(output)
        values.check_schema(state_schema, f"the state of step {step.name!r}")
        records = records_of(step, output_schema, log.topic)
        schemas = (state_schema, output_schema)
        stage = StateStage(self._cluster.settings, log, self._directory, step, *schemas, records, self._restored)
        own = [StructField(KEY, StringType()), StructField(PARTITION, IntegerType()), StructField(STATE, state)]
        key = sql.to_json(sql.struct(*step.keys), KEY_JSON)
        keyed = rows.withColumn(KEY, key).withColumn(PARTITION, _owner(log.partitions))
        placed = repartition_by_id(keyed, log.partitions, PARTITION)
        if records is not None:
            return placed.mapInArrow(stage, spark_type(SCHEMA))
        done = placed.mapInArrow(stage, StructType([*own, *output.fields]))
        return done.select(*_record(step, output.names, log.topic))

    @property
    def topics(self) -> list[str]:
        """The changelogs that were used."""
        return [changelog_name(self._pipeline, step) for step in self.changelogs]

    def keep(self, rows: "DataFrame") -> "DataFrame":
        """These rows, computed once for all their uses in this batch.

        Not for `spark.sql("… {rows}", rows=kept)`: that makes a view and drops it again, and then Spark drops the kept
        rows, too. Use methods of the DataFrame.
        """
        kept = rows.persist()
        self._kept.append(kept)
        return kept

    def release(self) -> None:
        """The attempt is over: drop the rows that were kept for it."""
        for rows in self._kept:
            rows.unpersist()
        self._kept.clear()

    def _changelog(self, step: StatefulStep, parallelism: int) -> changelog.Changelog:
        partitions = step.partitions or max(PARTITIONS_MIN, parallelism)
        name = changelog_name(self._pipeline, step.name)
        remembered = self._remembered.get(step.name)
        found = changelog.look(self._cluster, name, partitions, step.configs, remembered, self._models)
        self.changelogs[step.name] = ChangelogEntry(found.partitions, found.identity, found.reset_id)
        return found


def _schema(ddl: str) -> "StructType":
    from pyspark.sql.types import StructType

    found = StructType.fromDDL(ddl) if ddl.strip() else StructType()
    if not isinstance(found, StructType):
        raise ConfigError(f"a schema must look like 'purchases long, amount double', not {ddl!r}")
    return found


def _owner(partitions: int) -> "Column":
    """The changelog partition of a key. Must never change, or old state would not be found.

    It is Spark's hash, not Kafka's: it runs in the JVM, before rows go to Python. Spark cannot change it either,
    because tables are bucketed by it. Records carry their partition, so Kafka's partitioner does not matter.
    """
    from pyspark.sql import functions as sql

    return sql.pmod(sql.xxhash64(KEY), sql.lit(partitions)).cast("int")


def _record(step: StatefulStep, output: list[str], topic: str) -> list[Any]:
    """The columns `topic`, `key`, `value` and `partition` of a change or an output."""
    from pyspark.sql import functions as sql

    is_change = sql.col(KEY).isNotNull()
    columns = [sql.lit(None).cast("string")] * 3
    if output:
        shared = [name for name in step.keys if name in output]
        default_key = sql.col(shared[0]).cast("string") if len(shared) == 1 else sql.to_json(sql.struct(*shared))
        if not shared:
            default_key = sql.lit(None).cast("string")
        columns = [
            sql.expr(step.topic[1:]) if step.topic.startswith("=") else sql.lit(step.topic),
            sql.expr(step.key).cast("string") if step.key else default_key,
            sql.expr(step.value).cast("string") if step.value else sql.to_json(sql.struct(*output)),
        ]
    changes = [sql.lit(topic), sql.col(KEY), sql.to_json(STATE)]
    return [
        *(
            sql.when(is_change, change).otherwise(given).alias(name)
            for name, change, given in zip(("topic", "key", "value"), changes, columns, strict=True)
        ),
        sql.col(PARTITION).alias("partition"),
    ]


def _check_columns(rows: "DataFrame", step: StatefulStep) -> None:
    missing = [name for name in step.keys if name not in rows.columns]
    if missing:
        raise ConfigError(
            f"step {step.name!r} needs the key columns {', '.join(missing)}, but the rows only have {rows.columns}"
        )
    if taken := {KEY, PARTITION, STATE} & set(rows.columns):
        raise ConfigError(f"the column names {', '.join(sorted(taken))} are reserved for the state")
