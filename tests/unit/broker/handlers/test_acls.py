"""CreateAcls, DescribeAcls and DeleteAcls against a model, restarts included; and what they refuse."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fencepost.broker.acl import Operation, Pattern, Permission, Resource
from fencepost.errors import ErrorCode
from tests.unit.broker.admin_world import World, error

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ANY = 1


def creation(**changed):
    fields = {
        "resource_type": 2, "resource_name": "orders", "resource_pattern_type": 3, "principal": "User:alice",
        "host": "*", "operation": 3, "permission_type": 3,
    }  # fmt: skip
    return fields | changed


def selection(**changed):
    fields = {
        "resource_type_filter": ANY, "resource_name_filter": None, "pattern_type_filter": ANY, "principal_filter": None,
        "host_filter": None, "operation": ANY, "permission_type": ANY,
    }  # fmt: skip
    return fields | changed


def flat(described):
    return sorted(
        (found.resource_type, found.resource_name, found.pattern_type, acl.principal, acl.host, acl.operation,
         acl.permission_type)
        for found in described.resources
        for acl in found.acls
    )  # fmt: skip


names = st.sampled_from(["*", "a", "ab", "abc"])
principals = st.sampled_from(["User:alice", "User:*"])
creations = st.builds(
    creation,
    resource_type=st.sampled_from([2, 3, 5]),
    resource_name=names,
    resource_pattern_type=st.sampled_from([3, 4]),
    principal=principals,
    host=st.sampled_from(["*", "10.0.0.1"]),
    operation=st.sampled_from([2, 3, 4]),
    permission_type=st.sampled_from([2, 3]),
)
selections = st.builds(
    selection,
    resource_type_filter=st.sampled_from([ANY, 2, 3]),
    resource_name_filter=st.none() | names,
    pattern_type_filter=st.sampled_from([ANY, 2, 3, 4]),
    principal_filter=st.none() | principals,
    host_filter=st.sampled_from([None, "*", "10.0.0.1"]),
    operation=st.sampled_from([ANY, 2, 3]),
    permission_type=st.sampled_from([ANY, 2, 3]),
)


def fits(asked, acl):
    """What the protocol says of a filter, written without a look at ours."""
    kind, name, pattern, principal, host, operation, permission = acl
    wanted, how = asked["resource_name_filter"], asked["pattern_type_filter"]
    pairs = [
        (asked["principal_filter"], principal), (asked["host_filter"], host), (asked["operation"], operation),
        (asked["permission_type"], permission), (asked["resource_type_filter"], kind),
    ]  # fmt: skip
    if any(given not in (None, ANY, has) for given, has in pairs):
        return False
    if how in (3, 4) and how != pattern:
        return False
    if wanted is None:
        return True
    if how != 2:
        return name == wanted
    return wanted.startswith(name) if pattern == 4 else name in (wanted, "*")


class AclMachine(RuleBasedStateMachine):
    @initialize()
    def open(self):
        self.directory = tempfile.TemporaryDirectory()
        self.world = World(Path(self.directory.name), AUTHORIZED)
        self.model = set()

    @rule(wanted=st.lists(creations, max_size=3))
    def create(self, wanted):
        answer = self.world.ask(CREATE_ACLS, creations=wanted)
        assert [result.error_code for result in answer.results] == [0] * len(wanted)
        self.model |= {tuple(each.values()) for each in wanted}

    @rule(asked=st.lists(selections, max_size=2))
    def delete(self, asked):
        answer = self.world.ask(DELETE_ACLS, filters=asked)
        expected = [sorted(acl for acl in self.model if fits(each, acl)) for each in asked]
        found = [
            sorted(
                (acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host, acl.operation,
                 acl.permission_type)
                for acl in result.matching_acls
            )
            for result in answer.filter_results
        ]  # fmt: skip
        assert found == expected
        self.model -= {acl for each in expected for acl in each}

    @rule(asked=selections)
    def describe(self, asked):
        found = flat(self.world.ask(DESCRIBE_ACLS, **asked))
        assert found == sorted(acl for acl in self.model if fits(asked, acl))

    @rule()
    def restart(self):
        self.world.restart()

    @rule()
    def crash(self):
        self.world.crash()
        self.world.open()

    @invariant()
    def all_are_there(self):
        if hasattr(self, "world"):
            assert flat(self.world.ask(DESCRIBE_ACLS, **selection())) == sorted(self.model)

    def teardown(self):
        if hasattr(self, "world"):
            self.world.close()
            self.directory.cleanup()


TestAgainstAModel = AclMachine.TestCase
TestAgainstAModel.settings = settings(max_examples=15, stateful_step_count=10, deadline=None)


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path, AUTHORIZED)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"resource_type": Resource.ANY}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType 99"),
        ({"resource_pattern_type": Pattern.ANY}, "Invalid patternType ANY"),
        ({"resource_pattern_type": Pattern.MATCH}, "Invalid patternType MATCH"),
        ({"operation": Operation.ANY}, "Invalid operation ANY"),
        ({"operation": 0}, "Invalid operation 0"),
        ({"permission_type": Permission.ANY}, "Invalid permissionType ANY"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        (
            {"resource_type": 4, "resource_name": "mine"},
            "The only valid name for the CLUSTER resource is kafka",
        ),
        ({"principal": "alice"}, "not a principal such as User:alice"),
    ],
)
def test_an_acl_that_makes_no_sense_is_refused_alone(world, changed, says):
    answer = world.ask(CREATE_ACLS, creations=[creation(), creation(**changed), creation(resource_name="other")])
    assert [result.error_code for result in answer.results] == [0, ErrorCode.INVALID_REQUEST, 0]
    assert says in answer.results[1].error_message
    assert len(flat(world.ask(DESCRIBE_ACLS, **selection()))) == 2


def test_a_filter_that_makes_no_sense_deletes_nothing(world):
    world.ask(CREATE_ACLS, creations=[creation()])
    answer = world.ask(DELETE_ACLS, filters=[selection(operation=77)])
    assert answer.filter_results[0].error_code == ErrorCode.INVALID_REQUEST
    assert world.ask(DESCRIBE_ACLS, **selection(permission_type=0)).error_code == ErrorCode.INVALID_REQUEST
    assert len(flat(world.ask(DESCRIBE_ACLS, **selection()))) == 1


def test_acls_outlive_a_time_without_an_authorizer(world):
    world.ask(CREATE_ACLS, creations=[creation()])
    world.given = {}
    world.restart()
    assert error(world.ask(DESCRIBE_ACLS, **selection())) == (
        "SECURITY_DISABLED",
        "No Authorizer is configured on the broker",
    )
    assert world.ask(CREATE_ACLS, creations=[creation()]).results[0].error_code == ErrorCode.SECURITY_DISABLED
    assert world.ask(DELETE_ACLS, filters=[selection()]).filter_results[0].error_code == ErrorCode.SECURITY_DISABLED
    world.given = AUTHORIZED
    world.restart()
    assert len(flat(world.ask(DESCRIBE_ACLS, **selection()))) == 1
