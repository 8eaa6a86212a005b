"""The console on a secured Apache Kafka (`--apache-kafka`), or ours: it names what hangs, and ends it.

Its other tests run on Apache Kafka, too: `pytest tests/console --thorough --apache-kafka`.
"""

import pytest
from confluent_kafka.admin import AdminClient

from fencepost.security.names import Protocol
from tests import logins
from tests.conftest import topic_maker
from tests.console.web import make_log, opened
from tests.observe import stuck

pytest.importorskip("starlette", reason="needs fencepost[console]")


@pytest.mark.parametrize("security", [None, Protocol.SASL_SSL], ids=["plaintext", "SASL_SSL"])
def test_a_log_is_shown_and_what_hangs_is_ended(start_server, security: Protocol | None):
    server = start_server(stuck.TRUSTING, security)
    bootstrap = server.bootstrap
    logins.remember(bootstrap, server.security)
    topic = topic_maker(AdminClient(logins.confluent(bootstrap)))
    with opened(bootstrap, "--allow-changes") as page:
        name = topic()
        producer = make_log(page, bootstrap, name)
        kinds = [each["outcome"] for each in page.ask("strip", topic=name, start=0)["batches"]]
        assert kinds == ["committed", "commit", "plain", "aborted", "abort", "open", "plain"]
        producer.abort_transaction(30)
        other = topic()
        stuck.write(bootstrap, other, "first")
        stuck.leave_hanging(bootstrap, other)
        assert page.ask("why", topic=other)["holds"][0]["cause"] == "hanging"
        plan = page.ask("abort/plan", topic=other, partition=0)
        wanted = {"topic": other, "partition": 0, "producer": plan["producer"], "epoch": plan["epoch"]}
        assert page.change("abort", wanted).found["proven"]
        assert page.ask("why", topic=other)["verdict"] == "clear"
