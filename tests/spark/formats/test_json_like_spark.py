"""JSON documents mean to us what they mean to Spark: the same generated documents through `from_json` and our decoder.

Spark is asked in its mode PERMISSIVE with a column for corrupt records. A document that it finds good must have the
value that it gives, and one that it finds corrupt must be a fault. What is different on purpose is counted.
"""

import re
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, concat, from_json, lit
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from fencepost.formats import json_decode
from fencepost.formats.json_tokens import java_double
from fencepost.formats.zones import in_zone
from tests import json_corpus

CORRUPT = "_corrupt"
#: What a fault begins with that Spark does not see, or contains.
NOT_UTF8, TRAILING = "not UTF-8 at byte", ": expected the end, found"
#: Jackson takes a character for a hexadecimal digit whose lowest byte is one.
ODD_DIGIT = re.compile(rb"\\u[0-9a-fA-F]{0,3}[\xc4-\xf4]")
#: As Java writes it, if it has many digits.
NUMBER = re.compile(r"-?[0-9]+\.[0-9]+(?:E-?[0-9]+)?")
#: Documents at a time: Spark's driver takes only so many bytes of results.
JOB_DOCUMENTS = 20_000


def ask_spark(spark: SparkSession, documents: list[bytes], wanted: Any, zone: str) -> tuple[Any, list[bool]]:
    """Values by row, and whether Spark finds the document corrupt.

    Only a struct can have a column for corrupt records. So an array or map is read a second time, as a field.
    """
    options = {"columnNameOfCorruptRecord": CORRUPT, "timeZone": zone}
    table = pa.table({"row": pa.array(range(len(documents)), pa.int32()), "given": pa.array(documents, pa.binary())})
    rows = spark.createDataFrame(table).withColumn("given", col("given").cast("string"))
    schema = from_arrow_type(wanted, prefer_timestamp_ntz=True)
    if isinstance(schema, StructType):
        value = from_json("given", StructType([*schema.fields, StructField(CORRUPT, StringType())]), options)
        found = rows.select("row", value.alias("value")).toArrow().sort_by("row").column("value").combine_chunks()
        kept = [index for index, field in enumerate(found.type) if field.name != CORRUPT]
        fields, names = [found.field(index) for index in kept], [found.type[index].name for index in kept]
        corrupt = found.field(CORRUPT).is_valid().to_pylist()
        return pa.StructArray.from_arrays(fields, names, mask=found.is_null()), corrupt
    held = StructType([StructField("value", schema), StructField(CORRUPT, StringType())])
    again = from_json(concat(lit('{"value":'), "given", lit("}")), held, options)
    answer = rows.select("row", from_json("given", schema, options).alias("value"), again.alias("again")).toArrow()
    answer = answer.sort_by("row")
    corrupt = answer.column("again").combine_chunks().field(CORRUPT).is_valid().to_pylist()
    return answer.column("value").combine_chunks(), corrupt


def compare(spark: SparkSession, name: str, wanted: Any, documents: list[bytes], zone: str = "UTC") -> Counter[str]:
    """Counts of what is equal, and of each difference that is on purpose. Fails on any other."""
    counts: Counter[str] = Counter()
    for first in range(0, len(documents), JOB_DOCUMENTS):
        part = documents[first : first + JOB_DOCUMENTS]
        values, corrupt = ask_spark(spark, part, wanted, zone)
        ours = json_decode.decoder(in_zone(wanted, zone)).decode(pa.array(part, pa.binary()))
        theirs, mine = json_corpus.rows(values), json_corpus.rows(ours.values)
        for row, document in enumerate(part):
            fault = ours.faults.get(row)
            kind = judged(fault, mine[row], theirs[row], corrupt[row], is_struct=pa.types.is_struct(wanted))
            if kind == "different" and fault and ODD_DIGIT.search(document) and "escapes" in fault:
                kind = "odd digits"
            counts[kind] += 1
            if kind == "different":
                print(f"{name}: {document[:300]!r}\n  Spark: corrupt={corrupt[row]} {theirs[row]!r:.500}")
                print(f"  ours:  {fault or mine[row]!r:.500}")
    print(f"{name}: {len(documents)} documents, {dict(counts)}")
    return counts


def with_fewest_digits(value: Any) -> Any:
    """Java before 19 sometimes writes more digits of a double than needed: in text that was a number."""
    if isinstance(value, str):
        return NUMBER.sub(lambda match: java_double(float(match[0])), value)
    return type(value)(map(with_fewest_digits, value)) if isinstance(value, (list, tuple)) else value


def judged(fault: str | None, mine: Any, theirs: Any, corrupt: bool, *, is_struct: bool) -> str:
    if fault is None:
        if corrupt and is_struct:
            return "different"
        if mine == theirs:
            return "both null" if mine is None else "equal"
        return "more digits" if with_fewest_digits(theirs) == mine else "different"
    if fault.startswith(NOT_UTF8):
        return "not UTF-8"
    if TRAILING in fault:
        return "text after the value"
    return "both faults" if corrupt or (theirs is None and not is_struct) else "different"


SCHEMAS = {
    "flat": (json_corpus.FLAT, "UTC"),
    "nested": (json_corpus.NESTED, "UTC"),
    "texts": (json_corpus.TEXTS, "UTC"),
    "times": (json_corpus.TIMES, "Europe/Berlin"),
    "times elsewhere": (json_corpus.TIMES, "Australia/Lord_Howe"),
    "array": (json_corpus.ARRAY, "UTC"),
    "map": (json_corpus.MAP, "UTC"),
}


def check(spark: SparkSession, name: str, seed: int, count: int) -> None:
    wanted, zone = SCHEMAS[name]
    counts = compare(spark, name, wanted, json_corpus.documents(seed, wanted, count), zone)
    assert counts["different"] == 0
    assert counts["equal"] > count / 4 and counts["both faults"] > count / 50  # else the documents prove little
    assert counts["not UTF-8"] and counts["text after the value"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_generated_documents_mean_what_they_mean_to_from_json(spark: SparkSession, name: str) -> None:
    check(spark, name, 1, 800)


def test_a_document_of_ten_megabytes_means_what_it_means_to_from_json(spark: SparkSession) -> None:
    lines = ",".join(f'{{"sku":"é\\n{number}","price":{number}.25}}' for number in range(5000))
    document = f'{{"id":1,"lines":[{lines}],"raw":"{"é" * 4_950_000}","skipped":[{lines}]}}'.encode()
    assert len(document) > 10_000_000
    assert compare(spark, "large", json_corpus.NESTED, [document, b'{"id":2}']) == {"equal": 2}
    assert compare(spark, "cut", json_corpus.NESTED, [document[:-1], b'{"id":2}']) == {"equal": 1, "both faults": 1}


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SCHEMAS)
def test_many_generated_documents_mean_what_they_mean_to_from_json(spark: SparkSession, name: str) -> None:
    check(spark, name, 2, 30_000)
