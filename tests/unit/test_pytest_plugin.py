"""The pytest plugin gives every test a broker and a topic of its own, alone and with workers."""

import importlib.metadata
import re
from pathlib import Path

import pytest

import fencepost
from fencepost.pytest_plugin import topic_name

pytest_plugins = ["pytester"]

TESTS = """
import pytest

SEEN = set()

def test_a_broker_is_there(fencepost_broker, fencepost_bootstrap_servers):
    assert fencepost_broker.running
    assert fencepost_broker.bootstrap_servers == fencepost_bootstrap_servers

@pytest.mark.parametrize("value", ["a/b", "ü", "x" * 300])
def test_a_topic_each(fencepost_topic, value):
    assert fencepost_topic.startswith("test_a_topic_each")
    assert fencepost_topic not in SEEN
    SEEN.add(fencepost_topic)

@pytest.mark.fencepost_topic(partitions=3, config={"cleanup.policy": "compact"})
def test_a_topic_to_order(fencepost_topic, fencepost_bootstrap_servers):
    from confluent_kafka.admin import AdminClient, ConfigResource
    admin = AdminClient({"bootstrap.servers": fencepost_bootstrap_servers})
    assert len(admin.list_topics(fencepost_topic, timeout=10).topics[fencepost_topic].partitions) == 3
    resource = ConfigResource("topic", fencepost_topic)
    (described,) = [future.result(10) for future in admin.describe_configs([resource]).values()]
    assert described["cleanup.policy"].value == "compact"
"""


@pytest.fixture
def run(pytester, monkeypatch):
    # The plugin is named by hand where the package is not installed, so that its entry point does not find it.
    installed = any(entry.name == "fencepost" for entry in importlib.metadata.entry_points(group="pytest11"))
    pytester.makepyfile(TESTS)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(fencepost.__file__).parent.parent))

    def run(*arguments):
        plugin = () if installed else ("-p", "fencepost.pytest_plugin")
        return pytester.runpytest_subprocess(*plugin, "-p", "no:cacheprovider", "--strict-markers", *arguments)

    return run


@pytest.mark.parametrize("workers", ["0", "2"])
def test_tests_get_a_broker_and_topics_and_each_worker_its_own(run, workers):
    run("-n", workers).assert_outcomes(passed=5)


def test_settings_come_from_the_ini_file_and_the_command_line(pytester, run):
    pytester.makeini("[pytest]\nfencepost_settings =\n    num.partitions=4\n    log.retention.ms=1\n")
    pytester.makepyfile(
        """
        def test_settings(fencepost_broker):
            assert fencepost_broker._settings["num.partitions"] == "4"
            assert fencepost_broker._settings["log.retention.ms"] == "2"
            assert fencepost_broker._settings["group.initial.rebalance.delay.ms"] == "0"
        """
    )
    run("--fencepost-set", "log.retention.ms=2").assert_outcomes(passed=1)


def test_a_broker_that_a_test_ended_is_back_for_the_next_one(pytester, run):
    pytester.makepyfile(
        """
        import pytest
        from confluent_kafka.admin import AdminClient

        KEPT = []

        @pytest.fixture
        def admin(fencepost_bootstrap_servers):
            return AdminClient({"bootstrap.servers": fencepost_bootstrap_servers})

        @pytest.mark.parametrize("how", ["kill", "stop"])
        def test_ends_it(fencepost_broker, fencepost_topic, how):
            KEPT.append((fencepost_broker.bootstrap_servers, fencepost_topic))
            getattr(fencepost_broker, how)()

        def test_has_it_again(request, admin, fencepost_topic):
            found = admin.list_topics(timeout=10).topics
            assert {fencepost_topic, *(topic for _, topic in KEPT)} <= set(found)
            broker = request.getfixturevalue("fencepost_broker")
            assert {address for address, _ in KEPT} == {broker.bootstrap_servers}
            broker.kill()

        def test_needs_none():
            pass

        def test_asks_late(request):
            assert request.getfixturevalue("fencepost_broker").running
        """
    )
    run().assert_outcomes(passed=5)


def test_a_broker_that_a_test_closed_is_said_to_be(pytester, run):
    pytester.makepyfile(
        """
        def test_closes_it(fencepost_broker):
            fencepost_broker.close()

        def test_misses_it(fencepost_topic):
            pass

        def test_needs_none():
            pass
        """
    )
    result = run()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*the broker has been closed, and its temporary data is gone*"])


def test_brokers_are_secured_by_ini_file_and_marker_with_one_of_each_kind(pytester, run):
    pytester.makeini("[pytest]\nfencepost_security = SASL_SSL\n")
    pytester.makepyfile(
        """
        import pytest
        from confluent_kafka.admin import AdminClient

        SEEN = {}

        @pytest.fixture(scope="session")
        def admin(fencepost_client_config):
            return AdminClient(fencepost_client_config("confluent"))

        @pytest.fixture
        def protocol(fencepost_broker, fencepost_client_config, fencepost_topic, admin):
            assert fencepost_topic in admin.list_topics(timeout=20).topics  # fixtures of the session follow the broker
            assert SEEN.setdefault(fencepost_broker, len(SEEN)) < 3
            config = fencepost_client_config("confluent")
            assert config == fencepost_broker.client_config("confluent")
            return str(config.get("security.protocol", "PLAINTEXT"))

        def test_default(protocol):
            assert protocol == "SASL_SSL"

        @pytest.mark.fencepost_security("SASL_PLAINTEXT")
        class TestMarked:
            def test_class(self, protocol):
                assert protocol == "SASL_PLAINTEXT"

            @pytest.mark.fencepost_security("plaintext", "SASL_SSL")
            def test_nearest(self, protocol):
                assert protocol in ("PLAINTEXT", "SASL_SSL")

            def test_no_broker(self):
                pass

            def test_ended(self, fencepost_broker):
                fencepost_broker.kill()

            def test_back(self, protocol):
                assert protocol == "SASL_PLAINTEXT"

        def test_default_again(protocol):
            assert protocol == "SASL_SSL"
            assert len(SEEN) == 3
        """
    )
    run().assert_outcomes(passed=8)


def test_the_command_line_decides_over_the_ini_file(pytester, run):
    pytester.makeini("[pytest]\nfencepost_security = SSL\n")
    pytester.makepyfile(
        """
        def test_it(fencepost_client_config):
            assert fencepost_client_config("java")["security.protocol"] == "SASL_PLAINTEXT"
        """
    )
    run("--fencepost-security", "sasl_plaintext").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("marker", "words", "message"),
    [
        ('"TLS"', (), "*the marker fencepost_security must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not*"),
        ('"SSL"', ("-k", "other", "--fencepost-security", "TLS"), "*--fencepost-security must be one of *, not 'TLS'*"),
    ],
)
def test_wrong_security_is_explained(pytester, run, marker, words, message):
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.fencepost_security({marker})
        def test_marked(fencepost_topic):
            pass

        def test_other(fencepost_topic):
            pass
        """
    )
    result = run(*words)
    assert result.ret != 0
    result.stdout.fnmatch_lines([message])


def test_a_wrong_setting_is_explained(run):
    result = run("--fencepost-set", "num.partition=2")
    result.stdout.fnmatch_lines(["*did you mean num.partitions?*"])


def test_without_a_test_that_asks_no_broker_is_imported(pytester, run):
    pytester.makepyfile(
        """
        import sys

        def test_nothing():
            assert not [name for name in sys.modules if name.startswith("fencepost.broker") or name == "uvloop"]
        """
    )
    run().assert_outcomes(passed=1)


@pytest.mark.parametrize("name", ["test_x", "test_x[a/b]", "[]", "ü" * 10, "x" * 1000, "a.b"])
def test_topic_names_are_legal_and_never_the_same(name):
    first, second = topic_name(name), topic_name(name)
    assert first != second
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,249}", first)
