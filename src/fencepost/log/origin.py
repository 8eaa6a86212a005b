"""Who appends to a log."""

import enum


class Origin(enum.Enum):
    """What has to be checked depends on who wrote the batch."""

    CLIENT = "client"  #: everything: a peer may send anything
    COORDINATOR = "coordinator"  #: our own records: producer epochs yes, sequences no, control batches allowed
