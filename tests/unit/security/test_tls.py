"""Certificates in every format, and what a TLS connection made with them accepts and refuses."""

import datetime
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from fencepost.client.authentication import tls_failure
from fencepost.errors import ConfigError
from fencepost.security import tls
from fencepost.security.authority import Authority, Certified
from fencepost.security.settings import ClientSecurity
from fencepost.security.stores import Identity
from fencepost.wire.terms import Address
from tests.unit.security.handshakes import handshake

BOTH = ("TLSv1.2", "TLSv1.3")


def server(
    who: Certified, trust: str | None = None, auth: str = "none", versions: tuple[str, ...] = BOTH
) -> ssl.SSLContext:
    return tls.server_context(trust, Identity(who.key_pem(), who.certificate_pem()), versions, (), auth)


def client(**given: str) -> ssl.SSLContext:
    settings = {name.replace("_", "."): value for name, value in given.items()}
    return ClientSecurity.parse({"security.protocol": "SSL", **settings}).tls().context


def subject_of(end: ssl.SSLObject) -> str:
    certificate = end.getpeercert()
    assert certificate
    return str(dict(pair[0] for pair in certificate["subject"])["commonName"])  # type: ignore[index, misc]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, authority: Authority, alice: Certified) -> Path:
    where = tmp_path_factory.mktemp("stores")
    (where / "trust.pem").write_text("# a comment\n" + authority.certificate_pem())
    (where / "trust.p12").write_bytes(authority.truststore("changeit"))
    (where / "me.pem").write_text(alice.key_pem() + alice.certificate_pem())
    (where / "me-encrypted.pem").write_text(alice.certificate_pem() + alice.key_pem("keypass"))
    (where / "me.p12").write_bytes(alice.pkcs12("changeit"))
    return where


@pytest.fixture(scope="module")
def jks_files(files: Path) -> Path:
    keytool = shutil.which("keytool")
    if keytool is None:
        pytest.skip("needs Java's keytool")
    common = ["-noprompt", "-deststoretype", "JKS", "-srcstorepass", "changeit", "-deststorepass", "changeit"]
    source = ["-importkeystore", "-srckeystore", str(files / "me.p12"), "-srcstoretype", "PKCS12"]
    alias = ["-alias", "fencepost", "-destkeypass", "keypass"]
    subprocess.run([keytool, *source, *alias, *common, "-destkeystore", str(files / "me.jks")], check=True)
    trust = ["-importcert", "-noprompt", "-file", str(files / "trust.pem"), "-alias", "ca", "-storetype", "JKS"]
    subprocess.run([keytool, *trust, "-storepass", "changeit", "-keystore", str(files / "trust.jks")], check=True)
    return files


TRUST = [("trust.pem", ""), ("trust.p12", "changeit"), ("trust.jks", "changeit"), ("trust.jks", "")]
IDENTITIES = [
    ("me.pem", "", ""),
    ("me-encrypted.pem", "", "keypass"),
    ("me.p12", "changeit", ""),
    ("me.jks", "changeit", "keypass"),
]


@pytest.mark.parametrize(("trust", "trust_password"), TRUST)
@pytest.mark.parametrize(("identity", "password", "key_password"), IDENTITIES)
def test_every_format_makes_the_same_connection(
    jks_files: Path, authority: Authority, broker: Certified,
    trust: str, trust_password: str, identity: str, password: str, key_password: str,
) -> None:  # fmt: skip
    context = client(
        ssl_truststore_location=str(jks_files / trust),
        ssl_truststore_password=trust_password,
        ssl_keystore_location=str(jks_files / identity),
        ssl_keystore_password=password,
        ssl_key_password=key_password,
    )
    one, other = handshake(context, server(broker, authority.certificate_pem(), "required"))
    assert (subject_of(one), subject_of(other)) == ("broker", "alice")


def test_pem_may_stand_in_the_settings_even_without_its_line_ends(
    authority: Authority, broker: Certified, alice: Certified
) -> None:
    one_line = {
        "ssl_truststore_certificates": authority.certificate_pem().replace("\n", " "),
        "ssl_keystore_key": alice.key_pem().replace("\n", ""),
        "ssl_keystore_certificate_chain": alice.certificate_pem().replace("\n", " "),
    }
    _, other = handshake(client(**one_line), server(broker, authority.certificate_pem(), "required"))
    assert subject_of(other) == "alice"


def test_a_broker_is_refused_that_the_client_cannot_trust(authority: Authority, broker: Certified) -> None:
    trusting = {"ssl_truststore_certificates": authority.certificate_pem()}
    stranger = Authority("stranger").issue("broker", ["localhost"])
    expired = authority.issue("broker", ["localhost"], lasts=datetime.timedelta(hours=-2))
    for who, host, error, advice in [
        (stranger, "localhost", "unable to get local issuer certificate", "put the authority that issued it into ssl."),
        (expired, "localhost", "certificate has expired", "renew it, or set this machine's clock"),
        (broker, "example.org", "Hostname mismatch, certificate is not valid for 'example.org'", "connect to a name"),
        (broker, "10.0.0.1", "IP address mismatch, certificate is not valid for '10.0.0.1'", "connect to a name"),
    ]:
        with pytest.raises(ssl.SSLCertVerificationError) as caught:
            handshake(client(**trusting), server(who), host)
        said = str(tls_failure(Address(host, 9093), caught.value))
        assert error in said
        assert advice in said
    anywhere = client(**trusting, ssl_endpoint_identification_algorithm="")
    handshake(anywhere, server(broker), "example.org")


def test_a_client_without_a_certificate_is_refused_where_one_is_required(
    authority: Authority, broker: Certified
) -> None:
    trusting = client(ssl_truststore_certificates=authority.certificate_pem())
    for auth in ("none", "requested"):
        handshake(trusting, server(broker, authority.certificate_pem(), auth))
    with pytest.raises(ssl.SSLError):
        handshake(trusting, server(broker, authority.certificate_pem(), "required"))


@pytest.mark.parametrize("version", BOTH)
def test_versions_are_kept(authority: Authority, broker: Certified, version: str) -> None:
    trust = authority.certificate_pem()
    one, _ = handshake(client(ssl_truststore_certificates=trust, ssl_enabled_protocols=version), server(broker))
    assert one.version() == version
    other = [each for each in BOTH if each != version]
    with pytest.raises(ssl.SSLError):
        handshake(
            client(ssl_truststore_certificates=trust, ssl_enabled_protocols=version),
            server(broker, versions=tuple(other)),
        )


def test_cipher_suites_have_javas_names(authority: Authority, broker: Certified) -> None:
    trust = authority.certificate_pem()
    suite = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    limited = client(ssl_truststore_certificates=trust, ssl_enabled_protocols="TLSv1.2", ssl_cipher_suites=suite)
    one, _ = handshake(limited, server(broker))
    assert one.cipher()[0] == "ECDHE-ECDSA-CHACHA20-POLY1305"  # type: ignore[index]
    assert tls.check_suite(one, [suite]) is None
    assert "agreed on ECDHE-ECDSA-CHACHA20-POLY1305" in str(tls.check_suite(one, ["TLS_AES_128_GCM_SHA256"]))
    older = client(ssl_truststore_certificates=trust, ssl_cipher_suites=suite)  # what is not listed is not agreed on
    assert handshake(older, server(broker))[0].version() == "TLSv1.2"
    newest = client(ssl_truststore_certificates=trust, ssl_cipher_suites="TLS_AES_256_GCM_SHA384")
    one, _ = handshake(newest, server(broker))
    assert (one.version(), tls.check_suite(one, ["TLS_AES_256_GCM_SHA384"])) == ("TLSv1.3", None)
    with pytest.raises(ConfigError, match="OpenSSL knows none of TLS_NO_WITH_SUCH_SUITE"):
        client(ssl_truststore_certificates=trust, ssl_cipher_suites="TLS_NO_WITH_SUCH_SUITE")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"ssl_truststore_location": "{files}/none.pem"}, r"ssl.truststore.location=.*none.pem: No such file"),
        (
            {"ssl_truststore_location": "{files}/trust.p12", "ssl_truststore_password": "wrong"},
            "the password is wrong, or",
        ),
        (
            {"ssl_truststore_location": "{files}/trust.jks", "ssl_truststore_password": "wrong"},
            "the password is wrong, or",
        ),
        ({"ssl_truststore_certificates": "no certificate"}, "the password is wrong, or this is no PEM"),
        (
            {"ssl_truststore_certificates": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"},
            "cannot be read",
        ),
        ({"ssl_keystore_location": "{files}/trust.pem"}, "holds no private key"),
        ({"ssl_keystore_location": "{files}/trust.p12", "ssl_keystore_password": "changeit"}, "holds no private key"),
        ({"ssl_keystore_location": "{files}/trust.jks", "ssl_keystore_password": "changeit"}, "holds no private key"),
        ({"ssl_keystore_location": "{files}/me-encrypted.pem"}, "the private key is encrypted; set ssl.key.password"),
        ({"ssl_keystore_location": "{files}/me-encrypted.pem", "ssl_key_password": "w"}, "is ssl.key.password wrong"),
        (
            {"ssl_keystore_location": "{files}/me.jks", "ssl_keystore_password": "changeit"},
            "password of the private key",
        ),
        ({"ssl_keystore_key": "{key}", "ssl_keystore_certificate_chain": ""}, "certificate .* is missing"),
    ],
)
def test_says_what_is_wrong_with_a_store(jks_files: Path, alice: Certified, given: dict[str, str], error: str) -> None:
    filled = {name: value.format(files=jks_files, key=alice.key_pem()) for name, value in given.items()}
    with pytest.raises(ConfigError, match=error) as caught:
        client(**filled)
    assert "PRIVATE KEY-" not in str(caught.value)


def test_a_renewed_certificate_is_read_again(tmp_path: Path, authority: Authority, broker: Certified) -> None:
    path = tmp_path / "trust.pem"
    path.write_text(Authority("old").certificate_pem())
    security = ClientSecurity.parse({"security.protocol": "SSL", "ssl.truststore.location": str(path)})
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(security.tls().context, server(broker))
    assert security.tls().context is security.tls().context
    replacement = tmp_path / "new.pem"
    replacement.write_text(authority.certificate_pem())
    replacement.replace(path)
    handshake(security.tls().context, server(broker))
