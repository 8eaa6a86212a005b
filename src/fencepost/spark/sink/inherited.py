"""What the sink of a query takes from its sources: the pipeline's name, and the cluster.

A source that starts from what a pipeline has committed names that pipeline, and the sink commits under the same name.
So it is said once, at the source; if it is said twice, the two must agree. Otherwise the query would begin where one
pipeline stopped and commit in the name of another.

Owns the reading of a query's plan: its `fencepost` sources are leaves of the analysed plan, with their options.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.errors import ConfigError
from fencepost.spark.options import BOOTSTRAP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SOURCE = "fencepost"
#: The leaf of an analysed plan that is a streaming source.
SOURCE_NODE = "StreamingRelationV2"
#: The two names of one option.
NAMES = ("pipeline", "kafka.group.id")


@dataclass(frozen=True, slots=True)
class Target:
    pipeline: str
    bootstrap_servers: str


@dataclass(frozen=True, slots=True)
class SourceSaid:
    """What one `fencepost` source was told."""

    pipeline: str | None = None
    pipeline_option: str = NAMES[0]  #: under which name
    servers: str | None = None


def target_of(df: "DataFrame", pipeline: str | None, bootstrap_servers: str | None) -> Target:
    """What is given, else what the sources of `df` say. ConfigError if neither tells, or if they contradict."""
    return choose(pipeline, bootstrap_servers, sources_of(df))


def choose(pipeline: str | None, bootstrap_servers: str | None, sources: Sequence[SourceSaid]) -> Target:
    """Pure."""
    if pipeline is not None:
        check_pipeline(pipeline, sources)
        name = pipeline
    else:
        name = _only("pipeline", sorted({said.pipeline for said in sources if said.pipeline}), "option 'pipeline'")
    if bootstrap_servers is None:
        servers = {_addresses(said.servers): said.servers for said in sources if said.servers}
        bootstrap_servers = _only("bootstrap_servers", sorted(servers.values()), f"option {BOOTSTRAP!r}")
    return Target(name, bootstrap_servers)


def check_pipeline(pipeline: str, sources: Sequence[SourceSaid]) -> None:
    """ConfigError for a source that belongs to another pipeline. Pure."""
    for said in sources:
        if said.pipeline and said.pipeline != pipeline:
            raise ConfigError(
                f"the sink's pipeline is {pipeline!r}, and the source's option {said.pipeline_option!r} is "
                f"{said.pipeline!r}, but a query is one pipeline: drop the argument 'pipeline' or that option, or give "
                "both the same name"
            )


def _only(argument: str, found: Sequence[str], option: str) -> str:
    if not found:
        raise ConfigError(f"give the argument {argument!r}: the query has no source 'fencepost' with the {option}")
    if len(found) > 1:
        listed = ", ".join(repr(each) for each in found)
        raise ConfigError(f"give the argument {argument!r}: the query's sources do not agree on it ({listed})")
    return found[0]


def _addresses(servers: str) -> frozenset[str]:
    return frozenset(address.strip() for address in servers.split(",")) - {""}


def sources_of(df: "DataFrame") -> list[SourceSaid]:
    """The `fencepost` sources of a streaming DataFrame, in the order of its plan."""
    plan = getattr(df, "_jdf", None)
    if plan is None:
        raise ConfigError("the sink runs in the driver and needs its JVM: Spark Connect is not supported")
    return sources_in(plan.queryExecution().analyzed())


def sources_in(analyzed: Any) -> list[SourceSaid]:
    """The same of an analysed plan, as the JVM has it."""
    return [_said(leaf.extraOptions()) for leaf in each(analyzed.collectLeaves()) if _is_ours(leaf)]


def _is_ours(leaf: Any) -> bool:
    return bool(leaf.getClass().getSimpleName() == SOURCE_NODE and leaf.sourceName().lower() == SOURCE)


def _said(options: Any) -> SourceSaid:
    found = [(name, value.strip()) for name in NAMES if (value := options.get(name)) and value.strip()]
    option, pipeline = found[0] if found else (NAMES[0], None)
    return SourceSaid(pipeline, option, options.get(BOOTSTRAP))


def each(scala: Any) -> Iterator[Any]:
    """The elements of a collection in the JVM."""
    iterator = scala.iterator()
    while iterator.hasNext():
        yield iterator.next()
