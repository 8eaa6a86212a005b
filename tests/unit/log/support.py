"""A log on a forgetful disk, and short words for what tests do with it."""

import itertools
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from fencepost.clock import ManualClock
from fencepost.errors import ErrorCode, KafkaError
from fencepost.log import maintenance
from fencepost.log.config import LogConfig
from fencepost.log.origin import Origin
from fencepost.log.partition import PartitionLog
from fencepost.log.results import Appended, Fetched
from fencepost.wire.batch import HEADER_BYTES, BatchHeader, read_header
from fencepost.wire.compression import Compression
from fencepost.wire.records import Record, decode_batch, encode_batch
from fencepost.wire.terms import Isolation
from tests.fakes.forgetful_disk import ForgetfulDisk
from tests.fakes.worker import ManualWorker

DATA = "/data"
DIRECTORY = "/data/shop-0"
TOPIC_ID = bytes(range(16))
NOW_MS = 1_700_000_000_000

#: Small enough that a few batches make several segments with several index entries each.
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200)


class Fixture:
    """Everything around a log that outlives it: the disk, the clock, and what the broker would have checkpointed."""

    def __init__(self, config: LogConfig | None = None) -> None:
        self.disk = ForgetfulDisk(DATA)
        self.clock = ManualClock(NOW_MS)
        self.disk.now_ms = self.clock.now_ms
        self.worker = ManualWorker()
        self.config = config or LogConfig()
        self.progress: list[tuple[int, int]] = []
        self.recovery_point = 0
        self.log_start_offset = 0
        self.log = self.open(clean=True)

    def open(self, *, clean: bool) -> PartitionLog:
        self.log = PartitionLog.open(
            self.disk, DIRECTORY, "shop", 0, TOPIC_ID, self.config, self.clock, self.worker,
            clean_shutdown=clean, recovery_point=self.recovery_point, log_start_offset=self.log_start_offset,
            on_progress=lambda log: self.progress.append((log.high_watermark, log.last_stable_offset)),
        )  # fmt: skip
        if not clean:  # as a broker does once it has opened all its logs
            self.disk.fsync_dir(DATA)
        return self.log

    def restart(self) -> PartitionLog:
        """A clean shutdown and a new start."""
        self.log.close()
        self.checkpoint()
        self.worker = ManualWorker()
        return self.open(clean=True)

    def kill(self) -> PartitionLog:
        """The process dies; what it wrote is in the page cache still."""
        self.worker = ManualWorker()
        return self.open(clean=False)

    def power_failure(self, rng: random.Random | None = None) -> PartitionLog:
        self.disk.lose_power(rng)
        return self.kill()

    def checkpoint(self) -> None:
        self.recovery_point = self.log.recovery_point
        self.log_start_offset = self.log.log_start_offset

    def configure(self, **changes: object) -> None:
        self.config = LogConfig(**{**vars(self.config), **changes})
        self.log.config = self.config

    def append(self, *values: bytes, sync: bool = True, **options: object) -> Appended:
        appended = self.log.append(batch(*values, **options), Origin.CLIENT)  # type: ignore[arg-type]
        if sync:
            self.worker.run()
        return appended

    def read(
        self,
        offset: int = 0,
        max_bytes: int = 10_000,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        *,
        at_least_one_batch: bool = True,
    ) -> Fetched:
        return self.log.read(offset, max_bytes, isolation, at_least_one_batch=at_least_one_batch)

    def maintain(self) -> None:
        maintenance.maintain(self.log)

    def names(self) -> list[str]:
        return sorted(self.disk.listdir(DIRECTORY))


@contextmanager
def refused(code: ErrorCode) -> Iterator[None]:
    with pytest.raises(KafkaError) as error:
        yield
    assert error.value.code == code


def batch(
    *values: bytes | None,
    keys: Iterable[bytes | None] | None = None,
    timestamps: Iterable[int] | None = None,
    compression: Compression = Compression.NONE,
    **producer: int | bool,
) -> bytearray:
    keys = itertools.repeat(None) if keys is None else keys
    timestamps = itertools.repeat(NOW_MS) if timestamps is None else timestamps
    records = [Record(key, value, at) for key, value, at in zip(keys, values, timestamps, strict=False)]
    return encode_batch(records, compression=compression, **producer)  # type: ignore[arg-type]


def headers(records: object) -> list[BatchHeader]:
    """The whole batches in what a read returned."""
    return [header for header, _ in split(bytes(records))]  # type: ignore[call-overload]


def split(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    position = 0
    while position + HEADER_BYTES <= len(data):
        header = read_header(data, position)
        if position + header.size > len(data):
            return
        yield header, data[position : position + header.size]
        position += header.size


def values(fetched: Fetched) -> list[bytes | None]:
    """The values of all data records, aborted ones included."""
    return [
        record.value
        for header, data in split(bytes(fetched.records))
        if not header.is_control
        for record in decode_batch(data, header)
    ]


def read_all(
    log: PartitionLog, isolation: Isolation = Isolation.READ_UNCOMMITTED, max_bytes: int = 700
) -> list[Record]:
    """Every record that a consumer would hand out, fetched piece by piece and with aborted ones taken out."""
    offset = log.log_start_offset
    records: list[Record] = []
    while True:
        fetched = log.read(offset, max_bytes, isolation, at_least_one_batch=True)
        parts = list(split(bytes(fetched.records)))
        if not parts:
            return records
        upcoming = sorted(fetched.aborted or [], key=lambda txn: txn.first_offset)
        aborted: set[int] = set()
        for header, data in parts:
            while upcoming and upcoming[0].first_offset <= header.last_offset:
                aborted.add(upcoming.pop(0).producer_id)
            if header.is_control:
                aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                records += [record for record in decode_batch(data, header) if record.offset >= offset]
        offset = parts[-1][0].last_offset + 1
