"""TLS on both sides of the network's proxy: towards clients with an authority of its own, towards brokers as a client.

The proxy must read frames, so it ends the TLS of its clients and begins another one to the broker. Both are real: a
client checks the proxy's certificate, the proxy checks the broker's. SASL passes through, since it is requests and
answers. A client's certificate cannot pass through, so the proxy shows it to the broker.
"""

from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext

from fencepost.lab.kit.servers import HOST
from fencepost.security import stores, tls
from fencepost.security.names import TLS_VERSIONS, Protocol
from fencepost.security.quick import AUTHORITY, BROKER, prepare
from fencepost.security.settings import ClientSecurity

#: Settings that are between the proxy and the broker.
FOR_BROKER = ("ssl.truststore.", "ssl.keystore.", "ssl.key.", "ssl.cipher.", "ssl.endpoint.")


@dataclass(frozen=True, slots=True)
class Passage:
    clients: ClientSecurity  #: what a client of the proxy needs
    accepts: SSLContext | None = field(default=None, repr=False)  #: for connections of clients; None without TLS
    connects: SSLContext | None = field(default=None, repr=False)  #: for connections to brokers

    @classmethod
    def to(cls, broker: ClientSecurity, directory: Path) -> "Passage":
        """To brokers whose clients need `broker`. A certificate is made in `directory`."""
        if not broker.protocol.uses_tls:
            return cls(broker)
        made = prepare(directory, Protocol.SSL, HOST).directory
        key_and_certificate = stores.load_identity("the proxy's certificate", (made / BROKER).read_bytes(), None, None)
        kept = {name: value for name, value in broker.given if not name.startswith(FOR_BROKER)}
        trusts = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(made / AUTHORITY)}
        return cls(
            ClientSecurity.parse({**kept, **trusts}),
            tls.server_context(None, key_and_certificate, TLS_VERSIONS, (), "none"),
            broker.tls().context,
        )
