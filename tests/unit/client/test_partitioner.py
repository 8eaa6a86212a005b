"""The partitioner in plain Python, against Kafka's own vectors and another client's."""

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from fencepost.client.partitioner import murmur2, partition_for
from tests.unit.client.test_encode import KAFKA_VECTORS


@pytest.mark.parametrize("key", KAFKA_VECTORS, ids=bytes.decode)
def test_kafkas_own_vectors(key):
    assert murmur2(key) == KAFKA_VECTORS[key] % 2**32


@given(st.binary(max_size=64), st.integers(1, 100))
def test_keys_go_where_other_clients_send_them(key, partitions):
    assert partition_for(key, partitions) == (aiokafka_murmur2(key) & 0x7FFFFFFF) % partitions
