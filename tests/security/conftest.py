"""One broker with a listener of each protocol, an authority, a user, and keys that sign tokens."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.asymmetric import rsa

from fencepost.lab.kit.servers import Ours, free_ports
from fencepost.security import jaas
from fencepost.security.authority import Authority

PASSWORD = 'p"ä;s=s,'
SASL_PROTOCOLS = ("SASL_SSL", "SASL_PLAINTEXT")


@dataclass
class Secured:
    server: Ours
    ports: dict[str, int]
    home: Path
    authority: Authority
    signing_key: rsa.RSAPrivateKey

    def settings(self, protocol: str, **more: str) -> dict[str, str]:
        """For our client; `sasl_mechanism="PLAIN"` is the setting sasl.mechanism."""
        settings = {"bootstrap.servers": f"localhost:{self.ports[protocol]}", "security.protocol": protocol}
        if protocol.endswith("SSL"):
            settings["ssl.truststore.location"] = str(self.home / "authority.pem")
        if protocol == "SSL":
            settings["ssl.keystore.location"] = str(self.home / "alice.pem")
        return settings | {name.replace("_", "."): value for name, value in more.items()}

    def login(self, mechanism: str, user: str = "alice", password: str = PASSWORD) -> dict[str, str]:
        module = "PlainLoginModule" if mechanism == "PLAIN" else "ScramLoginModule"
        config = f"{module} required username={jaas.quote(user)} password={jaas.quote(password)};"
        return {"sasl_mechanism": mechanism, "sasl_jaas_config": config}

    def token(self, key: Any = None, key_id: str = "known", **claims: Any) -> dict[str, str]:
        """A token in a file, signed with the key that the broker knows."""
        said = {"sub": "alice", "aud": "kafka", "exp": int(time.time()) + 600, **claims}
        return self.token_file(jwt.encode(said, key or self.signing_key, algorithm="RS256", headers={"kid": key_id}))

    def token_file(self, text: str) -> dict[str, str]:
        path = self.home / f"token-{abs(hash(text))}"
        path.write_text(text)
        return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_endpoint_url": path.as_uri()}


@pytest.fixture(scope="session")
def make_secured(start_broker: Callable[..., Ours], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Secured]:
    """Starts one; settings given by keyword are the broker's."""

    def make(**more: str) -> Secured:
        home = tmp_path_factory.mktemp("secured")
        authority, signing_key = Authority(), rsa.generate_private_key(65537, 2048)
        for name, hosts in (("broker", ("localhost", "127.0.0.1")), ("alice", ())):
            certified = authority.issue(name, hosts)
            (home / f"{name}.pem").write_text(certified.key_pem() + certified.certificate_pem())
        (home / "authority.pem").write_text(authority.certificate_pem())
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(signing_key.public_key()))
        (home / "keys.json").write_text(json.dumps({"keys": [{**public, "kid": "known"}]}))
        protocols = ("SSL", *SASL_PROTOCOLS)
        ports = dict(zip(protocols, free_ports(len(protocols)), strict=True))
        listeners = [f"{name}://127.0.0.1:{port}" for name, port in {"PLAINTEXT": 0, **ports}.items()]
        settings = {
            "listeners": ",".join(listeners),
            "ssl.keystore.location": str(home / "broker.pem"),
            "ssl.truststore.location": str(home / "authority.pem"),
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.jaas.config": f"PlainLoginModule required user_alice={jaas.quote(PASSWORD)};",
            "sasl.oauthbearer.jwks.endpoint.url": (home / "keys.json").as_uri(),
            "sasl.oauthbearer.expected.audience": "kafka",
        }
        server = start_broker(settings | {name.replace("_", "."): value for name, value in more.items()})
        add_user(server.bootstrap, "alice", PASSWORD)
        return Secured(server, ports, home, authority, signing_key)

    return make


def add_user(bootstrap: str, name: str, password: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        wanted = UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 4096), password.encode())
        for future in admin.alter_user_scram_credentials([wanted]).values():
            future.result(30)


@pytest.fixture(scope="session")
def secured(make_secured: Callable[..., Secured]) -> Secured:
    return make_secured()
