"""Rows to the partition that a column names.

Spark 4.1 and later can do this (`repartitionById`). Spark 4.0 can only place rows by a hash: there the rows are placed
by a number whose hash leads to the partition. Invariant: rows of one number are in one partition, and rows of two
numbers in two.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SEED = 42
MASK = 0xFFFFFFFF


def repartition_by_id(rows: "DataFrame", partitions: int, column: str) -> "DataFrame":
    """`partitions` partitions; a row goes to the one that `column` names, an int from 0 on."""
    if hasattr(type(rows), "repartitionById"):
        return rows.repartitionById(partitions, column)
    from pyspark.sql import functions as sql

    table = sql.array(*(sql.lit(number) for number in _preimages(partitions)))
    placed = rows.withColumn("__place", sql.element_at(table, sql.col(column) + 1))
    return placed.repartition(partitions, "__place").drop("__place")


def _preimages(partitions: int) -> list[int]:
    """For each partition an int that Spark's hash partitioning puts there."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < partitions:
        found.setdefault(murmur3(number) % partitions, number)
        number += 1
    return [found[index] for index in range(partitions)]


def murmur3(number: int) -> int:
    """Spark's hash of one int column: Murmur3 with 32 bits of one block, signed."""
    mixed = _rotate(number * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
    state = (_rotate(SEED ^ mixed, 13) * 5 + 0xE6546B64) & MASK
    state ^= 4  # the length
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ state >> shift) * factor & MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & MASK
