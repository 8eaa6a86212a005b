"""A broker from Python belongs to the process that started it: it ends with that process, and with no other."""

import contextlib
import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

import fencepost
from fencepost.child import environment
from fencepost.embedded import Broker, BrokerFailed
from tests.conftest import wait_until

TIMEOUT_S = 60


def broker_processes(directory: Path) -> list[int]:
    """All brokers that run with data below a directory. A zombie has no command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if any(word.startswith(f"{directory}/") for word in path.read_text().split("\0")):
                found.append(int(path.parent.name))
    return found


@pytest.fixture
def temporary(monkeypatch) -> Iterator[Path]:
    """Where temporary brokers of this test have their data, here and in programs."""
    with tempfile.TemporaryDirectory() as directory:  # a shorter path than pytest's: there will be sockets in it
        monkeypatch.setattr("tempfile.tempdir", directory)
        monkeypatch.setenv("TMPDIR", directory)
        yield Path(directory)


@contextlib.contextmanager
def started(tmp_path: Path, code: str) -> Iterator["subprocess.Popen[str]"]:
    """A program that uses brokers; whatever is left of it is killed at the end."""
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(code))
    process = subprocess.Popen(
        [sys.executable, "-u", "-W", "error", "-W", "ignore:.*fork:DeprecationWarning", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def run(tmp_path: Path, code: str) -> tuple[int, str, str]:
    with started(tmp_path, code) as process:
        out, err = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, out, err


def gone(temporary: Path) -> None:
    """Until neither a broker nor its data is left."""
    wait_until(lambda: not broker_processes(temporary), "the broker has ended")
    wait_until(lambda: not list(temporary.iterdir()), "its data is gone")


# -- copies of the process that started it ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leave", "status"),
    [("sys.exit(3)", 3), ("os._exit(3)", 3), ("raise ValueError", 1), ("broker.stop(); broker.close()", 0)],
    ids=["exit", "_exit", "exception", "close"],
)
def test_a_forked_child_that_ends_leaves_the_broker_alone(tmp_path, temporary, leave, status):
    code, out, err = run(
        tmp_path,
        f"""
        import os, sys, fencepost

        with fencepost.Broker() as broker:
            child = os.fork()
            if not child:
                {leave}
            else:
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                broker.create_topic("after")
                print(broker.running, os.listdir(broker.directory) != [])
        """,
    )
    assert (code, out) == (0, f"{status}\nTrue True\n"), err
    assert "Warning" not in err
    gone(temporary)


def test_a_forked_child_is_a_client_and_no_more(tmp_path, temporary):
    code, out, err = run(
        tmp_path,
        """
        import os, sys, fencepost
        from fencepost.embedded import BrokerFailed

        def pipes():
            found = [f"/proc/self/fd/{number}" for number in range(3, 30)]
            return [link for link in found if os.path.lexists(link) and os.readlink(link).startswith("pipe:")]

        def look():
            assert not pipes()
            broker.create_topic(f"of-{os.getpid()}")
            assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}" and broker.log is not None
            assert broker.running and broker.pid == pid
            for forbidden in (broker.start, broker.restart, broker.kill):
                try:
                    forbidden()
                except BrokerFailed as error:
                    assert f"belongs to process {owner}" in str(error), error
                else:
                    raise AssertionError(forbidden)
            broker.stop()
            broker.close()
            assert broker.running

        def forked(work):
            child = os.fork()
            if not child:
                work()
                sys.exit()
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        def twice():
            look()
            assert forked(look) == 0

        with fencepost.Broker() as broker:
            owner, pid = os.getpid(), broker.pid
            print(forked(twice))

            # What the owner does later is seen by the child as well.
            to_child, to_parent = os.pipe(), os.pipe()
            child = os.fork()
            if not child:
                os.read(to_child[0], 1)
                assert not broker.running and broker.pid is None
                os.write(to_parent[1], b"x")
                os.read(to_child[0], 1)
                assert broker.running and broker.pid != pid
                broker.create_topic("late")
                sys.exit()
            broker.kill()
            os.write(to_child[1], b"x")
            os.read(to_parent[0], 1)
            broker.start()
            os.write(to_child[1], b"x")
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
    )
    assert (code, out, err) == (0, "0\n0\n", "")
    gone(temporary)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_use_the_broker_and_leave_it_alone(tmp_path, temporary, method):
    code, out, err = run(
        tmp_path,
        f"""
        import multiprocessing, fencepost

        def work(broker, pid, number):
            broker.create_topic(f"topic-{{number}}")
            assert broker.running and broker.pid == pid
            broker.close()

        if __name__ == "__main__":
            with fencepost.Broker() as broker:
                context = multiprocessing.get_context({method!r})
                child = context.Process(target=work, args=(broker, broker.pid, 1))
                child.start()
                child.join()
                with context.Pool(2) as pool:
                    pool.starmap(work, [(broker, broker.pid, number) for number in (2, 3)])
                broker.create_topic("after")
                print(child.exitcode, broker.running)
        """,
    )
    assert (code, out) == (0, "0 True\n"), err
    gone(temporary)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda broker: pickle.loads(pickle.dumps(broker))])
def test_a_copy_of_the_object_is_a_client_even_in_the_same_process(temporary, duplicate):
    with Broker() as broker:
        other = duplicate(broker)
        other.close()
        assert other.running and other.pid == broker.pid
        assert other.bootstrap_servers == broker.bootstrap_servers
        with pytest.raises(BrokerFailed, match=f"belongs to process {os.getpid()}"):
            other.kill()
        del other
        gc.collect()
        broker.create_topic("after")
    gone(temporary)


def test_a_broker_that_nobody_started_can_be_started_by_a_copy(temporary):
    broker = Broker(num_partitions=4)
    with pickle.loads(pickle.dumps(broker)) as other:
        assert other.running
        assert not broker.running
        with broker:
            assert broker.directory != other.directory
    gone(temporary)


# -- the end of the one that started it ------------------------------------------------------------------------------


def test_a_broker_outlives_the_thread_that_started_it(temporary):
    broker = Broker()
    thread = threading.Thread(target=broker.start)
    thread.start()
    thread.join()
    with broker:
        broker.create_topic("after")
    gone(temporary)


def test_a_broker_that_nobody_closed_ends_before_its_data_does(tmp_path, temporary):
    code, out, err = run(
        tmp_path,
        """
        import os, shutil, fencepost

        broker = fencepost.Broker().start()
        pid, rmtree = broker.pid, shutil.rmtree

        def watched(path, **options):
            print("the broker runs" if os.path.exists(f"/proc/{pid}") else "the broker has ended", flush=True)
            rmtree(path, **options)

        shutil.rmtree = watched
        """,
    )
    assert (code, out, err) == (0, "the broker has ended\n", "")
    assert not broker_processes(temporary)
    assert not list(temporary.iterdir())


def test_a_broker_that_nobody_closed_waits_for_the_processes_that_the_exit_waits_for(tmp_path, temporary):
    code, out, err = run(
        tmp_path,
        """
        import multiprocessing, multiprocessing.util, os

        told, tell = os.pipe()

        import atexit
        atexit.register(os.write, tell, b"x")  # after what fencepost does at exit, before children are waited for

        import fencepost

        def work():
            os.read(told, 1)
            broker.create_topic("late")
            print("made", flush=True)

        broker = fencepost.Broker().start()
        multiprocessing.get_context("fork").Process(target=work).start()
        """,
    )
    assert (code, out, err) == (0, "made\n", "")
    gone(temporary)


@pytest.mark.parametrize(
    ("last", "status", "patience_s"),
    [("", 0, 0), ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, TIMEOUT_S)],
    ids=["exit", "killed"],
)
def test_a_broker_that_keeps_its_data_is_stopped_in_good_order(tmp_path, last, status, patience_s):
    data = tmp_path / "data"
    program = f"import os, signal, fencepost\nbroker = fencepost.Broker({str(data)!r}).start()\n{last}"
    code, _, err = run(tmp_path, program)
    assert (code, err) == (status, "")
    wait_until((data / ".kafka_cleanshutdown").exists, "the broker has stopped in good order", patience_s)


def test_a_broker_that_nobody_refers_to_is_ended_with_its_data(temporary):
    broker = Broker().start()
    assert broker_processes(temporary) == [broker.pid]
    del broker
    gc.collect()
    assert not broker_processes(temporary)
    assert not list(temporary.iterdir())


KILLED = """
    import os, signal, fencepost
    {before}
    broker = fencepost.Broker()
    broker.start()
    {after}
    os.kill(os.getpid(), signal.SIGKILL)
"""
#: A child that stays. The second is made behind Python's back, so it keeps its copies of the pipes.
FORK = "os.fork() or (print('child', flush=True), signal.pause())"
FORK_IN_C = "import ctypes; ctypes.PyDLL(None).fork() or (print('child', flush=True), signal.pause())"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("", FORK),
        ("", FORK_IN_C),
        ("", "broker.restart()"),
        (
            "import subprocess; subprocess.Popen.wait = lambda *_: os.kill(os.getpid(), signal.SIGKILL)",
            "os.kill(broker.pid, signal.SIGSTOP); broker.stop()",  # it hears of the stop when its owner is gone
        ),
        ("import select; select.poll = lambda: os.kill(os.getpid(), signal.SIGKILL)", ""),
    ],
    ids=["alone", "with a child", "with a child forked in C", "after a restart", "while stopping", "while starting"],
)
def test_a_broker_whose_owner_is_killed_ends_and_removes_its_data(tmp_path, temporary, before, after):
    with started(tmp_path, KILLED.format(before=before, after=after)) as process:
        if "fork" in after:
            assert process.stdout.readline() == "child\n"
        assert process.wait(TIMEOUT_S) == -signal.SIGKILL
        for pid in broker_processes(temporary):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        gone(temporary)


# -- one after the other ---------------------------------------------------------------------------------------------


def test_the_address_is_known_from_the_first_start_on(temporary):
    with pytest.raises(BrokerFailed, match=r"has not been started: call start\(\) or use `with`"):
        _ = Broker(port=9092).bootstrap_servers
    with Broker() as broker:
        address = broker.bootstrap_servers
        broker.kill()
        assert (broker.running, broker.pid, broker.bootstrap_servers) == (False, None, address)
        broker.start()
        broker.stop()
        assert (broker.running, broker.pid, broker.bootstrap_servers) == (False, None, address)
        broker.restart()
        assert broker.bootstrap_servers == address
    assert broker.bootstrap_servers == address


def test_closing_twice_is_closing_once(tmp_path, temporary):
    for broker in (Broker(), Broker(tmp_path / "kept")):
        broker.close()
        broker.start()
        broker.close()
        broker.close()
        assert not broker.running
    gone(temporary)


def test_a_closed_broker_starts_again_if_its_data_is_still_there(tmp_path, temporary):
    kept = Broker(tmp_path / "kept")
    for _ in range(2):
        with kept:
            assert kept.running
    with Broker() as broker:
        pass
    with pytest.raises(BrokerFailed, match="has been closed, and its temporary data is gone"):
        broker.start()
    gone(temporary)


def test_a_broker_that_could_not_start_can_be_started_later(temporary):
    with Broker() as first:
        second = Broker(port=first.port)
        for _ in range(2):
            with pytest.raises(BrokerFailed, match=f"{first.port} is in use"), second:
                pass
    with second:
        second.create_topic("after")
    gone(temporary)


def test_a_start_that_is_interrupted_leaves_no_process(temporary, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    broker = Broker()
    with monkeypatch.context() as patch:
        patch.setattr("select.poll", interrupted)
        with pytest.raises(KeyboardInterrupt):
            broker.start()
    assert not broker.running
    assert not broker_processes(temporary)
    with broker:
        broker.create_topic("after")
    gone(temporary)


def test_threads_that_start_at_once_start_one_broker(temporary):
    with Broker() as broker:
        broker.kill()
        threads = [threading.Thread(target=broker.start) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert broker_processes(temporary) == [broker.pid]
    gone(temporary)


def test_data_outlives_kill_and_restart_wherever_the_program_goes(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with Broker("data") as broker:
        broker.create_topic("shop", 3, {"retention.ms": 5})
        monkeypatch.chdir("elsewhere")
        for end in (broker.kill, broker.stop):
            end()
            broker.restart()
            with pytest.raises(fencepost.errors.KafkaError, match="TOPIC_ALREADY_EXISTS"):
                broker.create_topic("shop")


def test_settings_are_not_on_the_command_line_which_all_can_read():
    given = {"num.partitions": "7", "sasl.jaas.config": 'PlainLoginModule required user_alice="s3cr3t";'}
    with Broker(settings=given) as broker:
        words = Path(f"/proc/{broker.pid}/cmdline").read_bytes()
        assert b"up" in words.split(b"\0")
        assert b"s3cr3t" not in words
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        found = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")])
        assert [future.result(20)["num.partitions"].value for future in found.values()] == ["7"]


def test_settings_are_checked_before_anything_starts():
    with pytest.raises(fencepost.errors.ConfigError, match=r"did you mean num\.partitions"):
        Broker(num_partition=4)


def test_a_topic_cannot_be_made_on_a_broker_that_is_not_there(temporary):
    with Broker() as broker:
        broker.kill()
        with pytest.raises(BrokerFailed, match="the broker is not running"):
            broker.create_topic("shop")
