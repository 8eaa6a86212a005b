"""Transactional ids for batch queries without one: only as many as an application uses at a time.

A cluster remembers a transactional id for a week (`transactional.id.expiration.ms`), so a new id for each write would
fill its memory. An id is `fencepost-batch-<application>-<process>-<slot>`, and slots are reused. The application id is
for people who list the cluster's ids. The random process number makes the id unique: two local Sparks that start in the
same millisecond have the same application id.

Invariant: an id is used by one write at a time.
"""

import contextlib
import os
import threading
import uuid
from collections.abc import Iterator

from fencepost.spark.sink.settings import PREFIX


class BatchIds:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = (0, "")  #: pid and random number; a forked process draws its own number
        self._taken: dict[str, set[int]] = {}  #: slots, by application

    @contextlib.contextmanager
    def lend(self, application: str) -> Iterator[str]:
        """An id that no other write uses until the end of the block."""
        with self._lock:
            if self._process[0] != os.getpid():
                self._process, self._taken = (os.getpid(), uuid.uuid4().hex[:12]), {}
            taken = self._taken.setdefault(application, set())
            slot = next(number for number in range(len(taken) + 1) if number not in taken)
            taken.add(slot)
            name = f"{PREFIX}batch-{application}-{self._process[1]}-{slot}"
        try:
            yield name
        finally:
            with self._lock:
                taken.discard(slot)


#: This process's.
ids = BatchIds()
