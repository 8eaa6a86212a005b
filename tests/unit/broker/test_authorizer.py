"""Decisions by ACLs: the quick way agrees with the definition, whatever the ACLs and whatever was changed before."""

import itertools
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.broker import authorizer as module
from fencepost.broker.acl import Acl, Operation, Pattern, Permission, Resource
from fencepost.broker.authorizer import Authorizer, check_settings
from fencepost.broker.principals import Principal
from fencepost.broker.settings import Settings
from fencepost.errors import ConfigError, ErrorCode, KafkaError

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HERE, THERE = "10.0.0.1", "10.0.0.2"
TOPIC, GROUP = Resource.TOPIC, Resource.GROUP
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE

#: Names in ACLs have the letters a and b. So c stands for all that no ACL names.
NAMES = ["".join(letters) for length in (1, 2, 3) for letters in itertools.product("abc", repeat=length)]


class Kept:
    """A catalogue without a disk."""

    def __init__(self, acls=()):
        self.acls = dict.fromkeys(acls)

    def write(self, lines):
        for line in lines:
            ((kind, fields),) = line.items()
            if kind == "acl":
                self.acls[Acl.of_fields(fields)] = None
            else:
                del self.acls[Acl.of_fields(fields)]


def authorizer(*acls, **settings):
    given = Settings.parse({name.replace("_", "."): value for name, value in settings.items()})
    return Authorizer(given, Kept(acls))


def allow(operation=READ, name="orders", pattern=Pattern.LITERAL, principal="User:alice", host="*", resource=TOPIC):
    return Acl(resource, name, pattern, principal, host, operation, Permission.ALLOW)


def deny(*arguments, **more):
    return allow(*arguments, **more)._replace(permission=Permission.DENY)


acls = st.builds(
    Acl,
    resource=st.sampled_from([TOPIC, GROUP]),
    name=st.sampled_from(["*", "a", "b", "aa", "ab"]),
    pattern=st.sampled_from([Pattern.LITERAL, Pattern.PREFIXED]),
    principal=st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice"]),
    host=st.sampled_from(["*", HERE, THERE]),
    operation=st.sampled_from([op for op in Operation if op is not Operation.ANY]),
    permission=st.sampled_from([Permission.ALLOW, Permission.DENY]),
)


def by_definition(acls, principal, host, operation, resource, name, *, everyone):
    """Kafka's documentation, word by word, with nothing of ours."""
    implied = {"DESCRIBE": ["READ", "WRITE", "DELETE", "ALTER"], "DESCRIBE_CONFIGS": ["ALTER_CONFIGS"]}
    about = [
        acl
        for acl in acls
        if acl.resource == resource
        and (
            (acl.pattern == 3 and acl.name == name)
            or (acl.pattern == 3 and acl.name == "*")
            or (acl.pattern == 4 and name[: len(acl.name)] == acl.name)
        )
    ]
    if not about:
        return everyone
    mine = [
        acl
        for acl in about
        if acl.principal in ("User:*", f"{principal.kind}:{principal.name}") and acl.host in ("*", host)
    ]
    if any(acl.permission.name == "DENY" and acl.operation.name in ("ALL", operation.name) for acl in mine):
        return False
    enough = ["ALL", operation.name, *implied.get(operation.name, [])]
    return any(acl.permission.name == "ALLOW" and acl.operation.name in enough for acl in mine)


@given(st.lists(acls, max_size=12), st.lists(st.tuples(st.booleans(), acls), max_size=6), st.booleans())
def test_every_decision_is_the_one_by_definition_before_and_after_changes(first, changes, everyone):
    asked = authorizer(*first, allow_everyone_if_no_acl_found=str(everyone).lower())
    now = dict.fromkeys(first)
    for is_new, acl in [(True, None), *changes]:
        if acl is not None and is_new:
            asked.create([acl])
            now[acl] = None
        elif acl is not None:
            asked.delete([acl])
            now.pop(acl, None)
        for principal, host, operation, name in itertools.product(
            (ALICE, BOB), (HERE, "10.0.0.9"), (READ, DESCRIBE, Operation.DESCRIBE_CONFIGS), ("a", "ab", "abc", "c", "*")
        ):
            expected = by_definition(now, principal, host, operation, TOPIC, name, everyone=everyone)
            assert asked.allows(principal, host, operation, TOPIC, name) is expected


@given(st.lists(acls, max_size=10), st.booleans())
def test_some_resource_is_allowed_if_there_is_a_name_that_is(kept, everyone):
    asked = authorizer(*kept, allow_everyone_if_no_acl_found=str(everyone).lower())
    expected = any(by_definition(kept, ALICE, HERE, WRITE, TOPIC, name, everyone=everyone) for name in NAMES)
    assert asked.allows_some(ALICE, HERE, WRITE, TOPIC) is expected


def test_a_denial_wins_over_every_permission():
    asked = authorizer(allow(), allow(name="*", principal="User:*"), deny(name="ord", pattern=Pattern.PREFIXED))
    assert not asked.allows(ALICE, HERE, READ, TOPIC, "orders")
    assert asked.allows(BOB, HERE, READ, TOPIC, "orders")


def test_a_denial_to_read_leaves_describing_allowed():
    asked = authorizer(allow(WRITE), deny(READ))
    assert asked.allows(ALICE, HERE, DESCRIBE, TOPIC, "orders")
    assert not asked.allows(ALICE, HERE, READ, TOPIC, "orders")


def test_super_users_may_do_what_is_denied_to_everybody():
    asked = authorizer(deny(Operation.ALL, principal="User:*"), super_users="User:alice; User:CN=bob,O=x ;")
    assert asked.allows(ALICE, HERE, READ, TOPIC, "orders")
    assert asked.allows(Principal("User", "CN=bob,O=x"), HERE, READ, TOPIC, "orders")
    assert asked.allows_some(ALICE, HERE, WRITE, TOPIC)
    assert not asked.allows(BOB, HERE, READ, TOPIC, "orders")


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("10.0.0.1", "::ffff:10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::5", "2001:db8::5"),
    ],
)
def test_an_address_may_be_written_in_any_form(written, seen):
    asked = authorizer(allow(host=written))
    assert asked.allows(ALICE, seen, READ, TOPIC, "orders")
    assert not asked.allows(ALICE, "10.0.0.7", READ, TOPIC, "orders")


def test_decisions_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "DECISIONS_MAX", 10)
    asked = authorizer(allow(name="t", pattern=Pattern.PREFIXED))
    for number in range(1000):
        assert asked.allows(ALICE, HERE, READ, TOPIC, f"t{number}")
        assert not asked.allows(BOB, HERE, READ, TOPIC, f"t{number}")
        assert not asked.allows_some(Principal("User", str(number)), HERE, WRITE, TOPIC)
    assert len(asked._decisions) <= 10
    asked._decisions.clear()
    assert asked.allows(ALICE, HERE, READ, TOPIC, "t" * 30_000)
    assert not asked._decisions


def test_an_empty_name_is_not_taken_for_any_name():
    asked = authorizer(allow(WRITE, "orders"))
    assert not asked.allows(ALICE, HERE, WRITE, TOPIC, "")
    assert asked.allows_some(ALICE, HERE, WRITE, TOPIC)
    assert not asked.allows(ALICE, HERE, WRITE, TOPIC, "")


def test_with_ten_thousand_acls_a_decision_looks_at_few_of_them():
    patterns = (Pattern.LITERAL, Pattern.PREFIXED)
    many = [allow(name=f"topic-{number}-", pattern=pattern) for number in range(5000) for pattern in patterns]
    asked = authorizer(*many)
    assert asked.allows(ALICE, HERE, READ, TOPIC, "topic-4711-x")
    assert not asked.allows(ALICE, HERE, READ, TOPIC, "topic-4711")
    assert len(list(asked._acls.about(TOPIC, "topic-4711-"))) == 2


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}, "StandardAuthorizer turns ACLs on"),
        ({"super.users": "alice"}, "not a principal such as User:alice"),
    ],
)
def test_what_cannot_be_an_authorizer_is_refused(settings, says):
    with pytest.raises(ConfigError, match=says):
        check_settings(Settings.parse(settings))


@pytest.mark.parametrize(
    ("acls", "settings", "warns"),
    [
        ([], {}, True),
        ([allow()], {}, False),
        ([], {"super_users": "User:alice"}, False),
        ([], {"allow_everyone_if_no_acl_found": "true"}, False),
    ],
)
def test_a_broker_that_refuses_everybody_says_so(caplog, acls, settings, warns):
    authorizer(*acls, **settings)
    assert ("nobody may do anything" in caplog.text) is warns


def test_a_change_that_is_not_durable_has_no_effect():
    asked = authorizer()

    def fail(lines):
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    asked._catalogue = SimpleNamespace(acls={}, write=fail)
    with pytest.raises(KafkaError):
        asked.create([allow()])
    assert not asked.allows(ALICE, HERE, READ, TOPIC, "orders")
