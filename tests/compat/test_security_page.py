"""The blocks of the page on security that need Kafka's own tools, or a KDC."""

import shlex

import javaproperties
import pytest

from fencepost.security.settings import ClientSecurity
from tests.compat import kdc
from tests.compat.tools import Tool
from tests.pages import block


def test_users_are_made_and_removed(tool: Tool) -> None:
    text = block("users").filled({"localhost:9092": tool.bootstrap_servers}).replace("\\\n", " ")
    said = []
    for line in text.splitlines():
        command, bootstrap, address, *words = shlex.split(line)
        assert (command, bootstrap, address) == ("kafka-configs", "--bootstrap-server", tool.bootstrap_servers)
        said.append(tool("configs", *words))
    assert "Completed updating config for user alice." in said[0]
    assert "user-principal 'alice' are SCRAM-SHA-512=iterations=4096" in said[1]
    assert "Completed updating config for user alice." in said[2]


@pytest.mark.skipif(kdc.missing() is not None, reason=str(kdc.missing()))
def test_kerberos(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    with kdc.Kdc(tmp_path_factory.mktemp("realm")) as realm:
        realm.add("kafka/localhost")
        monkeypatch.setenv("KRB5_CONFIG", str(realm.client_config))
        places = {"/etc/kafka/pipeline.keytab": realm.add("pipeline"), "pipeline@EXAMPLE.ORG": f"pipeline@{kdc.REALM}"}
        settings = javaproperties.loads(block("kerberos").filled(places))
        assert next(ClientSecurity.parse({"security.protocol": "SASL_PLAINTEXT", **settings}).converse("localhost"))
