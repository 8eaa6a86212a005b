"""One message out of what Spark wraps around it."""

from fencepost.shop.failures import explain

FROM_A_BATCH = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: An exception was raised by the \
Python Proxy. Return Message: Traceback (most recent call last):
  File "py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
  File "pyspark/sql/utils.py", line 122, in call
    raise e
  File "fencepost/spark/sink/pipeline.py", line 80, in __call__
    self._do(df, batch)
fencepost.errors.Fenced: a newer producer has the transactional id 'fencepost-shop'
 SQLSTATE: XXKST"""

FROM_THE_SOURCE = """[PYTHON_DATA_SOURCE_ERROR] Traceback (most recent call last):
  File "fencepost/client/cluster.py", line 1, in topic
    raise TopicNotFound("no")
fencepost.errors.TopicNotFound: topic 'purchases' does not exist

\tat org.apache.spark.sql.errors.QueryCompilationErrors$.foo(QueryCompilationErrors.scala:1)
"""


def test_our_error_is_found_in_a_failed_batch():
    assert explain(FROM_A_BATCH) == "a newer producer has the transactional id 'fencepost-shop'"


def test_our_error_is_found_in_a_failed_source():
    assert explain(FROM_THE_SOURCE) == "topic 'purchases' does not exist"


def test_an_error_of_sparks_own_is_one_line():
    text = "[UNRESOLVED_COLUMN] A column with name `x` cannot be resolved. SQLSTATE: 42703; line 1\n'Project ['x]"
    assert explain(text) == "A column with name `x` cannot be resolved."


def test_an_error_without_words_has_a_name():
    assert explain(ValueError()) == "ValueError"
