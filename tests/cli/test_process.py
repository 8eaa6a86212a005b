"""What only a process of its own shows: pipes that break, Ctrl-C, waiting for more input, and what a start imports."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fencepost import Broker
from fencepost.child import environment
from fencepost.client.transaction_state import list_transactional_ids
from tests import logins
from tests.cli.shell import Shell
from tests.commands import command, fencepost
from tests.conftest import WAIT_TIMEOUT_S, unique, wait_until

#: Nothing that takes long to import, or that a base install lacks.
HEAVY = ("confluent_kafka", "cryptography", "lmdb", "numba", "numpy", "pandas", "pyarrow", "pyspark", "rich", "uvloop")
PROBE = f"""
import sys
from click.testing import CliRunner
from fencepost.cli.main import main
for words in (["topic", "ls"], ["group", "ls"], ["consume", "TOPIC", "-e"], ["produce", "TOPIC"]):
    done = CliRunner().invoke(main, [*(word.replace("TOPIC", sys.argv[1]) for word in words), *sys.argv[2:]], input="x")
    assert done.exit_code == 0, (words, done.output)
print([name for name in {HEAVY!r} if name in sys.modules])
"""


@contextmanager
def running(*words: object) -> Iterator["subprocess.Popen[bytes]"]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # A shell's background job ignores Ctrl-C, and what it starts would, too.
    heard = ["env", "--default-signal=INT", *command(*words)]
    with subprocess.Popen(heard, env=environment(), **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def test_commands_import_nothing_heavy(shell: Shell, topic, security) -> None:
    allowed = [] if security is None else ["cryptography"]
    words = [sys.executable, "-c", PROBE, topic(), *shell.login]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert set(json.loads(done.stdout.replace("'", '"'))) <= set(allowed)


def test_a_pipe_that_breaks_ends_it_quietly(shell: Shell, topic) -> None:
    name = topic()
    shell.write(name, [(None, b"x" * 1000, [], 1)] * 2000)
    with running("consume", name, "-e", *shell.login) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(20) == 0


def test_ctrl_c_ends_a_reader_that_follows_and_what_it_printed_is_committed(shell: Shell, topic) -> None:
    name, group = topic(), unique("group")
    with running("consume", name, "-g", group, "--commit", *shell.login) as process:
        shell.write(name, [(None, b"first", [], 1)])
        assert process.stdout.readline() == b"first\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
        assert process.wait(20) == 0
    assert shell.asked("group", "describe", group)[0]["partitions"][0]["offset"] == 1


def test_a_line_is_written_before_the_next_one_is_typed(shell: Shell, topic) -> None:
    name = topic()
    with running("produce", name, *shell.login) as process:
        process.stdin.write(b"typed\n")
        process.stdin.flush()
        wait_until(lambda: shell.lines(name), "the line is there")
        process.stdin.close()
        assert process.wait(20) == 0


def test_ctrl_c_while_it_waits_is_no_traceback_and_writes_nothing(shell: Shell, topic) -> None:
    name, taken = topic(), unique("id")
    cluster = logins.cluster(shell.bootstrap)
    with running("produce", name, "--transactional-id", taken, *shell.login) as process:
        process.stdin.write(b"half\n")
        process.stdin.flush()
        wait_until(lambda: taken in list_transactional_ids(cluster), "it has begun")
        process.send_signal(signal.SIGINT)
        process.stdin.close()
        assert b"Traceback" not in process.stderr.read()
        assert process.wait(20) == 130
    cluster.close()
    assert shell.says("consume", name, "-e") == ""


def test_an_unreachable_cluster_is_one_line() -> None:
    done = fencepost("topic", "ls", "-b", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "no broker answers" in done.stderr


def test_a_host_that_cannot_be_is_one_line() -> None:
    done = fencepost("topic", "ls", "-b", "no..host:9092")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "no host can have this name" in done.stderr


def test_a_full_disk_is_one_line(shell: Shell, topic) -> None:
    name = topic()
    shell.write(name, [(None, b"x", [], 1)])
    for words in (["topic", "ls"], ["consume", name, "-e"]):
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                command(*words, *shell.login), stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
            )
        assert done.returncode == 1
        assert done.stderr == "Error: the output cannot be written: No space left on device\n"


def test_names_are_completed_from_the_cluster_and_from_none(shell: Shell, topic) -> None:
    name = topic(prefix="completed")
    assert completed("topic", "describe", *shell.login, "complet") == [name]
    assert completed("topic", "describe", "-b", "127.0.0.1:1", "complet") == []
    assert completed("topic", "add") == ["add-partitions"]


def test_pipelines_are_completed(shell: Shell) -> None:
    pipeline = unique("pipelined")
    shell.producer(**{"transactional.id": f"fencepost-{pipeline}"}).init_transactions(WAIT_TIMEOUT_S)
    assert completed("pipeline", "describe", *shell.login, pipeline[:-2]) == [pipeline]
    assert completed("doctor", *shell.login, "--pipeline", pipeline[:-2]) == [pipeline]


def completed(*typed: str) -> list[str]:
    """What a shell is told while the last word is being typed."""
    asked = {
        "_FENCEPOST_COMPLETE": "bash_complete",
        "COMP_WORDS": shlex.join(["fencepost", *typed]),
        "COMP_CWORD": str(len(typed)),
    }
    code = "from fencepost.cli.main import main; main(prog_name='fencepost')"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env={**environment(), **asked}, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return [line.removeprefix("plain,") for line in done.stdout.splitlines() if line]


def test_bash_completes_behind_an_address(shell: Shell, topic, tmp_path: Path) -> None:
    """Bash takes a colon for the end of a word, and would split HOST:PORT."""
    name = topic(prefix="completed")
    login = shlex.join(shell.login)
    bash = Bash(tmp_path)
    assert bash.offers(f"fencepost topic describe {login} {name[:-2]}") == [name]
    assert bash.offers(f"fencepost tx why {login} {name[:-2]}") == [name]
    assert bash.offers("fencepost topic add") == ["add-partitions"]
    assert bash.offers("fencepost topic ") == ["add-partitions", "config", "create", "delete", "describe", "ls"]
    assert bash.offers("fencepost consume x --isolation=r") == ["raw"]


class Bash:
    """A real one, with our script."""

    def __init__(self, home: Path) -> None:
        program = home / "fencepost"
        program.write_text(f"#!{sys.executable}\nfrom fencepost.cli.main import main\nmain()\n")
        program.chmod(0o755)
        self._environment = {**environment(), "PATH": f"{home}:{os.environ['PATH']}"}

    def offers(self, typed: str) -> list[str]:
        """For a line with the cursor at its end. Its words are split as bash does it."""
        script = f"""
            eval "$(fencepost completion bash)"
            COMP_LINE={shlex.quote(typed)} COMP_POINT={len(typed)}
            COMP_WORDS=($(sed 's/[:=]/ & /g' <<< "$COMP_LINE")) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            _fencepost_completion fencepost
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        words = ["bash", "-c", script]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=self._environment)
        assert "Traceback" not in done.stderr
        return sorted(done.stdout.split())


def test_python_runs_it_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fencepost", "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("fencepost, version")


def test_a_tls_listener_is_recognised(tmp_path: Path) -> None:
    with Broker(tmp_path, security="SASL_SSL") as broker:
        done = fencepost("topic", "ls", "-b", broker.bootstrap_servers)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "if it is a TLS listener, set security.protocol" in done.stderr


def test_every_shell_gets_its_script() -> None:
    for shell_name in ("bash", "zsh", "fish"):
        done = fencepost("completion", shell_name)
        assert done.returncode == 0 and "_FENCEPOST_COMPLETE" in done.stdout, done.stderr
