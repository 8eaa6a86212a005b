"""From the plan of a streaming DataFrame to a program; or what it has that only Spark can do.

The plan is the analysed one: names and types are resolved, and nothing depends on Spark's optimiser. Expressions that
Spark writes in terms of others are replaced by its own rule first. Owns the list of operators that are taken:
projections, filters, `inline` and `explode`, over one `fencepost` source that is read as a stream.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.errors import ConfigError, NotColumnar
from fencepost.spark.arrow_types import arrow_schema
from fencepost.spark.columnar.expressions import Node, Trees, Unsupported, alias_of, class_name
from fencepost.spark.columnar.functions import Uncertain
from fencepost.spark.columnar.program import KNOWN, Explosion, Filter, Program, Projection, Scope, Step
from fencepost.spark.options import Options
from fencepost.spark.sessions import is_connect
from fencepost.spark.sink.inherited import is_ours, options_of
from fencepost.spark.source import tables
from fencepost.spark.source.data_source import reading_options
from fencepost.spark.source.read_options import ReadKind, SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

#: Operators that leave rows and columns as they are.
_NAMING = ("SubqueryAlias", "View")
_GENERATORS = {"Inline": True, "Explode": False}


@dataclass(frozen=True, slots=True)
class ColumnarQuery:
    """What tasks need to make the result of a query from ranges of offsets."""

    source: SourceOptions
    program: Program


def columnar_query(df: "DataFrame") -> ColumnarQuery | None:
    """None if Spark has to run the query."""
    if is_connect(df.sparkSession):
        return None
    try:
        return _translated(df)
    except (Unsupported, Uncertain, NotColumnar, ConfigError, pa.ArrowException) as reason:
        logger.info("the query is run on rows: %s", reason)
    except Exception:  # another form of plan than those that were known when this was written
        logger.info("the query is run on rows: its plan is not understood", exc_info=True)
    return None


def _translated(df: Any) -> ColumnarQuery:
    optimizer = df.sparkSession._jvm.org.apache.spark.sql.catalyst.optimizer
    plan = optimizer.ReplaceExpressions.apply(df._jdf.queryExecution().analyzed())
    *operators, relation = json.loads(plan.toJSON())
    leaf = plan.collectLeaves().head()
    if not is_ours(leaf):
        raise Unsupported(class_name(relation))
    trees = Trees()
    steps = [step for operator in reversed(operators) for step in _steps(operator, trees)]
    outputs = [alias_of(tokens) for tokens in _output(operators)]
    steps, used = _needed(steps, {number for number, _ in outputs})
    given = {alias_of(tokens)[1]: alias_of(tokens)[0] for tokens in relation["output"]}
    inputs = {name: number for name, number in given.items() if number in used}
    source = _source(leaf, frozenset(inputs))
    program = Program(inputs, steps, [(name, number) for number, name in outputs])
    _try(program, source, arrow_schema(df.schema))
    return ColumnarQuery(source, program)


def _source(leaf: Any, used: frozenset[str]) -> SourceOptions:
    from pyspark.sql.types import StructType

    options = Options(options_of(leaf))
    if options.text(tables.TABLES) is not None:
        raise Unsupported("read_tables")
    schema = StructType.fromJson(json.loads(leaf.schema().json()))
    return reading_options(options, ReadKind.STREAM, schema, used)


def _steps(operator: Mapping[str, Any], trees: Trees) -> Iterator[Step]:
    name = class_name(operator)
    if operator["num-children"] != 1:
        raise Unsupported(name)
    if name == "Project":
        yield Projection({alias_of(tokens)[0]: _read(trees, tokens) for tokens in operator["projectList"]})
    elif name == "Filter":
        yield Filter(_read(trees, operator["condition"]))
    elif name == "Generate":
        yield _explosion(operator, trees)
    elif name not in _NAMING:
        raise Unsupported(name)


def _explosion(operator: Mapping[str, Any], trees: Trees) -> Explosion:
    generator = operator["generator"]
    name = class_name(generator[0])
    if name not in _GENERATORS or operator["outer"]:
        raise Unsupported(f"{name} as a generator")
    columns = [alias_of(tokens)[0] for tokens in operator["generatorOutput"]]
    return Explosion(_read(trees, generator[1:]), columns, (), are_fields=_GENERATORS[name])


def _read(trees: Trees, tokens: Sequence[Mapping[str, Any]]) -> Node:
    found = trees.read(tokens)
    for node in _inside(found):
        if node.name not in KNOWN:
            raise Unsupported(node.name)
    return found


def _inside(node: Node) -> Iterator[Node]:
    """A node and those below it, these first."""
    for child in node.children:
        yield from _inside(child)
    yield node


def _output(operators: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
    """The columns of the result."""
    first = next((each for each in operators if class_name(each) not in _NAMING), None)
    if first is None or class_name(first) != "Project":
        raise Unsupported("a query that does not end with a projection")
    columns: Sequence[Any] = first["projectList"]
    return columns


def _needed(steps: Sequence[Step], wanted: AbstractSet[int]) -> tuple[list[Step], AbstractSet[int]]:
    """The steps without columns that nothing needs, and the columns that the first of them needs."""
    found: list[Step] = []
    for step in reversed(steps):
        if isinstance(step, Projection):
            step, wanted = Projection({name: step.columns[name] for name in step.columns if name in wanted}), set()
        elif isinstance(step, Explosion):
            wanted = set(wanted) - {*step.columns}
            step = replace(step, kept=tuple(sorted(wanted)))
        wanted = wanted | {
            node.value for top in step.expressions() for node in _inside(top) if node.name == "AttributeReference"
        }
        found.append(step)
    return found[::-1], wanted


def _try(program: Program, source: SourceOptions, expected: Any) -> None:
    """Run every expression on no rows: this tells whether all types are taken, and those of the result are Spark's."""
    if source.rows is None:
        raise Unsupported("a source that converts nothing")
    columns = {number: pa.nulls(0, source.rows.schema.field(name).type) for name, number in program.inputs.items()}
    scope = Scope(columns, 0)
    for step in program.steps:
        for top in step.expressions():
            for node in _inside(top):
                scope.value(node)
        scope = step.run(scope)
    for (name, number), column in zip(program.outputs, expected, strict=True):
        found = scope.column(number).type
        if not _is_alike(found, column.type):
            raise Unsupported(f"column {name!r}: {found} instead of {column.type}")


def _is_alike(one: Any, other: Any) -> bool:
    """Whether two types are the same but for what may be null."""
    if not pa.types.is_nested(one) or one.num_fields != other.num_fields:
        return bool(one == other)
    pairs = zip(
        (one.field(each) for each in range(one.num_fields)),
        (other.field(each) for each in range(other.num_fields)),
        strict=True,
    )
    return one.id == other.id and all(
        (left.name == right.name or not pa.types.is_struct(one)) and _is_alike(left.type, right.type)
        for left, right in pairs
    )
