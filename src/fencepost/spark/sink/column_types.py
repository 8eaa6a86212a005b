"""Which types a key or value may have, and in which format it is written. Decided in the driver, before anything runs.

Spark computes the size of the Arrow batch after every row that it sends to Python, and each time it walks over all null
lists since the last list that is not null: quadratic in the rows. It does not do this if a batch may have any size
(`ANY_SIZE`). Otherwise a value with lists inside becomes JSON in Spark: `to_json` writes the same, more slowly.
"""

from typing import TYPE_CHECKING, Any

from fencepost.errors import ConfigError
from fencepost.formats import named
from fencepost.spark.arrow_types import arrow_schema
from fencepost.spark.sink.formats import Formats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

PLAIN = ("string", "binary", "void")
#: The formats of types that have one.
NUMBERS = {
    "boolean": "boolean", "tinyint": "short", "smallint": "short", "int": "integer", "bigint": "long", "float": "float",
    "double": "double",
}  # fmt: skip
BATCH_BYTES, ANY_SIZE = "spark.sql.execution.arrow.maxBytesPerBatch", "2147483647"


def check_type(where: str, name: str, kind: "DataType", formats: Formats) -> None:
    """Raises ConfigError unless the column can be written. `where` is how errors call it, `name` is key or value."""
    simple, asked = kind.simpleString(), formats.of(name)
    if simple == "void" or (asked is None and simple in PLAIN):
        return
    if asked is None and not _is_structure(kind):
        number = f"Give the sink the option {name}Format={NUMBERS[simple]}, " if simple in NUMBERS else ""
        raise ConfigError(
            f"{where} must be string or binary, or a STRUCT, MAP or ARRAY, which is written as JSON; not {simple}. "
            f"{number}CAST it to STRING, or put it into a STRUCT"
        )
    try:
        named.find(asked or named.JSON).encoder(_arrow_type(kind))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _is_structure(kind: "DataType") -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    return isinstance(kind, (ArrayType, MapType, StructType))


def _arrow_type(kind: "DataType") -> Any:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructField, StructType

    try:
        return arrow_schema(StructType([StructField("value", kind)])).field(0).type
    except PySparkException as error:
        raise ConfigError(f"{kind.simpleString()} cannot be sent to Python: {str(error).splitlines()[0]}") from None


def to_bytes(expression: str, name: str, kind: "DataType", formats: Formats, session: "SparkSession") -> str:
    """The SQL of a key or value as it is sent to Python: as it is, or as JSON where lists would be slow."""
    is_json = _is_structure(kind) and formats.of(name) in (None, named.JSON)
    if is_json and _has_lists(kind) and session.conf.get(BATCH_BYTES, None) not in (ANY_SIZE, f"{ANY_SIZE}b"):
        return f"to_json({expression}, map('ignoreNullFields', 'true'))"
    return expression


def _has_lists(kind: "DataType") -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return any(_has_lists(field.dataType) for field in kind.fields)
    return isinstance(kind, (ArrayType, MapType))


def nullable(df: "DataFrame") -> "DataFrame":
    """The same rows, if a column is a STRUCT that may be null with fields that may not, with fields that may.

    `toArrow` casts what Spark has sent, and PyArrow refuses to cast such a null.
    """
    from pyspark.sql import functions as sql

    fields = df.schema.fields
    if not any(_hides_nulls(field.dataType, may_be_null=field.nullable) for field in fields):
        return df
    return df.select(
        *(sql.col(f"`{field.name}`").cast(_nullable(field.dataType)).alias(field.name) for field in fields)
    )


def _hides_nulls(kind: "DataType", *, may_be_null: bool) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return any(
            (may_be_null and not field.nullable)
            or _hides_nulls(field.dataType, may_be_null=may_be_null or field.nullable)
            for field in kind.fields
        )
    if isinstance(kind, ArrayType):
        return _hides_nulls(kind.elementType, may_be_null=kind.containsNull)
    return isinstance(kind, MapType) and _hides_nulls(kind.valueType, may_be_null=kind.valueContainsNull)


def _nullable(kind: "DataType") -> "DataType":
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(kind, StructType):
        return StructType([StructField(field.name, _nullable(field.dataType)) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    return MapType(_nullable(kind.keyType), _nullable(kind.valueType)) if isinstance(kind, MapType) else kind
