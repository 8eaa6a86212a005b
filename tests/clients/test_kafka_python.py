"""x"""
from tests.clients.behaviour.records import Records
from tests.clients.behaviour.topics import Topics
from tests.clients.behaviour.transactions import Transactions, ExactlyOnce
from tests.clients.behaviour.groups import Groups, Positions
from tests.clients.kafka_python import KafkaPython

CLIENT = KafkaPython


class TestRecords(Records):
    pass
class TestTransactions(Transactions):
    pass
class TestExactlyOnce(ExactlyOnce):
    pass
class TestGroups(Groups):
    pass
class TestPositions(Positions):
    pass
class TestTopics(Topics):
    pass
