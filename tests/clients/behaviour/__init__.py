"""What every client must see of the broker, written once. A client's test module imports all of it: pytest finds it
there."""

from tests.clients.behaviour.groups import TestGroups, TestPositions
from tests.clients.behaviour.records import TestRecords
from tests.clients.behaviour.restarts import TestRestarts
from tests.clients.behaviour.topics import TestTopics
from tests.clients.behaviour.transactions import TestExactlyOnce, TestTransactions

__all__ = [
    "TestExactlyOnce",
    "TestGroups",
    "TestPositions",
    "TestRecords",
    "TestRestarts",
    "TestTopics",
    "TestTransactions",
]
