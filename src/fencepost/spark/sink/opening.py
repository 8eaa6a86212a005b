"""The transaction of one attempt at a batch: begun once, by the first who has something to write.

Invariant: nothing is open while rows are computed. Until `begin` is called there is no identity to write with.
"""

import time
from collections.abc import Callable

from fencepost.client.identity import ProducerIdentity
from fencepost.client.transaction import SharedTransaction


class Opening:
    def __init__(self, transaction: SharedTransaction, *then: Callable[[], None]) -> None:
        """Each of `then` is called right after the transaction has been begun."""
        self.identity: ProducerIdentity | None = None
        self.then = [*then]
        self._transaction = transaction
        self._begun_s = 0.0

    def begin(self) -> ProducerIdentity:
        """The identity to write with. The first call begins the transaction. For one thread at a time."""
        if self.identity is None:
            self.identity = self._transaction.begin()
            self._begun_s = time.monotonic()
            for call in self.then:
                call()
        return self.identity

    @property
    def elapsed_ms(self) -> float:
        return 1000 * (time.monotonic() - self._begun_s) if self.identity is not None else 0.0
