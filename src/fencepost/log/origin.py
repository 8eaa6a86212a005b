"""Who appends to a log and who reads from it."""

import enum


class Origin(enum.Enum):
    """What has to be checked depends on who wrote the batch."""

    CLIENT = "client"  #: everything: a peer may send anything
    COORDINATOR = "coordinator"  #: our own records: producer epochs yes, sequences no, control batches allowed


class Isolation(enum.IntEnum):
    """As on the wire."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
