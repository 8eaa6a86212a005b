"""The page on security: every block runs, here or where Spark or Java is."""

import re
import shlex
import sys
import threading
import types
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import javaproperties
import jwt
import pytest

from fencepost.cli.main import main
from fencepost.client.admin import NewTopic, create_topics
from fencepost.client.cluster import Cluster
from fencepost.lab.kit.servers import free_ports
from fencepost.security.authority import Authority
from tests.commands import fencepost
from tests.conftest import ROOT
from tests.pages import SECURITY, block, blocks
from tests.security.conftest import PASSWORD, Secured
from tests.security.test_connections import ask
from tests.security.test_one_step import up
from tests.unit.security.test_tokens import Endpoint

#: Where the blocks of the page are run.
RUNNERS = [ROOT / "tests" / where / "test_security_page.py" for where in ("security", "spark", "compat")]
RUNNERS += [ROOT / "tests" / "compat" / f"test_{name}.py" for name in ("acl_tools", "least_rights")]
METADATA = 3


#: In a login module's options, where the reference to it is replaced before they are read.
ESCAPED = PASSWORD.replace('"', '\\"')


def connect(secured: Secured, protocol: str, properties: str) -> None:
    """With the settings of a block, and the address that it leaves out."""
    settings = javaproperties.loads(properties)
    assert ask({"bootstrap.servers": f"localhost:{secured.ports[protocol]}", **settings}) == 1


def test_every_block_has_a_name_and_a_test_that_runs_it() -> None:
    nameless = [each.text for each in blocks() if each.name is None]
    assert not nameless, f"{SECURITY.name}: put <!-- runs: NAME --> in front of a block, and a test into {RUNNERS}"
    run = re.findall(r'block\("([\w-]+)"\)', "".join(path.read_text() for path in RUNNERS))
    assert sorted(run) == sorted(str(each.name) for each in blocks())


def test_client_certificates(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pipeline.p12").write_bytes(secured.authority.issue("alice").pkcs12("changeit"))
    monkeypatch.setenv("KEYSTORE_PASSWORD", "changeit")
    places = {
        "/etc/kafka/pipeline.p12": tmp_path / "pipeline.p12",
        "/etc/kafka/authority.pem": secured.home / "authority.pem",
    }
    connect(secured, "SSL", block("certificates").filled(places))


@pytest.fixture
def endpoint(secured: Secured) -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        server.answers = [(200, {"access_token": token_of(secured), "expires_in": 600})]
        yield server
        server.shutdown()
        thread.join()


def token_of(secured: Secured) -> str:
    claims = {"sub": "alice", "aud": "kafka", "exp": 4_000_000_000}
    return jwt.encode(claims, secured.signing_key, algorithm="RS256", headers={"kid": "known"})


def test_oauth_with_client_credentials(secured: Secured, tmp_path: Path, endpoint: Endpoint) -> None:
    (tmp_path / "secrets.properties").write_text("secret=s3cret\n")
    places = {
        "https://login.example.org/token": endpoint.url,
        "/etc/kafka/secrets.properties": tmp_path / "secrets.properties",
        "/etc/kafka/authority.pem": secured.home / "authority.pem",
    }
    connect(secured, "SASL_SSL", block("oauth").filled(places))
    assert endpoint.asked == [("pipeline:s3cret", {"grant_type": ["client_credentials"], "scope": ["kafka"]})]


def test_oauth_with_a_function(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signer is a stand-in with the signature of the real one, which needs an account."""
    asked: list[str] = []

    class MSKAuthTokenProvider:
        @staticmethod
        def generate_auth_token(region: str) -> tuple[str, int]:
            asked.append(region)
            return token_of(secured), 4_000_000_000_000

    signer = types.ModuleType("aws_msk_iam_sasl_signer")
    signer.MSKAuthTokenProvider = MSKAuthTokenProvider  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, signer.__name__, signer)
    name = re.match(r"# (\w+)\.py\n", block("function").text)
    assert name is not None
    (tmp_path / f"{name[1]}.py").write_text(block_text := name.string)
    monkeypatch.syspath_prepend(tmp_path)
    (reference,) = re.findall(r'"token_provider", "(.*?)"', SECURITY.read_text())
    assert reference.partition(":")[0] == name[1] and f"def {reference.partition(':')[2]}(" in block_text
    settings = secured.settings("SASL_SSL", sasl_mechanism="OAUTHBEARER") | {"token_provider": reference}
    assert ask(settings) == 1
    assert asked == ["eu-central-1"]


def test_secrets_elsewhere(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_USER", "alice")
    (tmp_path / "secrets.properties").write_text(javaproperties.dumps({"password": ESCAPED}))
    (tmp_path / "ca.crt").write_text((secured.home / "authority.pem").read_text())
    places = {"/etc/kafka/secrets.properties": tmp_path / "secrets.properties", "/var/run/secrets/kafka": tmp_path}
    connect(secured, "SASL_SSL", block("secrets").filled(places))


def test_the_command_line(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shop itself needs Spark; its words are read, and given to the other command that connects in this way."""
    monkeypatch.setenv("KAFKA_PASSWORD", ESCAPED)
    here, file = f"localhost:{secured.ports['SASL_SSL']}", tmp_path / "client.properties"
    authority = secured.home / "authority.pem"
    config = block("command-config").filled({"kafka.example.org:9093": here, "/etc/kafka/authority.pem": authority})
    file.write_text(config)
    verify, shop = commands(block("commands").filled({"client.properties": file, "other.example.org:9093": here}))
    assert (verify[:2], shop[:2]) == (["fencepost", "verify"], ["fencepost", "shop"])
    for words in (verify[2:], shop[2:]):
        said = fencepost("verify", *words)
        assert "has no topic 'purchases'" in said.stdout + said.stderr, "it is logged in, and finds no shop"
    command = main.get_command(click.Context(main), "shop")
    assert command is not None
    assert command.make_context("shop", shop[2:]).params["command_config"] == file


def commands(text: str) -> list[list[str]]:
    return [shlex.split(line) for line in text.replace("\\\n", " ").splitlines()]


def test_a_laptop(tmp_path: Path) -> None:
    install, start = commands(block("laptop").filled({"DATA": tmp_path / "data"}))
    assert install == ["pip", "install", "fencepost[security]"]
    assert "\nsecurity = [" in (ROOT / "pyproject.toml").read_text()
    assert start[:2] == ["fencepost", "up"]
    with up(*start[2:]) as lines:
        settings = dict(re.findall(r"^  ([a-z.]+)=(.*)$", "\n".join(lines).partition("librdkafka")[0], re.MULTILINE))
        with closing(Cluster(settings)) as cluster:
            cluster.any()


def test_rights_and_the_log_of_denials(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (start,) = commands(block("authorizer").filled({"DATA": data}))
    with up(*start[2:], "--add-user", "bob=secret") as lines:
        printed = "\n".join(lines).partition("For Java")[2].partition("For librdkafka")[0]
        admin = javaproperties.loads(printed.partition("\n\n")[2])
        bob = 'ScramLoginModule required username="bob" password="secret";'
        with Cluster(admin) as cluster, Cluster({**admin, "sasl.jaas.config": bob}) as other:
            create_topics(cluster, {"orders": NewTopic(1)})
            other.any().call(METADATA, {"topics": [{"name": "orders"}], "allow_auto_topic_creation": False})
        said = (data / "authorizer.log").read_text()
    line = block("denials").filled({"10.0.0.7": "127.0.0.1", "=WRITE": "=DESCRIBE", "=Produce": "=Metadata"})
    assert re.fullmatch(re.sub(r"\d{4}.*?,\d{3}", r"[-\\d: ]+,\\d{3}", line), said)


def test_a_shared_machine(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    authority = Authority()
    certified = authority.issue("broker", ["localhost"])
    (tmp_path / "broker.pem").write_text(certified.key_pem() + certified.certificate_pem())
    (tmp_path / "authority.pem").write_text(authority.certificate_pem())
    plain, secured = free_ports(2)
    places = {
        "DATA": tmp_path / "data", "9092": plain, "9093": secured, "broker.pem": tmp_path / "broker.pem",
        "kafka.example.org": "localhost",
    }  # fmt: skip
    (start,) = commands(block("shared").filled(places))
    login = 'ScramLoginModule required username="admin" password="secret";'
    with up(*start[2:]):
        with Cluster(f"127.0.0.1:{plain}") as here:
            here.any()
        with Cluster(
            {
                "bootstrap.servers": f"localhost:{secured}",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": login,
                "ssl.truststore.location": str(tmp_path / "authority.pem"),
            }
        ) as elsewhere:
            elsewhere.any()
    assert "asks for no login" not in capfd.readouterr().err
