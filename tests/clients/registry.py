"""Every client by name: what one writes, the others read."""

from tests.clients.aio import Aio
from tests.clients.confluent import Confluent
from tests.clients.facade import Client
from tests.clients.kafka_python import KafkaPython

CLIENTS: dict[str, type[Client]] = {each.name: each for each in (Confluent, KafkaPython, Aio)}
