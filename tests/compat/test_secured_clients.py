"""Every test of the three Python clients, over TLS and SASL. `make test` runs a choice of them."""

import subprocess
import sys

import pytest

from fencepost.security.names import Protocol
from tests.conftest import ROOT

CLIENTS = [f"tests/clients/test_{name}.py" for name in ("confluent", "kafka_python", "aiokafka")]
TIMEOUT_S = 1500


@pytest.mark.timeout(TIMEOUT_S + 60)
@pytest.mark.parametrize("protocol", [Protocol.SASL_SSL, Protocol.SSL])
def test_every_test_of_the_clients_passes_on_a_secured_broker(
    pytestconfig: pytest.Config, kind: str, protocol: Protocol
) -> None:
    if pytestconfig.getoption("--bootstrap"):
        pytest.skip("starts brokers of its own")
    where = ["--apache-kafka"] if kind == "kafka" else []
    command = [sys.executable, "-m", "pytest", "-q", *CLIENTS, "--security", protocol, *where]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
