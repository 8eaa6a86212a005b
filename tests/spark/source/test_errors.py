"""What a user sees of an error of the source: the sentence that matters, once, and no traceback of ours."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from tests import logins
from tests.spark.source.support import delete_records, fill, load

Topic = Callable[..., str]
QUERY_TIMEOUT_S = 120


@pytest.fixture
def run(tmp_path: Path) -> Callable[[DataFrame], None]:
    """A query to its end."""

    def call(df: DataFrame) -> None:
        writer = df.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination(QUERY_TIMEOUT_S)

    return call


def assert_plain(error: PySparkException, sentence: str) -> None:
    said = str(error)
    assert said.count(sentence) == 1, said
    for noise in ("Traceback", 'File "', "UnboundLocalError", "\tat org.apache"):
        assert noise not in said, said


@pytest.mark.parametrize("how", ["read", "readStream"])
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"startingOffset": "x"}, "ConfigError: the source 'fencepost' has no option 'startingOffset'; did you mean"),
        ({"includeHeaders": "Maybe"}, "ConfigError: option 'includeHeaders' must be true or false, not 'Maybe'"),
        ({"assign": "t"}, "ConfigError: only one of the following options can be specified"),
    ],
)
def test_load_reports_a_wrong_option(
    spark: SparkSession, bootstrap: str, how: str, given: dict[str, str], sentence: str
):
    with pytest.raises(AnalysisException) as failed:
        load(getattr(spark, how), bootstrap, subscribe="t", **given)
    assert_plain(failed.value, sentence)
    assert len(str(failed.value).splitlines()) <= 2


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"subscribe": "nowhere"}, "TopicNotFound: topic 'nowhere' does not exist: create it"),
        ({"subscribe": "t", "kafka.bootstrap.servers": "127.0.0.1:1"}, "BootstrapFailed: no broker answers at"),
        ({"subscribe": "t", "endingOffsets": "latest"}, "ConfigError: option 'endingOffsets': ending offset not valid"),
    ],
)
def test_an_error_of_a_stream_is_reported_once(
    spark: SparkSession, bootstrap: str, run: Callable[[DataFrame], None], given: dict[str, str], sentence: str
):
    with pytest.raises(StreamingQueryException) as failed:
        run(load(spark.readStream, bootstrap, **given))
    assert_plain(failed.value, sentence)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"subscribe": "nowhere"}, "TopicNotFound: topic 'nowhere' does not exist: create it"),
        ({"subscribe": "t", "kafka.bootstrap.servers": "127.0.0.1:1"}, "BootstrapFailed: no broker answers at"),
        ({"subscribe": "t", "startingOffsets": "latest"}, "ConfigError: starting offset can't be latest for batch"),
    ],
)
def test_an_error_of_a_batch_is_two_lines(spark: SparkSession, bootstrap: str, given: dict[str, str], sentence: str):
    with pytest.raises(AnalysisException) as failed:
        load(spark.read, bootstrap, **given).collect()
    assert_plain(failed.value, sentence)
    assert len(str(failed.value).splitlines()) <= 2


def test_records_that_a_task_does_not_find_are_one_line(spark: SparkSession, bootstrap: str, topic: Topic):
    name = topic(1)
    fill(bootstrap, name, [str(number) for number in range(20)])
    frame = load(spark.read, bootstrap, subscribe=name)
    frame._jdf.queryExecution().executedPlan().execute()  # its ranges are chosen now
    delete_records(bootstrap, name, before=15)
    with pytest.raises(PySparkException) as failed:
        frame.collect()
    assert_plain(failed.value, "OffsetsOutOfRange: ")
    assert "failOnDataLoss" in str(failed.value)


def test_an_error_of_saving_is_reported_in_the_same_way(spark: SparkSession, bootstrap: str):
    rows = spark.range(3).select(sf.col("id").cast("string").alias("value"))
    writer = rows.write.format("fencepost").options(**logins.spark(bootstrap)).mode("append")
    with pytest.raises(PySparkException) as failed:
        writer.option("topic", "nowhere").save()
    assert_plain(failed.value, "TopicNotFound: topic 'nowhere' does not exist")
    with pytest.raises(PySparkException) as failed:
        writer.option("maxAttemps", 3).save()
    assert_plain(failed.value, "ConfigError: the sink has no option 'maxAttemps'; did you mean 'maxAttempts'?")


def test_the_users_own_code_keeps_its_traceback(spark: SparkSession, bootstrap: str):
    with pytest.raises(AnalysisException):
        load(spark.read, bootstrap, subscribe="nowhere").collect()

    def spoiled(_):  # Spark reads type hints, and warns about these
        raise RuntimeError("the code is wrong")

    with pytest.raises(PySparkException, match="Traceback") as failed:
        spark.range(1).select(sf.udf(spoiled, "int")("id")).collect()
    assert "in spoiled" in str(failed.value)
