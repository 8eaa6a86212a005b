"""A member of a group as its requests see it: the classic protocol, version by version."""

from dataclasses import dataclass
from typing import Any

from fencepost.client.connection import Pending
from fencepost.client.raw import offset_topics
from tests.clients.raw import Key, Wire, errors
from tests.conftest import unique, wait_until

#: A consumer's subscription to nothing.
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"


@dataclass
class Member:
    """A member of a group: what it was told when it joined."""

    wire: Wire
    group: str
    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None
    leader: str = ""
    joined: Any = None

    @property
    def fields(self) -> dict[str, Any]:
        """As requests name the member."""
        return {"group_id": self.group, "member_id": self.member_id, "group_instance_id": self.instance_id}

    def join(self, version: int = 9, protocols: tuple[str, ...] = ("range",), **options: Any) -> set[str]:
        """Join, with the second request that version 4 and later want of a new member."""
        return self.joined_with(self.send_join(version, protocols, **options), protocols, **options)

    def send_join(self, version: int = 9, protocols: tuple[str, ...] = ("range",), **options: Any) -> Pending:
        fields = {
            **self.fields,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": SUBSCRIPTION} for name in protocols],
            **options,
        }
        return self.wire.request(Key.JOIN_GROUP, version, fields)

    def joined_with(self, sent: Pending, protocols: tuple[str, ...] = ("range",), **options: Any) -> set[str]:
        answer = self.wire.receive(sent)
        if errors(answer) == {"MEMBER_ID_REQUIRED"}:
            self.member_id = answer.member_id
            return self.join(sent.version, protocols, **options)
        if not errors(answer):
            self.member_id, self.generation, self.leader = answer.member_id, answer.generation_id, answer.leader
            self.joined = answer
        return errors(answer)

    def sync(self, version: int = 5, assignments: dict[str, bytes] | None = None) -> Any:
        return self.wire.call(Key.SYNC_GROUP, version, **self.sync_fields(assignments or {}))

    def sync_fields(self, assignments: dict[str, bytes]) -> dict[str, Any]:
        return {
            **self.fields,
            "generation_id": self.generation,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": who, "assignment": what} for who, what in assignments.items()],
        }

    def heartbeat(self, version: int = 4) -> set[str]:
        return errors(self.wire.call(Key.HEARTBEAT, version, **self.fields, generation_id=self.generation))

    def leave(self, version: int = 5) -> set[str]:
        fields: dict[str, Any] = {"group_id": self.group}
        if version < 3:
            fields["member_id"] = self.member_id
        else:
            fields["members"] = [{"member_id": self.member_id, "group_instance_id": self.instance_id}]
        return errors(self.wire.call(Key.LEAVE_GROUP, version, **fields))

    def commit(self, topic: str, offset: int, version: int = 8, metadata: str = "") -> set[str]:
        fields = {
            **self.fields,
            "generation_id_or_member_epoch": self.generation,
            "topics": offset_topics({(topic, 0): offset}, metadata),
        }
        return errors(self.wire.call(Key.OFFSET_COMMIT, version, **fields))


def served_group(wire: Wire) -> str:
    """The name of a group whose coordinator is there: Apache Kafka creates it when a client first looks for it."""
    name = unique("group")

    def is_served() -> bool:
        found = wire.call(Key.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[name])
        return not errors(found) and not errors(wire.call(Key.DESCRIBE_GROUPS, 5, groups=[name]))

    wait_until(is_served, "the group has a coordinator")
    return name
