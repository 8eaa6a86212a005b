"""The broker's settings for listeners, TLS, logins and rights. Rows as in `settings_table`."""

from fencepost.errors import ConfigError
from fencepost.setting import INT_MAX, Change, Table, boolean, integer, long, optional_string, password, string, strings

LIVE = Change.LIVE
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_JWKS = "sasl.oauthbearer.jwks.endpoint.url"

# fmt: off


class SecuritySettings(Table):
    """A setting `listener.name.NAME.SETTING` holds for that listener alone; so does `listener.name.NAME.MECHANISM...`
    of a login module."""

    listeners = string(
        "", "Where to listen, as NAME://host:port, several of them; --host and --port if not given.",
        kafka="PLAINTEXT://:9092")
    advertised_listeners = optional_string(
        "The addresses that clients are told to connect to, by listener; those listened on if not given.")
    listener_security_protocol_map = string(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which protocol a listener speaks, as NAME:PROTOCOL.")
    inter_broker_listener_name = optional_string("Accepted: there is one broker, it speaks to no other.")

    ssl_keystore_location = optional_string("The file with the broker's key and certificate: PEM, PKCS12 or JKS.")
    ssl_keystore_password = password("Of ssl.keystore.location.")
    ssl_keystore_key = password("The broker's key as PEM, instead of a file.")
    ssl_keystore_certificate_chain = password("The certificate for ssl.keystore.key, as PEM.")
    ssl_key_password = password("Of the key, if it is encrypted.")
    ssl_truststore_location = optional_string("The file with the authorities whose client certificates are accepted.")
    ssl_truststore_password = password("Of ssl.truststore.location.")
    ssl_truststore_certificates = password("The authorities as PEM, instead of a file.")
    ssl_client_auth = string(
        "none", "Whether clients show a certificate.", choices=("required", "requested", "none"))
    ssl_enabled_protocols = strings(
        ("TLSv1.2", "TLSv1.3"), "The versions of TLS that are spoken.", choices=("TLSv1.2", "TLSv1.3"))
    ssl_cipher_suites = strings((), "The cipher suites that are accepted, by Java's names; OpenSSL's choice if empty.")
    ssl_principal_mapping_rules = string("DEFAULT", "How a certificate's name becomes a user's.")

    sasl_enabled_mechanisms = strings(
        ("SCRAM-SHA-256", "SCRAM-SHA-512"), "The mechanisms that SASL listeners offer.", choices=MECHANISMS,
        kafka="GSSAPI")
    sasl_jaas_config = password(
        "The users of PLAIN: PlainLoginModule required user_NAME=\"PASSWORD\" ...;")
    sasl_oauthbearer_jwks_endpoint_url = optional_string(
        "Where the keys are that sign tokens: https://... or file:///...")
    sasl_oauthbearer_expected_audience = strings((), "Audiences of which a token must have one.", kafka="null")
    sasl_oauthbearer_expected_issuer = optional_string("Who must have issued a token.")
    sasl_oauthbearer_clock_skew_seconds = integer(30, "By how much clocks may differ.", low=0)
    sasl_oauthbearer_sub_claim_name = string("sub", "The claim that names the user.")
    authorizer_class_name = string(
        "", f"What decides who may do what: {STANDARD_AUTHORIZER}; everybody may do everything if empty.")
    super_users = string("", "Who may do everything, as User:alice;User:bob.")
    allow_everyone_if_no_acl_found = boolean(False, "Whether everybody may do all to what no ACL is about.")
    connections_max_reauth_ms = long(0, "How long a login is good, unless it is renewed; 0 for ever.", low=0)
    connection_failed_authentication_delay_ms = integer(
        100, "How long a failed login waits for its answer, so that guessing is slow.", low=0)
    max_connections_per_ip = integer(INT_MAX, "Connections at once from one address.", low=0, change=LIVE)
    max_connections_per_ip_overrides = string("", "Other limits, as host:number.", change=LIVE)
    max_connection_creation_rate = integer(
        INT_MAX, "New connections a second; more wait to be accepted.", low=0, change=LIVE)

# fmt: on


def parse_overrides(text: str) -> dict[str, int]:
    """`max.connections.per.ip.overrides`: host:number,host:number. Raises ConfigError."""
    found = {}
    for word in filter(None, (each.strip() for each in text.split(","))):
        host, colon, number = word.rpartition(":")
        if not colon or not host or not number.isdecimal():
            raise ConfigError(f"max.connections.per.ip.overrides: {word} is not host:number")
        found[host.strip("[]")] = int(number)
    return found
