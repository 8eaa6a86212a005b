"""What a sink takes from its query's sources, and what it refuses."""

import pytest

from fencepost.errors import ConfigError
from fencepost.spark.sink.inherited import SourceSaid, choose, choose_security, is_elsewhere

SHOP = SourceSaid("shop", servers="a:1")


def test_options_of_the_source_need_not_be_repeated() -> None:
    assert choose(None, None, [SHOP]) == ("shop", "a:1")
    assert choose("shop", None, [SHOP]) == ("shop", "a:1")
    assert choose(None, "b:2", [SHOP]) == ("shop", "b:2"), "the sink may write to another cluster"


def test_sources_that_agree_are_as_good_as_one() -> None:
    other = SourceSaid("shop", "kafka.group.id", "b:2, a:1")
    assert choose(None, None, [SourceSaid("shop", servers="a:1,b:2"), other])[0] == "shop"
    assert choose(None, "a:1", [SHOP, SourceSaid(None, servers="b:2")]) == ("shop", "a:1")


@pytest.mark.parametrize("option", ["pipeline", "kafka.group.id"])
def test_a_source_of_another_pipeline_is_refused(option: str) -> None:
    with pytest.raises(ConfigError) as refused:
        choose("shop", "a:1", [SHOP, SourceSaid("billing", option, "a:1")])
    assert str(refused.value) == (
        f"the sink's pipeline is 'shop', but the source's option '{option}' is 'billing'. A query is one pipeline: "
        "drop the argument 'pipeline' or that option, or give both the same name"
    )


@pytest.mark.parametrize(
    ("sources", "argument", "why"),
    [
        ([], "pipeline", "no 'fencepost' source with the option 'pipeline'"),
        ([SourceSaid(servers="a:1")], "pipeline", "no 'fencepost' source with the option 'pipeline'"),
        ([SHOP, SourceSaid("billing", servers="a:1")], "pipeline", r"do not agree on it \('billing', 'shop'\)"),
        ([SHOP, SourceSaid(servers="b:2")], "bootstrap_servers", r"do not agree on it \('a:1', 'b:2'\)"),
    ],
)
def test_an_argument_that_the_sources_do_not_give_is_named(sources: list[SourceSaid], argument: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"give the argument '{argument}': .*{why}"):
        choose(None, None, sources)


def test_without_a_source_of_ours_both_arguments_do() -> None:
    assert choose("shop", "a:1", []) == ("shop", "a:1")
    with pytest.raises(ConfigError, match="give the argument 'bootstrap_servers'"):
        choose("shop", None, [])


def test_the_login_to_the_sources_cluster_is_the_sinks() -> None:
    login = (("kafka.security.protocol", "SSL"),)
    secured = SourceSaid("shop", servers="a:1,b:2", security=login)
    assert choose_security("b:2, a:1", [secured, SourceSaid(servers="c:3")]) == dict(login)
    assert choose_security("c:3", [secured]) == {}
    with pytest.raises(ConfigError, match="log in to one cluster in different ways"):
        choose_security("a:1,b:2", [secured, SourceSaid(servers="a:1,b:2")])


def test_sources_are_elsewhere_if_each_is_known_to_read_from_other_addresses():
    here, there, unknown = SourceSaid(servers="b:2,a:1"), SourceSaid(servers="c:3"), SourceSaid()
    assert is_elsewhere("a:1", [there])
    assert not is_elsewhere("a:1", [there, here])
    assert not is_elsewhere("a:1", [there, unknown])
    assert not is_elsewhere("a:1", [])


def test_where_views_cannot_be_seen_through_the_error_says_so() -> None:
    with pytest.raises(ConfigError, match=r"give the argument 'pipeline': .*, or it is behind a view"):
        choose(None, "a:1", [], sees_views=False)
    with pytest.raises(ConfigError, match=r"give the argument 'bootstrap_servers': .*, or it is behind a view"):
        choose("shop", None, [], sees_views=False)
