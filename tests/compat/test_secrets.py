"""Nothing that Spark or we show has a secret in it: plans, logs, errors, progress, UI, event log, checkpoint."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from fencepost.client.admin import NewTopic, create_topics
from fencepost.lab.kit.servers import LAB_SETTINGS, Ours
from fencepost.security.authority import Authority
from fencepost.security.names import Protocol
from tests import logins
from tests.compat.secrets_job import Plan
from tests.conftest import ROOT

VARIABLE = "FENCEPOST_TEST_PASSWORD"
JAAS = "kafka.sasl.jaas.config"
CLIENT_SECRET = "kafka.sasl.oauthbearer.client.credentials.client.secret"
CANARY = "a-client-id-to-be-seen"
OTHER_SECRETS = {
    CLIENT_SECRET: "of-the-client-credentials",
    "kafka.ssl.truststore.password": "of-the-truststore",
    "kafka.ssl.keystore.password": "of-the-keystore",
    "kafka.ssl.key.password": "of-the-key",
}


@pytest.mark.timeout(600)
def test_no_secret_is_seen_anywhere(tmp_path: Path) -> None:
    with Ours(tmp_path / "broker", LAB_SETTINGS, security=Protocol.SASL_SSL) as broker:
        broker.start()
        logins.remember(broker.bootstrap, broker.security)
        password = broker.security.user_and_password()[1]
        home = tmp_path / "spark"
        home.mkdir()
        plan = _plan(home, {**logins.spark(broker.bootstrap), "kafka.client.id": CANARY}, password)
        with logins.cluster(broker.bootstrap) as cluster:
            create_topics(cluster, {name: NewTopic(2) for name in plan.topics})
        done = subprocess.run(
            [sys.executable, "-m", "tests.compat.secrets_job"],
            input=json.dumps(asdict(plan)),
            env={**os.environ, VARIABLE: password},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-5000:]
    (home / "seen" / "said").write_text(said)
    key = plan.wrong["a private key"]["kafka.ssl.keystore.key"].splitlines()[1]
    secrets = [password, f"{password}x", key, *OTHER_SECRETS.values()]
    texts = {str(path.relative_to(home)): path.read_text("latin-1") for path in home.rglob("*") if path.is_file()}
    leaks = [(name, secret, text.index(secret)) for secret in secrets for name, text in texts.items() if secret in text]
    assert not leaks
    _assert_something_was_seen(texts)


def _plan(home: Path, literal: dict[str, str], password: str) -> Plan:
    literal = {**literal, **OTHER_SECRETS}
    reference = {**literal, JAAS: literal[JAAS].replace(password, f"${{env:{VARIABLE}}}")}
    key = Authority().issue("somebody").key_pem()
    wrong = {
        "a wrong password": {**literal, JAAS: literal[JAAS].replace(password, f"{password}x")},
        "a broken login": {**literal, JAAS: literal[JAAS].replace("required", "")},
        "a private key": {**literal, "kafka.ssl.keystore.key": key},
    }
    return Plan(str(home), {"literal": literal, "reference": reference}, wrong, ("in", "out"))


def _assert_something_was_seen(texts: dict[str, str]) -> None:
    """Of what is not secret: so the search was in the right places."""
    for name in ("literal", "reference"):
        assert CANARY in texts[f"seen/{name} plan"]
        assert texts[f"seen/{name} progress"].count("numInputRows") >= 2
        assert "spoiled" in texts[f"seen/{name} batch"]
        assert any(f"checkpoint-{name}/offsets" in each for each in texts)
    assert "refused the SCRAM-SHA-512 login" in texts["seen/a wrong password stream"]
    assert "would be shown in plans" in texts["seen/a private key read"]
    assert "numInputRows" in texts["seen/listener"]
    (sql,) = [text for name, text in texts.items() if name.startswith("seen/page api") and name.endswith("_sql")]
    for text in (sql, texts["seen/page of executions"]):
        assert "MapInArrow" in text
    assert "reference" in texts["seen/page StreamingQuery_"]
    (events,) = [text for name, text in texts.items() if "/events_1_" in name]
    assert "SparkListenerSQLExecutionStart" in events
    assert " DEBUG " in texts["spark.log"]
