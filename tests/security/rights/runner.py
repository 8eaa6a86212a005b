"""Runs the table: each case has a user, a topic, a group and a transactional id of its own, so none disturbs another.

What a case needs is made by an administrator, before and for all cases at once: one request for all topics and one for
all ACLs, because Apache Kafka takes its time with each.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from fencepost.broker.acl import CLUSTER_NAME, Operation, Resource
from fencepost.client.connection import Channel
from fencepost.client.raw import Session
from fencepost.errors import ErrorCode
from fencepost.security import jaas
from fencepost.security.settings import ClientSecurity
from fencepost.wire import messages
from fencepost.wire.codec import Message
from fencepost.wire.terms import Address

KEYS = {name: key for key, name in messages.api_names().items()}
PASSWORD = "secret"
TIMEOUT_S = 30.0
PAUSE_S = 0.05
LITERAL, ALLOW, ANY = 3, 3, 1

#: What "in a moment" means: a coordinator that is being set up.
IN_A_MOMENT = {
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "NOT_COORDINATOR",
    "CONCURRENT_TRANSACTIONS",
}
AUTHORIZATION_ERRORS = {name for name in ErrorCode.__members__ if name.endswith("AUTHORIZATION_FAILED")}


class Right(NamedTuple):
    operation: Operation
    resource: Resource
    of: str  #: the attribute of the world that has the name

    def __str__(self) -> str:
        return f"{self.operation.name}_{self.of}"


class Refused(NamedTuple):
    """The only errors about rights are at this place, or at these places, and have this code."""

    place: str
    code: ErrorCode

    def check(self, answer: Message, world: "World") -> None:
        assert authorization_errors(answer) == {(place, self.code.name) for place in self.place.split()}, answer


class Hidden(NamedTuple):
    """A name is not in the answer, and would be with the right. There is no error."""

    place: str
    of: str

    def check(self, answer: Message, world: "World") -> None:
        assert authorization_errors(answer) == set(), answer
        assert getattr(world, self.of) not in values(answer, self.place), answer


class Shows(NamedTuple):
    place: str
    value: Any

    def check(self, answer: Message, world: "World") -> None:
        assert values(answer, self.place) == [self.value], answer


class Tells(NamedTuple):
    """A name is in the answer although the right is missing."""

    place: str
    of: str

    def check(self, answer: Message, world: "World") -> None:
        assert values(answer, self.place) == [getattr(world, self.of)], answer


Expected = Refused | Hidden | Shows | Tells
Ask = Callable[["World"], dict[str, Any]]


@dataclass(frozen=True)
class Row:
    api: str
    versions: tuple[int, ...]
    #: Each right that is needed, and what is answered without it.
    rights: dict[Right, Expected | tuple[Expected, ...]]
    ask: Ask
    note: str = ""
    before: Callable[["World"], object] = lambda world: None
    #: Errors that have nothing to do with rights: there is nothing that the request could act on.
    errors: frozenset[str] = frozenset()
    #: Why Apache Kafka is not asked.
    only_ours: str = ""
    #: What is seen with all rights.
    shows: Expected | tuple[Expected, ...] = ()


@dataclass(frozen=True)
class Case:
    row: Row
    version: int
    missing: Right | None
    number: int = 0

    def __str__(self) -> str:
        words = [self.row.api, self.row.note.replace(" ", "_"), f"v{self.version}"]
        return "-".join(filter(None, words)) + (f"-without_{self.missing}" if self.missing else "")

    @property
    def user(self) -> str:
        return f"user{self.number}"

    @property
    def granted(self) -> list[Right]:
        return [right for right in self.row.rights if right != self.missing]


def cases(rows: list[Row]) -> list[Case]:
    """Every row in every version, with all rights and with each one taken away."""
    found = [(row, version, missing) for row in rows for version in row.versions for missing in (None, *row.rights)]
    return [Case(*each, number) for number, each in enumerate(found)]


class World:
    """What a request may name."""

    cluster = CLUSTER_NAME

    def __init__(self, case: Case, admin: "Admin") -> None:
        self.case = case
        self.admin = admin
        number = case.number
        self.topic, self.new_topic = f"topic-{number}", f"new-{number}"
        self.group, self.transactional_id = f"group-{number}", f"id-{number}"
        self.node_id = admin.node_id

    @property
    def topic_id(self) -> bytes:
        return self.admin.topic_ids[self.topic]

    @cached_property
    def session(self) -> Session:
        answer = self.admin.settled(
            "init_producer_id", 4, transactional_id=self.transactional_id, transaction_timeout_ms=60_000
        )
        return Session(answer.producer_id, answer.producer_epoch, self.transactional_id)

    def topics(self, **inside: Any) -> list[dict[str, Any]]:
        return [{"name": self.topic, **inside}]

    def topics_and_ids(self, **inside: Any) -> list[dict[str, Any]]:
        return self.topics(topic_id=self.topic_id, **inside)

    def resources(self, **inside: Any) -> list[dict[str, Any]]:
        return [{"resource_type": 2, "resource_name": self.topic, **inside}]

    def acl(self, right: Right) -> dict[str, Any]:
        return {
            "resource_type": right.resource, "resource_name": getattr(self, right.of), "resource_pattern_type": LITERAL,
            "principal": f"User:{self.case.user}", "host": "*", "operation": right.operation, "permission_type": ALLOW,
        }  # fmt: skip


class Admin:
    """Somebody who may do everything, on a listener without a login."""

    def __init__(self, address: Address) -> None:
        self._channel = Channel(address, "admin", TIMEOUT_S, TIMEOUT_S)
        self.topic_ids: dict[str, bytes] = {}
        answer = self.ask("metadata", 9, topics=[])
        self.node_id: int = answer.brokers[0].node_id

    def close(self) -> None:
        self._channel.close()

    def ask(self, api: str, version: int, **fields: Any) -> Message:
        return self._channel.receive(self._channel.request(KEYS[api], version, fields))

    def settled(self, api: str, version: int, **fields: Any) -> Message:
        """Ask until the coordinator is there; there must be no error then."""
        answer = self.ask(api, version, **fields)
        deadline_s = time.monotonic() + TIMEOUT_S
        while errors(answer) & IN_A_MOMENT and time.monotonic() < deadline_s:
            time.sleep(PAUSE_S)
            answer = self.ask(api, version, **fields)
        assert not errors(answer), answer
        return answer

    def prepare(self, worlds: list[World]) -> None:
        topics = [{"name": world.topic, "num_partitions": 2, "replication_factor": 1} for world in worlds]
        self.settled("create_topics", 5, topics=topics, timeout_ms=60_000)
        for key_type, key in ((0, "any group"), (1, "any id")):  # sets the coordinators up
            self.settled("find_coordinator", 3, key=key, key_type=key_type)
        acls = [world.acl(right) for world in worlds for right in world.case.granted]
        self.settled("create_acls", 2, creations=acls)
        deadline_s = time.monotonic() + TIMEOUT_S
        while self._count_acls() < len(acls) or not self._knows(worlds):
            assert time.monotonic() < deadline_s, f"{self._count_acls()} of {len(acls)} ACLs are there"
            time.sleep(PAUSE_S)

    def _count_acls(self) -> int:
        names = dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))
        kinds = dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), ANY)
        return sum(len(resource.acls) for resource in self.settled("describe_acls", 2, **names, **kinds).resources)

    def _knows(self, worlds: list[World]) -> bool:
        named = self.ask("metadata", 12, topics=None).topics
        self.topic_ids = {topic.name: bytes(topic.topic_id) for topic in named}
        return all(world.topic in self.topic_ids for world in worlds)


def login(user: str) -> ClientSecurity:
    return ClientSecurity.parse(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'PlainLoginModule required username="{user}" password={jaas.quote(PASSWORD)};',
        }
    )


def broker_settings(found: list[Case]) -> dict[str, str]:
    """An authorizer, and everybody that the cases need. Whoever does not log in may do everything."""
    users = " ".join(f'user_{case.user}="{PASSWORD}"' for case in found)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{module} required {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


class Scene:
    """A broker with an authorizer, and all that the cases name."""

    def __init__(self, found: list[Case], admin: Address, users: Address) -> None:
        """The broker listens on two addresses: `admin` asks for no login."""
        self._users = users
        self._admin = Admin(admin)
        self._worlds = {case.number: World(case, self._admin) for case in found}
        self._admin.prepare(list(self._worlds.values()))

    def close(self) -> None:
        self._admin.close()

    def run(self, case: Case) -> None:
        """Ask as the case's user, and compare the answer with the table."""
        row, world, key = case.row, self._worlds[case.number], KEYS[case.row.api]
        row.before(world)
        known = {each.name for each in messages.api(key).request.fields}
        fields = {name: value for name, value in row.ask(world).items() if name in known}
        with Channel(self._users, "user", TIMEOUT_S, TIMEOUT_S, login(case.user)) as channel:
            answer = channel.receive(channel.request(key, case.version, fields))
        if case.missing is not None:
            for expected in _flat(row.rights[case.missing]):
                expected.check(answer, world)
            return
        assert errors(answer) <= row.errors, answer
        for expected in _flat(tuple(row.rights.values())):
            if isinstance(expected, Hidden):
                assert getattr(world, expected.of) in values(answer, expected.place), answer
        for expected in _flat(row.shows):
            expected.check(answer, world)


def _flat(expected: Any) -> Iterator[Expected]:
    if isinstance(expected, Expected):
        yield expected
    else:
        for each in expected:
            yield from _flat(each)


def places(answer: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every field, however deep, with the names on the way to it."""
    if isinstance(answer, list):
        for each in answer:
            yield from places(each, place)
    elif isinstance(answer, Message):
        for name, value in vars(answer).items():
            yield from places(value, f"{place}.{name}" if place else name)
    else:
        yield place, answer


def values(answer: Message, place: str) -> list[Any]:
    return [value for found, value in places(answer) if found == place]


def errors(answer: Message) -> set[str]:
    return {name for _, name in _errors(answer)}


def authorization_errors(answer: Message) -> set[tuple[str, str]]:
    return {(place, name) for place, name in _errors(answer) if name in AUTHORIZATION_ERRORS}


def _errors(answer: Message) -> Iterator[tuple[str, str]]:
    for place, value in places(answer):
        if place.endswith("error_code") and value:
            yield place, ErrorCode(value).name
