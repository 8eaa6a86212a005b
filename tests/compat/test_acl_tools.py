"""kafka-acls, with the rights of somebody who logs in."""

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compat import guarded
from tests.compat.tools import Tool

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
GUARDED = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_root="r" user_alice="a";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
}


@pytest.fixture
def acls(tmp_path: Path, kind: str) -> Iterator[Callable[..., str]]:
    """`acls("root", "--list")` runs kafka-acls as somebody; it must succeed unless `refused`."""
    server, users = guarded.make(kind, tmp_path / "server", GUARDED)
    tool = Tool(str(users))
    for user, password in (("root", "r"), ("alice", "a")):
        (tmp_path / user).write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={MODULE} required username="{user}" password="{password}";\n'
        )

    def run(user: str, *arguments: str, refused: bool = False) -> str:
        words = ("acls", "--command-config", str(tmp_path / user), *arguments)
        return tool.refused(*words) if refused else tool(*words)

    with server.start():
        yield run


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


def test_the_commands_in_the_documentation_do_what_it_says(acls: Callable[..., str]) -> None:
    page = Path("docs/security.md").read_text().replace("\\\n", " ")
    start = "kafka-acls --bootstrap-server localhost:9093 --command-config admin.properties "
    commands = [shlex.split(line.removeprefix(start)) for line in page.splitlines() if line.startswith(start)]
    printed = [acls("root", *command) for command in commands]
    producer = {f"TOPIC orders LITERAL alice {operation} ALLOW" for operation in ("WRITE", "DESCRIBE", "CREATE")}
    assert listed(printed[3]) == producer | {"TOPIC orders LITERAL bob WRITE DENY"}
    assert "TOPIC team-" not in "".join(listed(acls("root", "--list")))


def test_rights_are_given_listed_and_taken_away(acls: Callable[..., str]) -> None:
    acls("root", "--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders", "--idempotent",
         "--transactional-id", "tx")  # fmt: skip
    acls("root", "--add", "--allow-principal", "User:alice", "--consumer", "--topic", "team-", "--group", "g-",
         "--resource-pattern-type", "prefixed")  # fmt: skip
    acls("root", "--add", "--deny-principal", "User:bob", "--operation", "All", "--topic", "*")
    orders = {f"TOPIC orders LITERAL alice {operation} ALLOW" for operation in ("WRITE", "DESCRIBE", "CREATE")}
    assert listed(acls("root", "--list")) == {
        *orders,
        "TRANSACTIONAL_ID tx LITERAL alice WRITE ALLOW",
        "TRANSACTIONAL_ID tx LITERAL alice DESCRIBE ALLOW",
        "CLUSTER kafka-cluster LITERAL alice IDEMPOTENT_WRITE ALLOW",
        "TOPIC team- PREFIXED alice READ ALLOW",
        "TOPIC team- PREFIXED alice DESCRIBE ALLOW",
        "GROUP g- PREFIXED alice READ ALLOW",
        "TOPIC * LITERAL bob ALL DENY",
    }
    assert listed(acls("root", "--list", "--topic", "team-1", "--resource-pattern-type", "match")) == {
        "TOPIC team- PREFIXED alice READ ALLOW",
        "TOPIC team- PREFIXED alice DESCRIBE ALLOW",
        "TOPIC * LITERAL bob ALL DENY",
    }
    acls("root", "--remove", "--force", "--topic", "team-", "--resource-pattern-type", "prefixed")
    acls("root", "--remove", "--force", "--deny-principal", "User:bob", "--operation", "All", "--topic", "*")
    assert listed(acls("root", "--list", "--topic", "*", "--topic", "team-", "--topic", "orders")) == orders
    assert "ClusterAuthorizationException" in acls("alice", "--list", refused=True)
