"""How a command is told about a cluster: `--bootstrap`, `--command-config` and `-X` are one value, or one message."""

import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from fencepost.cli.options import check_secure, check_target, cluster_options
from fencepost.security.authority import Authority

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{}";'
SECRET = "s3cr3t-of-alice"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The properties file of docs/security.md, with an authority that it names, and some that are wrong."""
    (tmp_path / "authority.pem").write_text(Authority().certificate_pem())
    (told,) = re.findall(r"```properties\n# client\.properties\n(.*?)```", PAGE.read_text(), re.DOTALL)
    text = told.replace("/etc/kafka/authority.pem", str(tmp_path / "authority.pem")) + "acks = all\n"
    (tmp_path / "client.properties").write_text(text)
    (tmp_path / "empty.properties").write_text("")
    (tmp_path / "wrong.properties").write_text(f"security.protocol=\\u12zz {SECRET}\n")
    (tmp_path / "latin.properties").write_bytes(f"sasl.jaas.config=\xe4 {SECRET}\n".encode("latin-1"))
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str, default: str | None = None) -> Result:
    @click.command()
    @cluster_options("The cluster.", default=default)
    def command(cluster: dict[str, str] | None) -> None:
        print(json.dumps(cluster))

    result = CliRunner().invoke(command, words)
    assert result.exit_code in (0, 2), result.exception
    return result


def cluster(*words: str, default: str | None = None) -> dict[str, str] | None:
    result = run(*words, default=default)
    assert result.exit_code == 0, result.output
    found: dict[str, str] | None = json.loads(result.output)
    return found


def test_a_file_says_where_the_cluster_is_and_how_to_connect(files: Path):
    assert cluster("--command-config", "client.properties") == {
        "bootstrap.servers": "kafka.example.org:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": LOGIN.format("${env:KAFKA_PASSWORD}"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files / "authority.pem"),
    }


def test_x_wins_over_the_file_and_bootstrap_over_both(files: Path):
    words = ("--command-config", "client.properties", "-X", "sasl.mechanism=SCRAM-SHA-256")
    found = cluster(*words, "-X", "bootstrap.servers=a:1", "-X", "client.id=me")
    assert found is not None
    assert (found["sasl.mechanism"], found["bootstrap.servers"], found["client.id"]) == ("SCRAM-SHA-256", "a:1", "me")
    assert (cluster(*words, "--bootstrap", "b:2", "-X", "bootstrap.servers=a:1") or {})["bootstrap.servers"] == "b:2"


def test_without_any_of_them_there_is_no_cluster_or_the_default(files: Path):
    assert cluster() is None
    assert cluster("--command-config", "empty.properties") is None
    assert cluster(default="localhost:9092") == {"bootstrap.servers": "localhost:9092"}
    assert cluster("--bootstrap", "a:1", default="localhost:9092") == {"bootstrap.servers": "a:1"}


PLAIN = ("-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-X", "security.protocol=SSL"), "security.protocol: which cluster is that for? Give --bootstrap HOST:PORT"),
        (("--bootstrap", "a:x"), "'a:x' is not HOST:PORT"),
        (("--bootstrap", "a:1", "-X", SECRET), "-X takes NAME=VALUE"),
        (("--command-config", "missing.properties"), "'missing.properties' does not exist"),
        (("--command-config", "wrong.properties"), "wrong.properties is not a properties file in UTF-8"),
        (("--command-config", "latin.properties"), "latin.properties is not a properties file in UTF-8"),
        (("--bootstrap", "a:1", "-X", "ssl.truststore.locatio=b"), "did you mean ssl.truststore.location?"),
        (("--bootstrap", "a:1", "-X", "security.protocl=SSL"), "did you mean security.protocol?"),
        (("--bootstrap", "a:1", "-X", "sasl.password=" + SECRET), "sasl.password is librdkafka's name; Kafka's is"),
        (
            ("--bootstrap", "a:1", "-X", "sasl.mechanism=PLAIN"),
            "security.protocol is missing: without it sasl.mechanism has no effect. Set it to SSL, SASL_PLAINTEXT,",
        ),
        (
            ("--bootstrap", "a:1", "-X", "security.protocol=SSL", "-X", "ssl.truststore.location=no.pem"),
            "no.pem: No such file",
        ),
        (
            ("--bootstrap", "a:1", *PLAIN, "-X", "sasl.jaas.config=PlainLoginModule required password=${env:NOBODY};"),
            "${env:NOBODY} cannot be resolved on this machine",
        ),
        (
            ("--bootstrap", "a:1", *PLAIN, "-X", f"sasl.jaas.config=PlainLoginModule required password={SECRET};"),
            "sasl.jaas.config must give username and password",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_a_usage_error_that_says_what_to_change(files: Path, words: tuple[str, ...], message: str):
    result = run(*words)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert SECRET not in result.output


def test_secure_is_for_brokers_that_the_command_starts():
    for check in (
        lambda: check_secure({"bootstrap.servers": "a:1"}, secure=True),
        lambda: check_target({"bootstrap.servers": "a:1"}, None, secure=True),
    ):
        with pytest.raises(click.UsageError, match="describe your cluster with --command-config or -X"):
            check()
    with pytest.raises(click.UsageError, match="either --bootstrap or --kafka-lib"):
        check_target({"bootstrap.servers": "a:1"}, Path("lib"), secure=False)
    check_secure(None, secure=True)
    check_target(None, Path("lib"), secure=True)
