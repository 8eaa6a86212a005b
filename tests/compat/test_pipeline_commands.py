"""`fencepost pipeline` and Kafka's own tools see the same, on our broker and on Apache Kafka."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.harness import brokers
from fencepost.lab.kit.servers import SHORT_CYCLES, Server
from tests import logins
from tests.compat.tools import Tool, table
from tests.conftest import wanted_security
from tests.operate.pipelines import ByHand, asked, run


@pytest.fixture(scope="module", params=["fencepost", "kafka"])
def either(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Iterator[Server]:
    with brokers.running(request.param, SHORT_CYCLES, wanted_security(pytestconfig)) as running:
        logins.remember(running.bootstrap, running.security)
        yield running


def offsets(tool: Tool, group: str) -> dict[str, tuple[str, str]]:
    """The group's offsets and lag, by partition."""
    rows = table(tool("consumer-groups", "--describe", "--group", group, "--offsets"), separator=r"\s+")
    return {row["PARTITION"]: (row["CURRENT-OFFSET"], row["LAG"]) for row in rows}


def test_the_tools_agree_from_the_first_look_to_the_deletion(either: Server, tmp_path: Path) -> None:
    tool = Tool.of(either, tmp_path)
    with logins.cluster(either.bootstrap) as cluster:
        shop = ByHand(cluster, either.bootstrap, partitions=2, stateful=True)
        shop.fill("a", "b", "c")
        shop.fill("d", partition=1)
        shop.batch({"a": "1"})
        assert offsets(tool, shop.name) == {"0": ("3", "0"), "1": ("1", "0")}

        state = tool("transactions", "describe", "--transactional-id", f"fencepost-{shop.name}")
        found = asked(either.bootstrap, "describe", shop.name)["transaction"]
        assert str(found["producer_id"]) in state
        assert found["state"] in state

        shop.fill("e")
        shop.fill_in_transaction("f", commit=False)
        assert offsets(tool, shop.name)["0"] == ("3", "3"), "Kafka counts aborted records and markers"
        assert asked(either.bootstrap, "lag", shop.name)["records"] == 1

        done = run(either.bootstrap, "reset", shop.name, "--to", "earliest", "--state", "drop", "--force")
        assert done.exit_code == 0, done.output
        assert {where: each[0] for where, each in offsets(tool, shop.name).items()} == {"0": "0", "1": "0"}
        printed = tool(
            *("console-consumer", "--topic", shop.changelog, "--from-beginning", "--isolation-level", "read_committed"),
            *("--property", "print.key=true", "--max-messages", "2", "--timeout-ms", "30000"),
        )
        assert printed.split() == ["a", "1", "a", "null"], "a tombstone follows"

        assert run(either.bootstrap, "delete", shop.name, "--yes", "--force").exit_code == 0
        assert shop.name not in tool("consumer-groups", "--list").split()
        topics = tool("topics", "--list").split()
        assert shop.topic in topics
        assert shop.changelog not in topics
