"""Leader epochs in requests: a reader with an older epoch than ours is stale, one with a newer epoch is ahead."""

from fencepost.errors import ErrorCode, KafkaError
from fencepost.log.partition import PartitionLog


def check_leader_epoch(log: PartitionLog, current_leader_epoch: int) -> None:
    """-1 means that the client does not know the epoch."""
    if current_leader_epoch < 0 or current_leader_epoch == log.leader_epoch:
        return
    if current_leader_epoch < log.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
