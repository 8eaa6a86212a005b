"""Where the jars are: Apache Kafka's (`make kafka`) and those of Spark's own Kafka connector (`make spark-kafka`).

They come from Maven into `.cache`; `FENCEPOST_KAFKA_LIB` and `FENCEPOST_SPARK_KAFKA_LIB` name other directories.
The connector must be of the version of Spark that runs: `make spark-kafka CONNECTOR=4.1.1` fetches one for Spark 4.1.
"""

import os
from importlib.metadata import version
from pathlib import Path

from fencepost.lab.kit.java import Jars, JavaMissing, find_java

ROOT = Path(__file__).resolve().parents[2]


def kafka() -> Jars:
    return Jars(Path(os.environ.get("FENCEPOST_KAFKA_LIB") or ROOT / ".cache" / "kafka" / "lib"))


def spark_library() -> Path:
    """With the connector for the PySpark of this Python."""
    of_spark = ".".join(version("pyspark").split(".")[:2])
    given = os.environ.get("FENCEPOST_SPARK_KAFKA_LIB")
    for place in [Path(given)] if given else sorted((ROOT / ".cache").glob("spark-kafka*/lib")):
        if any(place.glob(f"spark-sql-kafka-*-{of_spark}.*.jar")):
            return place
    fetch = f"`make spark-kafka CONNECTOR={of_spark}.0` fetches it"
    raise JavaMissing(f"the Kafka connector of Spark {of_spark} is not in {given or ROOT / '.cache'}: {fetch}")


def connector_missing() -> str | None:
    """None when Spark's own connector can be run here, otherwise what is missing."""
    try:
        spark_library()
    except JavaMissing as error:
        return str(error)
    return None


def available() -> str | None:
    """None when Kafka can be run here, otherwise what is missing."""
    try:
        find_java()
        _ = kafka().class_path
    except JavaMissing as error:
        return str(error)
    return None
