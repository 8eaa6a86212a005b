"""What the owner of a changelog partition does with a batch: catch up, look up, call the step's function.

It writes nothing. It returns changes, which become records of the changelog, and outputs: as finished records if it can
(`records`), and otherwise as rows of which Spark makes them (`KEY` is set in a change). Both go through the sink like
any other rows, so they are in the same transaction.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from fencepost.client.settings import ClientSettings
from fencepost.errors import WriteFailed
from fencepost.spark.state import values
from fencepost.spark.state.cache import cache_for
from fencepost.spark.state.changelog import Changelog
from fencepost.spark.state.records import Records
from fencepost.spark.state.restoring import Restored
from fencepost.spark.state.step import Keyed, StatefulStep, Updated
from fencepost.spark.workers import cluster_for
from fencepost.wire.terms import TopicPartition

KEY, PARTITION, STATE = "__key", "__partition", "__state"
#: Rows of one Arrow batch that goes back to Spark.
ROWS_PER_BATCH = 65_536


@dataclass(frozen=True, slots=True)
class StateStage:
    client: ClientSettings
    changelog: Changelog
    directory: str
    step: StatefulStep
    state_schema: Any
    output_schema: Any
    records: Records | None = None  #: makes the records here
    restored: Any = None  #: an accumulator (`restoring`), if the session has any

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        found = [batch for batch in batches if len(batch)]
        if not found:
            return
        table = pa.Table.from_batches(found)
        for partition in table.column(PARTITION).unique().to_pylist():
            rows = table.filter(pc.equal(table.column(PARTITION), partition))
            yield from self._update(partition, rows.combine_chunks())

    def _update(self, partition: int, table: Any) -> Iterator[Any]:
        """All rows of one changelog partition, in one call."""
        encoded = table.column(KEY).combine_chunks().dictionary_encode()
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        index = np.ascontiguousarray(encoded.indices.to_numpy(zero_copy_only=False), np.int32)
        names = encoded.dictionary
        _, firsts = np.unique(index, return_index=True)
        rows = table.drop_columns([KEY, PARTITION])
        old = values.decode(self._look_up(partition, names.to_pylist()), self.state_schema)
        updated = self.step.update(Keyed(rows.select(list(self.step.keys)).take(pa.array(firsts)), old, rows, index))
        yield from self._changes(partition, names, updated)
        yield from self._outputs(updated)

    def _look_up(self, partition: int, keys: list[str]) -> list[bytes | None]:
        cache = cache_for(self.directory, self.changelog.cache_name, partition)
        where = TopicPartition(self.changelog.topic, partition)
        encoded = [key.encode() for key in keys]
        started_s, cluster = time.monotonic(), cluster_for(self.client)
        applied = cache.catch_up(cluster, where, self.changelog.ends[partition])
        if self.restored is not None:
            self.restored.add(Restored(time.monotonic() - started_s, applied))
        return cache.look_up(cluster, where, self.changelog.ends[partition], encoded)

    def _changes(self, partition: int, names: Any, updated: Updated) -> Iterator[Any]:
        state = self._cast(updated.state, self.state_schema, "state")
        if len(state) != len(names):
            raise WriteFailed(f"step {self.step.name!r} returned {len(state)} states for {len(names)} keys")
        columns = [column.combine_chunks() for column in state.columns]
        is_gone = np.logical_and.reduce([column.is_null().to_numpy(zero_copy_only=False) for column in columns])
        struct = pa.StructArray.from_arrays(columns, fields=list(self.state_schema), mask=pa.array(is_gone))
        if self.records is not None:
            yield from self.records.changes(names, struct, partition).to_batches(max_chunksize=ROWS_PER_BATCH)
            return
        changes = pa.table({KEY: names, PARTITION: pa.array(np.full(len(names), partition, np.int32)), STATE: struct})
        yield from self._whole(changes)

    def _outputs(self, updated: Updated) -> Iterator[Any]:
        if updated.output is None or not len(updated.output):
            return
        output = self._cast(updated.output, self.output_schema, "output")
        if self.records is not None:
            yield from self.records.outputs(output).to_batches(max_chunksize=ROWS_PER_BATCH)
        else:
            yield from self._whole(output)

    def _whole(self, part: Any) -> Iterator[Any]:
        """With all columns of the result; those that `part` lacks are null."""
        schema = self.result_schema()
        columns = [
            part.column(field.name).cast(field.type)
            if field.name in part.schema.names
            else pa.nulls(len(part), field.type)
            for field in schema
        ]
        yield from pa.table(columns, schema=schema).to_batches(max_chunksize=ROWS_PER_BATCH)

    def result_schema(self) -> Any:
        state = pa.field(STATE, pa.struct(list(self.state_schema)))
        return pa.schema([(KEY, pa.string()), (PARTITION, pa.int32()), state, *self.output_schema])

    def _cast(self, table: Any, schema: Any, what: str) -> Any:
        missing = [name for name in schema.names if name not in table.schema.names]
        if missing:
            raise WriteFailed(f"step {self.step.name!r} returned {what} without the columns {', '.join(missing)}")
        try:
            return table.select(schema.names).cast(schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise WriteFailed(f"step {self.step.name!r} returned {what} of another schema: {error}") from None
