"""A broker to be harmed, and the client that sends it single requests."""

from pathlib import Path

from fencepost.lab.kit.servers import Ours
from tests.faults.raw import Kafka


class BrokerProcess(Ours):
    def client(self, timeout_s: float = 15.0) -> Kafka:
        return Kafka(self.address, timeout_s=timeout_s)

    def rss_bytes(self) -> int:
        return self._status("VmRSS")

    def peak_rss_bytes(self) -> int:
        return self._status("VmHWM")

    def _status(self, name: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"the kernel does not say {name}")
