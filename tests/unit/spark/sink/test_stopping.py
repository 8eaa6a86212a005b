"""What SIGTERM does to the process that runs `foreachBatch`, in a real process."""

import os
import signal
import subprocess
import sys

from fencepost.spark.environment import WORKER_VARIABLE

#: A process of Spark's with a session that only notes its tags.
PROGRAM = """
import os, signal, sys
from fencepost.errors import QueryStopped
from fencepost.spark.sink import stopping

class Session:
    def addTag(self, tag): print("tagged", flush=True)
    def removeTag(self, tag): print("untagged", flush=True)
    @property
    def client(self): raise ConnectionError("the server is gone")

session = Session()
def stop(): os.kill(os.getpid(), signal.SIGTERM)
def say(*words): print(*words, flush=True)
"""
ENDED = -signal.SIGTERM


def run(program: str, *, is_worker: bool = True) -> tuple[int, list[str]]:
    """Its exit status and what it said."""
    environment = {**os.environ, **({WORKER_VARIABLE: "Java"} if is_worker else {})}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM + program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.returncode, ran.stdout.split()


def test_a_signal_interrupts_what_may_be_interrupted_and_the_process_ends_after_the_batch() -> None:
    status, said = run("""
with stopping.batch():
    try:
        with stopping.interruptible(session):
            stop()
            say("unreachable")
    except QueryStopped:
        say("aborting", stopping.is_asked())
        stop()  # once more
        say("aborted")
say("unreachable")
""")
    assert (status, said) == (ENDED, ["tagged", "untagged", "aborting", "True", "aborted"])


def test_a_commit_is_finished_and_nothing_begins_after_it() -> None:
    status, said = run("""
with stopping.batch():
    stop()
    say("committed")
    try:
        with stopping.interruptible(session):
            say("unreachable")
    except QueryStopped:
        say("refused")
say("unreachable")
""")
    assert (status, said) == (ENDED, ["committed", "tagged", "untagged", "refused"])


def test_the_users_function_does_not_see_the_stop() -> None:
    status, said = run("""
try:
    with stopping.batch(), stopping.interruptible(session):
        stop()
except BaseException:
    say("unreachable")
""")
    assert (status, said) == (ENDED, ["tagged", "untagged"])


def test_a_server_before_spark_4_2_says_otherwise_that_it_started_the_process() -> None:
    status, said = run(
        """
os.environ["SPARK_CONNECT_LOCAL_URL"] = "sc://localhost:15002/;user_id="
with stopping.batch():
    stop()
    say("committed")
say("unreachable")
""",
        is_worker=False,
    )
    assert (status, said) == (ENDED, ["committed"])


def test_between_batches_the_process_ends_at_once() -> None:
    status, said = run("""
with stopping.batch():
    say("done")
stop()
say("unreachable")
""")
    assert (status, said) == (ENDED, ["done"])


def test_another_thread_is_not_interrupted() -> None:
    status, said = run("""
import threading
def other():
    with stopping.interruptible(session):
        ready.set()
        stopped.wait()
        say("written")
ready, stopped = threading.Event(), threading.Event()
thread = threading.Thread(target=other)
with stopping.batch():
    thread.start()
    ready.wait()
    stop()
    say("committed")
    stopped.set()
    thread.join()
say("unreachable")
""")
    assert (status, said) == (ENDED, ["committed", "written"])


def test_in_a_drivers_own_process_the_signal_is_left_alone() -> None:
    status, said = run(
        """
with stopping.batch(), stopping.interruptible(session):
    say(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
""",
        is_worker=False,
    )
    assert (status, said) == (0, ["True"])
