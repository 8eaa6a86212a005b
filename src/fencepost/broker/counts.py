"""What a broker did since it started, as numbers that handlers and connections add to. `broker.metrics` writes them.

Counting is on the path of every request, so it is additions to plain attributes: no locks (one thread owns all of it),
no names, no dictionaries of labels. Errors may cost more, since they are rare.
"""

from collections import Counter
from collections.abc import Iterable

from fencepost.coordinator.txn.counts import TransactionCounts
from fencepost.log.counts import LogCounts
from fencepost.metrics.histogram import Histogram


class ApiCounts:
    __slots__ = ("errors", "latency")

    def __init__(self) -> None:
        self.latency = Histogram()  #: from the start of the work to the answer, waiting included
        self.errors: Counter[int] = Counter()  #: by error code, every one in an answer


class BrokerCounts:
    __slots__ = (
        "accepted",
        "apis",
        "bytes_in",
        "bytes_out",
        "closed",
        "log",
        "observe_ns",
        "started_ms",
        "transactions",
    )

    def __init__(self, api_keys: Iterable[int], started_ms: int) -> None:
        self.started_ms = started_ms
        self.apis = {key: ApiCounts() for key in api_keys}
        #: By API key, what counts the time of a request. Bound once: every request calls one.
        self.observe_ns = {key: counts.latency.observe_ns for key, counts in self.apis.items()}
        self.bytes_in = 0
        self.bytes_out = 0
        self.accepted = 0  #: connections
        self.closed = 0  #: connections that the broker closed because of what the client did
        self.log = LogCounts()
        self.transactions = TransactionCounts()
