"""Spark's own Kafka connector, in a session that was started without it."""

from typing import TYPE_CHECKING

from bench.harness import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_has_it: set[str] = set()  #: applications


def missing_connector() -> str:
    """Why there is none; empty when it has been fetched."""
    try:
        java.spark_library()
    except java.JavaMissing as missing:
        return str(missing)
    return ""


def add_connector(spark: "SparkSession") -> None:
    """Known to queries that are started in this thread from now on. JavaMissing when it has not been fetched."""
    if spark.sparkContext.applicationId not in _has_it:
        for jar in sorted(java.spark_library().glob("*.jar")):
            spark.sql(f"ADD JAR '{jar}'")
        _has_it.add(spark.sparkContext.applicationId)
