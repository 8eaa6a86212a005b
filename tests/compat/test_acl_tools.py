"""kafka-acls, with the rights of somebody who logs in."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat import guarded
from tests.compat.tools import Tool
from tests.pages import block

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
GUARDED = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_root="r" user_alice="a";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
}


class Users:
    """Kafka's tools as somebody who logs in."""

    def __init__(self, tool: Tool, home: Path) -> None:
        self.tool = tool
        self._home = home
        for user, password in (("root", "r"), ("alice", "a")):
            Path(self.config(user)).write_text(
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
                f'sasl.jaas.config={MODULE} required username="{user}" password="{password}";\n'
            )

    def config(self, user: str) -> str:
        return str(self._home / f"{user}.properties")

    def acls(self, user: str, *arguments: str) -> str:
        return self.tool("acls", "--command-config", self.config(user), *arguments)


@pytest.fixture
def users(tmp_path: Path, kind: str) -> Iterator[Users]:
    server, address = guarded.make(kind, tmp_path / "server", GUARDED)
    with server.start():
        yield Users(Tool(str(address)), tmp_path)


def listed(printed: str) -> set[str]:
    """`TOPIC orders LITERAL alice READ ALLOW`, one for each ACL."""
    found, where = set(), ""
    for line in printed.splitlines():
        resource = re.search(r"ResourcePattern\(resourceType=(\w+), name=(.*?), patternType=(\w+)\)", line)
        entry = re.search(r"principal=User:(\S+), host=\*, operation=(\w+), permissionType=(\w+)", line)
        if resource is not None:
            where = " ".join(resource.groups())
        elif entry is not None:
            found.add(f"{where} {' '.join(entry.groups())}")
    return found


def test_the_commands_in_the_documentation_do_what_it_says(users: Users) -> None:
    page = block("acls").text.replace("\\\n", " ")
    start = "kafka-acls --bootstrap-server localhost:9093 --command-config admin.properties "
    commands = [shlex.split(line.removeprefix(start)) for line in page.splitlines() if line.startswith(start)]
    printed = [users.acls("root", *command) for command in commands]
    producer = {f"TOPIC orders LITERAL alice {operation} ALLOW" for operation in ("WRITE", "DESCRIBE", "CREATE")}
    assert listed(printed[3]) == producer | {"TOPIC orders LITERAL bob WRITE DENY"}
    assert "TOPIC team-" not in "".join(listed(users.acls("root", "--list")))


def test_rights_are_given_listed_and_taken_away(users: Users) -> None:
    users.acls("root", "--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders", "--idempotent",
         "--transactional-id", "tx")  # fmt: skip
    users.acls("root", "--add", "--allow-principal", "User:alice", "--consumer", "--topic", "team-", "--group", "g-",
         "--resource-pattern-type", "prefixed")  # fmt: skip
    users.acls("root", "--add", "--deny-principal", "User:bob", "--operation", "All", "--topic", "*")
    orders = {f"TOPIC orders LITERAL alice {operation} ALLOW" for operation in ("WRITE", "DESCRIBE", "CREATE")}
    assert listed(users.acls("root", "--list")) == {
        *orders,
        "TRANSACTIONAL_ID tx LITERAL alice WRITE ALLOW",
        "TRANSACTIONAL_ID tx LITERAL alice DESCRIBE ALLOW",
        "CLUSTER kafka-cluster LITERAL alice IDEMPOTENT_WRITE ALLOW",
        "TOPIC team- PREFIXED alice READ ALLOW",
        "TOPIC team- PREFIXED alice DESCRIBE ALLOW",
        "GROUP g- PREFIXED alice READ ALLOW",
        "TOPIC * LITERAL bob ALL DENY",
    }
    assert listed(users.acls("root", "--list", "--topic", "team-1", "--resource-pattern-type", "match")) == {
        "TOPIC team- PREFIXED alice READ ALLOW",
        "TOPIC team- PREFIXED alice DESCRIBE ALLOW",
        "TOPIC * LITERAL bob ALL DENY",
    }
    users.acls("root", "--remove", "--force", "--topic", "team-", "--resource-pattern-type", "prefixed")
    users.acls("root", "--remove", "--force", "--deny-principal", "User:bob", "--operation", "All", "--topic", "*")
    assert listed(users.acls("root", "--list", "--topic", "*", "--topic", "team-", "--topic", "orders")) == orders
    assert "ClusterAuthorizationException" in users.tool.refused(
        "acls", "--command-config", users.config("alice"), "--list"
    )


def test_what_the_conveniences_give_is_enough_for_the_console_tools_and_no_more(users: Users) -> None:
    given = ("--producer", "--consumer", "--topic", "orders", "--group", "readers")
    users.acls("root", "--add", "--allow-principal", "User:alice", *given)
    written = ("--producer.config", users.config("alice"), "--topic")
    users.tool("console-producer", *written, "orders", stdin="one\ntwo\n")
    reader = ("--consumer.config", users.config("alice"), "--group", "readers")
    read = users.tool("console-consumer", *reader, "--topic", "orders", "--from-beginning", "--max-messages", "2")
    assert read.splitlines() == ["one", "two"]
    refused = users.tool.run("console-producer", *written, "others", stdin="three\n")
    assert "TopicAuthorizationException" in refused.stdout + refused.stderr
