"""A driver in a process of its own, to be killed and paused with everything that it started."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from fencepost.lab.scenarios import orders
from fencepost.lab.scenarios.orders import Orders
from fencepost.processes import continue_all, signal_all, stop_all, tree
from tests.conftest import ROOT, wait_until
from tests.spark.faults.driver import Plan

TIMEOUT_S = 300.0


class DriverProcess:
    """Runs a plan. `orders` is where its orders lie."""

    def __init__(self, plan: Plan, home: Path) -> None:
        self.plan = plan
        self.orders = home / "orders"
        self.orders.mkdir(exist_ok=True, parents=True)
        self.events: list[dict[str, Any]] = []
        self.log = home / "driver.log"
        path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        environment = {
            **os.environ,
            "PYTHONPATH": path,
            orders.VARIABLE: str(self.orders),
            "SPARK_LOCAL_DIRS": str(home / "spark"),
        }
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.faults.driver", plan.json()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=home,
                env=environment,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        stdout = self._process.stdout
        if stdout is not None:
            with contextlib.suppress(ValueError):
                for line in stdout:
                    with contextlib.suppress(ValueError):
                        self.events.append(json.loads(line))

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    # -- waiting ------------------------------------------------------------------------------------------------------

    def wait_for_order(self, point: str) -> None:
        """Until an order has been taken."""

        def is_taken() -> bool:
            return Orders(self.orders).taken_by(point) is not None or self._process.poll() is not None

        wait_until(is_taken, f"the order for {point} is taken", TIMEOUT_S)
        assert Orders(self.orders).taken_by(point) is not None, f"the driver ended before {point}:\n{self.story()}"

    def wait_for_event(self, name: str, batch: int | None = None) -> dict[str, Any]:
        def find() -> dict[str, Any] | None:
            return next((e for e in self.events if e["event"] == name and batch in (None, e.get("batch"))), None)

        wait_until(lambda: find() or self._process.poll() is not None, f"{name} of batch {batch}", TIMEOUT_S)
        found = find()
        assert found is not None, f"the driver ended before {name}:\n{self.story()}"
        return found

    def wait(self) -> int:
        """Its exit status; a negative one is the signal that ended it."""
        try:
            status = self._process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the driver did not end:\n{self.story()}") from None
        self.kill()  # what is left of its group
        self._reader.join(5)
        return status

    def wait_until_killed(self) -> None:
        status = self.wait()
        assert status == -signal.SIGKILL, f"the driver ended with {status} instead of being killed:\n{self.story()}"

    def wait_until_done(self) -> dict[str, Any]:
        """It ends well; gives the sums of its sink."""
        status = self.wait()
        assert status == 0, f"the driver ended with {status}:\n{self.story()}"
        return self.wait_for_event("done")["progress"]

    def wait_until_failed(self) -> str:
        """It ends with an error, which is given."""
        status = self.wait()
        assert status != 0, f"the driver ended well:\n{self.story()}"
        return str(self.wait_for_event("failed")["error"])

    def story(self) -> str:
        events = "\n".join(json.dumps(event) for event in self.events[-30:])
        return f"{events}\n{self.log.read_text(errors='replace')[-6000:]}"

    # -- harm ---------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """The driver and its JVM, which share a process group; workers follow by themselves."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        signal_all(self._tree(), signal.SIGKILL)
        self.kill()
        if self._process.stdout is not None:
            self._reader.join(5)
            self._process.stdout.close()

    def pause(self) -> None:
        """Everything: the driver, its JVM, its workers."""
        stop_all(self._tree())

    def resume(self) -> None:
        continue_all(self._tree())

    def _tree(self) -> list[int]:
        return tree(self._process.pid) if self._process.poll() is None else []
