"""GSSAPI against MIT's KDC and Apache Kafka: tickets from a keytab and from a cache, their end, and every bad login."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.harness import java
from fencepost.client import Cluster
from fencepost.client.admin import NewTopic, create_topics
from fencepost.client.transaction import SharedTransaction
from fencepost.errors import AuthenticationFailed, ConfigError, ConnectionLost, FencepostError
from fencepost.lab.kit.java import SERVER
from fencepost.lab.kit.kafka import ApacheKafka
from fencepost.lab.kit.servers import FEW_PARTITIONS, HOST, SHORT_CYCLES, free_ports
from fencepost.security.authority import Authority
from fencepost.security.settings import ClientSecurity
from fencepost.spark import write_stream
from tests import quick_spark
from tests.client.support import read_settled, write
from tests.compat import kdc
from tests.compat.kdc import Kdc
from tests.conftest import wait_until

pytestmark = [pytest.mark.skipif(kdc.missing() is not None, reason=str(kdc.missing()))]

PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
METADATA = 3
MODULE = "com.sun.security.auth.module.Krb5LoginModule"
#: Short, so that a test sees several logins on a connection; Kafka refuses those in less than a second (KIP-368).
REAUTH_MS = 5000
NOT_OURS = r"does not belong to this login|a GSSAPI message of 70000 bytes"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """Seen by this process, and by those that it starts."""
    with Kdc(tmp_path_factory.mktemp("realm")) as running, pytest.MonkeyPatch.context() as patched:
        for principal in ("alice", "kafka/localhost", "other/localhost"):
            running.add(principal)
        patched.setenv("KRB5_CONFIG", str(running.client_config))
        patched.setenv("KRB5CCNAME", f"FILE:{running.home}/none")
        yield running


def login(options: str, **more: str) -> dict[str, str]:
    """A client's settings; `options` are those of the login module."""
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": f"{MODULE} required {options};",
    }
    return settings | {name.replace("_", "."): value for name, value in more.items()}


def keytab(path: Path, principal: str = "alice") -> str:
    return f'useKeyTab=true storeKey=true keyTab="{path}" principal="{principal}"'


def cache(path: Path) -> str:
    return f'useTicketCache=true ticketCache="{path}"'


# -- tickets, without a broker -----------------------------------------------------------------------------------------


def first_message(settings: dict[str, str], host: str = "localhost") -> bytes:
    return next(ClientSecurity.parse(settings).converse(host))


def refusal(
    settings: dict[str, str], kind: type[FencepostError] = AuthenticationFailed, host: str = "localhost"
) -> str:
    with pytest.raises(kind) as caught:
        first_message(settings, host)
    return str(caught.value)


def test_a_keytab_that_does_not_fit_is_told_from_one_that_cannot_be_read(realm: Kdc, tmp_path: Path) -> None:
    (tmp_path / "garbage").write_text("garbage")
    good = realm.home / "alice.keytab"
    assert "cannot be read on this machine: No such file" in refusal(login(keytab(tmp_path / "none")), ConfigError)
    assert "is not a keytab" in refusal(login(keytab(tmp_path / "garbage")), ConfigError)
    assert "has no key of bob: `klist -k" in refusal(login(keytab(good, "bob")))
    assert "has no key of alice@ELSEWHERE" in refusal(login(keytab(good, "alice@ELSEWHERE")))
    old = realm.add("carol")
    realm.export("carol", "new")
    assert "the key of carol in keytab" in refusal(login(keytab(old, "carol")))
    assert first_message(login(keytab(realm.home / "new.keytab", "carol")))
    realm.run("kadmin.local", "-r", kdc.REALM, "-q", "delprinc -force carol")
    assert "is the principal in sasl.jaas.config right?" in refusal(login(keytab(old, "carol")))


def test_a_ticket_that_is_missing_or_has_ended_asks_for_kinit(realm: Kdc, tmp_path: Path) -> None:
    alice = realm.home / "alice.keytab"
    assert "no ticket in the default ticket cache: run `kinit`" in refusal(login("useTicketCache=true"))
    none = login(f'{cache(tmp_path / "none")} principal="alice"')
    assert f"no ticket in the ticket cache {tmp_path}/none: run `kinit alice`" in refusal(none)
    short = login(cache(realm.kinit(alice, "alice", 1)))
    with pytest.raises(AuthenticationFailed, match="has expired: run `kinit`"):
        wait_until(lambda: not first_message(short), "the ticket has ended")
    # With a keytab beside it, as in Java, the cache may be empty.
    assert first_message(login(f"{cache(tmp_path / 'none')} {keytab(alice)}"))


def test_a_service_that_the_kdc_does_not_know_is_said(realm: Kdc) -> None:
    good = keytab(realm.home / "alice.keytab")
    assert "no principal for kafak@localhost" in refusal(login(good, sasl_kerberos_service_name="kafak"))
    said = refusal(login(good), host="broker.test")
    assert "no principal for kafka@broker.test" in said
    assert "addressed by the host name in its principal" in said


def test_a_kdc_that_does_not_answer_may_come_back(realm: Kdc) -> None:
    settings = login(keytab(realm.add("dora"), "dora"))
    realm.stop()
    assert "are the KDCs in krb5.conf right" in refusal(settings, ConnectionLost)
    realm.start()
    assert first_message(settings)


def test_a_krb5_conf_without_the_realm_or_without_sense_is_named(
    realm: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = login(keytab(realm.add("erna"), f"erna@{kdc.REALM}"))
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    (tmp_path / "krb5.conf").write_text("[libdefaults]\n dns_lookup_kdc = false\n")
    assert "put the realm into krb5.conf" in refusal(settings)
    (tmp_path / "krb5.conf").write_text("[libdefaults\n x")
    assert "correct krb5.conf" in refusal(settings)


def test_clocks_that_differ_are_said(realm: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    if library is None:
        pytest.skip("libfaketime not found: apt-get install libfaketime")
    settings = login(keytab(realm.add("jane"), "jane"))
    # The library follows the KDC's clock unless it is told not to.
    (tmp_path / "krb5.conf").write_text(f"[libdefaults]\n kdc_timesync = 0\n{realm.config.read_text()}")
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    realm.stop()
    realm.start({"LD_PRELOAD": str(library), "FAKETIME": "-1h"})
    try:
        assert "set this machine's clock" in refusal(settings)
    finally:
        realm.stop()
        realm.start()
    assert first_message(settings)


def accepting(path: Path) -> Any:
    """The broker's end of the conversation, with the keys in a keytab."""
    import gssapi

    store: dict[bytes | str, bytes | str] = {"keytab": f"FILE:{path}", "rcache": "none:"}
    return gssapi.SecurityContext(creds=gssapi.Credentials(usage="accept", store=store), usage="accept")


def accepts(path: Path, message: bytes) -> bool:
    from gssapi.raw.misc import GSSError

    broker = accepting(path)
    try:
        broker.step(message)
        return bool(broker.complete)
    except GSSError:
        return False


def test_a_broker_with_new_keys_gets_a_new_ticket_after_it_refused_the_old(
    realm: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(realm.config))  # tickets do not end during this test
    old = realm.add("rekeyed/localhost")
    settings = login(keytab(realm.add("ida"), "ida"), sasl_kerberos_service_name="rekeyed")
    first, refused, again = (ClientSecurity.parse(settings).converse("localhost") for _ in range(3))
    assert accepts(old, next(first))
    new = realm.export("rekeyed/localhost", "rekeyed")
    assert not accepts(new, next(refused))
    refused.close()
    assert accepts(new, next(again))


def test_a_broker_that_insists_on_a_security_layer_is_refused(realm: Kdc) -> None:
    for offer, error in ((b"\x06\x00\x00\xff", "insists on a security layer"), (b"\x01", "has 1 bytes, not 4")):
        conversation = ClientSecurity.parse(login(keytab(realm.home / "alice.keytab"))).converse("localhost")
        broker = accepting(realm.home / "kafka-localhost.keytab")
        assert conversation.send(broker.step(next(conversation))) == b""
        with pytest.raises(FencepostError, match=error):
            conversation.send(broker.wrap(offer, False).message)


@pytest.mark.parametrize("garbage", [b"", b"garbage", bytes(100), b"\x60\x05\x06\x03\x2a\x03\x04", b"\xff" * 70_000])
def test_garbage_from_the_broker_ends_the_login(realm: Kdc, garbage: bytes) -> None:
    security = ClientSecurity.parse(login(keytab(realm.home / "alice.keytab")))
    instead_of_a_proof, instead_of_an_offer = security.converse("localhost"), security.converse("localhost")
    next(instead_of_a_proof)
    with pytest.raises(FencepostError, match=NOT_OURS):
        instead_of_a_proof.send(garbage)
    assert (
        instead_of_an_offer.send(accepting(realm.home / "kafka-localhost.keytab").step(next(instead_of_an_offer)))
        == b""
    )
    with pytest.raises(FencepostError, match=NOT_OURS):
        instead_of_an_offer.send(garbage)


# -- with Apache Kafka -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kafka(realm: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    home = tmp_path_factory.mktemp("kafka")
    authority = Authority("test")
    broker = authority.issue("broker", ["localhost"])
    (home / "broker.pem").write_text(broker.key_pem() + broker.certificate_pem())
    (home / "authority.pem").write_text(authority.certificate_pem())
    inner, controller, *ports = free_ports(4)
    at = dict(zip(PROTOCOLS, ports, strict=True))
    service = f'useKeyTab=true storeKey=true keyTab="{realm.home}/kafka-localhost.keytab" principal="kafka/localhost"'
    settings = {
        "listeners": f"PLAINTEXT://{HOST}:{inner},CONTROLLER://{HOST}:{controller},"
        + ",".join(f"{protocol}://localhost:{port}" for protocol, port in at.items()),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        + ",".join(f"{protocol}:{protocol}" for protocol in PROTOCOLS),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "connections.max.reauth.ms": str(REAUTH_MS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{home}/broker.pem",
        **{
            f"listener.name.{protocol.lower()}.gssapi.sasl.jaas.config": f"{MODULE} required {service};"
            for protocol in PROTOCOLS
        },
    }
    options = (*SERVER, f"-Djava.security.krb5.conf={realm.config}")
    server = ApacheKafka(
        java.kafka(),
        home / "server",
        {**SHORT_CYCLES, **FEW_PARTITIONS, **settings},
        controllers={1: controller},
        options=options,
    )
    server.port = inner
    with server.start():
        yield SimpleNamespace(
            server=server,
            settings=lambda protocol="SASL_PLAINTEXT": {
                "bootstrap.servers": f"localhost:{at[protocol]}",
                "security.protocol": protocol,
                **({"ssl.truststore.location": f"{home}/authority.pem"} if protocol == "SASL_SSL" else {}),
            },
        )


@pytest.fixture
def out(kafka: SimpleNamespace, realm: Kdc, name: str) -> str:
    with Cluster(login(keytab(realm.home / "alice.keytab")) | kafka.settings()) as cluster:
        create_topics(cluster, {name: NewTopic(1)})
    return name


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("source", ["keytab", "cache", "Kafka's default mechanism"])
def test_a_client_with_a_ticket_writes_a_transaction(
    kafka: SimpleNamespace, realm: Kdc, out: str, protocol: str, source: str
) -> None:
    alice = realm.home / "alice.keytab"
    options = cache(realm.kinit(alice, "alice")) if source == "cache" else keytab(alice)
    settings = login(options) | kafka.settings(protocol)
    if source == "Kafka's default mechanism":
        del settings["sasl.mechanism"]
    with Cluster(settings) as cluster:
        transaction = SharedTransaction(cluster, out)
        transaction.init()
        write(cluster, transaction.begin(), out, ["a", "b"], 0)
        transaction.commit()
        assert read_settled(cluster, out) == ["a", "b"]


def test_transactions_outlive_tickets(kafka: SimpleNamespace, realm: Kdc, out: str) -> None:
    with Cluster(login(keytab(realm.add("frida"), "frida")) | kafka.settings()) as cluster:
        transaction = SharedTransaction(cluster, out)
        transaction.init()
        written: list[str] = []
        while realm.logins("frida") < 4:
            written.append(str(len(written)))
            write(cluster, transaction.begin(), out, written[-1:], 0)
            transaction.commit()
        assert read_settled(cluster, out) == written


def test_a_connection_outlives_tickets_and_logins(kafka: SimpleNamespace, realm: Kdc) -> None:
    with Cluster(login(keytab(realm.add("gerda"), "gerda")) | kafka.settings()) as cluster:
        connection, logins = cluster.any(), 0
        while realm.logins("gerda") < 3 or logins < 2:
            before = connection._login_ends_s
            connection.call(METADATA, {"topics": []})
            logins += connection._login_ends_s != before
        assert cluster.any() is connection


def test_a_kdc_that_is_away_costs_a_connection_and_no_more(kafka: SimpleNamespace, realm: Kdc) -> None:
    with Cluster(login(keytab(realm.add("heidi"), "heidi")) | kafka.settings()) as cluster:
        connection = cluster.any()
        realm.stop()
        try:
            with pytest.raises(ConnectionLost, match="are the KDCs"):
                wait_until(lambda: not connection.call(METADATA, {"topics": []}), "its ticket has ended")
        finally:
            realm.start()
        assert not connection.is_usable()
        cluster.any().call(METADATA, {"topics": []})


def test_a_ticket_for_a_service_that_is_not_the_brokers_is_refused(kafka: SimpleNamespace, realm: Kdc) -> None:
    wrong = login(keytab(realm.home / "alice.keytab"), sasl_kerberos_service_name="other") | kafka.settings()
    with pytest.raises(AuthenticationFailed, match=r"is sasl\.kerberos\.service\.name the brokers'"):
        Cluster(wrong).any()


def test_a_login_that_is_renewed_too_soon_is_told_from_a_wrong_mechanism(kafka: SimpleNamespace, realm: Kdc) -> None:
    with Cluster(login(keytab(realm.home / "alice.keytab")) | kafka.settings()) as cluster:
        connection = cluster.any()

        def log_in_again() -> None:
            connection._renew_login_s = 0
            connection.call(METADATA, {"topics": []})

        with pytest.raises(ConnectionLost, match=r"does not offer GSSAPI now \(ILLEGAL_SASL_STATE"):
            wait_until(log_in_again, "two logins are in one second")


@pytest.mark.timeout(600)
def test_a_spark_pipeline_runs_with_a_keytab(kafka: SimpleNamespace, realm: Kdc, tmp_path: Path) -> None:
    options = {
        f"kafka.{key}": value
        for key, value in (login(keytab(realm.home / "alice.keytab")) | kafka.settings("SASL_SSL")).items()
    }
    wanted = sorted(str(number) for number in range(200))
    with Cluster(login(keytab(realm.home / "alice.keytab")) | kafka.settings()) as cluster:
        create_topics(cluster, {"in": NewTopic(2), "out": NewTopic(1)})
        transaction = SharedTransaction(cluster, "numbers")
        transaction.init()
        write(cluster, transaction.begin(), "in", wanted)
        transaction.commit()
        spark = quick_spark.start("kerberos", tmp_path)
        try:
            source = spark.readStream.format("fencepost").options(**options).option("subscribe", "in")
            rows = source.option("pipeline", "kerberos").option("maxOffsetsPerTrigger", 60).load().select("value")
            query = write_stream(rows, topic="out", checkpoint=str(tmp_path / "c"), trigger={"availableNow": True})
            query.awaitTermination()
        finally:
            spark.stop()
        assert sorted(read_settled(cluster, "out")) == wanted
