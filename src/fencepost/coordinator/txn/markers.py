"""Writes the control batches that tell a partition how a transaction ended.

The one place from which markers come, for transactions that end here and for those that an admin ends by hand
(WriteTxnMarkers). A marker on `__consumer_offsets` is shown to the group coordinator right after the append, so that
the offsets in the transaction take effect, or are dropped, together with everything else.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fencepost.coordinator.runtime import Topics
from fencepost.coordinator.txn.model import Transaction, TransactionVersion
from fencepost.coordinator.txn.states import TransactionState
from fencepost.errors import ErrorCode, KafkaError
from fencepost.log.partition import PartitionLog
from fencepost.wire.terms import CONSUMER_OFFSETS, TopicPartition

#: topic, partition, producer id, producer epoch, whether it committed
MarkerAppended = Callable[[str, int, int, int, bool], None]


@dataclass(frozen=True, slots=True)
class Marker:
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int


def marker_of(prepared: Transaction, coordinator_epoch: int) -> Marker:
    """The marker of a transaction whose outcome is decided."""
    epoch_was_raised = prepared.producer_epoch != prepared.last_producer_epoch
    return Marker(
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        commit=prepared.state is TransactionState.PREPARE_COMMIT,
        coordinator_epoch=coordinator_epoch,
        # Partitions expect a raised epoch from version 2. There is none above 32767, which only a broken log can hold.
        transaction_version=prepared.client_version if epoch_was_raised else TransactionVersion.V0,
    )


class Markers:
    def __init__(self, topics: Topics, marker_appended: MarkerAppended) -> None:
        self._topics = topics
        self._marker_appended = marker_appended

    def append(self, where: TopicPartition, marker: Marker) -> tuple[PartitionLog, int]:
        """The log and the marker's offset in it. UNKNOWN_TOPIC_OR_PARTITION when it was deleted meanwhile."""
        topic, partition = where
        log = self._topics.log(topic, partition)
        if log is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        offset = log.append_marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.commit,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        if topic == CONSUMER_OFFSETS:
            self._marker_appended(topic, partition, marker.producer_id, marker.producer_epoch, marker.commit)
        return log, offset
