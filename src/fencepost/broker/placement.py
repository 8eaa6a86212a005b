"""Replicas can only be on this broker, once. Checks requests that place partitions by hand."""

from collections.abc import Sequence

from fencepost.errors import ErrorCode, KafkaError

#: Kafka's limit. A request for more is probably a mistake.
MAX_PARTITIONS_PER_REQUEST = 10_000


def check_replicas(replicas: Sequence[int], node_id: int) -> None:
    """INVALID_REPLICA_ASSIGNMENT unless the replicas of a partition are this broker alone."""
    if not replicas:
        _refuse("The manual partition assignment includes an empty replica list.")
    for replica in sorted(set(replicas)):
        if replicas.count(replica) > 1:
            _refuse(f"The manual partition assignment includes the broker {replica} more than once.")
        if replica != node_id:
            _refuse(f"The manual partition assignment includes broker {replica}, but no such broker is registered.")


def check_replication_factor(factor: int) -> None:
    """INVALID_REPLICATION_FACTOR for anything but 1, or -1 for the default."""
    if factor in (-1, 1):
        return
    if factor < 1:
        problem = "Replication factor must be larger than 0, or -1 to use the default value."
    else:
        problem = (
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} "
            "cannot be reached because only 1 broker(s) are registered."
        )
    raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, problem)


def check_request_size(new_partitions: int) -> None:
    if new_partitions > MAX_PARTITIONS_PER_REQUEST:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def _refuse(problem: str) -> None:
    raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
