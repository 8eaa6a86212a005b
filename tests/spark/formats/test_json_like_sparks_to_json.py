"""Our JSON against that of Spark itself: `to_json` of generated values of generated types, byte for byte."""

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from fencepost.formats.json_encode import encoder
from fencepost.formats.zones import in_zone
from tests.spark.formats.typed_values import every_type, random_array, random_type

SEED = 15
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:E-?\d+)?")
#: From here on Java prints the shortest digits that identify a number.
SHORTEST_SINCE = 19


def java_version(spark: SparkSession) -> int:
    jvm: Any = spark.sparkContext._jvm
    return int(jvm.java.lang.Runtime.version().feature())


def says_the_same(ours: bytes, sparks: bytes, floating: pa.DataType) -> bool:
    """Whether they only differ in how many digits a number has."""
    if NUMBER.sub(b"#", ours) != NUMBER.sub(b"#", sparks):
        return False
    as_number: Any = float if pa.types.is_float64(floating) else np.float32
    pairs = zip(NUMBER.findall(ours), NUMBER.findall(sparks), strict=True)
    return all(one == other or (as_number(one) == as_number(other) and len(one) <= len(other)) for one, other in pairs)


def compare(spark: SparkSession, path: Path, columns: dict[str, pa.Array], zone: str, floating: pa.DataType) -> int:
    """Raises for the first difference. Returns how many rows differ in digits only."""
    given = str(path / "given.parquet")
    rows = len(next(iter(columns.values())))
    pq.write_table(pa.table({"row": pa.array(range(rows)), **columns}), given)
    spark.conf.set("spark.sql.session.timeZone", zone)
    df = spark.read.parquet(given)
    written = str(path / "written.parquet")
    df.selectExpr("row", *(f"to_json({name}) AS {name}" for name in columns)).coalesce(1).write.parquet(written)
    found = pq.read_table(written)
    assert found["row"].to_pylist() == [*range(rows)]
    digits = 0
    for name, column in columns.items():
        done = encoder(in_zone(column.type, zone)).encode(column)
        assert not done.faults
        ours, sparks = done.values.to_pylist(), found[name].cast(pa.binary()).to_pylist()
        for row, (one, other) in enumerate(zip(ours, sparks, strict=True)):
            if one != other:
                assert one is not None, f"{column.type} row {row}: {column[row]} is {other!r} in Spark"
                assert other is not None, f"{column.type} row {row}: {column[row]} is null in Spark"
                assert says_the_same(one, other, floating), f"{column.type} row {row}: {one!r} is {other!r} in Spark"
                digits += 1
    return digits


def run(spark: SparkSession, path: Path, seed: int, schemas: int, rows: int, zone: str) -> None:
    rng = random.Random(seed)
    floating = rng.choice([pa.float64(), pa.float32()])
    kinds = [every_type(floating), *(random_type(rng, floating) for _ in range(schemas - 1))]
    columns = {f"c{index}": random_array(rng, kind, rows) for index, kind in enumerate(kinds)}
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    try:
        digits = compare(spark, path, columns, zone, floating)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    print(f"seed {seed}: {schemas * rows} values of {schemas} types in {zone}, {digits} differ in digits of {floating}")
    if java_version(spark) >= SHORTEST_SINCE:
        assert not digits


@pytest.mark.parametrize(
    ("seed", "zone"), [(SEED, "UTC"), (SEED + 1, "America/New_York"), (SEED + 2, "-03:30")], ids=str
)
def test_every_value_is_written_as_spark_writes_it(spark: SparkSession, tmp_path: Path, seed: int, zone: str) -> None:
    run(spark, tmp_path, seed, schemas=12, rows=1000, zone=zone)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_more_values_are_written_as_spark_writes_them(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    #: Zones whose history before 1970 is the same in all builds of the time zone database.
    zones = ["UTC", "America/New_York", "Asia/Kolkata", "PST", "UTC+7", "+01:02:03", "Australia/Lord_Howe"]
    run(spark, tmp_path, seed, schemas=25, rows=4000, zone=zones[seed % len(zones)])
