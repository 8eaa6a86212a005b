"""The `fencepost` command: what it says, where it says it, how it ends."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import fencepost as package
from fencepost.child import environment
from tests.commands import command, fencepost

TIMEOUT_S = 30


@pytest.fixture
def up():
    """Starts `fencepost up`, waits for its first line, and ends it with the test."""
    with contextlib.ExitStack() as started:

        def up(*words, stdin=subprocess.DEVNULL, **variables):
            pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            process = subprocess.Popen(command("up", *words), **pipes, text=True, env=environment(variables))
            started.enter_context(process)
            started.callback(process.kill)
            found = re.fullmatch(r"listening on (.+):(\d+)\n", process.stdout.readline())
            assert found, process.communicate(timeout=TIMEOUT_S)
            process.address = (found[1], int(found[2]))
            return process

        yield up


def end(process, how=signal.SIGTERM):
    process.send_signal(how)
    return process.communicate(timeout=TIMEOUT_S)


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
    broker = up("--port", 0, TMPDIR=str(tmp_path))
    (data,) = tmp_path.iterdir()
    assert (data / "meta.properties").exists()
    end(broker, how)
    assert list(tmp_path.iterdir()) == []


def test_a_second_broker_on_the_same_directory_is_refused(up, tmp_path):
    first = up(tmp_path, "--port", 0)
    assert first.address[0] == "127.0.0.1"
    second = fencepost("up", tmp_path, "--port", 0)
    assert (second.returncode, second.stdout) == (1, "")
    assert f"Error: {tmp_path} is in use by another broker (process {first.pid})" in second.stderr
    assert "Traceback" not in second.stderr
    socket.create_connection(first.address, 5).close()


def test_a_killed_broker_leaves_the_directory_free(up, tmp_path):
    end(up(tmp_path, "--port", 0), signal.SIGKILL)
    assert up(tmp_path, "--port", 0).address


def test_a_port_in_use_is_said_to_be(up, tmp_path):
    address = "{}:{}".format(*up(tmp_path / "a", "--port", 0).address)
    second = fencepost("up", tmp_path / "b", "--port", address.rpartition(":")[2])
    assert (second.returncode, second.stdout) == (1, "")
    assert f"{address} is in use by another process; choose another --port" in second.stderr
    assert "Traceback" not in second.stderr


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
    ran = fencepost("up", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "name"),
    [(("/dev/null/data",), "/dev/null"), (("--host", "192.0.2.1"), "192.0.2.1")],
    ids=["directory", "address"],
)
def test_a_directory_or_address_that_cannot_be_used_is_named(arguments, name):
    ran = fencepost("up", *arguments, "--port", 0)
    assert ran.returncode == 1
    assert name in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_broker_that_others_can_reach_without_a_login_says_so_once(up, tmp_path):
    _, err = end(up(tmp_path, "--host", "0.0.0.0", "--port", 0))
    assert len(re.findall(r"WARNING fencepost: NO LOGIN: whoever reaches 0\.0\.0\.0:\d+ can read, write", err)) == 1


def test_help_and_version():
    assert fencepost("--version").stdout == f"fencepost, version {package.__version__}\n"
    ran = fencepost("up", "--help")
    assert ran.returncode == 0
    assert "fencepost up ./data" in ran.stdout
    assert "owner" not in ran.stdout


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


def test_importing_the_package_imports_nothing_of_the_broker():
    code = "import sys, fencepost; print([m for m in sys.modules if m.startswith('fencepost.') or m == 'uvloop'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout == "[]\n"
