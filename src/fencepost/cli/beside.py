"""The console beside a broker (`fencepost up --console`): a process of its own, so that the broker is not held up.

Its standard input is a pipe that only the broker's process holds. When that closes, however the broker ended, the
console ends, too. How to connect goes through its environment, where other users do not see a password.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping

from fencepost.child import environment

CLUSTER_VARIABLE, METRICS_VARIABLE = "FENCEPOST_CONSOLE_CLUSTER", "FENCEPOST_CONSOLE_METRICS"
STDIN = 0


def launch(listen: str, cluster: Mapping[str, str], metrics_url: str | None) -> "subprocess.Popen[bytes]":
    """It says where it is on our standard output, as soon as the page can be opened."""
    command = [sys.executable, "-m", "fencepost.cli.main", "console", "--listen", listen, "--beside-a-broker"]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        env=environment({CLUSTER_VARIABLE: json.dumps(dict(cluster)), METRICS_VARIABLE: metrics_url or ""}),
        start_new_session=True,  # Ctrl-C goes to the broker, which ends it
    )


def cluster_of_broker() -> dict[str, str]:
    """What `launch` was told, for the console's process."""
    found = json.loads(os.environ.pop(CLUSTER_VARIABLE, "{}"))
    return {str(name): str(value) for name, value in found.items()}


def metrics_of_broker() -> str | None:
    """Where the broker serves its own, if it does."""
    return os.environ.pop(METRICS_VARIABLE, "") or None


def end_with_broker() -> None:
    """End this process when the pipe closes."""

    def wait() -> None:
        while os.read(STDIN, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="broker", daemon=True).start()
