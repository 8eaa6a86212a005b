"""Which client took a transactional id last, for people who look for it. Kafka itself does not tell.

Not part of a transaction's state: kept in memory only, unknown after a restart, and bounded: the ids that were taken
longest ago are forgotten first.
"""

from collections import OrderedDict
from dataclasses import dataclass

IDS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class ProducerClient:
    client_id: str
    host: str
    producer_id: int


class ProducerClients:
    def __init__(self, ids_max: int = IDS_MAX) -> None:
        self._ids_max = ids_max
        self._by_id: OrderedDict[str, ProducerClient] = OrderedDict()

    def note(self, transactional_id: str, client: ProducerClient) -> None:
        self._by_id[transactional_id] = client
        self._by_id.move_to_end(transactional_id)
        if len(self._by_id) > self._ids_max:
            self._by_id.popitem(last=False)

    def of(self, transactional_id: str, producer_id: int) -> ProducerClient | None:
        """None if it is not known, or the id has another producer now."""
        found = self._by_id.get(transactional_id)
        return found if found is not None and found.producer_id == producer_id else None
