"""ACLs as clients meet them: who may do a part gets that part, at once, and after a restart."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

import fencepost
from fencepost.cli.main import main
from fencepost.client.cluster import Cluster
from fencepost.client.connection import Channel
from fencepost.errors import ErrorCode, NotAuthorized
from fencepost.lab.kit.servers import Ours, free_ports
from fencepost.spark.sink.dead_letters import look_up
from fencepost.wire.terms import Address
from tests.clients.raw import batch
from tests.clients.raw_records import fetch_fields
from tests.conftest import unique
from tests.security.rights.runner import PASSWORD, TIMEOUT_S, login

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PRODUCE, FETCH, INIT_PRODUCER_ID, END_TXN = 0, 1, 22, 26
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Guarded:
    def __init__(self, server: Ours, port: int) -> None:
        self.server = server
        self.port = port
        self.admin = AdminClient({"bootstrap.servers": server.bootstrap})

    def config(self, user: str, **more: str) -> dict[str, str]:
        """For confluent-kafka."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.port}", "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": PASSWORD,
        } | more  # fmt: skip

    def channel(self, user: str) -> Channel:
        return Channel(Address("127.0.0.1", self.port), user, TIMEOUT_S, TIMEOUT_S, login(user))

    def topic(self, name: str) -> str:
        self.admin.create_topics([NewTopic(name, 1)])[name].result(30)
        return name

    def grant(self, *acls: AclBinding) -> None:
        for future in self.admin.create_acls([*acls]).values():
            future.result(30)


def acl(
    operation: AclOperation,
    name: str,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(kind, name, pattern, "User:alice", "*", operation, permission)


def everything_of(name: str | None = None) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.ANY, name, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )


@pytest.fixture(scope="module")
def guarded(start_broker: Callable[..., Ours]) -> Guarded:
    admin, port = free_ports(2)
    server = start_broker(
        {
            "listeners": f"PLAINTEXT://127.0.0.1:{admin},SASL_PLAINTEXT://127.0.0.1:{port}",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.jaas.config": f'PlainLoginModule required user_alice="{PASSWORD}" user_bob="{PASSWORD}";',
            "authorizer.class.name": STANDARD,
            "super.users": "User:ANONYMOUS",
        }
    )
    return Guarded(server, port)


@pytest.fixture
def alice(guarded: Guarded) -> Iterator[Channel]:
    with guarded.channel("alice") as channel:
        yield channel


def ask(channel: Channel, key: int, version: int, **fields: object) -> object:
    return channel.receive(channel.request(key, version, fields))


def produce(channel: Channel, records: dict[str, bytes], transactional_id: str | None = None) -> dict[str, int]:
    """Topic to error code."""
    data = [{"name": name, "partition_data": [{"index": 0, "records": each}]} for name, each in records.items()]
    answer = ask(channel, PRODUCE, 12, acks=-1, timeout_ms=5000, topic_data=data, transactional_id=transactional_id)
    return {topic.name: topic.partition_responses[0].error_code for topic in answer.responses}


def test_the_admin_client_creates_lists_and_deletes(guarded: Guarded) -> None:
    name = unique("orders")
    kept = [acl(AclOperation.READ, name), acl(AclOperation.WRITE, name, pattern=ResourcePatternType.PREFIXED)]
    guarded.grant(*kept)
    assert set(guarded.admin.describe_acls(everything_of(name)).result(30)) == set(kept)
    applying = AclBindingFilter(
        ResourceType.TOPIC, f"{name}-7", ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert kept[1] in guarded.admin.describe_acls(applying).result(30)
    (deleted,) = guarded.admin.delete_acls([everything_of(name)]).values()
    assert set(deleted.result(30)) == set(kept)
    assert guarded.admin.describe_acls(everything_of(name)).result(30) == []


def test_with_a_prefix_a_client_writes_and_reads_all_that_begins_with_it(guarded: Guarded) -> None:
    prefix = unique("team")
    prefixed = ResourcePatternType.PREFIXED
    guarded.grant(
        acl(AclOperation.ALL, prefix, pattern=prefixed), acl(AclOperation.READ, prefix, ResourceType.GROUP, prefixed)
    )
    topic, other = guarded.topic(f"{prefix}-1"), guarded.topic(unique("other"))
    producer = Producer(guarded.config("alice"))
    refused = []
    producer.produce(topic, b"1")
    producer.produce(other, b"2", on_delivery=lambda error, _: refused.append(error and error.code()))
    assert producer.flush(30) == 0
    assert refused == [DENIED]
    consumer = Consumer(guarded.config("alice", **{"group.id": f"{prefix}-g", "auto.offset.reset": "earliest"}))
    with contextlib.closing(consumer):
        consumer.subscribe([topic])
        (message,) = consumer.consume(1, 30)
        assert message.value() == b"1"
        consumer.commit(message, asynchronous=False)
    assert other not in AdminClient(guarded.config("alice")).list_topics(timeout=30).topics


def test_a_topic_for_dead_letters_that_may_not_be_written_is_refused_before_it_is_needed(guarded: Guarded) -> None:
    """Whoever may see a topic learns only from its authorized operations that writing would be refused."""
    unseen, seen, written = (guarded.topic(unique("dead")) for _ in range(3))
    guarded.grant(acl(AclOperation.READ, seen), acl(AclOperation.WRITE, written))
    settings = {"bootstrap.servers": f"127.0.0.1:{guarded.port}", **dict(login("alice").given)}
    with Cluster(settings) as cluster:
        for name in (unseen, seen):
            with pytest.raises(NotAuthorized, match=f"User:alice lacks the right Write on topic '{name}'"):
                look_up(cluster, name)
        shape = look_up(cluster, written)
    assert (shape.partitions, shape.max_message_bytes) == (1, None)  # DescribeConfigs is another right


def test_one_topic_of_a_fetch_fails_alone(guarded: Guarded, alice: Channel) -> None:
    mine, theirs = guarded.topic(unique("mine")), guarded.topic(unique("theirs"))
    guarded.grant(acl(AclOperation.ALL, mine))
    assert produce(alice, {mine: batch(b"1"), theirs: batch(b"2")}) == {mine: 0, theirs: DENIED}
    answer = ask(alice, FETCH, 12, **fetch_fields({mine: {0: 0}, theirs: {0: 0}}))
    found = {topic.topic: topic.partitions[0] for topic in answer.responses}
    assert (found[mine].error_code, found[mine].high_watermark) == (0, 1)
    assert (found[theirs].error_code, found[theirs].records) in ((DENIED, None), (DENIED, b""))


def test_a_topic_that_may_not_be_written_does_not_become_part_of_a_transaction(
    guarded: Guarded, alice: Channel
) -> None:
    mine, theirs, name = guarded.topic(unique("mine")), guarded.topic(unique("theirs")), unique("id")
    guarded.grant(acl(AclOperation.ALL, mine), acl(AclOperation.WRITE, name, ResourceType.TRANSACTIONAL_ID))
    who = ask(alice, INIT_PRODUCER_ID, 4, transactional_id=name, transaction_timeout_ms=60_000)
    records = batch(b"1", producer=(who.producer_id, who.producer_epoch), sequence=0, transactional=True)
    assert produce(alice, {theirs: records}, name) == {theirs: DENIED}
    assert produce(alice, {mine: records, theirs: records}, name) == {mine: 0, theirs: DENIED}
    fields = {"transactional_id": name, "producer_id": who.producer_id, "producer_epoch": who.producer_epoch}
    assert ask(alice, END_TXN, 5, **fields, committed=True).error_code == 0
    with Channel(guarded.server.address, "admin", TIMEOUT_S, TIMEOUT_S) as admin:
        answer = ask(admin, FETCH, 12, **fetch_fields({mine: {0: 0}, theirs: {0: 0}}))
    assert {topic.topic: topic.partitions[0].high_watermark for topic in answer.responses} == {mine: 2, theirs: 0}


def test_a_denial_takes_effect_on_open_connections_and_stays_after_a_kill(guarded: Guarded) -> None:
    topic = guarded.topic(unique("orders"))
    guarded.grant(acl(AclOperation.ALL, topic))
    with guarded.channel("alice") as alice:
        assert produce(alice, {topic: batch(b"1")}) == {topic: 0}
        guarded.grant(acl(AclOperation.WRITE, topic, permission=AclPermissionType.DENY))
        assert produce(alice, {topic: batch(b"2")}) == {topic: DENIED}
    guarded.server.restart(kill=True)
    with guarded.channel("alice") as alice:
        assert produce(alice, {topic: batch(b"3")}) == {topic: DENIED}
    (future,) = guarded.admin.delete_acls([everything_of(topic)]).values()
    assert len(future.result(30)) == 2


def test_a_deletion_that_is_refused_does_not_hide_the_one_before_it(guarded: Guarded) -> None:
    gone, kept = (guarded.topic(unique(word)) for word in ("gone", "kept"))
    guarded.grant(acl(AclOperation.DELETE, gone), acl(AclOperation.DESCRIBE, kept))
    words = [word for pair in login("alice").given for word in ("-X", "=".join(pair))]
    done = CliRunner().invoke(main, ["topic", "delete", gone, kept, "--yes", "-b", f"127.0.0.1:{guarded.port}", *words])
    assert done.exit_code == 1
    assert f"{gone}: deleted" in done.stdout and kept not in done.stdout
    assert f"lacks the right Delete on topic '{kept}'" in done.stderr


def test_denials_are_in_a_file_in_the_data_directory(guarded: Guarded) -> None:
    topic = guarded.topic(unique("orders"))
    with guarded.channel("bob") as bob:
        assert produce(bob, {topic: batch(b"1")}) == {topic: DENIED}
    said = (guarded.server.directory / "authorizer.log").read_text()
    line = f"denied principal=User:bob host=127.0.0.1 operation=WRITE resource=TOPIC:{topic} request=Produce\n"
    assert said.endswith(line)
    assert topic not in guarded.server.log


@pytest.mark.parametrize("security", ["SASL_PLAINTEXT", "SSL"])
def test_the_user_of_a_quick_broker_may_do_everything(security: str) -> None:
    with fencepost.Broker(security=security, settings={"authorizer.class.name": STANDARD}) as broker:
        admin = AdminClient(broker.client_config("confluent"))
        admin.create_topics([NewTopic("t", 1)])["t"].result(30)
        (future,) = admin.create_acls([acl(AclOperation.READ, "t")]).values()
        future.result(30)


def test_whoever_may_not_change_acls_is_told_so(guarded: Guarded) -> None:
    bob = AdminClient(guarded.config("bob"))
    (future,) = bob.create_acls([acl(AclOperation.READ, "t")]).values()
    with pytest.raises(KafkaException) as raised:
        future.result(30)
    assert raised.value.args[0].code() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
