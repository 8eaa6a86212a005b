import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.coordinator.txn.model import Transaction, TransactionVersion, by_topic, decode, decode_key, encode
from fencepost.coordinator.txn.states import TransactionState
from fencepost.errors import Malformed
from fencepost.wire import messages

EPOCHS = st.integers(-1, 32767)
IDS = st.integers(-1, 2**63 - 1)
TIMES = st.integers(-1, 2**62)
PARTITIONS = st.frozensets(st.tuples(st.text(min_size=1, max_size=5), st.integers(0, 100)), max_size=6)
TRANSACTIONS = st.builds(
    Transaction,
    transactional_id=st.text(max_size=20),
    producer_id=IDS,
    producer_epoch=EPOCHS,
    timeout_ms=st.integers(0, 2**31 - 1),
    state=st.sampled_from([s for s in TransactionState if s is not TransactionState.EMPTY]),
    updated_ms=TIMES,
    partitions=PARTITIONS,
    start_ms=TIMES,
    previous_producer_id=IDS,
    next_producer_id=IDS,
    last_producer_epoch=EPOCHS,
    client_version=st.sampled_from(TransactionVersion),
    offset=st.just(7),
)
EMPTY = encode(Transaction("a", 1, 0, 1000, TransactionState.EMPTY, 5)).value or b""
OF_NO_STATE = EMPTY[: 2 + 8 + 2 + 4] + b"\x63" + EMPTY[2 + 8 + 2 + 4 + 1 :]


@given(TRANSACTIONS)
def test_a_record_says_everything_there_is_to_know(transaction):
    record = encode(transaction)
    assert record.key is not None and record.value is not None
    transactional_id = decode_key(record.key)
    assert transactional_id == transaction.transactional_id
    assert decode(transactional_id, record.value, 7) == transaction


def test_an_empty_transaction_has_null_for_its_partitions_as_in_kafka():
    assert messages.data("transaction_log_value").decode(1, EMPTY, 2).transaction_partitions is None
    assert decode("a", EMPTY, -1).partitions == frozenset()


def test_the_bytes_are_those_of_kafka():
    """Key and value of a commit, as Kafka 4.1 lays them out; our own field is the last tagged one."""
    record = encode(
        Transaction(
            "ab", 5, 1, 60000, TransactionState.PREPARE_COMMIT, 3, frozenset({("t", 2)}), 2,
            previous_producer_id=5, last_producer_epoch=0, client_version=TransactionVersion.V2,
        )
    )  # fmt: skip
    assert record.key == bytes.fromhex("0000 0002 6162")
    assert record.value == bytes.fromhex(
        "0001 0000000000000005 0001 0000ea60 02"  # version, producer id, epoch, timeout, status
        "02 02 74 02 00000002 00"  # one topic with one partition
        "0000000000000003 0000000000000002"  # last update, start
        "03 00 08 0000000000000005"  # three tagged fields: previous producer id,
        "02 02 0002"  # client transaction version,
        "904e 02 0000"  # and the last producer epoch under tag 10000
    )


def test_records_of_kafka_before_version_4_are_read():
    value = b"\x00\x00" + messages.data("transaction_log_value").encode(
        0,
        {
            "producer_id": 9,
            "producer_epoch": 2,
            "transaction_timeout_ms": 10,
            "transaction_status": 1,
            "transaction_partitions": [{"topic": "t", "partition_ids": [0, 1]}],
            "transaction_last_update_timestamp_ms": 20,
            "transaction_start_timestamp_ms": 15,
        },
    )
    transaction = decode("old", value, 0)
    assert transaction.partitions == {("t", 0), ("t", 1)}
    assert (transaction.previous_producer_id, transaction.last_producer_epoch) == (-1, -1)


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x02" + bytes(50), b"\x00\x01" + bytes(4), OF_NO_STATE])
def test_a_value_that_cannot_be_read_is_not_guessed_at(value):
    with pytest.raises(Malformed):
        decode("shop", value, 0)


def test_a_key_of_another_kind_is_told_apart():
    assert decode_key(b"\x00\x01rest") is None
    assert decode_key(b"") is None


def test_partitions_are_grouped_in_a_fixed_order():
    assert by_topic({("b", 1), ("a", 2), ("b", 0)}) == {"a": [2], "b": [0, 1]}
