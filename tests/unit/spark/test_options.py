"""Options: any case, Kafka's settings with Spark's refusals, typing errors."""

import pytest

from fencepost.client.settings import ClientSettings
from fencepost.errors import ConfigError
from fencepost.spark import options
from fencepost.spark.kafka_settings import KNOWN, REFUSED
from fencepost.spark.options import Options

SERVERS = {"kafka.bootstrap.servers": "a:1,b:2"}


def client_settings(given: dict[str, str]) -> ClientSettings:
    return options.client_settings(Options(given))


def test_client_settings_come_from_kafka_options_in_any_case():
    given = {"Kafka.Bootstrap.Servers": "a:1,b:2", "KAFKA.CLIENT.ID": "shop", "kafka.request.timeout.ms": "7000"}
    found = client_settings(given)
    assert [str(address) for address in found.bootstrap] == ["a:1", "b:2"]
    assert (found.client_id, found.request_timeout_ms) == ("shop", 7000)


@pytest.mark.parametrize("given", [{}, {"kafka.bootstrap.servers": " "}, {"bootstrap.servers": "a:1"}])
def test_without_bootstrap_servers_there_is_no_client(given):
    with pytest.raises(ConfigError, match=r"'kafka\.bootstrap\.servers' must be specified"):
        client_settings(given)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("key.deserializer", "Use DataFrame operations to explicitly deserialize the keys"),
        ("value.deserializer", "deserialize the values"),
        ("key.serializer", "serialize the keys"),
        ("value.serializer", "serialize the values"),
        ("auto.offset.reset", "startingOffsets"),
        ("enable.auto.commit", "not by a timer"),
        ("interceptor.classes", "Java class"),
        ("partitioner.class", "default partitioner"),
    ],
)
def test_what_spark_refuses_or_we_cannot_keep_is_refused(name, reason):
    with pytest.raises(ConfigError, match=rf"'kafka\.{name}' is not supported.*{reason}"):
        client_settings({**SERVERS, f"kafka.{name}": "x"})


def test_security_has_kafkas_names_and_one_of_our_own():
    given = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "OAUTHBEARER", "token_provider": "m:f"}
    security = client_settings({**SERVERS, **given}).security
    assert (security.protocol, security.mechanism, security.value("token_provider")) == (
        "SASL_SSL",
        "OAUTHBEARER",
        "m:f",
    )
    Options(given).refuse_unknown([], "the source")
    for wrong, error in [
        ({"kafka.sasl.mechanisms": "PLAIN"}, "librdkafka's name"),
        ({"kafka.ssl.x": "1"}, "no setting"),
    ]:
        with pytest.raises(ConfigError, match=error):
            client_settings({**SERVERS, **wrong})


def test_settings_that_change_nothing_here_are_accepted():
    given = {f"kafka.{name}": "5" for name in KNOWN - {"security.protocol", "bootstrap.servers"}}
    assert client_settings({**SERVERS, **given}).request_timeout_ms == 5


def test_no_setting_is_both_taken_and_refused():
    assert not KNOWN & set(REFUSED)


def test_a_setting_that_does_not_exist_gets_the_nearest_name():
    with pytest.raises(ConfigError, match=r"no such setting; did you mean 'kafka\.compression\.type'\?"):
        client_settings({**SERVERS, "kafka.compresion.type": "lz4"})
    with pytest.raises(ConfigError, match=r"no such setting$"):
        client_settings({**SERVERS, "kafka.zzz": "1"})


def test_an_unknown_option_gets_the_nearest_name():
    given = Options({"startingOffset": "earliest", **SERVERS})
    with pytest.raises(ConfigError, match="the source has no option 'startingOffset'; did you mean 'startingOffsets'"):
        given.refuse_unknown(["startingOffsets", "subscribe"], "the source")
    Options({"SUBSCRIBE": "t", **SERVERS}).refuse_unknown(["startingOffsets", "subscribe"], "the source")


@pytest.mark.parametrize(
    ("handed_over", "typed"),
    [
        ("startingoffset", "startingOffset"),
        ("subscribepatern", "subscribePatern"),
        ("maxoffsetpertrigger", "maxOffsetPerTrigger"),
        ("Startingoffset", "Startingoffset"),
        ("zzz", "zzz"),
    ],
)
def test_a_name_that_spark_has_lowered_is_shown_as_it_was_typed(handed_over: str, typed: str):
    known = ["startingOffsets", "subscribe", "subscribePattern", "maxOffsetsPerTrigger"]
    with pytest.raises(ConfigError, match=f"has no option '{typed}'"):
        Options({handed_over: "1"}).refuse_unknown(known, "the source")


def test_what_was_typed_is_shown_as_it_was_typed():
    with pytest.raises(ConfigError, match=r"'kafka\.Interceptor\.Classes' is not supported"):
        Options({**SERVERS, "kafka.Interceptor.Classes": "x"}).kafka()
    with pytest.raises(ConfigError, match="'yes' must be true or false, not 'Maybe'"):
        Options({"yes": "Maybe"}).flag("yes", True)


def test_numbers_and_flags_are_checked():
    given = Options({"n": " 7 ", "zero": "0", "word": "x", "yes": "TRUE"})
    assert (given.integer("N"), given.integer("missing")) == (7, None)
    assert (given.flag("yes", False), given.flag("missing", True)) == (True, True)
    with pytest.raises(ConfigError, match="'zero' must be a whole number of at least 1"):
        given.integer("zero")
    with pytest.raises(ConfigError, match="'word' must be a whole number"):
        given.integer("word")
    with pytest.raises(ConfigError, match="'word' must be true or false"):
        given.flag("word", True)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("15m", 900_000), ("30s", 30_000), ("500ms", 500), ("250", 250), ("2 hours", 7_200_000), ("1 Minute", 60_000)],
)
def test_durations_are_written_as_in_spark(text, expected_ms):
    assert Options({"delay": text}).duration_ms("delay", 1) == expected_ms


@pytest.mark.parametrize("text", ["", "m", "-1s", "5 parsecs", "1.5s"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ConfigError, match="must be a duration"):
        Options({"delay": text}).duration_ms("delay", 1)


def test_a_private_key_that_a_plan_would_show_is_refused():
    name = "kafka.ssl.keystore.key"
    with pytest.raises(ConfigError, match=r"would be shown in plans.*kafka\.ssl\.key\.password") as refused:
        options.refuse_visible_key(Options({name: "-----BEGIN PRIVATE KEY-----\nMIGH"}))
    assert "MIGH" not in str(refused.value)
    for fine in ("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGH", "${file:/etc/kafka/secrets.properties:key}", ""):
        options.refuse_visible_key(Options({name: fine}))
