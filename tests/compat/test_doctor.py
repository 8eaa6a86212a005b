"""`fencepost doctor` about the rights of a pipeline, on Apache Kafka with its authorizer."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from bench.harness import java
from fencepost.client.cluster import Cluster
from fencepost.client.probes import has_right
from fencepost.client.rights import Operation, Resource
from fencepost.lab.kit.kafka import KafkaCluster
from fencepost.security import jaas
from fencepost.security.names import Protocol
from fencepost.security.quick import MECHANISM, SCRAM_MODULE
from fencepost.security.settings import ClientSecurity
from fencepost.security.spellings import spelled
from tests.compat import guarded
from tests.conftest import wait_until
from tests.security.rights.doctoring import SETTINGS, Clinic, DoctorTells

USER, PASSWORD, TIMEOUT_S = "bob", "secret", 30
#: Enough for each node to coordinate some and not to coordinate others.
NAMES = [f"team.{number}" for number in range(8)]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinic]:
    server, users = guarded.make("kafka", tmp_path_factory.mktemp("kafka"), SETTINGS)
    with server.start():
        yield Clinic(server.address, users)


class TestTheDoctorTells(DoctorTells):
    """See there."""


@pytest.mark.timeout(600)
def test_every_broker_tells_whether_it_coordinates_or_not(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("three")
    with KafkaCluster(java.kafka(), home, security=Protocol.SASL_SSL) as three:
        three.start()
        admin = AdminClient(spelled(three.bootstrap, three.security, "confluent"))
        wanted = UserScramCredentialUpsertion(
            USER, ScramCredentialInfo(ScramMechanism[MECHANISM.replace("-", "_")], 4096), PASSWORD.encode()
        )
        for done in admin.alter_user_scram_credentials([wanted]).values():
            done.result(TIMEOUT_S)
        login = f"{SCRAM_MODULE} required username={jaas.quote(USER)} password={jaas.quote(PASSWORD)};"
        security = ClientSecurity.parse({**dict(three.security.given), "sasl.jaas.config": login})
        clusters = [Cluster(spelled(node.bootstrap, security, "java")) for node in three.nodes.values()]
        rights = {
            (Resource.TRANSACTIONAL_ID, Operation.WRITE): (ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
            (Resource.GROUP, Operation.READ): (ResourceType.GROUP, AclOperation.READ),
        }

        def held() -> set[bool]:
            return {
                has_right(cluster, each, resource, name)
                for cluster in clusters
                for resource, needed in rights
                for each in (needed, Operation.DESCRIBE)
                for name in NAMES
            }

        assert held() == {False}
        for kind, operation in rights.values():
            prefix, user = ResourcePatternType.PREFIXED, f"User:{USER}"
            acl = AclBinding(kind, "team.", prefix, user, "*", operation, AclPermissionType.ALLOW)
            admin.create_acls([acl])[acl].result(TIMEOUT_S)
        wait_until(lambda: held() == {True}, "every broker knows the rights")
        internal = {name for name in admin.list_topics(timeout=TIMEOUT_S).topics if name.startswith("__")}
        assert internal == set(), "nobody has looked for a coordinator"
        # Now there are coordinators, and most brokers are none of a name.
        producer_of = {**spelled(three.bootstrap, three.security, "confluent"), "transactional.id": NAMES[0]}
        Producer(producer_of).init_transactions(TIMEOUT_S)
        assert held() == {True}
        for cluster in clusters:
            cluster.close()
