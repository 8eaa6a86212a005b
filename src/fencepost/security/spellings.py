"""The same security for clients that are not ours: librdkafka (confluent-kafka), kafka-python, aiokafka, Spark.

Certificates of every format go to librdkafka as PEM text and to the Python clients as an `ssl.SSLContext`, so nothing
has to be converted by hand.
"""

from collections.abc import Callable, Mapping
from typing import Any

from fencepost.errors import ConfigError
from fencepost.security import stores
from fencepost.security.settings import ClientSecurity

#: What `client_config` may be asked for.
SPELLINGS = ("java", "spark", "confluent", "kafka-python", "aiokafka")


def spelled(bootstrap: str, security: ClientSecurity, client: str) -> dict[str, Any]:
    """What `client` needs to connect to `bootstrap`, as it wants it."""
    if client not in _SPELL:
        raise ConfigError(f"{client!r} is not a client that is known; choose one of {', '.join(SPELLINGS)}")
    name, spell = _SPELL[client]
    return {name: bootstrap, **(spell(security) if security.protocol != "PLAINTEXT" else {})}


def respelled(settings: Mapping[str, object], client: str) -> dict[str, Any]:
    """The same from Kafka's settings, `bootstrap.servers` among them. Those that are not for security are left out."""
    return spelled(str(settings["bootstrap.servers"]), ClientSecurity.parse(settings), client)


def java(security: ClientSecurity) -> dict[str, Any]:
    return dict(security.given)


def spark(security: ClientSecurity) -> dict[str, Any]:
    return {f"kafka.{name}": value for name, value in security.given}


def confluent(security: ClientSecurity) -> dict[str, Any]:
    """For `Producer`, `Consumer` and `AdminClient` of confluent-kafka."""
    spelled: dict[str, Any] = {"security.protocol": security.protocol}
    if security.protocol.uses_tls:
        spelled |= _confluent_tls(security)
    if security.protocol.uses_sasl:
        spelled["sasl.mechanisms"] = security.mechanism
        if security.mechanism == "OAUTHBEARER":
            spelled["oauth_cb"] = lambda _: security.token()
        else:
            spelled["sasl.username"], spelled["sasl.password"] = security.user_and_password()
    return spelled


def _confluent_tls(security: ClientSecurity) -> dict[str, Any]:
    spelled: dict[str, Any] = {}
    trust, identity = stores.trust_of(security.value), stores.identity_of(security.value)
    if trust is not None:
        spelled["ssl.ca.pem"] = trust
    if identity is not None:
        spelled["ssl.key.pem"], spelled["ssl.certificate.pem"] = identity.key, identity.chain
        if identity.password is not None:
            spelled["ssl.key.password"] = identity.password
    if not security.value("ssl.endpoint.identification.algorithm"):
        spelled["ssl.endpoint.identification.algorithm"] = "none"
    return spelled


def kafka_python(security: ClientSecurity) -> dict[str, Any]:
    """For `KafkaProducer`, `KafkaConsumer` and `KafkaAdminClient` of kafka-python."""
    spelled = _python(security)
    if security.protocol.uses_sasl and security.mechanism == "OAUTHBEARER":
        spelled["sasl_oauth_token_provider"] = _KafkaPythonTokens(security)
    return spelled


def aiokafka(security: ClientSecurity) -> dict[str, Any]:
    """For `AIOKafkaProducer`, `AIOKafkaConsumer` and `AIOKafkaAdminClient`."""
    spelled = _python(security)
    if security.protocol.uses_sasl and security.mechanism == "OAUTHBEARER":
        spelled["sasl_oauth_token_provider"] = _AiokafkaTokens(security)
    return spelled


def _python(security: ClientSecurity) -> dict[str, Any]:
    spelled: dict[str, Any] = {"security_protocol": security.protocol}
    if security.protocol.uses_tls:
        spelled["ssl_context"] = security.tls().context
    if security.protocol.uses_sasl:
        spelled["sasl_mechanism"] = security.mechanism
        if security.mechanism != "OAUTHBEARER":
            spelled["sasl_plain_username"], spelled["sasl_plain_password"] = security.user_and_password()
    return spelled


class _KafkaPythonTokens:
    """What kafka-python calls a token provider."""

    def __init__(self, security: ClientSecurity) -> None:
        self._security = security

    def token(self) -> str:
        return self._security.token()[0]

    def extensions(self) -> Mapping[str, str]:
        return {}


class _AiokafkaTokens:
    def __init__(self, security: ClientSecurity) -> None:
        self._security = security

    async def token(self) -> str:
        return self._security.token()[0]

    def extensions(self) -> Mapping[str, str]:
        return {}


#: How a client calls the address, and how the rest is spelled.
_SPELL: dict[str, tuple[str, Callable[[ClientSecurity], dict[str, Any]]]] = {
    "java": ("bootstrap.servers", java),
    "spark": ("kafka.bootstrap.servers", spark),
    "confluent": ("bootstrap.servers", confluent),
    "kafka-python": ("bootstrap_servers", kafka_python),
    "aiokafka": ("bootstrap_servers", aiokafka),
}
