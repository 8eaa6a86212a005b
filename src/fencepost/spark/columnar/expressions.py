"""Spark's expressions as trees of our own, made of the JSON in which Spark tells a plan.

Owns the names under which Catalyst's classes are known here. Nodes are interned: an expression that a query has twice
is one object, so it is evaluated once. `Unsupported` says which expression is not known.
"""

import datetime
import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from fencepost.spark.arrow_types import arrow_schema

#: Classes that only wrap their child.
_WRAPPERS = ("Alias", "KnownNotNull", "KnownNullable")
_CLASS = "class"
_CHILDREN = "num-children"


class Unsupported(Exception):
    """The query has something that is not evaluated on columns. The text says what."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An expression. Compared by identity: equal ones are one object."""

    name: str  #: of Catalyst's class
    children: "tuple[Node, ...]" = ()
    value: Any = None  #: a literal's, the id of an attribute, the ordinal of a field, the Arrow type of a cast


@dataclass(slots=True)
class Trees:
    """Makes the nodes of one query."""

    _known: dict[tuple[Any, ...], Node] = field(default_factory=dict)
    _common: list[Node] = field(default_factory=list)  #: what references inside the innermost `With` mean

    def read(self, tokens: Sequence[Mapping[str, Any]]) -> Node:
        """The expression of a list of nodes in pre-order."""
        iterator = iter(tokens)
        found = self._next(iterator)
        if next(iterator, None) is not None:
            raise Unsupported("an expression that Spark tells in another form than expected")
        return found

    def _next(self, tokens: Iterator[Mapping[str, Any]]) -> Node:
        token = next(tokens)
        name = class_name(token)
        if name == "With":
            return self._with(tokens, token)
        if name == "CommonExpressionRef":
            if not self._common:
                raise Unsupported("a common expression outside of With")
            return self._common[-1]
        children = tuple(self._next(tokens) for _ in range(token[_CHILDREN]))
        if name in _WRAPPERS:
            return children[0]
        value = _VALUES[name](token) if name in _VALUES else None
        key = (name, tuple(map(id, children)), type(value), value)
        if key not in self._known:
            self._known[key] = Node(name, children, value)
        return self._known[key]

    def _with(self, tokens: Iterator[Mapping[str, Any]], token: Mapping[str, Any]) -> Node:
        """`With(child, definition)`: references to the definition do not say to which, so there may be only one."""
        if token[_CHILDREN] != 2 or self._common:
            raise Unsupported("several common expressions in one")
        inside = list(_subtree(tokens))
        definition = next(tokens)
        if class_name(definition) != "CommonExpressionDef":
            raise Unsupported("With without a definition")
        self._common.append(self._next(tokens))
        try:
            return self.read(inside)
        finally:
            self._common.pop()


def _subtree(tokens: Iterator[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    left = 1
    while left:
        token = next(tokens)
        left += token[_CHILDREN] - 1
        yield token


def class_name(token: Mapping[str, Any]) -> str:
    return str(token[_CLASS]).rpartition(".")[2].rstrip("$")


def attribute_id(token: Mapping[str, Any]) -> int:
    """Of an attribute or an alias; unique in one JVM."""
    return int(token["exprId"]["id"])


def alias_of(tokens: Sequence[Mapping[str, Any]]) -> tuple[int, str]:
    """The id and name of a projection's column."""
    if class_name(tokens[0]) not in ("Alias", "AttributeReference"):
        raise Unsupported("a column without a name")
    return attribute_id(tokens[0]), str(tokens[0]["name"])


def arrow_type(kind: Any) -> Any:
    """The Arrow type of a type as Spark tells it."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        given = {"type": "struct", "fields": [{"name": "value", "type": kind, "nullable": True, "metadata": {}}]}
        return arrow_schema(StructType.fromJson(given)).field(0).type
    except (PySparkException, KeyError, TypeError, ValueError):
        raise Unsupported(f"the type {kind}") from None


def _literal(token: Mapping[str, Any]) -> Any:
    try:
        return _scalar(token, arrow_type(token["dataType"]), token.get("value"))
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException):
        raise Unsupported(f"the literal {token.get('value')!r}") from None


def _scalar(token: Mapping[str, Any], kind: Any, text: Any) -> Any:
    if text is None:
        return pa.scalar(None, kind)
    types = pa.types
    if types.is_string(kind):
        return pa.scalar(str(text), kind)
    if types.is_boolean(kind):
        return pa.scalar(str(text) == "true", kind)
    if types.is_signed_integer(kind):
        return pa.scalar(int(text), kind)
    if types.is_floating(kind):
        return pa.scalar(float(text), kind)
    if types.is_decimal(kind):
        return pa.scalar(decimal.Decimal(text), kind)
    if types.is_date(kind):
        return pa.scalar(datetime.date.fromisoformat(text), kind)
    raise Unsupported(f"a literal of type {token['dataType']}")


def _has_else(token: Mapping[str, Any]) -> bool:
    """Conditions and values take turns; an odd number of children ends with what is else."""
    return bool(token[_CHILDREN] % 2)


_VALUES: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "Literal": _literal,
    "AttributeReference": attribute_id,
    "Cast": lambda token: arrow_type(token["dataType"]),
    "GetStructField": lambda token: int(token["ordinal"]),
    "CaseWhen": _has_else,
    "Like": lambda token: str(token["escapeChar"]),
}
