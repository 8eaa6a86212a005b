"""The catalogue gives back what was acknowledged, whatever happens to the machine."""

import random
from dataclasses import replace

import pytest

from fencepost.broker.acl import Acl, Operation, Pattern, Permission, Resource
from fencepost.broker.catalogue import FILE_NAME, SLACK_LINES, Catalogue, Topic, _encode, credential_line
from fencepost.errors import ErrorCode, KafkaError, Malformed
from fencepost.security.scram import Credential, Mechanism, Shape
from tests.fakes.forgetful_disk import ForgetfulDisk, PowerLost

SHA256 = Mechanism.SCRAM_SHA_256
CREDENTIAL = Credential.make(SHA256, "pencil")
HOME = "/data"
PATH = f"{HOME}/{FILE_NAME}"


def topic(name, partitions=1, **config):
    return Topic(name, name.encode().ljust(16, b"."), partitions, config)


def acl(name):
    return Acl(Resource.TOPIC, name, Pattern.PREFIXED, "User:x", "*", Operation.READ, Permission.ALLOW)


def opened(disk):
    catalogue = Catalogue(disk, HOME)
    catalogue.open()
    return catalogue


@pytest.fixture
def disk():
    return ForgetfulDisk(HOME)


@pytest.fixture
def catalogue(disk):
    return opened(disk)


def state(catalogue):
    logins = (catalogue.login_secret, catalogue.credentials, catalogue.credential_shapes)
    topics = (catalogue.topics, catalogue.gone, catalogue.altered)
    return (*topics, catalogue.next_producer_id, catalogue.features, catalogue.acls, *logins)


CHANGES = [
    [topic("a").line()],
    [topic("b", 3, **{"retention.ms": "5"}).line(), topic("c").line()],
    [{"producer_ids": 1000}],
    [{"gone": {"name": "a", "id": topic("a").id.hex()}}],
    [{"altered": {"source": 2, "values": {"log.retention.ms": "7", "log.roll.ms": None}}}],
    [topic("b", 5).line()],
    [{"acl": acl("a").fields()}, {"acl": acl("b").fields()}],
    [{"acl_gone": acl("a").fields()}],
    [{"features": {"epoch": 1, "levels": {"transaction.version": 1}}}],
    [{"login_secret": "0a0b"}],
    [credential_line("alice", SHA256, CREDENTIAL), credential_line("bob", SHA256, CREDENTIAL)],
    [credential_line("alice", SHA256, replace(CREDENTIAL, salt=bytes(64)))],
    [credential_line("bob", SHA256, None)],
]


def test_every_change_survives_power_loss(disk, catalogue):
    for change in CHANGES:
        catalogue.write(change)
        disk.lose_power()
        assert state(opened(disk)) == state(catalogue)
    assert set(catalogue.topics) == {"b", "c"}
    assert catalogue.topics["b"] == topic("b", 5)
    assert catalogue.gone == {topic("a").id: "a"}
    assert list(catalogue.acls) == [acl("b")]
    assert (catalogue.next_producer_id, catalogue.features_epoch) == (1000, 1)
    assert catalogue.login_secret == b"\n\v"
    assert catalogue.credential_shapes[SHA256] == {Shape(64, 4096): 1}


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_at_any_step_leaves_the_change_whole_or_absent(seed):
    rng = random.Random(seed)
    for steps in range(40):
        disk = ForgetfulDisk(HOME)
        disk.die_after(steps)
        before, acknowledged = None, -1
        try:
            catalogue = opened(disk)
            for number, change in enumerate(CHANGES):
                before = number
                catalogue.write(change)
                acknowledged = number
        except PowerLost:
            pass
        disk.lose_power(rng)
        found = state(opened(disk))
        assert found in [
            _state_after(acknowledged),
            _state_after(before if before is not None else -1),
            *_partly(before),
        ]


def _state_after(last):
    catalogue = opened(ForgetfulDisk(HOME))
    for change in CHANGES[: last + 1]:
        catalogue.write(change)
    return state(catalogue)


def _partly(number):
    """A change of several lines may be there in part when it was not acknowledged: each line is a change of its own."""
    if number is None:
        return
    for count in range(1, len(CHANGES[number])):
        catalogue = opened(ForgetfulDisk(HOME))
        for change in CHANGES[:number]:
            catalogue.write(change)
        catalogue.write(CHANGES[number][:count])
        yield state(catalogue)


def test_an_unfinished_last_line_is_cut_off(disk, catalogue):
    catalogue.write(CHANGES[0])
    whole = disk.read_bytes(PATH)
    catalogue.write([topic("lost").line()])
    for end in range(len(whole) + 1, len(disk.read_bytes(PATH))):
        torn = ForgetfulDisk(HOME)
        torn.write_atomically(PATH, disk.read_bytes(PATH)[:end])
        assert set(opened(torn).topics) == {"a"}
        assert torn.read_bytes(PATH) == whole


def test_damage_before_the_last_line_stops_the_start(disk, catalogue):
    for change in CHANGES:
        catalogue.write(change)
    data = bytearray(disk.read_bytes(PATH))
    data[len(data) // 2] ^= 1
    disk.write_atomically(PATH, bytes(data))
    with pytest.raises(Malformed, match="damaged at byte"):
        opened(disk)


def test_an_acl_from_the_future_is_refused(disk):
    opened(disk).write([{"catalogue": 1}])
    disk.write_atomically(
        PATH, _encode({"catalogue": 1}) + _encode({"acl": {**acl("a").fields(), "operation": "SING"}})
    )
    with pytest.raises(Malformed, match="'SING' is not known here"):
        opened(disk)


def test_a_newer_version_is_refused(disk):
    opened(disk).write([{"catalogue": 1}])
    disk.write_atomically(PATH, _encode({"catalogue": 2}))
    with pytest.raises(Malformed, match="version 2"):
        opened(disk)


def test_a_change_costs_one_small_write_and_one_sync_however_many_topics_there_are(disk, catalogue):
    catalogue.write([topic(f"t{number}").line() for number in range(1000)])
    size, syncs = len(disk.read_bytes(PATH)), disk.syncs
    catalogue.write([topic("one").line()])
    assert len(disk.read_bytes(PATH)) - size < 200
    assert disk.syncs == syncs + 1


def test_outdated_lines_are_dropped_when_there_are_many(disk, catalogue):
    for number in range(SLACK_LINES * 2):
        catalogue.write([{"producer_ids": number}])
    catalogue.write([*CHANGES[0], {"acl": acl("a").fields()}])
    catalogue.tidy()
    assert disk.read_bytes(PATH).count(b"\n") < 10
    catalogue.write(CHANGES[1])
    disk.lose_power()
    assert state(opened(disk)) == state(catalogue)


def test_a_full_disk_refuses_the_change_and_keeps_the_rest(disk, catalogue):
    catalogue.write(CHANGES[0])
    disk.capacity_bytes = disk.used_bytes() + 20
    with pytest.raises(KafkaError) as raised:
        catalogue.write(CHANGES[1])
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert set(catalogue.topics) == {"a"}
    disk.capacity_bytes = None
    catalogue.write(CHANGES[1])
    assert set(opened(disk).topics) == {"a", "b", "c"}


def test_after_a_failed_sync_nothing_more_is_promised(disk, catalogue):
    disk.fail_syncs = True
    with pytest.raises(KafkaError):
        catalogue.write(CHANGES[0])
    disk.fail_syncs = False
    with pytest.raises(KafkaError, match="the disk failed"):
        catalogue.write(CHANGES[1])
    assert catalogue.topics == {}
