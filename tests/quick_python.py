"""Python processes for Spark that start in a tenth of the time: they are forked from one that has imported everything.

Spark starts a Python process for every source of a streaming query, and a handful more for every JVM, and each spends
half a second of CPU on importing PySpark, PyArrow and our client. The tests start hundreds. So Spark is given a
program of ours as its Python:

======================  ================================================================================================
the stand-in (`_SHIM`)  what Spark starts. It hands its arguments, environment and standard files to the server, and
                        lives as long as the process that the server forks for it
the server (`serve`)    imports the modules once, forks, and passes ends on: a process that ends ends its stand-in,
                        and a stand-in that is killed has its process terminated
======================  ================================================================================================

Invariant: what runs is what `python -m MODULE` would run, with the same arguments, environment, directory and files.
Other command lines are left to Python itself. Only the main thread runs when a process is forked.
"""

import atexit
import gc
import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Never

from fencepost.spark import daemon
from fencepost.spark.sessions import tells_limits

ROOT = Path(__file__).resolve().parent.parent
#: Spark 4.2 and later.
HAS_LIMITS = tells_limits()
#: Run by Spark as programs: what they import is imported beforehand, they themselves are executed anew.
PROGRAMS = (
    "pyspark.daemon",
    "pyspark.sql.connect.streaming.worker.foreach_batch_worker",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "fencepost.lab.scenarios.spark_daemon",
    "fencepost.spark.daemon",
)
#: Imported by them when they are asked to.
WORKERS = (
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark_fencepost",
    "fencepost.spark.source.stream_reader_limited" if HAS_LIMITS else "fencepost.spark.source.stream_reader_unguided",
    "fencepost.spark.sink.save",
)
HEADER_BYTES = 4
BACKLOG = 64

#: As few modules as possible: this starts in 10 ms.
_SHIM = """#!{python} -IS
import sys
if sys.argv[1:2] != ["-m"]:
    import os
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
import _socket, marshal, posix
from array import array
request = marshal.dumps((sys.argv[2:], posix.environ, posix.getcwd()))
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({path!r})
files = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array("i", [0, 1, 2]))
server.sendmsg([len(request).to_bytes({header}, "big")], [files])
server.sendall(request)
status = server.recv(1)
posix._exit(status[0] if status else 1)
"""


def start() -> str:
    """The path of a stand-in for Python. Its server ends with this process."""
    home = Path(tempfile.mkdtemp(prefix="quick-python-"))
    path, shim = home / "socket", home / "python"
    shim.write_text(_SHIM.format(python=sys.executable, path=str(path), header=HEADER_BYTES))
    shim.chmod(0o755)
    environment = {
        **os.environ,
        **daemon.NO_THREADS,
        "PYTHONHASHSEED": "0",  # as Spark sets it for its workers
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])),
    }
    with socket.socket(socket.AF_UNIX) as listener:  # those that come before the server is ready wait for it
        listener.bind(str(path))
        listener.listen(BACKLOG)
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.quick_python", str(listener.fileno())],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
    atexit.register(_stop, server, home)
    return str(shim)


def _stop(server: "subprocess.Popen[bytes]", home: Path) -> None:
    server.communicate()
    for path in home.iterdir():
        path.unlink()
    home.rmdir()


@dataclass(frozen=True, slots=True)
class Forked:
    pid: int
    ended: int  #: a file that can be read when the process has ended
    stand_in: socket.socket


def serve(listener: socket.socket) -> None:
    """Until standard input ends."""
    for name in (*daemon.MODULES, *WORKERS, *PROGRAMS):
        importlib.import_module(name)
    for name in PROGRAMS:
        del sys.modules[name]
    if daemon.thread_count() > 1:
        raise RuntimeError("an imported module has started a thread")
    gc.collect()
    gc.freeze()
    ready = select.poll()
    for file in (0, listener.fileno()):
        ready.register(file, select.POLLIN)
    by_file: dict[int, Forked] = {}
    while True:
        for file, _ in ready.poll():
            if file == 0:
                for each in set(by_file.values()):
                    _terminate(each)
                return
            if file == listener.fileno():
                forked = _fork(listener)
                by_file |= {forked.ended: forked, forked.stand_in.fileno(): forked}
                ready.register(forked.ended, select.POLLIN)
                ready.register(forked.stand_in, select.POLLIN)
            elif file in by_file:
                forked = by_file[file]
                ready.unregister(file)
                del by_file[file]
                if file == forked.ended:
                    _pass_on_end(forked)
                    if by_file.pop(forked.stand_in.fileno(), None) is not None:
                        ready.unregister(forked.stand_in)
                    forked.stand_in.close()
                else:
                    _terminate(forked)


def _terminate(forked: Forked) -> None:
    signal.pidfd_send_signal(forked.ended, signal.SIGTERM)


def _pass_on_end(forked: Forked) -> None:
    _, status = os.waitpid(forked.pid, 0)
    os.close(forked.ended)
    try:
        forked.stand_in.sendall(bytes([os.waitstatus_to_exitcode(status) & 0xFF]))
    except OSError:
        pass  # it is gone


def _fork(listener: socket.socket) -> Forked:
    stand_in, _ = listener.accept()
    header, files, _, _ = socket.recv_fds(stand_in, HEADER_BYTES, 3)
    size = int.from_bytes(header, "big")
    with stand_in.makefile("rb") as reader:
        arguments, environment, directory = marshal.loads(reader.read(size))
    pid = os.fork()
    if pid == 0:
        _become(arguments, environment, directory, files)
    for file in files:
        os.close(file)
    return Forked(pid, os.pidfd_open(pid), stand_in)


def _become(arguments: list[str], environment: dict[bytes, bytes], directory: str, files: list[int]) -> Never:
    """Run the program in this process, and end it."""
    status = 1
    try:
        for wanted, file in enumerate(files):
            os.dup2(file, wanted)
        os.closerange(3, 1024)
        os.environb.clear()
        os.environb.update(environment)
        os.chdir(directory)
        given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        sys.path[:0] = [path for path in given if path not in sys.path]
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                pass
        os._exit(status & 0xFF)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
