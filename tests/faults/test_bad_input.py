"""What a broken or hostile client can send: it gets Kafka's error or a closed connection, and nobody else notices.

With `--bootstrap HOST:PORT` the same tests run on Apache Kafka, which is where the expected codes come from. Where it
says UNKNOWN_SERVER_ERROR, ours may say what is wrong instead.
"""

import contextlib
import os
import random
import resource
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fencepost.client.raw import FETCH, PRODUCE, fetch_fields, now_ms, produce_fields
from fencepost.errors import ConnectionLost, ErrorCode
from fencepost.wire.batch import checksum, pack_batch
from fencepost.wire.compression import Compression, compress
from fencepost.wire.records import Record, encode_batch, encode_marker, encode_record
from fencepost.wire.terms import Isolation
from tests.faults.bystander import Bystander
from tests.faults.conftest import MakeBroker
from tests.faults.process import BrokerProcess
from tests.faults.raw import API_VERSIONS, CREATE_TOPICS, METADATA, Address, Kafka

MB = 1024 * 1024
#: What one misbehaving client (or a few thousand idle ones) may cost.
GROWTH_BYTES_MAX = 64 * MB
#: A batch may take 256 MB when it is decompressed and checked, but not more, and not for long.
BOMB_BYTES_MAX = 400 * MB


@dataclass(frozen=True)
class Target:
    address: Address
    broker: BrokerProcess | None  #: None on another Kafka: then its memory and log are not looked at
    topic: str
    bystander: Bystander

    def client(self, **options: float) -> Kafka:
        return Kafka(self.address, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def target(pytestconfig: pytest.Config, make_module_broker: MakeBroker) -> Iterator[Target]:
    given = pytestconfig.getoption("--bootstrap")
    broker = None if given else make_module_broker().start()
    host, _, port = given.rpartition(":") if given else ("", "", "")
    address = (host, int(port)) if broker is None else broker.address
    suffix = f"{os.getpid()}-{now_ms()}"
    topic = f"bad-{suffix}"
    with Kafka(address) as client, Bystander(address, f"bystander-{suffix}") as bystander:
        client.create_topic(topic, 2)
        yield Target(address, broker, topic, bystander)


@pytest.fixture(autouse=True)
def _nobody_else_notices(target: Target, request: pytest.FixtureRequest) -> Iterator[None]:
    allowed = BOMB_BYTES_MAX if "bomb" in request.node.name else GROWTH_BYTES_MAX
    before = 0
    if target.broker is not None:
        _reset_peak(target.broker)
        before = target.broker.rss_bytes()
    yield
    target.bystander.has_noticed_nothing()
    if target.broker is not None:
        grown = target.broker.peak_rss_bytes() - before
        assert grown < allowed, f"the broker grew by {grown / MB:.0f} MB"


def _reset_peak(broker: BrokerProcess) -> None:
    with contextlib.suppress(PermissionError):
        Path(f"/proc/{broker.pid}/clear_refs").write_text("5")


def records(count: int = 3, timestamp: int | None = None) -> list[Record]:
    return [Record(b"k", b"v%d" % n, now_ms() if timestamp is None else timestamp) for n in range(count)]


def body(items: list[Record]) -> bytes:
    out = bytearray()
    for delta, record in enumerate(items):
        encode_record(out, record, 0, delta)
    return bytes(out)


def packed(data: bytes, count: int = 3, last_delta: int | None = None, **fields: int) -> bytearray:
    now = now_ms()
    last_delta = count - 1 if last_delta is None else last_delta
    return pack_batch(
        data, record_count=count, last_offset_delta=last_delta, base_timestamp=now, max_timestamp=now, **fields
    )


def patched(position: int, layout: str, value: int, *, resealed: bool = False) -> bytearray:
    """A good batch with one field of its header changed."""
    batch = encode_batch(records())
    struct.pack_into(layout, batch, position, value)
    if resealed:
        struct.pack_into(">I", batch, 17, checksum(batch))
    return batch


def old_message(magic: int) -> bytes:
    """A message set of the formats before batches."""
    timestamp = struct.pack(">q", now_ms()) if magic else b""
    content = struct.pack(">bb", magic, 0) + timestamp + struct.pack(">ii", -1, 3) + b"abc"
    return struct.pack(">qiI", 0, len(content) + 4, zlib.crc32(content)) + content


def wrong_crc() -> bytearray:
    batch = encode_batch(records())
    batch[-1] ^= 1
    return batch


# -- frames -----------------------------------------------------------------------------------------------------------

HOPELESS: dict[str, Callable[[Kafka], bytes]] = {
    "random bytes": lambda client: random.Random(7).randbytes(4096),
    "a web browser": lambda client: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS client": lambda client: bytes.fromhex("16030100f1010000ed0303") + bytes(200),
    "a frame of 2 GB": lambda client: struct.pack(">i", 2**31 - 1) + b"abc",
    "a frame over socket.request.max.bytes": lambda client: struct.pack(">i", 104857601) + b"abc",
    "a negative size": lambda client: struct.pack(">i", -1) + b"abc",
    "the most negative size": lambda client: struct.pack(">i", -(2**31)) + b"abc",
    "an empty frame": lambda client: struct.pack(">i", 0),
    "a frame shorter than its header": lambda client: struct.pack(">ih", 2, PRODUCE),
    "an unknown API": lambda client: struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "a negative API": lambda client: struct.pack(">ihhih", 10, -1, 0, 1, -1),
    "an unknown version": lambda client: struct.pack(">ihhih", 10, METADATA, 99, 1, -1),
    "a version that is no longer spoken": lambda client: struct.pack(">ihhih", 10, PRODUCE, 2, 1, -1),
    "a negative version": lambda client: struct.pack(">ihhih", 10, METADATA, -1, 1, -1),
    "a request cut in its body": lambda client: _cut(client, METADATA, 5, {"topics": [{"name": "x" * 50}]}),
    "a client id past the end": lambda client: struct.pack(">ihhih", 10, METADATA, 9, 1, 3000),
    "an array of two billion": lambda client: struct.pack(">ihhihi", 14, METADATA, 1, 1, -1, 2**31 - 1),
    "a string past the end": lambda client: struct.pack(">ihhihih", 16, METADATA, 1, 1, -1, 1, 32767),
    "an endless varint": lambda client: struct.pack(">ihhih", 30, METADATA, 9, 1, -1) + b"\x00" + b"\xff" * 19,
}


def _cut(client: Kafka, api: int, version: int, fields: dict[str, object]) -> bytes:
    data, _ = client.frame(api, version, fields)
    return struct.pack(">i", len(data) - 4 - 20) + data[4:-20]


@pytest.mark.parametrize("kind", HOPELESS)
def test_a_hopeless_frame_closes_the_connection(target: Target, kind: str) -> None:
    lines = len(_hang_ups(target))
    with target.client(timeout_s=10) as client:
        client.send_bytes(HOPELESS[kind](client))
        assert client.is_closed_by_peer()
    if target.broker is not None:
        said = _hang_ups(target)[lines:]
        assert len(said) == 1, said


def _hang_ups(target: Target) -> list[str]:
    """What the broker's log says of connections that it closed."""
    lines = target.broker.log.splitlines() if target.broker else []
    return [line for line in lines if "closing the connection" in line]


def test_half_a_frame_then_silence_holds_up_nobody_and_may_be_completed_later(target: Target) -> None:
    with target.client() as client:
        data, asked = client.frame(METADATA, 9, {"topics": [{"name": target.topic}]})
        client.send_bytes(data[:9])
        target.bystander.has_noticed_nothing()
        client.send_bytes(data[9:], asked)
        assert client.receive(asked).topics[0].error_code == 0


def test_announcing_large_frames_costs_nothing(target: Target) -> None:
    if target.broker is None:
        pytest.skip("Apache Kafka does not survive this one")
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            client = stack.enter_context(target.client())
            client.send_bytes(struct.pack(">i", 100 * MB) + bytes(100))
        target.bystander.has_noticed_nothing()


def test_clients_that_vanish_in_the_middle_of_a_frame_leave_nothing_behind(target: Target) -> None:
    with target.client() as client:
        frame, _ = client.frame(PRODUCE, 9, produce_fields({(target.topic, 0): encode_batch(records())}))
    for cut in range(1, len(frame), 7):
        with target.client() as client:
            # A reset, not an orderly close.
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.send_bytes(frame[:cut])
    target.bystander.has_noticed_nothing()


def test_a_slow_loris_gets_its_answer_when_it_has_finished_asking(target: Target) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(target.client()) for _ in range(100)]
        frame, asked = clients[0].frame(METADATA, 9, {"topics": [{"name": target.topic}]})
        for position in range(len(frame)):
            for client in clients:
                client.send_bytes(frame[position : position + 1])
            if position % 16 == 0:
                target.bystander.has_noticed_nothing()
        for client in clients:
            client.send_bytes(b"", asked)
            assert client.receive(asked).topics[0].error_code == 0


# -- many, and greedy ones --------------------------------------------------------------------------------------------


def test_two_thousand_idle_connections(target: Target) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4096:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(target.client()) for _ in range(2000)]
        target.bystander.has_noticed_nothing()
        for client in random.Random(1).sample(clients, 50):
            assert client.call(API_VERSIONS, 0).error_code == 0


def greedy_client(target: Target) -> Kafka:
    client = target.client()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    return client


def _send_until_stuck(client: Kafka, frames: list[bytes], quiet_s: float = 0.5) -> int:
    """Send without reading, until the broker has taken nothing for a while. Returns the bytes that it took."""
    client.socket.setblocking(False)
    data = b"".join(frames)
    sent, last = 0, time.monotonic()
    while sent < len(data) and time.monotonic() - last < quiet_s:
        try:
            sent += client.socket.send(data[sent : sent + 65536])
            last = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
        except ConnectionError:
            break
    return sent


def test_a_client_that_never_reads_its_fetches_costs_little(target: Target) -> None:
    topic = f"{target.topic}-big"
    with target.client() as client:
        client.create_topic(topic)
        for n in range(12):
            check = client.produce(topic, 0, encode_batch([Record(None, bytes([n]) * 900_000, now_ms())]))
            assert check.error is ErrorCode.NONE
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            greedy = stack.enter_context(greedy_client(target))
            frames = [
                greedy.frame(FETCH, 11, fetch_fields(topic, 0, n % 12, Isolation.READ_UNCOMMITTED))[0]
                for n in range(3000)
            ]
            _send_until_stuck(greedy, frames, quiet_s=0.2)
        target.bystander.has_noticed_nothing()


def test_a_client_that_never_reads_small_answers_costs_little(target: Target) -> None:
    with target.client() as client:
        names = [f"{target.topic}-many-{n}" for n in range(200)]
        topics = [{"name": name, "num_partitions": 4, "replication_factor": 1} for name in names]
        answer = client.call(CREATE_TOPICS, 5, topics=topics, timeout_ms=30_000)
        assert {topic.error_code for topic in answer.topics} == {0}
    with greedy_client(target) as greedy:
        # A request of 20 bytes whose answer has some 50 KB.
        frames = [greedy.frame(METADATA, 9, {"topics": None})[0] for _ in range(20_000)]
        _send_until_stuck(greedy, frames)
        target.bystander.has_noticed_nothing()


def test_a_client_that_never_reads_its_acknowledgements_costs_little(target: Target) -> None:
    with greedy_client(target) as greedy:
        batch = encode_batch(records())
        frames = [greedy.frame(PRODUCE, 9, produce_fields({(target.topic, 1): batch}))[0] for _ in range(20_000)]
        _send_until_stuck(greedy, frames)
        target.bystander.has_noticed_nothing()


# -- batches ----------------------------------------------------------------------------------------------------------

INVALID, CORRUPT = ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE

BAD_BATCHES: dict[str, tuple[ErrorCode, Callable[[], bytes | bytearray]]] = {
    "a wrong CRC": (CORRUPT, wrong_crc),
    "fewer records than there are": (INVALID, lambda: packed(body(records()), 2)),
    "more records than there are": (INVALID, lambda: packed(body(records()), 4)),
    "a million records": (INVALID, lambda: packed(body(records()), 1_000_000)),
    "a count below the last delta": (INVALID, lambda: packed(body(records()), 3, 3)),
    "a count above the last delta": (INVALID, lambda: packed(body(records()), 3, 1)),
    "no records": (INVALID, lambda: packed(b"", 0, 0)),
    "a negative count": (INVALID, lambda: packed(body(records()), -1, 2)),
    "a negative last delta": (INVALID, lambda: packed(body(records()), 3, -5)),
    "bytes after the last record": (INVALID, lambda: packed(body(records()) + b"\x00\x00")),
    "a record length that lies": (INVALID, lambda: packed(b"\x7e" + body(records())[1:])),
    "a batch cut short": (INVALID, lambda: encode_batch(records())[:-5]),
    "a header cut short": (INVALID, lambda: encode_batch(records())[:40]),
    "eight bytes": (INVALID, lambda: encode_batch(records())[:8]),
    "nothing at all": (INVALID, lambda: b""),
    "two batches": (INVALID, lambda: encode_batch(records()) * 2),
    "a base offset": (INVALID, lambda: patched(0, ">q", 77)),
    "a negative length": (CORRUPT, lambda: patched(8, ">i", -5)),
    "a length of zero": (CORRUPT, lambda: patched(8, ">i", 0)),
    "magic 3": (CORRUPT, lambda: patched(16, ">b", 3)),
    "magic 1 in a batch": (INVALID, lambda: patched(16, ">b", 1)),
    "an old message set of magic 0": (INVALID, lambda: old_message(0)),
    "an old message set of magic 1": (INVALID, lambda: old_message(1)),
    "garbage": (CORRUPT, lambda: b"\x07" * 100),
    "a control batch": (INVALID, lambda: packed(body(records()), attributes=0x20)),
    "a producer id without a sequence": (INVALID, lambda: packed(body(records()), producer_id=5, producer_epoch=0)),
    "a time in the far future": (
        ErrorCode.INVALID_TIMESTAMP,
        lambda: encode_batch(records(timestamp=now_ms() + 86_400_000 * 400)),
    ),
    "more than max.message.bytes": (
        ErrorCode.MESSAGE_TOO_LARGE,
        lambda: encode_batch([Record(None, bytes(1_100_000), now_ms())]),
    ),
    "transactional records without a transactional id": (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        lambda: packed(body(records()), attributes=0x10, producer_id=5, producer_epoch=0, base_sequence=0),
    ),
    "a marker": (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        lambda: encode_marker(commit=True, coordinator_epoch=0, producer_id=1, producer_epoch=0, timestamp=now_ms()),
    ),
}


@pytest.mark.parametrize("kind", BAD_BATCHES)
def test_a_bad_batch_is_refused_with_kafkas_code_and_leaves_nothing(target: Target, kind: str) -> None:
    expected, make = BAD_BATCHES[kind]
    with target.client() as client:
        before = client.read(target.topic, 0).high_watermark
        for version in (3, 9, 11):
            assert client.produce(target.topic, 0, make(), version=version).error is expected
        assert client.read(target.topic, 0).high_watermark == before
        assert client.produce(target.topic, 0, encode_batch(records())).base_offset == before


CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
#: Kafka answers most of these with UNKNOWN_SERVER_ERROR.
NOT_COMPRESSED = {INVALID, CORRUPT, ErrorCode.UNKNOWN_SERVER_ERROR}


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_bytes_that_are_none_are_refused(target: Target, codec: Compression) -> None:
    good = compress(codec, body(records()))
    with target.client() as client:
        before = client.read(target.topic, 0).high_watermark
        for data in (b"\x55" * 50, b"", good[:-6], good[: len(good) // 2], bytes(1000)):
            result = client.produce(target.topic, 0, packed(data, attributes=codec))
            assert result.error in NOT_COMPRESSED, data
        for count in (2, 4):
            assert client.produce(target.topic, 0, packed(good, count, attributes=codec)).error is INVALID
        assert client.read(target.topic, 0).high_watermark == before
        assert client.produce(target.topic, 0, packed(good, attributes=codec)).error is ErrorCode.NONE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_compression_is_refused(target: Target, codec: int) -> None:
    with target.client() as client:
        result = client.produce(target.topic, 0, packed(body(records()), attributes=codec))
        assert result.error in {*NOT_COMPRESSED, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD, Compression.LZ4])
def test_a_decompression_bomb_does_not_fill_the_memory(target: Target, codec: Compression) -> None:
    # 300 MB of zeros: 300 KB with gzip, 1.2 MB with lz4 (whose topic has to allow that), 30 KB with zstd.
    if codec not in _bombs:
        _bombs[codec] = compress(codec, body([Record(None, bytes(300 * 1000 * 1000), now_ms())]))
    topic = f"{target.topic}-bomb-{codec.name}"
    with target.client() as client:
        client.create_topic(topic, max_message_bytes=str(20 * MB))
        for _ in range(3):
            client.produce(topic, 0, packed(_bombs[codec], 1, attributes=codec))
    target.bystander.has_noticed_nothing()


_bombs: dict[Compression, bytes] = {}


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_bomb_of_tiny_records_holds_up_nobody(target: Target, policy: str) -> None:
    """Thirty million records in 20 KB, of lengths that make walking through them as slow as possible."""
    topic = f"{target.topic}-tiny-{policy}"
    small, large = (body([Record(b"", value, 0)]) for value in (b"", b"x"))
    pattern = small * 15 + large * 15
    batch = packed(compress(Compression.ZSTD, pattern * 1_000_000), 30_000_000, attributes=Compression.ZSTD)
    with target.client(timeout_s=60) as client:
        client.create_topic(topic, cleanup_policy=policy)
        client.produce(topic, 0, batch)
    target.bystander.has_noticed_nothing()


@pytest.mark.parametrize("acks", [5, 2, -2])
def test_acks_that_do_not_exist_are_refused(target: Target, acks: int) -> None:
    with target.client() as client:
        result = client.produce(target.topic, 0, encode_batch(records()), acks=acks)
        assert result.error is ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.parametrize(("topic", "batch"), [(None, wrong_crc()), ("no-such-topic", encode_batch(records()))])
def test_an_error_without_acks_closes_the_connection(target: Target, topic: str | None, batch: bytearray) -> None:
    with target.client() as client:
        client.request(PRODUCE, 9, produce_fields({(topic or target.topic, 0): batch}, acks=0))
        assert client.is_closed_by_peer()


def test_one_bad_partition_does_not_spoil_the_others_of_its_request(target: Target) -> None:
    with target.client() as client:
        batches: dict[tuple[str, int], bytes | bytearray | None] = {
            (target.topic, 0): wrong_crc(),
            (target.topic, 1): encode_batch(records()),
            (target.topic, 7): encode_batch(records()),
        }
        answer = client.call(PRODUCE, 9, **produce_fields(batches))
        codes = {p.index: p.error_code for p in answer.responses[0].partition_responses}
        assert codes == {0: CORRUPT, 1: ErrorCode.NONE, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("offset", [-1, -(2**63), 10**9, 2**63 - 1])
def test_an_offset_out_of_range_is_refused(target: Target, offset: int) -> None:
    with target.client() as client:
        past = client.read(target.topic, 0).high_watermark + 1
        for isolation in Isolation:
            for wrong in (offset, past):
                result = client.fetch_once(target.topic, 0, wrong, isolation)
                assert result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("size", [0, -1, -(2**31), 2**31 - 1])
def test_odd_fetch_sizes_are_survived(target: Target, size: int) -> None:
    with target.client() as client, contextlib.suppress(ConnectionLost):
        fields = fetch_fields(target.topic, 0, 0, Isolation.READ_COMMITTED, max_bytes=size)
        client.call(FETCH, 11, **fields)


def test_random_requests_to_every_api_are_answered_or_hung_up_on(target: Target) -> None:
    """Right headers, then noise. Whatever a decoder does with it, the broker survives."""
    chance = random.Random(20)
    with target.client() as client:
        apis = [(a.api_key, a.min_version, a.max_version) for a in client.call(API_VERSIONS, 0).api_keys]
    for key, first, last in apis:
        for version in sorted({first, last, chance.randint(first, last)}):
            for size in (0, 3, 40):
                with target.client(timeout_s=0.05) as client:
                    noise = chance.randbytes(size)
                    client.send_bytes(struct.pack(">ihhih", 10 + size, key, version, 1, -1) + noise)
                    with contextlib.suppress(ConnectionLost):
                        client.receive_bytes()
    with target.client() as client:
        assert client.call(API_VERSIONS, 0).error_code == 0
