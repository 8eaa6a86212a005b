"""Where the jars are: Apache Kafka's (`make kafka`) and those of Spark's own Kafka connector (`make spark-kafka`).

They come from Maven into `.cache`; `FENCEPOST_KAFKA_LIB` and `FENCEPOST_SPARK_KAFKA_LIB` name other directories.
"""

import os
from pathlib import Path

from fencepost.lab.kit.java import Jars, JavaMissing, find_java

ROOT = Path(__file__).resolve().parents[2]


def kafka() -> Jars:
    return Jars(Path(os.environ.get("FENCEPOST_KAFKA_LIB") or ROOT / ".cache" / "kafka" / "lib"))


def spark_library() -> Path:
    found = Path(os.environ.get("FENCEPOST_SPARK_KAFKA_LIB") or ROOT / ".cache" / "spark-kafka" / "lib")
    if not any(found.glob("spark-sql-kafka-*.jar")):
        raise JavaMissing(f"Spark's Kafka connector is not in {found}: `make spark-kafka` fetches it")
    return found


def available() -> str | None:
    """None when Kafka can be run here, otherwise what is missing."""
    try:
        find_java()
        _ = kafka().class_path
    except JavaMissing as error:
        return str(error)
    return None
