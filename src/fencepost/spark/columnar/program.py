"""The steps of a query, run on a table: projections, filters, and lists taken apart into rows.

Invariant: a result has the rows of Spark's, in the order in which Spark would give those of a partition.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from fencepost.errors import NotColumnar
from fencepost.spark.columnar import nested
from fencepost.spark.columnar.expressions import Node
from fencepost.spark.columnar.functions import (
    FUNCTIONS,
    Uncertain,
    Value,
    as_array,
    cast,
    is_scalar,
    join_texts,
    like,
    mask_of,
)

#: By the id of an attribute.
Columns = dict[int, Any]


class Step(Protocol):
    def run(self, scope: "Scope") -> "Scope": ...

    def expressions(self) -> list[Node]: ...


@dataclass(slots=True)
class Scope:
    """The columns of some rows, and what was already computed of them. Perhaps some of the rows of another scope."""

    columns: Columns
    rows: int
    whole: "Scope | None" = None
    mask: Any = None  #: which rows of the whole these are
    _known: dict[Node, Value] = field(default_factory=dict)

    def value(self, node: Node) -> Value:
        found = self._known.get(node)
        if found is None:
            if self.whole is not None and node.children and _is_given(node):
                found = self.whole.array(node).filter(self.mask)  # without filtering the other fields of its struct
            else:
                found = _evaluate(node, self)
            self._known[node] = found
        return found

    def array(self, node: Node) -> Any:
        return as_array(self.value(node), self.rows)

    def column(self, name: int) -> Any:
        if self.whole is None:
            return self.columns[name]
        if name not in self.columns:
            self.columns[name] = self.whole.column(name).filter(self.mask)
        return self.columns[name]

    def only(self, mask: Any) -> "Scope":
        """The rows of a mask. Columns are filtered when they are asked for."""
        return Scope({}, int(mask.true_count), self, mask)


def _is_given(node: Node) -> bool:
    """Whether it is a column, or a field of one."""
    while node.name == "GetStructField":
        node = node.children[0]
    return node.name == "AttributeReference"


def _evaluate(node: Node, scope: Scope) -> Value:
    special = _SPECIAL.get(node.name)
    if special is not None:
        return special(node, scope)
    return FUNCTIONS[node.name]([scope.value(child) for child in node.children])


def _literal(node: Node, _scope: Scope) -> Value:
    return node.value


def _attribute(node: Node, scope: Scope) -> Value:
    return scope.column(node.value)


def _cast(node: Node, scope: Scope) -> Value:
    return cast(scope.value(node.children[0]), node.value)


def _field(node: Node, scope: Scope) -> Value:
    return nested.field_of(scope.value(node.children[0]), node.value)


def _struct(node: Node, scope: Scope) -> Value:
    names = [scope.value(name).as_py() for name in node.children[::2]]
    return nested.make_struct(names, [scope.value(child) for child in node.children[1::2]], scope.rows)


def _list(node: Node, scope: Scope) -> Value:
    return nested.make_list([scope.value(child) for child in node.children], scope.rows)


def _concat(node: Node, scope: Scope) -> Value:
    values = [scope.value(child) for child in node.children]
    if all(pa.types.is_string(value.type) for value in values):
        return join_texts(values)
    if all(pa.types.is_list(value.type) for value in values):
        return nested.join_lists(values, scope.rows)
    raise Uncertain("concat of other types")


def _if(node: Node, scope: Scope) -> Value:
    condition, then, otherwise = node.children
    return _chosen([(condition, then)], otherwise, scope)


def _case(node: Node, scope: Scope) -> Value:
    children = list(node.children)
    otherwise = children.pop() if node.value else None
    return _chosen(list(zip(children[::2], children[1::2], strict=True)), otherwise, scope)


def _chosen(branches: Sequence[tuple[Node, Node]], otherwise: Node | None, scope: Scope) -> Value:
    """The value of the first branch whose condition is true.

    A branch is evaluated for its own rows, and a condition for those that no earlier one took: elsewhere they may fail.
    What is evaluated for all rows is only so because that is quicker, and if it fails it is tried for its own rows.
    """
    left = np.ones(scope.rows, np.bool_)
    parts: list[tuple[Any, Node]] = []
    for condition, value in branches:
        try:
            mask = mask_of(scope.value(condition), scope.rows).to_numpy(zero_copy_only=False) & left
        except (Uncertain, pa.ArrowException):
            mask = _among(condition, scope, left)
        if mask.any():
            parts.append((mask, value))
            left &= ~mask
        if not left.any():
            break
    if otherwise is not None and left.any():
        parts.append((left, otherwise))
        left = np.zeros(scope.rows, np.bool_)
    if len(parts) == 1 and not left.any():
        return scope.value(parts[0][1])
    if len(parts) == 1 and (found := _mostly(*parts[0], scope)) is not None:
        return found
    groups = [(np.flatnonzero(mask), scope.only(pa.array(mask)).array(value)) for mask, value in parts]
    if not groups:  # no row has a value: its type is that of the first branch, for no rows
        none = scope.only(pa.array(np.zeros(scope.rows, np.bool_)))
        return pa.nulls(scope.rows, none.array(branches[0][1]).type)
    return nested.scatter(groups, scope.rows)


def _among(condition: Node, scope: Scope, left: Any) -> Any:
    """Where a condition is true, asked only of the rows that are left."""
    found = np.zeros(scope.rows, np.bool_)
    some = scope.only(pa.array(left))
    found[left] = mask_of(some.value(condition), some.rows).to_numpy(zero_copy_only=False)
    return found


def _mostly(mask: Any, value: Node, scope: Scope) -> Any | None:
    """A struct that most rows have: made for all rows, and null for the others. None if that cannot be."""
    if 2 * mask.sum() < scope.rows:
        return None
    try:
        found = scope.value(value)
    except (Uncertain, pa.ArrowException):
        return None
    if is_scalar(found) or not pa.types.is_struct(found.type) or not found.type.num_fields:
        return None
    return nested.where(found, pa.array(mask))


def _like(node: Node, scope: Scope) -> Value:
    return like(scope.value(node.children[0]), scope.value(node.children[1]), node.value)


_SPECIAL: dict[str, Callable[[Node, Scope], Value]] = {
    "Literal": _literal,
    "AttributeReference": _attribute,
    "Cast": _cast,
    "GetStructField": _field,
    "CreateNamedStruct": _struct,
    "CreateArray": _list,
    "Concat": _concat,
    "If": _if,
    "CaseWhen": _case,
    "Like": _like,
}

KNOWN = frozenset(_SPECIAL) | frozenset(FUNCTIONS)


@dataclass(frozen=True, slots=True)
class Projection:
    columns: Mapping[int, Node]

    def run(self, scope: Scope) -> Scope:
        return Scope({name: scope.array(node) for name, node in self.columns.items()}, scope.rows)

    def expressions(self) -> list[Node]:
        return list(self.columns.values())


@dataclass(frozen=True, slots=True)
class Filter:
    condition: Node

    def run(self, scope: Scope) -> Scope:
        mask = mask_of(scope.value(self.condition), scope.rows)
        return scope if mask.true_count == scope.rows else scope.only(mask)

    def expressions(self) -> list[Node]:
        return [self.condition]


@dataclass(frozen=True, slots=True)
class Explosion:
    """A row for each element of a list, with columns of its own row. `are_fields`: the elements are structs."""

    lists: Node
    columns: Sequence[int]  #: the new ones
    kept: Sequence[int]  #: those of the row that are used later
    are_fields: bool

    def run(self, scope: Scope) -> Scope:
        lists = scope.array(self.lists)
        if not pa.types.is_list(lists.type):
            raise Uncertain("explode of something else than a list")
        rows, elements = pc.list_parent_indices(lists), lists.flatten()
        made = {name: scope.column(name).take(rows) for name in self.kept}
        if self.are_fields:
            found: Sequence[Any] = elements.flatten() if pa.types.is_struct(elements.type) else ()
        else:
            found = [elements]
        if len(found) != len(self.columns):
            raise Uncertain("inline of something else than structs")
        return Scope({**made, **dict(zip(self.columns, found, strict=True))}, len(elements))

    def expressions(self) -> list[Node]:
        return [self.lists]


@dataclass(frozen=True, slots=True)
class Program:
    """Tasks get a copy, so nodes are compared by identity within one copy."""

    inputs: Mapping[str, int]  #: the columns of the source that are used: their names, and the ids of the attributes
    steps: Sequence[Step]
    outputs: Sequence[tuple[str, int]]

    def run(self, table: Any) -> Any:
        """A RecordBatch with columns of the source, to one of the query's result. Raises NotColumnar."""
        try:
            scope = Scope({number: table.column(name) for name, number in self.inputs.items()}, len(table))
            for step in self.steps:
                scope = step.run(scope)
            columns = [scope.column(number) for _, number in self.outputs]
            return pa.RecordBatch.from_arrays(columns, names=[name for name, _ in self.outputs])
        except (Uncertain, pa.ArrowException, OverflowError, ValueError) as error:
            raise NotColumnar(str(error)) from None
