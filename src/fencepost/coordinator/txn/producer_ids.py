"""Hands out producer ids, each of them once for ever.

Blocks are reserved durably, the ids of a block given out from memory. What is left of a block when the broker stops is
lost, which costs nothing: there are 2^63 of them.
"""

from collections.abc import Callable

BLOCK_SIZE = 1000


class ProducerIds:
    def __init__(self, reserve: Callable[[int], range]) -> None:
        """`reserve(n)` gives `n` unused ids, and is durable when it returns."""
        self._reserve = reserve
        self._block = range(0)

    def peek(self) -> int:
        """The id that `take` would give. Raises what `reserve` raises."""
        if not self._block:
            self._block = self._reserve(BLOCK_SIZE)
        return self._block[0]

    def take(self) -> int:
        producer_id = self.peek()
        self._block = self._block[1:]
        return producer_id
