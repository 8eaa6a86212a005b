"""Creates, writes, reads and deletes a topic, again and again under one name: nothing may be lost or come back.

Its topic is gone before the end of the run, so it checks what it reads at once. It names the topic by its id: a delayed
request must not reach the next topic of that name, and a broker that does not know of the deletion yet must not answer
for the old one. It does nothing on a broker that takes no ids in Produce.
"""

import time
from collections.abc import Sequence

from fencepost.client import Cluster
from fencepost.client.admin import DELETE_TOPICS, FIRST_DELETE_WITH_IDS, NewTopic, create_topics
from fencepost.client.raw import RawClient, Session, check, visible_records
from fencepost.client.registration import PRODUCE
from fencepost.errors import ClientError, ErrorCode
from fencepost.lab.chaos.clients.base import Client, StartAgain
from fencepost.lab.chaos.clients.watcher import cluster_settings
from fencepost.lab.chaos.history import Function, Status
from fencepost.lab.kit.raw import Brokers
from fencepost.wire.produce import FIRST_WITH_TOPIC_IDS
from fencepost.wire.terms import Isolation, TopicPartition

PATIENCE_S = 10.0
#: How long a topic may be seen after its deletion was acknowledged.
GONE_WITHIN_S = 20.0


class Churner(Client):
    def run(self) -> None:
        self._where = TopicPartition(self.spec.churned, 0)
        self._gone: set[bytes] = set()
        try:
            with (
                Cluster(cluster_settings(self.spec)) as self._cluster,
                Brokers(self._cluster, PATIENCE_S) as self._brokers,
            ):
                takes_ids = self._cluster.any().speaks(PRODUCE, FIRST_WITH_TOPIC_IDS)
                for topic in self._cluster.refresh([self.spec.churned], missing_ok=True).values():
                    self._delete(topic.id)  # left by a predecessor
                for number in self.numbers(0.05):
                    if takes_ids:
                        self._churn(number)
                    self.history.log(Function.CHURN, Status.OK, number=number)
        except ClientError as error:
            raise StartAgain(str(error)) from error

    def _churn(self, number: int) -> None:
        topic_id = self._create()
        self._expect(topic_id, [], "in a new topic")
        session = self._brokers.any(lambda client: client.try_init())
        values = [self.value(number, index) for index in range(self.rng.randint(1, 5))]
        for value in values:
            self._produce(session, topic_id, value)
        self._expect(topic_id, values, "after they were acknowledged")
        self._delete(topic_id)

    def _create(self) -> bytes:
        deadline_s = time.monotonic() + GONE_WITHIN_S
        while True:
            create_topics(self._cluster, {self.spec.churned: NewTopic(1)})
            topic_id = self._cluster.refresh([self.spec.churned])[self.spec.churned].id
            if topic_id not in self._gone:
                return topic_id
            if time.monotonic() > deadline_s:
                self.surprise("a deleted topic is still there")
                raise StartAgain("the topic cannot be created again")
            time.sleep(0.05)

    def _produce(self, session: Session, topic_id: bytes, value: str) -> None:
        batch = session.batch(*self._where, [value])

        def ask(client: RawClient) -> ErrorCode:
            return client.produce(topic_id, 0, batch, version=FIRST_WITH_TOPIC_IDS).error

        check(self._brokers.leader(self._where, ask), f"Produce {self._where}")

    def _expect(self, topic_id: bytes, values: Sequence[str], when: str) -> None:
        def fetch(client: RawClient) -> list[str]:
            """All of it: the few records are less than a Fetch may bring."""
            answer = client.fetch_once(topic_id, 0, 0, Isolation.READ_UNCOMMITTED)
            check(answer.error_code, f"Fetch {self._where}")
            records, _ = visible_records(bytes(answer.records or b""), 0, (), [])
            return [(record.value or b"").decode() for record in records]

        found = self._brokers.leader(self._where, fetch)
        if found != values:
            self.surprise(f"{found} instead of {values} {when}")

    def _delete(self, topic_id: bytes) -> None:
        fields = {"topics": [{"name": None, "topic_id": topic_id}], "timeout_ms": 2000}
        answer = self._cluster.call("delete topic", DELETE_TOPICS, fields, lowest=FIRST_DELETE_WITH_IDS)
        code = answer.responses[0].error_code
        if code != ErrorCode.UNKNOWN_TOPIC_ID:  # the answer to the first attempt was lost
            check(code, f"DeleteTopics {self.spec.churned}")
        self._gone.add(topic_id)
        self._cluster.forget_topic(self.spec.churned)
