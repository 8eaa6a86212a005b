"""Spark's types as Arrow's, as Spark sends them to Python. Times are in UTC."""

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def arrow_schema(schema: "StructType") -> Any:
    """Before Spark 4.2 times were always in UTC, and there was no such argument."""
    from pyspark.sql.pandas.types import to_arrow_schema

    zone: Any = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)
