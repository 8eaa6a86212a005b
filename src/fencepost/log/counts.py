"""What all logs of a broker did since it started: appends, syncs, failures. For metrics; nothing is decided by it."""

from fencepost.metrics.histogram import Histogram


class LogCounts:
    """Plain numbers, because every append touches them. All logs of a broker share one object."""

    __slots__ = ("batches", "bytes", "duplicates", "records", "sync_errors", "syncs", "write_errors")

    def __init__(self) -> None:
        self.batches = 0
        self.records = 0  #: markers among them
        self.bytes = 0
        self.duplicates = 0  #: batches that were in the log already
        self.write_errors = 0
        self.sync_errors = 0
        self.syncs = Histogram()  #: rounds of a group commit, from their start until the event loop knows of their end
