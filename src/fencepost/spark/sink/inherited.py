"""What the sink of a query takes from its sources: the pipeline's name, the cluster, and how to log in to it.

A source that starts from a pipeline's committed offsets names that pipeline, and the sink commits under the same name.
So the name is given once, at the source. If it is given twice, both must agree. Otherwise the query would begin where
one pipeline stopped and commit for another.

Owns the reading of a query's plan: the `fencepost` sources are leaves of the analysed plan, with their options.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.errors import ConfigError
from fencepost.spark.options import BOOTSTRAP, is_security
from fencepost.spark.sessions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SOURCE = "fencepost"
#: The leaf of an analysed plan that is a streaming source.
SOURCE_NODE = "StreamingRelationV2"
#: The same in a plan of Spark Connect.
SOURCE_MESSAGE = "spark.connect.Read.DataSource"
#: The two names of one option.
NAMES = ("pipeline", "kafka.group.id")
BEHIND_VIEWS = ", or it is behind a view or table, where Spark Connect does not show it"


@dataclass(frozen=True, slots=True)
class SourceSaid:
    """The options of one `fencepost` source."""

    pipeline: str | None = None
    pipeline_option: str = NAMES[0]  #: the option that named it
    servers: str | None = None
    security: tuple[tuple[str, str], ...] = ()  #: its options for TLS and SASL


def choose(
    pipeline: str | None, bootstrap_servers: str | None, sources: Sequence[SourceSaid], *, sees_views: bool = True
) -> tuple[str, str]:
    """The sink's pipeline and cluster: the arguments if given, else the options of the sources. Pure.

    Raises ConfigError if there are none or they differ. `sees_views`: whether `sources` has those behind a view.
    """
    unseen = "" if sees_views else BEHIND_VIEWS
    if pipeline is not None:
        check_pipeline(pipeline, sources)
        name = pipeline
    else:
        names = sorted({said.pipeline for said in sources if said.pipeline})
        name = _only("pipeline", names, f"option 'pipeline'{unseen}")
    if bootstrap_servers is None:
        servers = {_addresses(said.servers): said.servers for said in sources if said.servers}
        bootstrap_servers = _only("bootstrap_servers", sorted(servers.values()), f"option {BOOTSTRAP!r}{unseen}")
    return name, bootstrap_servers


def is_elsewhere(servers: str, sources: Sequence[SourceSaid]) -> bool:
    """Whether all sources read from other addresses than these. Pure."""
    here = _addresses(servers)
    return bool(sources) and not any(said.servers is None or here & _addresses(said.servers) for said in sources)


def choose_security(servers: str, sources: Sequence[SourceSaid]) -> dict[str, str]:
    """The options for TLS and SASL of the sources that read from the sink's cluster. Pure.

    Raises ConfigError if they differ.
    """
    found = {said.security for said in sources if said.servers and _addresses(said.servers) == _addresses(servers)}
    if len(found) > 1:
        raise ConfigError(
            "the query's sources log in to one cluster in different ways: give the sink its own `options`"
        )
    return dict(next(iter(found), ()))


def check_pipeline(pipeline: str, sources: Sequence[SourceSaid]) -> None:
    """Raises ConfigError for a source that belongs to another pipeline. Pure."""
    for said in sources:
        if said.pipeline and said.pipeline != pipeline:
            raise ConfigError(
                f"the sink's pipeline is {pipeline!r}, but the source's option {said.pipeline_option!r} is "
                f"{said.pipeline!r}. A query is one pipeline: drop the argument 'pipeline' or that option, or give "
                "both the same name"
            )


def _only(argument: str, found: Sequence[str], option: str) -> str:
    if not found:
        raise ConfigError(f"give the argument {argument!r}: the query has no 'fencepost' source with the {option}")
    if len(found) > 1:
        listed = ", ".join(repr(each) for each in found)
        raise ConfigError(f"give the argument {argument!r}: the query's sources do not agree on it ({listed})")
    return found[0]


def _addresses(servers: str) -> frozenset[str]:
    return frozenset(address.strip() for address in servers.split(",")) - {""}


def sources_of(df: "DataFrame") -> list[SourceSaid]:
    """The `fencepost` sources of a streaming DataFrame, in the order of its plan."""
    if is_connect(df.sparkSession):
        return sources_in_message(_plan_message(df))
    frame: Any = df
    return sources_in(frame._jdf.queryExecution().analyzed())


def _plan_message(df: Any) -> Any:
    return df._plan.to_proto(df.sparkSession.client)


def sources_in_message(message: Any) -> list[SourceSaid]:
    """The same for a plan that Spark Connect sends to the server: a message of Protocol Buffers.

    A view is only a name there, so the sources behind it are not found.
    """
    from google.protobuf.message import Message

    if message.DESCRIPTOR.full_name == SOURCE_MESSAGE:
        return [_said(dict(message.options))] if message.format.lower() == SOURCE else []
    found: list[SourceSaid] = []
    for field, value in message.ListFields():
        if field.message_type is not None:
            inside = [value] if isinstance(value, Message) else value.values() if hasattr(value, "values") else value
            found += [said for part in inside if isinstance(part, Message) for said in sources_in_message(part)]
    return found


def sources_in(analyzed: Any) -> list[SourceSaid]:
    """The same for an analysed plan in the JVM."""
    return [_said(options_of(leaf)) for leaf in each(analyzed.collectLeaves()) if is_ours(leaf)]


def options_of(leaf: Any) -> dict[str, str]:
    """The options of a source that is read as a stream."""
    return {str(name): str(value) for name, value in leaf.extraOptions().asCaseSensitiveMap().items()}


def is_ours(leaf: Any) -> bool:
    """Whether a leaf of an analysed plan in the JVM is a `fencepost` source that is read as a stream."""
    return bool(leaf.getClass().getSimpleName() == SOURCE_NODE and leaf.sourceName().lower() == SOURCE)


def _said(options: Mapping[str, str]) -> SourceSaid:
    given = {str(name).lower(): str(value) for name, value in options.items()}
    found = [(name, value.strip()) for name in NAMES if (value := given.get(name)) and value.strip()]
    option, pipeline = found[0] if found else (NAMES[0], None)
    security = sorted((name, value) for name, value in given.items() if is_security(name))
    return SourceSaid(pipeline, option, given.get(BOOTSTRAP), tuple(security))


def each(scala: Any) -> Iterator[Any]:
    """The elements of a collection in the JVM."""
    iterator = scala.iterator()
    while iterator.hasNext():
        yield iterator.next()
