"""Which transactions an admin asked for (ListTransactions, KIP-664)."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from fencepost.coordinator.txn.model import Transaction
from fencepost.coordinator.txn.states import BY_LABEL


@dataclass(frozen=True, slots=True)
class Filter:
    """Every condition that is given has to hold; a state that does not exist matches nothing."""

    states: Collection[str] = ()
    producer_ids: Collection[int] = ()
    longer_than_ms: int = -1

    @property
    def unknown_states(self) -> list[str]:
        return [state for state in self.states if state not in BY_LABEL]

    def select(self, transactions: Iterable[Transaction], now_ms: int) -> Iterator[Transaction]:
        return (transaction for transaction in transactions if self._matches(transaction, now_ms))

    def _matches(self, transaction: Transaction, now_ms: int) -> bool:
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        if self.states and transaction.state.label not in self.states:
            return False
        return self.longer_than_ms < 0 or now_ms - transaction.start_ms > self.longer_than_ms
