"""How Spark finds `format("fencepost")` by itself: it looks for `DefaultSource` in modules called pyspark_*.

Spark imports this in a process of its own before the first query, so it must be quick to import.
"""

from fencepost.spark.source.data_source import FencepostDataSource as DefaultSource

__all__ = ["DefaultSource"]
