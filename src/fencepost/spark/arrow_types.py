"""Spark's types as Arrow's, as Spark sends them to Python, and back. Times are in UTC."""

import functools
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def arrow_schema(schema: "StructType") -> Any:
    """Before Spark 4.2 times were always in UTC, and there was no such argument."""
    from pyspark.sql.pandas.types import to_arrow_schema

    zone: Any = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


@functools.cache
def spark_type(schema: Any) -> "StructType":
    """An Arrow schema as Spark's type. A schema written as text would need a call to the JVM."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
