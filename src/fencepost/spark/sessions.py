"""What a Spark session tells, whether it is a classic one or one of Spark Connect.

A session of Spark Connect has no SparkContext: its settings are asked of the server.
"""

import importlib.util
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL = re.compile(r"local(?:\[(\d+)(?:,\s*\d+)?\])?")
#: Rows in as many partitions as Spark makes by default.
_COUNT_PARTITIONS = "SELECT count(DISTINCT part) FROM (SELECT spark_partition_id() AS part FROM range(0, 100000))"


def is_connect(session: "SparkSession") -> bool:
    """Whether this is a session of Spark Connect."""
    return not hasattr(session, "_jsparkSession")


def tells_limits() -> bool:
    """Whether Spark tells a source its position, its limit and its trigger: since 4.2."""
    return importlib.util.find_spec("pyspark.sql.streaming.datasource") is not None


def active_session() -> "SparkSession | None":
    """The session of this program."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def setting(session: "SparkSession", name: str) -> str | None:
    """A setting of the session or its application; None if it is not set."""
    if not is_connect(session):
        found: str | None = session.sparkContext.getConf().get(name)
        if found is not None:
            return found
    return session.conf.get(name, None)


def application_id(session: "SparkSession") -> str:
    if not is_connect(session):
        return session.sparkContext.applicationId
    return setting(session, "spark.app.id") or "connect"


def parallelism(session: "SparkSession") -> int:
    """How many tasks Spark runs at a time, as far as it tells."""
    if not is_connect(session):
        return session.sparkContext.defaultParallelism
    if (given := setting(session, "spark.default.parallelism")) is not None:
        return int(given)
    local = _LOCAL.fullmatch(setting(session, "spark.master") or "")
    if local is not None:
        return int(local[1] or 1)
    rows: list[Any] = session.sql(_COUNT_PARTITIONS).collect()
    return int(rows[0][0])
