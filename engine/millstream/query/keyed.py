"""Pull queries that ask the rows of one key: what of their text is the key, and whether the rest
means the same whatever the key is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp

from millstream.model.expressions import ColumnRef
from millstream.model.physical import physical_names
from millstream.model.schema import Schema
from millstream.operators.sql import identifier
from millstream.query.conditions import Condition, Value, condition_sql
from millstream.query.pull import Pull
from millstream_parser import Values
from millstream_parser.statements import Query

ASKED = "$asked"
TEXT_MAX = 10_000
_ONE_KEY = re.compile(r"""([^'"`\-/$;]*=\s*)(?:'((?:[^'\\$]|'')*)'|([0-9]{1,9}))\s*;?\s*""")
"""A text whose only constant with quotes, or last number, ends it and is compared with something.
Nothing before it can begin a comment, a quoted name or a variable, so it is read the same way
whatever comes behind it; the number is an INTEGER."""

_ONE_PARAMETER = re.compile(r"""([^'"`\-/$;?:]*=\s*)(?:\?|\$1)\s*;?\s*""")
"""The same with a parameter in the place of the constant."""
_NUMBER_END = 10**9


def key_asked(text: str, parameters: Values = ()) -> tuple[str, Value] | None:
    """The text up to the key, and the key; None where the text is of another form. Texts with the
    same beginning and the same type of key differ in nothing else, whether the key is in the text
    or the value of its one parameter."""
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
    """The column of the key that the query compares with the constant at its end, if it asks for
    nothing but columns of the rows where they are equal."""
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


def keys_sql(plan: Pull, relation: str, schema: Schema, column: str, keys: Sequence[Value]) -> str:
    """The query for many keys at once: its columns, and `$asked`, the key of each row. `relation`
    has the physical columns of `schema`."""
    physical = dict(zip(schema.names, physical_names(schema.names), strict=True))
    where = condition_sql(Condition(column, "=", tuple(keys)), physical)
    asked = f"{identifier(physical[column])} AS {identifier(ASKED)}"
    return f"SELECT {plan.select}, {asked} FROM {relation} WHERE {where}"
