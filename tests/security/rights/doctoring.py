"""What `fencepost doctor` tells a user about a pipeline's rights, on any broker with an authorizer.

The tests are the methods of `DoctorTells`; who has a broker inherits them, and gives a fixture `clinic`.
"""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from click.testing import CliRunner
from confluent_kafka import Producer
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

from fencepost.cli.main import main
from fencepost.wire.terms import Address
from tests.conftest import unique, wait_until
from tests.security.rights.runner import PASSWORD, TIMEOUT_S, login

TOPIC, GROUP, ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
READ, WRITE, CREATE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USER = "alice"
LEDGER = "fencepost.ledger"
#: An authorizer, and one user. Whoever does not log in may do everything.
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_{USER}="{PASSWORD}";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "auto.create.topics.enable": "false",
}


def acl(kind: ResourceType, name: str, operation: AclOperation, permission: AclPermissionType = ALLOW) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation, permission)


@dataclass
class Pipeline:
    """Names that no other test has."""

    name: str = field(default_factory=lambda: unique("shop"))

    def __post_init__(self) -> None:
        self.source, self.output, self.changelog = (f"{self.name}.{word}" for word in ("in", "out", "totals.changelog"))
        self.transactional_id = f"fencepost-{self.name}"
        self.words = ("--pipeline", self.name, "--source", self.source, "-t", self.output, "--step", "totals")

    @property
    def rights(self) -> dict[AclBinding, str]:
        """Those of docs/security.md, and the subject of the finding that is about each."""
        on_topics = {
            self.source: (READ,), self.output: (WRITE,), LEDGER: (READ, WRITE), self.changelog: (READ, WRITE)
        }  # fmt: skip
        return {
            acl(ID, self.transactional_id, WRITE): f"transactional id {self.transactional_id}",
            acl(GROUP, self.name, READ): f"group {self.name}",
            **{acl(TOPIC, name, each): f"topic {name}" for name, needed in on_topics.items() for each in needed},
        }


class Clinic:
    def __init__(self, admin: Address, users: Address) -> None:
        """The broker listens on two addresses: `admin` asks for no login."""
        self._anonymous: dict[str, Any] = {"bootstrap.servers": str(admin)}
        self.users = users
        self.admin = AdminClient(self._anonymous)

    def create(self, *names: str) -> None:
        known = self.admin.list_topics(timeout=TIMEOUT_S).topics
        topics = [NewTopic(name, 1, 1) for name in names if name not in known]
        for each in self.admin.create_topics(topics).values() if topics else ():
            each.result(TIMEOUT_S)

    def delete(self, name: str) -> None:
        if name in self.admin.list_topics(timeout=TIMEOUT_S).topics:
            self.admin.delete_topics([name])[name].result(TIMEOUT_S)
            wait_until(lambda: name not in self.admin.list_topics(timeout=TIMEOUT_S).topics, f"{name} is gone")

    @contextmanager
    def granted(self, *acls: AclBinding) -> Iterator[None]:
        for created in self.admin.create_acls([*acls]).values():
            created.result(TIMEOUT_S)
        wait_until(lambda: all(self._has(each) for each in acls), "the ACLs are known")
        try:
            yield
        finally:
            for each in acls:
                self._revoke(each)

    @contextmanager
    def without(self, right: AclBinding) -> Iterator[None]:
        self._revoke(right)
        yield
        self.admin.create_acls([right])[right].result(TIMEOUT_S)

    def _revoke(self, right: AclBinding) -> None:
        self.admin.delete_acls([_only(right)])[_only(right)].result(TIMEOUT_S)
        wait_until(lambda: not self._has(right), "the ACL is gone")

    def _has(self, right: AclBinding) -> bool:
        return bool(self.admin.describe_acls(_only(right)).result(TIMEOUT_S))

    def asked(self, pipeline: Pipeline, code: int = 0) -> list[dict[str, Any]]:
        """What the doctor finds on the cluster, as the user."""
        security = [word for pair in login(USER).given for word in ("-X", "=".join(pair))]
        words = ["doctor", "-b", str(self.users), *pipeline.words, *security, "--json"]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == code, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]

    def rights(self, pipeline: Pipeline, code: int = 0) -> dict[str, dict[str, Any]]:
        """The findings about rights, by their subjects."""
        found = [each for each in self.asked(pipeline, code) if " the right " in each["text"]]
        return {each["subject"]: each for each in found if each["subject"] != "rights"}

    def producer(self, transactional_id: str) -> Producer:
        return Producer({**self._anonymous, "transactional.id": transactional_id})


def _only(right: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        right.restype,
        right.name,
        right.resource_pattern_type,
        right.principal,
        right.host,
        right.operation,
        right.permission_type,
    )


class DoctorTells:
    def test_first_that_the_ledger_and_changelogs_are_missing_and_whether_they_may_be_created(
        self, clinic: Clinic
    ) -> None:
        pipeline = Pipeline()
        clinic.create(pipeline.source, pipeline.output)
        clinic.delete(LEDGER)
        made = (LEDGER, pipeline.changelog)
        before = {*clinic.admin.list_topics(timeout=TIMEOUT_S).topics}
        with clinic.granted(*pipeline.rights):
            found = clinic.rights(pipeline, code=4)
            for name in made:
                assert found[f"topic {name}"]["severity"] == "error"
                assert "lack the right Create" in found[f"topic {name}"]["text"]
                words = shlex.split(found[f"topic {name}"]["remedy"])
                assert [each for each in words if each in ("Read", "Write", "Create")] == ["Read", "Write", "Create"]
            with clinic.granted(*(acl(TOPIC, name, CREATE) for name in made)):
                found = clinic.rights(pipeline)
                for name in made:
                    assert found[f"topic {name}"]["severity"] == "note"
                    assert "cannot be seen without creating the topic" in found[f"topic {name}"]["text"]
        assert {*clinic.admin.list_topics(timeout=TIMEOUT_S).topics} == before, "not even those of coordinators"

    def test_nothing_to_mend_if_all_rights_are_there_and_each_one_that_is_missing(self, clinic: Clinic) -> None:
        pipeline = Pipeline()
        clinic.create(pipeline.source, pipeline.output, LEDGER, pipeline.changelog)
        with clinic.granted(*pipeline.rights):
            found = clinic.rights(pipeline)
            assert {*found} == {*pipeline.rights.values()}
            assert {each["severity"] for each in found.values()} == {"ok"}
            for right, subject in pipeline.rights.items():
                with clinic.without(right):
                    found = clinic.rights(pipeline, code=4)
                    wrong = {name: each for name, each in found.items() if each["severity"] != "ok"}
                    assert {*wrong} == {subject}
                    words = shlex.split(wrong[subject]["remedy"])
                    assert words[0] == "kafka-acls" and f"User:{USER}" in words and right.name in words
                    assert words[words.index("--operation") + 1] == AclOperation(right.operation).name.title()

    def test_of_every_right_to_a_user_who_has_none(self, clinic: Clinic) -> None:
        pipeline = Pipeline()
        clinic.create(pipeline.source, pipeline.output)
        found = clinic.rights(pipeline, code=4)
        assert {*found} == {*pipeline.rights.values()}
        assert {each["severity"] for each in found.values()} == {"error"}
        words = shlex.split(found[f"topic {LEDGER}"]["remedy"])
        assert "Read" in words and "Write" in words

    def test_of_a_denial_that_takes_back_a_part(self, clinic: Clinic) -> None:
        pipeline = Pipeline()
        clinic.create(pipeline.source, pipeline.output, LEDGER, pipeline.changelog)
        names = {ID: pipeline.transactional_id, GROUP: pipeline.name}
        denials = [acl(kind, name, DESCRIBE, DENY) for kind, name in names.items()]
        with clinic.granted(*pipeline.rights, *denials):
            found = clinic.rights(pipeline, code=4)
            for subject in (f"group {pipeline.name}", f"transactional id {pipeline.transactional_id}"):
                assert "an ACL denies it" in found[subject]["text"]
                assert "--list" in shlex.split(found[subject]["remedy"])

    def test_it_without_touching_the_pipeline(self, clinic: Clinic) -> None:
        pipeline = Pipeline()
        clinic.create(pipeline.source, pipeline.output, LEDGER, pipeline.changelog)
        producer = clinic.producer(pipeline.transactional_id)
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce(pipeline.output, b"1")
        assert producer.flush(TIMEOUT_S) == 0
        with clinic.granted(*pipeline.rights):
            assert {each["severity"] for each in clinic.rights(pipeline).values()} == {"ok"}
        producer.commit_transaction(TIMEOUT_S)
        groups = clinic.admin.list_consumer_groups().result(TIMEOUT_S).valid
        assert pipeline.name not in {each.group_id for each in groups}
