"""All of it under the names by which pytest finds it: `from tests.clients.behaviour.every_client import *`."""

from tests.clients.behaviour.groups import Groups, Positions
from tests.clients.behaviour.records import Records
from tests.clients.behaviour.restarts import Restarts
from tests.clients.behaviour.topics import Topics
from tests.clients.behaviour.transactions import ExactlyOnce, Transactions

__all__ = [
    "TestExactlyOnce",
    "TestGroups",
    "TestPositions",
    "TestRecords",
    "TestRestarts",
    "TestTopics",
    "TestTransactions",
]


class TestRecords(Records): ...


class TestTransactions(Transactions): ...


class TestExactlyOnce(ExactlyOnce): ...


class TestGroups(Groups): ...


class TestPositions(Positions): ...


class TestTopics(Topics): ...


class TestRestarts(Restarts): ...
