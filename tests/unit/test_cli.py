"""The `fencepost` command: what it says, where it says it, how it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import fencepost
from fencepost.embedded import Broker
from tests.conftest import wait_until

SOURCE = str(Path(fencepost.__file__).parent.parent)
TIMEOUT_S = 30


def start(*arguments, environment=None, **options):
    path = os.pathsep.join(filter(None, [SOURCE, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-m", "fencepost.cli.main", *map(str, arguments)],
        stdin=options.pop("stdin", subprocess.DEVNULL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        **options,
    )


def run(*arguments):
    """A command that ends on its own: (exit status, standard output, standard error)."""
    process = start(*arguments)
    out, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, out, err


@pytest.fixture
def up():
    """Starts `fencepost up`, waits for its first line, and ends it with the test."""
    processes = []

    def up(*arguments, **options):
        process = start("up", *arguments, **options)
        processes.append(process)
        process.first_line = process.stdout.readline()
        found = re.fullmatch(r"listening on (.+):(\d+)\n", process.first_line)
        assert found, process.communicate(timeout=TIMEOUT_S)
        process.address = (found[1], int(found[2]))
        return process

    yield up
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def end(process, how=signal.SIGTERM):
    process.send_signal(how)
    return process.communicate(timeout=TIMEOUT_S)


def test_it_says_where_it_listens_once_it_accepts_connections(up, tmp_path):
    broker = up(tmp_path / "data", "--port", 0)
    assert broker.address[0] == "127.0.0.1"
    socket.create_connection(broker.address, 5).close()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_ends_in_good_order(up, tmp_path, how):
    broker = up(tmp_path / "data", "--port", 0)
    out, err = end(broker, how)
    assert broker.returncode == 0
    assert out == ""
    assert "Traceback" not in err
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_without_a_directory_the_data_is_gone_at_exit(up, tmp_path, how):
    broker = up("--port", 0, environment={"TMPDIR": str(tmp_path)})
    (data,) = tmp_path.iterdir()
    assert (data / "meta.properties").exists()
    end(broker, how)
    assert list(tmp_path.iterdir()) == []


def test_a_second_broker_on_the_same_directory_is_refused(up, tmp_path):
    first = up(tmp_path, "--port", 0)
    code, out, err = run("up", tmp_path, "--port", 0)
    assert (code, out) == (1, "")
    assert f"Error: {tmp_path} is in use by another broker (process {first.pid})" in err
    assert "Traceback" not in err
    socket.create_connection(first.address, 5).close()


def test_a_killed_broker_leaves_the_directory_free(up, tmp_path):
    end(up(tmp_path, "--port", 0), signal.SIGKILL)
    assert up(tmp_path, "--port", 0).address


def test_a_port_in_use_is_said_to_be(up, tmp_path):
    first = up(tmp_path / "a", "--port", 0)
    code, out, err = run("up", tmp_path / "b", "--port", first.address[1])
    assert (code, out) == (1, "")
    assert f"127.0.0.1:{first.address[1]} is in use by another process; choose another --port" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "log.segment.byte=1"), "Unknown setting log.segment.byte: did you mean log.segment.bytes?"),
        (("--set", "num.partitions=0"), "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        (("--set", "num.partitions"), "--set takes NAME=VALUE, not 'num.partitions'"),
        (("--port", "70000"), "70000 is not in the range 0<=x<=65535"),
    ],
)
def test_wrong_arguments_are_explained(arguments, message):
    code, out, err = run("up", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_a_directory_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = run("up", tmp_path / "file" / "data", "--port", 0)
    assert code == 1
    assert str(tmp_path / "file") in err
    assert "Traceback" not in err


def test_an_address_that_is_not_ours_is_named(tmp_path):
    code, _, err = run("up", tmp_path, "--host", "192.0.2.1", "--port", 0)
    assert code == 1
    assert "192.0.2.1" in err
    assert "Traceback" not in err


def test_help_and_version():
    code, out, _ = run("--version")
    assert (code, out) == (0, f"fencepost, version {fencepost.__version__}\n")
    code, out, _ = run("up", "--help")
    assert code == 0
    assert "fencepost up ./data" in out
    assert "owner" not in out


def test_it_ends_when_the_process_that_started_it_does(up, tmp_path):
    broker = up(tmp_path, "--port", 0, "--owner", os.getpid(), stdin=subprocess.PIPE)
    broker.stdin.close()
    broker.stdin = None
    assert broker.wait(TIMEOUT_S) == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_it_ends_when_its_parent_is_not_the_one_that_started_it(up, tmp_path):
    broker = up(tmp_path, "--port", 0, "--owner", os.getppid(), stdin=subprocess.PIPE)
    assert broker.wait(TIMEOUT_S) == 0


def test_the_empty_broker_is_small(up, tmp_path):
    broker = up(tmp_path, "--port", 0)
    status = Path(f"/proc/{broker.pid}/status")
    if not status.exists():
        pytest.skip("needs /proc")
    (resident_kb,) = re.findall(r"VmRSS:\s+(\d+) kB", status.read_text())
    assert int(resident_kb) < 100_000


# -- from Python -----------------------------------------------------------------------------------------------------


def test_a_broker_for_a_with_statement():
    with Broker(num_partitions=4) as broker:
        host, port = broker.bootstrap_servers.split(":")
        socket.create_connection((host, int(port)), 5).close()
        directory = broker.directory
        assert directory.exists()
    assert not broker.running
    assert not directory.exists()


def test_a_broker_keeps_port_and_data_over_kill_and_restart(tmp_path):
    with Broker(tmp_path) as broker:
        address = broker.bootstrap_servers
        broker.create_topic("shop", 3, {"retention.ms": 5})
        broker.kill()
        assert not broker.running
        broker.start()
        assert broker.bootstrap_servers == address
        with pytest.raises(fencepost.errors.KafkaError, match="TOPIC_ALREADY_EXISTS"):
            broker.create_topic("shop")
        broker.restart()
        assert broker.bootstrap_servers == address
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_settings_are_checked_before_anything_starts():
    with pytest.raises(fencepost.errors.ConfigError, match=r"did you mean num\.partitions"):
        Broker(num_partition=4)


def test_a_broker_that_cannot_start_says_why(tmp_path):
    with Broker(tmp_path), pytest.raises(fencepost.embedded.BrokerFailed, match="in use by another broker"):
        Broker(tmp_path).start()


def test_the_broker_ends_with_its_program_however_that_ends(tmp_path):
    code = f"""
import fencepost, os, signal
broker = fencepost.Broker({str(tmp_path)!r}).start()
print(broker.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    pid = int(done.stdout)
    wait_until((tmp_path / ".kafka_cleanshutdown").exists, f"broker {pid} has stopped in good order")


def test_importing_the_package_imports_nothing_of_the_broker():
    code = "import sys, fencepost; print([m for m in sys.modules if m.startswith('fencepost.') or m == 'uvloop'])"
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "[]\n"
