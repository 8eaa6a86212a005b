"""Permits, over real sockets as in the workers."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.client.identity import ProducerIdentity, TransactionProtocol
from fencepost.errors import Fenced, WriteFailed
from fencepost.spark.sink import permits
from fencepost.spark.sink.permits import PermitDesk, Ticket, ask

IDENTITY = ProducerIdentity("fencepost-shop", 7, 3, TransactionProtocol.V2)


@pytest.fixture
def desk() -> Iterator[PermitDesk]:
    opened = PermitDesk("127.0.0.1", "127.0.0.1")
    yield opened
    opened.shut()


def test_a_permit_carries_the_identity_and_the_first_begins_the_transaction(desk: PermitDesk) -> None:
    begun: list[int] = []
    ticket = desk.open(lambda: begun.append(1) or IDENTITY)
    assert not begun
    assert ask(ticket, 0, "1.0") == IDENTITY
    assert begun
    assert desk.close() == 1


def test_a_transaction_that_takes_long_to_begin_is_waited_for(
    desk: PermitDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permits, "TIMEOUT_S", 0.1)
    may_begin = threading.Event()
    threading.Timer(0.5, may_begin.set).start()
    assert ask(desk.open(lambda: may_begin.wait(30) and IDENTITY), 0, "1.0") == IDENTITY


def test_a_writer_that_is_started_again_may_not_write(desk: PermitDesk) -> None:
    ticket = desk.open(lambda: IDENTITY)
    ask(ticket, 0, "1.0 (attempt 5)")
    ask(ticket, 1, "1.1 (attempt 6)")
    with pytest.raises(WriteFailed, match=r"may not write: task 1.0 \(attempt 5\) has a permit already"):
        ask(ticket, 0, "1.0 (attempt 9)")
    assert desk.close() == 2


def test_of_many_that_ask_at_once_one_gets_the_permit(desk: PermitDesk) -> None:
    ticket = desk.open(lambda: IDENTITY)

    def has_permit(number: int) -> bool:
        try:
            return ask(ticket, 0, str(number)) == IDENTITY
        except WriteFailed:
            return False

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(has_permit, range(16))) == 1


def test_after_its_attempt_a_writer_gets_no_permit_nor_in_the_next_attempt(desk: PermitDesk) -> None:
    ticket = desk.open(lambda: IDENTITY)
    desk.close()
    with pytest.raises(WriteFailed, match="attempt at the batch is over"):
        ask(ticket, 0, "1.0")
    desk.open(lambda: IDENTITY)
    with pytest.raises(WriteFailed, match="is over"):
        ask(ticket, 0, "1.0")
    assert desk.close() == 0


def test_a_stranger_gets_no_permit(desk: PermitDesk) -> None:
    ticket = desk.open(lambda: IDENTITY)
    with pytest.raises(WriteFailed, match="is over"):
        ask(Ticket(ticket.host, ticket.port, "guessed"), 0, "1.0")
    with socket.create_connection((ticket.host, ticket.port)) as connection:
        connection.sendall(b"\x00nonsense\n")
        assert connection.recv(100) == b""
    assert ask(ticket, 0, "1.0") == IDENTITY


def test_writer_and_driver_learn_why_a_transaction_cannot_be_begun(desk: PermitDesk) -> None:
    def begin() -> ProducerIdentity:
        raise Fenced("a newer producer has the id")

    with pytest.raises(WriteFailed, match="a newer producer has the id"):
        ask(desk.open(begin), 0, "1.0")
    assert isinstance(desk.error, Fenced)
    assert desk.close() == 0


def test_a_driver_out_of_reach_is_named_with_the_options_that_help(desk: PermitDesk) -> None:
    ticket = desk.open(lambda: IDENTITY)
    desk.shut()
    with pytest.raises(WriteFailed, match=f"{ticket.host}:{ticket.port}.*permitHost and permitPort"):
        ask(ticket, 0, "1.0")


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(WriteFailed, match="cannot listen"):
        PermitDesk("127.0.0.1", "127.0.0.1", taken.getsockname()[1])
