"""The raw client with requests that only the fault tests send: topics, offsets of groups, lists of transactions."""

from collections.abc import Iterable, Sequence
from typing import Any

from fencepost.client.fields import by_topic
from fencepost.client.offsets import LATEST
from fencepost.client.raw import IN_A_MOMENT, Partition, RawClient, Session, check, offset_topics
from fencepost.errors import ErrorCode, Refused
from tests.conftest import wait_until

METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 3, 8, 9, 10
API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, LIST_TRANSACTIONS = 18, 19, 20, 66

Address = tuple[str, int]


class Kafka(RawClient):
    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [{"name": k.replace("_", "."), "value": v} for k, v in config.items()],
        }
        answer = self.call(CREATE_TOPICS, 5, topics=[topic], timeout_ms=10_000)
        check(answer.topics[0].error_code, f"CreateTopics {name}")
        wait_until(lambda: self._has_leaders(name, partitions), f"leaders of {name}")

    def _has_leaders(self, name: str, partitions: int) -> bool:
        """Apache Kafka answers before the partitions are ready, and names a leader before the leader knows."""
        topic = self.metadata([name]).topics[0]
        if topic.error_code or len([p for p in topic.partitions if p.leader_id >= 0]) != partitions:
            return False
        try:
            for partition in range(partitions):
                self.offset(name, partition, LATEST)
        except Refused:
            return False
        return True

    def metadata(self, names: Sequence[str] | None) -> Any:
        topics = None if names is None else [{"name": name} for name in names]
        return self.call(METADATA, 12, topics=topics, allow_auto_topic_creation=False)

    def delete_topic(self, name: str) -> ErrorCode:
        answer = self.call(DELETE_TOPICS, 4, topic_names=[name], timeout_ms=10_000)
        return ErrorCode(answer.responses[0].error_code)

    def write(self, topic: str, partition: int, values: Sequence[str]) -> int:
        """A plain acks=all batch without a producer id."""
        return self.append(Session(), topic, partition, values, version=11)

    def transactions(self) -> dict[str, str]:
        """Transactional id → state."""
        answer = self.call(LIST_TRANSACTIONS, 0, state_filters=[], producer_id_filters=[])
        check(answer.error_code, "ListTransactions")
        return {t.transactional_id: t.transaction_state for t in answer.transaction_states}

    def commit_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        answer = self.call(OFFSET_COMMIT, 7, group_id=group, topics=offset_topics({(topic, partition): offset}))
        check(answer.topics[0].partitions[0].error_code, f"OffsetCommit {group}")

    def committed(self, group: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Committed offsets, -1 for none. Waits for pending ones."""
        asked = [{"group_id": group, "topics": by_topic(partitions, "partition_indexes")}]

        def attempt() -> dict[Partition, int] | None:
            (answer,) = self.call(OFFSET_FETCH, 8, groups=asked, require_stable=True).groups
            results = {(t.name, p.partition_index): p for t in answer.topics for p in t.partitions}
            codes = {answer.error_code, *(p.error_code for p in results.values())} - {ErrorCode.NONE}
            if codes & {*IN_A_MOMENT, ErrorCode.UNSTABLE_OFFSET_COMMIT}:
                return None
            for code in codes:
                check(code, f"OffsetFetch {group}")
            return {where: result.committed_offset for where, result in results.items()}

        return wait_until(attempt, f"stable offsets of {group}")

    def find_coordinator(self, transactional_id: str) -> None:
        """Wait until there is one: Apache Kafka creates its internal topics at the first request."""

        def attempt() -> bool:
            answer = self.call(FIND_COORDINATOR, 4, key_type=1, coordinator_keys=[transactional_id])
            return bool(answer.coordinators[0].error_code == 0)

        wait_until(attempt, f"coordinator of {transactional_id}")
