"""The names of the files in a partition's directory. They are Kafka's: a 20-digit base offset and a suffix."""

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"
TEMPORARY = ".tmp"
DELETED_DIRECTORY = "-delete"

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

#: What one segment consists of, the log last: as long as the log has not moved, the others count for nothing.
SEGMENT_SUFFIXES = (INDEX, TIME_INDEX, TXN_INDEX, LOG)

OFFSET_DIGITS = 20


def name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def parse(file_name: str) -> tuple[int, str] | None:
    """Base offset and suffix of a file that belongs to a segment, None for any other."""
    digits, suffix = file_name[:OFFSET_DIGITS], file_name[OFFSET_DIGITS:]
    if len(digits) == OFFSET_DIGITS and digits.isascii() and digits.isdigit() and suffix.startswith("."):
        return int(digits), suffix
    return None
