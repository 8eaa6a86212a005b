"""A client's security settings: Kafka's names, references, and what is answered to others."""

import pickle
from pathlib import Path

import pytest

from fencepost.errors import ConfigError
from fencepost.security import plain, variables
from fencepost.security.settings import ClientSecurity

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGIN = f'{PLAIN} required username="alice" password="hunter2";'
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": LOGIN}


@pytest.mark.parametrize(
    ("protocol", "tls", "sasl"),
    [("PLAINTEXT", False, False), ("ssl", True, False), ("SASL_PLAINTEXT", False, True), (" sasl_ssl ", True, True)],
)
def test_the_protocol_says_what_a_connection_begins_with(protocol: str, tls: bool, sasl: bool) -> None:
    security = ClientSecurity.parse({**SASL, "security.protocol": protocol})
    assert (security.protocol.uses_tls, security.protocol.uses_sasl) == (tls, sasl)


def test_a_shaded_login_module_is_the_same_module() -> None:
    for package in ("kafkashaded.org.apache.kafka.common.security.plain.", "", "x."):
        login = f'{package}PlainLoginModule required username="alice" password="p";'
        conversation = ClientSecurity.parse({**SASL, "sasl.jaas.config": login}).converse("localhost")
        assert plain.decode(next(conversation)) == ("", "alice", "p")


def test_settings_that_have_nothing_to_do_with_security_are_passed_over() -> None:
    assert ClientSecurity.parse({"bootstrap.servers": "h:1", "linger.ms": 5}) == ClientSecurity()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (
            {"security.protocol": "TLS"},
            "security.protocol must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not 'TLS'",
        ),
        ({"security.protocol": "${env:X}"}, "security.protocol cannot be a reference"),
        ({"sasl.mechanism": "AWS_MSK_IAM"}, "sasl.mechanism must be one of PLAIN, .*OAUTHBEARER"),
        ({"sasl.mechanism": None}, "sasl.mechanism is missing"),
        ({"sasl.jaas.config": None}, "sasl.jaas.config is missing; for PLAIN it names PlainLoginModule"),
        ({"sasl.mechanism": "GSSAPI"}, "names .*PlainLoginModule; GSSAPI needs Krb5LoginModule"),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, "names .*PlainLoginModule; SCRAM-SHA-256 needs ScramLoginModule"),
        ({"sasl.jaas.config": f'{PLAIN} required username="a";'}, "must give username and password"),
        (
            {"sasl.mechanism": "OAUTHBEARER"},
            r"OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url .* or token_provider",
        ),
        ({"sasl.mechanisms": "PLAIN"}, "sasl.mechanisms is librdkafka's name; Kafka's is sasl.mechanism"),
        ({"ssl.ca.location": "ca.pem"}, "Kafka's is ssl.truststore.location, with ssl.truststore.type=PEM"),
        ({"sasl.username": "alice"}, 'Kafka\'s is sasl.jaas.config, with username="..."'),
        ({"enable.ssl.certificate.verification": "false"}, "Kafka's is ssl.truststore.location"),
        (
            {"ssl.truststore.lcoation": "x"},
            "Kafka has no setting ssl.truststore.lcoation; did you mean ssl.truststore.location?",
        ),
        ({"ssl.truststore.type": "BKS"}, "must be one of PEM, PKCS12, JKS, not 'BKS'"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.1: only TLSv1.2 and TLSv1.3 are supported"),
        ({"ssl.endpoint.identification.algorithm": "LDAPS"}, "must be https, or empty"),
        ({"ssl.engine.factory.class": "com.example.Factory"}, "it names a Java class. Give certificates with"),
        (
            {"sasl.login.callback.handler.class": "com.example.Handler"},
            "Java class. For OAUTHBEARER set token_provider=",
        ),
        ({"sasl.oauthbearer.assertion.file": "/x"}, "is not supported: set token_provider="),
        ({"config.providers.vault.class": "com.example.Vault"}, r"names a Java class; \$\{env:...\}"),
        ({"sasl.login.read.timeout.ms": "soon"}, "must be a number, not 'soon'"),
    ],
)
def test_says_what_to_change(given: dict[str, str | None], error: str) -> None:
    with pytest.raises(ConfigError, match=error) as caught:
        ClientSecurity.parse({**SASL, **given})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"sasl.login.callback.handler.class": "org.apache.kafka.common.OAuthBearerLoginCallbackHandler"},
        {"config.providers": "env", "config.providers.env.class": next(iter(variables.JAVA_CLASSES))},
        {"ssl.protocol": "TLSv1.3", "ssl.provider": "SunJSSE"},
    ],
)
def test_what_names_java_but_changes_nothing_is_accepted(given: dict[str, str]) -> None:
    ClientSecurity.parse({**SASL, **given})


def test_references_travel_unresolved_and_secrets_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    login = f'{PLAIN} required username="alice" password="${{env:KAFKA_PASSWORD}}";'
    security = ClientSecurity.parse({**SASL, "sasl.jaas.config": login})
    travelled = pickle.dumps(security)
    assert b"${env:KAFKA_PASSWORD}" in travelled
    assert "alice" not in repr(security)
    monkeypatch.setenv("KAFKA_PASSWORD", "there")
    assert plain.decode(next(pickle.loads(travelled).converse("localhost")))[2] == "there"


def test_references_are_resolved_from_the_environment_files_and_directories(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("# comment\nkey\\ one = va:lue\\u0021\nother=x\n")
    (tmp_path / "mounted").write_text("line\n")
    environ = {"A": "1", "B": "2"}
    for text, value in [
        ("no reference", "no reference"),
        ("${env:A}-${env:B}", "1-2"),
        (f"${{file:{tmp_path}/secrets.properties:key one}}", "va:lue!"),
        (f"${{dir:{tmp_path}:mounted}}", "line\n"),
        ("${vault:x}", "${vault:x}"),
    ]:
        assert variables.resolve("name", text, environ) == value


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "${env:NONE}",
            r"sasl.jaas.config: \$\{env:NONE\} cannot be resolved on this machine: the environment has no such",
        ),
        ("${file:/no/such:key}", "cannot be resolved on this machine: No such file"),
        ("${file:{tmp}/f:none}", "the file has no such key"),
        ("${file:{tmp}/bad:k}", "not as it must be"),
        ("${dir:{tmp}:none}", "No such file"),
        ("${dir:{tmp}:../f}", "must be a file in that directory"),
        ("${dir:{tmp}:large}", "more than 1048576"),
    ],
)
def test_a_reference_that_leads_nowhere_is_an_error(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "f").write_text("key=secret")
    (tmp_path / "bad").write_bytes(b"k=\\u12 secret\xff")
    (tmp_path / "large").write_bytes(bytes(variables.MAX_FILE_BYTES + 1))
    with pytest.raises(ConfigError, match=error) as caught:
        variables.resolve("sasl.jaas.config", text.replace("{tmp}", str(tmp_path)), {})
    assert "secret" not in str(caught.value).replace(str(tmp_path), "")
