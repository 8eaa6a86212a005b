import pytest

from fencepost.spark.shuffle import _preimages, murmur3


@pytest.mark.parametrize(("number", "hashed"), [(0, 933211791), (1, -559580957), (42, 29417773)])
def test_numbers_are_hashed_as_spark_hashes_them(number: int, hashed: int) -> None:
    """By `SELECT hash(0), hash(1), hash(42)`."""
    assert murmur3(number) == hashed


@pytest.mark.parametrize("partitions", [1, 2, 7, 200])
def test_each_partition_has_a_number_of_its_own(partitions: int) -> None:
    found = _preimages(partitions)
    assert [murmur3(number) % partitions for number in found] == list(range(partitions))
