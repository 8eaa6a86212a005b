"""A reader of what is committed, and of what else is left at the end."""

from typing import Any

from fencepost.errors import ErrorCode
from fencepost.wire.batch import read_header
from fencepost.wire.records import decode_batch, decode_marker
from tests.simulation.clients import FETCH, METADATA, OFFSET_FETCH, PARTITIONS, TOPIC, Client


class Reader:
    """Reads what is committed, from the beginning, and goes on."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.positions = [0] * PARTITIONS
        self.stable = [-1] * PARTITIONS
        self.high_watermarks = [-1] * PARTITIONS
        self.seen: list[list[tuple[int, bytes]]] = [[] for _ in range(PARTITIONS)]

    async def poll(self, max_wait_ms: int) -> None:
        partitions = [
            {"partition": partition, "fetch_offset": position, "partition_max_bytes": 2**20}
            for partition, position in enumerate(self.positions)
        ]
        fields = {
            "max_wait_ms": max_wait_ms, "min_bytes": 1, "isolation_level": 1, "session_epoch": -1,
            "topics": [{"topic": TOPIC, "partitions": partitions}],
        }  # fmt: skip
        answer = await self._client.ask(FETCH, fields)
        for entry in answer.responses[0].partitions if answer.responses else ():
            if entry.error_code == ErrorCode.NONE:
                self._take(entry)

    async def follow(self) -> None:
        while True:
            await self.poll(1_500)

    async def read_all(self) -> None:
        """Up to the last stable offsets of now."""
        await self.poll(0)
        while any(position < stable for position, stable in zip(self.positions, self.stable, strict=True)):
            await self.poll(0)

    async def committed(self, group: str, partitions: int) -> list[tuple[int, str]]:
        """Offset and metadata of each partition."""
        wanted = [{"name": TOPIC, "partition_indexes": list(range(partitions))}]
        fields = {"group_id": group, "topics": wanted, "require_stable": True}
        answer = await self._client.ask_until(
            OFFSET_FETCH, fields, lambda answer: max(entry.error_code for entry in answer.topics[0].partitions)
        )
        return [(entry.committed_offset, entry.metadata or "") for entry in answer.topics[0].partitions]

    async def topics(self) -> list[str]:
        answer = await self._client.ask(METADATA, {"topics": None})
        return [topic.name for topic in answer.topics]

    def _take(self, entry: Any) -> None:
        partition = entry.partition_index
        self.stable[partition] = entry.last_stable_offset
        self.high_watermarks[partition] = entry.high_watermark
        aborted = sorted((one.first_offset, one.producer_id) for one in entry.aborted_transactions or ())
        skipped: set[int] = set()
        data = memoryview(entry.records or b"")
        while data:
            header = read_header(data)
            batch, data = data[: header.size], data[header.size :]
            while aborted and aborted[0][0] <= header.last_offset:
                skipped.add(aborted.pop(0)[1])
            if header.is_control:
                marker = decode_marker(batch)
                if marker is not None and not marker.commit:
                    skipped.discard(header.producer_id)
            elif header.producer_id not in skipped and header.base_offset >= self.positions[partition]:
                self.seen[partition] += [(record.offset, record.value or b"") for record in decode_batch(batch)]
            self.positions[partition] = max(self.positions[partition], header.last_offset + 1)
