"""Pull queries for the rows of one key: finds the key in their text, and checks that the rest is
independent of the key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sqlglot import exp

from millstream.model.batch import ROWTIME
from millstream.model.expressions import ColumnRef
from millstream.model.physical import physical_names
from millstream.model.schema import Schema
from millstream.operators.relation import quoted
from millstream.operators.sql import identifier, literal
from millstream.operators.view import View
from millstream.query.conditions import Value
from millstream.query.pull import Pull
from millstream_parser import Values
from millstream_parser.statements import Query

TEXT_MAX = 10_000
_ONE_KEY = re.compile(
    r"""([^'"`\-/$;]*=\s*)(?:'((?:[^'\\$\ud800-\udfff]|'')*)'|([0-9]{1,9}))\s*;?\s*"""
)
"""A text that ends in its only quoted constant, or in its last number, as an operand of a
comparison. Nothing before the constant can begin a comment, a quoted name or a variable, so it is
parsed the same way whatever follows; the number is an INTEGER."""

_ONE_PARAMETER = re.compile(r"""([^'"`\-/$;?:]*=\s*)(?:\?|\$1)\s*;?\s*""")
"""The same with a parameter instead of the constant."""
_NUMBER_END = 10**9


def key_asked(text: str, parameters: Values = ()) -> tuple[str, Value] | None:
    """The text up to the key, and the key; None for any other form. Texts with the same beginning
    and the same type of key differ in nothing else, whether the key is in the text or the value of
    its one parameter."""
    if parameters:
        return _parameter_asked(text, parameters)
    found = _ONE_KEY.fullmatch(text) if len(text) <= TEXT_MAX else None
    if found is None:
        return None
    before, string, number = found.groups()
    if number is None:
        return f"{before}'", string.replace("''", "'")
    return before, int(number)


def _parameter_asked(text: str, parameters: Values) -> tuple[str, Value] | None:
    found = _ONE_PARAMETER.fullmatch(text) if len(text) <= TEXT_MAX else None
    if found is None or len(parameters) != 1 or isinstance(parameters, Mapping):
        return None
    before, (key,) = found.group(1), parameters
    if isinstance(key, str):
        return (f"{before}'", key) if key.isprintable() else None
    if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < _NUMBER_END:
        return before, key
    return None


def key_column(query: Query, plan: Pull, key: Schema) -> str | None:
    """The key column that the query compares with the constant at its end, if the query only
    selects columns of the rows where they are equal."""
    *items, _ = plan.expressions or (None,)
    if (
        not isinstance(query.where, exp.EQ)
        or not isinstance(query.where.expression, exp.Literal)
        or query.order_by
        or query.limit is not None
        or len(plan.conditions) != 1
        or not all(isinstance(item, ColumnRef) for item in items)
    ):
        return None
    column = plan.conditions[0].column
    return column if key.names == (column,) else None


def keys_sql(plan: Pull, view: View, schema: Schema, column: str) -> str:
    """The query for many keys at once, up to the first of them: `with_keys` ends it. Its rows have
    its columns, then the requested key. `view` has the physical columns of `schema`."""
    physical = dict(zip(schema.names, quoted(physical_names(schema.names)), strict=True))
    physical.setdefault("ROWTIME", identifier(ROWTIME))
    chosen = [physical[e.name] for e in plan.expressions[:-1] if isinstance(e, ColumnRef)]
    names = quoted(physical_names(plan.schema.names))
    key = physical[column]
    items = [*zip(chosen, names, strict=True), (key, identifier("$asked"))]
    return view.select(items, f"{view.columns[key]} IN (")


def with_keys(sql: str, keys: Iterable[Value]) -> str:
    """The query of `keys_sql` for these keys; at least one."""
    return f"{sql}{', '.join(map(literal, keys))})"
