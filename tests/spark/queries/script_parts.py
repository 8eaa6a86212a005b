"""The texts that `script.py` puts together: a program's parts, in the order in which they appear in it.

`$name` is filled in. What is the same in every program is here; what differs is made there.
"""

import inspect
from string import Template

from tests.spark.queries import python_state, queries, steps
from tests.spark.queries.case import Match

HEAD = Template('''"""$title

$replay
"""

from __future__ import annotations

import json, shutil, sys, tempfile, threading, time, zlib
from collections import Counter
from pathlib import Path

import fencepost
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from fencepost.client.connection import Connection
from fencepost.errors import OutcomeUnknown, WriteFailed
from fencepost.spark import batch_writer, write_stream
from fencepost.spark.session import session
from fencepost.spark.sink import steps
from fencepost.spark.sink.steps import BatchStep
from fencepost.spark.state import Keyed, StatefulStep, Updated
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sf
from pyspark.sql.functions import pandas_udf
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import LongType

#: Of each source, wave by wave: key, number, event time in seconds.
ROWS = $rows
#: Of each source, and how many partitions each has.
TOPICS = $topics
CONF = $conf
OPTIONS = $options

HOME = Path(tempfile.mkdtemp())
CHECKPOINT = HOME / "checkpoint"
COLUMNS = "k string, n long, s long"
spark = session("replay", "local[2]", CONF, log_file=HOME / "spark.log")
for jar in Path(".cache/spark-kafka/lib").glob("*.jar"):  # `make spark-kafka` fetches them, for Spark's own source
    spark.sql(f"ADD JAR '{jar}'")
broker = fencepost.Broker(group_initial_rebalance_delay_ms=0).start()
servers = broker.bootstrap_servers
broker.create_topic("out", 2)
for topics, partitions in TOPICS.values():
    for topic in topics:
        broker.create_topic(topic, partitions)


def put(producer, name, rows):
    """Rows of a key go to one partition."""
    topics, partitions = TOPICS[name]
    for k, n, s in rows:
        where = zlib.crc32(k.encode()) % (len(topics) * partitions)
        value = json.dumps({"k": k, "n": n, "s": s})
        producer.produce(topics[where // partitions], value, k, partition=where % partitions)
    producer.flush()


def write(name, rows):
    put(Producer({"bootstrap.servers": servers}), name, rows)


def halves(rows):
    return rows[: len(rows) // 2], rows[len(rows) // 2 :]


def write_with_aborts(name, rows):
    for part in halves(rows):
        for shift in (500_000, 0):
            producer = Producer({"bootstrap.servers": servers, "transactional.id": f"writer-{name}"})
            producer.init_transactions()
            producer.begin_transaction()
            put(producer, name, [(k, n + shift, s) for k, n, s in part])
            producer.abort_transaction() if shift else producer.commit_transaction()


def write_files(name, rows):
    directory, draft = HOME / f"files-{name}", HOME / "draft"
    directory.mkdir(exist_ok=True)
    for part in halves(rows):
        draft.write_text("".join(json.dumps(dict(zip("kns", row))) + chr(10) for row in part))
        draft.rename(directory / f"{len(list(directory.iterdir())):03}.json")


def grow(name, by_pattern):
    topics, partitions = TOPICS[name]
    if by_pattern:
        broker.create_topic(f"in-{name}-{len(topics)}", partitions)
        TOPICS[name] = ([*topics, f"in-{name}-{len(topics)}"], partitions)
    else:
        more = [NewPartitions(topic, 2 * partitions) for topic in topics]
        for done in AdminClient({"bootstrap.servers": servers}).create_partitions(more).values():
            done.result()
        TOPICS[name] = (topics, 2 * partitions)
''')

ENDS = '''
class Died(BaseException):
    """Nothing catches it: the pipeline undoes nothing and tells nobody."""


def mortal(function):
    def call(df, batch_id):
        try:
            function(df, batch_id)
        except Died:
            raise RuntimeError("the pipeline died") from None

    return call


foreach_batch, receive = DataStreamWriter.foreachBatch, Connection.receive
DataStreamWriter.foreachBatch = lambda self, function: foreach_batch(self, mortal(function))


def at(point, passes, act):
    """Call `act` when the driver comes to `point` once more than `passes` times."""
    left = [passes]

    def look(here):
        if here == point:
            left[0] -= 1
            if left[0] == -1:
                act()

    def receive_and_look(self, pending, **more):
        if pending.api_key == 26:  # EndTxn has been sent and is not answered
            look("ENDTXN_SENT")
        return receive(self, pending, **more)

    steps.hook = lambda step, batch_id: look(step)
    Connection.receive = receive_and_look


def die():
    raise Died


def fail():
    """The sink makes another attempt."""
    raise WriteFailed("as it happens")


def lose_the_outcome():
    """The sink asks whether the batch was committed."""
    raise OutcomeUnknown("as it happens")


def stop():
    while not spark.streams.active:
        time.sleep(0.01)
    query = spark.streams.active[0]
    threading.Thread(target=query.stop).start()
    while query.isActive:
        time.sleep(0.01)
'''

#: Functions that queries call, by their names.
FUNCTIONS = {
    "negated": inspect.getsource(queries.negated),
    "squared": inspect.getsource(queries.squared.func),
    "add_up_by_key": inspect.getsource(python_state.add_up_by_key),
}
STEP = "\n\n".join(map(inspect.getsource, (steps.add_up, steps.totals_step))) + '\n\nTOTALS = totals_step("out")\n'

GIVEN = '''
class Given:
    """`given("a")` has the columns k, n and t."""

    def __init__(self, is_stream):
        self.is_stream = is_stream

    def __call__(self, name):
        rows = read(name, spark.readStream if self.is_stream else spark.read, self.is_stream)
        return rows.where("k IS NOT NULL").selectExpr("k", "n", "timestamp_seconds(s) AS t")

    def table(self, text):
        return spark.sql(f"SELECT * FROM {text}")


def read(name, reader, is_stream):
'''

RUN = Template('''
def run():
    """What the query failed with, if it did."""
    query = start(query_of_stream(Given(True)))
    try:
        query.$wait
    except StreamingQueryException as error:
        return str(error)
    finally:
        query.stop()
        steps.hook, Connection.receive = steps.no_hook, receive


def run_to_the_end():
    for _ in range($times):
        said = run()
        assert said is None, said


def run_until(point, passes, act):
    at(point, passes, act)
    said = run()
    assert said is None or "the pipeline died" in said, said


def records(df):
    """In the order of each partition; without what was made of sentinels."""
    rows = df.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value").collect()
    texts = [(row.key or "", row.value or "") for row in rows]
    marks = ('"$sentinel"', "$year-")
    return [(k, v) for k, v in texts if k.split("/")[0] != "$sentinel" and not any(mark in k + v for mark in marks)]


def check():
    out = spark.read.format("fencepost").option("kafka.bootstrap.servers", servers).option("subscribe", "out").load()
    found, expected = records(out), records(query_of_batch(Given(False)))
''')

SAME = """    missing, surplus = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    if missing or surplus:
        sys.exit(f"WRONG: missing {missing}, too many {surplus}")
"""
LATEST = """    if dict(found) != dict(expected):
        sys.exit(f"WRONG: the last of each key is {dict(found)} instead of {dict(expected)}")
"""
COMPARISONS = {
    Match.SAME: SAME,
    Match.IN_ORDER: SAME
    + """    for key in {key for key, _ in expected}:
        if [v for k, v in found if k == key] != [v for k, v in expected if k == key]:
            sys.exit(f"WRONG: records of key {key!r} are in another order")
""",
    Match.LATEST: LATEST
    + """    if twice := [record for record, times in Counter(found).items() if times > 1]:
        sys.exit(f"WRONG: there twice: {twice}")
""",
    Match.ALL_AGAIN: LATEST,
}

WRITE_STREAM = """
def start(rows):
    return write_stream(rows, pipeline="p", bootstrap_servers=servers, checkpoint=str(CHECKPOINT), $more,
                        trigger=$trigger, output_mode="$mode", options=OPTIONS)
"""
FOREACH_BATCH = """
def start(rows):
    writer = batch_writer(pipeline="p", bootstrap_servers=servers, topic="out", options=OPTIONS)
$function
    query = rows.writeStream.outputMode("$mode").foreachBatch(write).option("checkpointLocation", str(CHECKPOINT))
    return query$with_trigger.start()
"""
FUNCTIONS_OF_BATCHES = {
    "foreachBatch": "    write = writer",
    "unless empty": """
    def write(df, batch_id):
        if not df.isEmpty():
            writer(df, batch_id)
""",
    "beside parquet": """
    def write(df, batch_id):
        df.persist()
        df.write.mode("overwrite").parquet(str(HOME / "parquet" / f"batch={batch_id}"))
        writer(df, batch_id)
        df.unpersist()
""",
    "two writes": """
    def write(df, batch_id):
        with writer.batch(df, batch_id) as batch:
            batch.write(df.where("hash(value) % 2 = 0"))
            batch.write(df.where("hash(value) % 2 != 0"))
""",
}
STARTS = {
    "write_stream": WRITE_STREAM.replace("$more", 'topic="out"'),
    "step": WRITE_STREAM.replace("$more", "transform=lambda batch, state: state.update(state.keep(batch), TOTALS)"),
    **{name: FOREACH_BATCH.replace("$function", text) for name, text in FUNCTIONS_OF_BATCHES.items()},
}
