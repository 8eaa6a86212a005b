"""Users of SCRAM: made, described, changed and removed as Kafka does it, and what is refused."""

import hashlib

import pytest

from fencepost.broker.users import Users
from fencepost.security.scram import Client, Mechanism, Server, read_first
from tests.unit.broker.admin_world import error

DESCRIBE, ALTER = 50, 51
SHA256, SHA512 = 1, 2
SALT, PASSWORD = b"1h8k2yx0z5c9v3b7n4m6q8w2e1", "pencil"


def made(name, mechanism=SHA256, iterations=4096, *, password=PASSWORD, salt=SALT):
    """What `kafka-configs` sends: it salts the password itself."""
    salted = hashlib.pbkdf2_hmac("sha256" if mechanism == SHA256 else "sha512", password.encode(), salt, 4096)
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": salt,
        "salted_password": salted,
    }


def alter(world, *upsertions, gone=()):
    deletions = [{"name": name, "mechanism": mechanism} for name, mechanism in gone]
    answer = world.ask(ALTER, deletions=deletions, upsertions=list(upsertions))
    return {result.user: error(result) for result in answer.results}


def described(world, *names):
    users = [{"name": name} for name in names] or None
    return {
        result.user: error(result)[0] if result.error_code else
        [(info.mechanism, info.iterations) for info in result.credential_infos]
        for result in world.ask(DESCRIBE, users=users).results
    }  # fmt: skip


def logs_in(world, name, password):
    mechanism = Mechanism.SCRAM_SHA_256
    credential = Users({}, world.topics.catalogue).credential(name, mechanism)
    client = Client(mechanism, name, password)
    server = Server(read_first(client.first()), credential)
    return server.final(client.final(server.first)) is not None


def test_a_user_is_made_changed_and_removed_and_outlives_a_restart(world):
    assert alter(world, made("alice"), made("alice", SHA512, 8192), made("bob")) == {
        "alice": ("NONE", None),
        "bob": ("NONE", None),
    }
    world.restart()
    assert described(world) == {"alice": [(SHA256, 4096), (SHA512, 8192)], "bob": [(SHA256, 4096)]}
    assert logs_in(world, "alice", PASSWORD)
    alter(world, made("alice", password="other"))
    assert logs_in(world, "alice", "other")
    assert not logs_in(world, "alice", PASSWORD)
    alter(world, gone=[("alice", SHA512), ("bob", SHA256)])
    assert described(world, "alice", "bob", "nobody") == {
        "alice": [(SHA256, 4096)],
        "bob": "RESOURCE_NOT_FOUND",
        "nobody": "RESOURCE_NOT_FOUND",
    }
    assert described(world, "alice", "alice") == {"alice": "DUPLICATE_RESOURCE"}


@pytest.mark.parametrize(
    ("wrong", "refused"),
    [
        (made(""), ("UNACCEPTABLE_CREDENTIAL", "Username must not be empty")),
        (made("eve", iterations=4095), ("UNACCEPTABLE_CREDENTIAL", "Too few iterations")),
        (made("eve", iterations=-1), ("UNACCEPTABLE_CREDENTIAL", "Too few iterations")),
        (made("eve", iterations=16385), ("UNACCEPTABLE_CREDENTIAL", "Too many iterations")),
        (made("eve", iterations=2**31 - 1), ("UNACCEPTABLE_CREDENTIAL", "Too many iterations")),
        (made("eve") | {"mechanism": 3}, ("UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism")),
        (made("eve") | {"mechanism": SHA512}, ("UNACCEPTABLE_CREDENTIAL", None)),
        (made("eve") | {"salt": b""}, ("UNACCEPTABLE_CREDENTIAL", None)),
    ],
)
def test_a_credential_that_is_none_is_refused_alone(world, wrong, refused):
    found = alter(world, wrong, made("alice"))
    assert found["alice"] == ("NONE", None)
    code, message = found[wrong["name"]]
    assert code == refused[0]
    assert refused[1] in (None, message)
    assert described(world) == {"alice": [(SHA256, 4096)]}


def test_of_two_changes_of_one_credential_none_is_made(world):
    assert alter(world, made("alice"), made("alice"))["alice"][0] == "DUPLICATE_RESOURCE"
    assert alter(world, made("alice"), gone=[("alice", SHA256)])["alice"][0] == "DUPLICATE_RESOURCE"
    assert alter(world, gone=[("alice", SHA256)])["alice"][0] == "RESOURCE_NOT_FOUND"
    assert described(world) == {}


def test_there_are_no_quotas(world):
    answer = world.ask(48, components=[{"entity_type": "user", "match_type": 2, "match": None}], strict=False)
    assert (error(answer), list(answer.entries)) == (("NONE", None), [])
