"""The checkers can fail: a reader, a network and a broker that are broken on purpose are found."""

import shutil
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.lab.chaos.anomaly import Kind
from fencepost.lab.chaos.facts import READ_COMMITTED, READ_UNCOMMITTED
from fencepost.lab.chaos.network import Tamper
from fencepost.lab.chaos.plan import ClientSpec, Family, Fault, Role, available_faults, schedule
from fencepost.lab.chaos.report import Result
from fencepost.lab.chaos.run import Run, Settings
from fencepost.lab.kit.servers import Ours
from fencepost.wire import frame, messages
from fencepost.wire.frame import RequestHeader

PRODUCE, END_TXN = 0, 26
SECONDS = 2.0

pytestmark = pytest.mark.timeout(200)


def kinds(result: Result) -> set[Kind]:
    return {anomaly.kind for anomaly in result.anomalies}


def quiet_run(tmp_path: Path, *, tamper: Tamper | None = None, **more: Callable[[ClientSpec], ClientSpec]) -> Result:
    settings = Settings(seconds=SECONDS, seed=1, families=frozenset(), history=tmp_path / "history")
    return Run(settings, tamper=tamper, **more).execute()


def test_a_read_committed_reader_that_shows_open_transactions_is_found(tmp_path: Path) -> None:
    def lie(spec: ClientSpec) -> ClientSpec:
        if spec.role not in (Role.READER, Role.PYTHON_READER):
            return spec
        return replace(spec, isolation=READ_UNCOMMITTED, claims=READ_COMMITTED)

    found = kinds(quiet_run(tmp_path, change_spec=lie))
    assert {Kind.ABORTED_READ, Kind.PRECOMMITTED_READ} <= found


class FlipsEndings:
    """Turns every other EndTxn into its opposite, on its way to the broker."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, header: RequestHeader, request: bytes) -> bytes:
        if header.api_key != END_TXN:
            return request
        self._count += 1
        if self._count % 2:
            return request
        schema = messages.api(END_TXN).request
        body = frame.skip_tags(request, header.body) if header.version in schema.flexible else header.body
        asked = schema.decode(header.version, request, body)
        asked.committed = not asked.committed
        return request[:body] + bytes(schema.encode(header.version, vars(asked)))


def test_a_network_that_turns_commits_into_aborts_and_back_is_found(tmp_path: Path) -> None:
    found = kinds(quiet_run(tmp_path, tamper=FlipsEndings()))
    assert {Kind.LOST_WRITE, Kind.ABORTED_READ} <= found


class Repeats:
    """Delivers every second Produce once more, over a connection of its own."""

    def __init__(self) -> None:
        self.address: tuple[str, int] | None = None
        self.repeated = 0
        self._count = 0

    def __call__(self, header: RequestHeader, request: bytes) -> bytes:
        self._count += header.api_key == PRODUCE
        if header.api_key == PRODUCE and self._count % 2 and self.address is not None:
            with socket.create_connection(self.address) as connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
            self.repeated += 1
        return request


def test_a_network_that_repeats_requests_does_no_harm(tmp_path: Path) -> None:
    repeats = Repeats()

    class Known(Ours):
        def start(self) -> "Known":
            super().start()
            repeats.address = self.address
            return self

    settings = Settings(seconds=SECONDS, seed=1, families=frozenset(), history=tmp_path / "history")
    result = Run(settings, ours=Known, tamper=repeats).execute()
    assert [str(anomaly) for anomaly in result.anomalies] == []
    assert repeats.repeated > 10


class Forgetful(Ours):
    """Comes back from a kill with its disk as it was half a second before."""

    def kill(self) -> None:
        if not self.is_running:
            super().kill()
            return
        earlier = self.directory.with_name("earlier")
        self.pause()  # otherwise a file may go while it is copied
        shutil.copytree(self.directory, earlier)
        self.resume()
        time.sleep(0.5)
        super().kill()
        shutil.rmtree(self.directory)
        earlier.rename(self.directory)


def test_a_broker_that_forgets_what_it_acknowledged_is_found(tmp_path: Path) -> None:
    families = frozenset({Family.KILL})
    faults = available_faults(families, owns_broker=True)

    def begins_with_a_kill(seed: int) -> bool:
        first = schedule(seed, 1, faults)[0]
        return first.fault is Fault.KILL_BROKER and first.wait_s > 1.2 and first.duration_s < 0.5

    seed = next(seed for seed in range(10_000) if begins_with_a_kill(seed))
    settings = Settings(seconds=SECONDS, seed=seed, families=families, history=tmp_path / "history")
    result = Run(settings, ours=Forgetful).execute()
    assert Kind.LOST_WRITE in kinds(result)
