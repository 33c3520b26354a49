"""The Python functions of expressions in connections that tests open themselves."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

import duckdb

from millstream.functions.function import Catalogue
from millstream.model.expressions import Expression
from millstream.operators.udfs import register_expressions

_KNOWN: WeakKeyDictionary[duckdb.DuckDBPyConnection, set[str]] = WeakKeyDictionary()


def register(
    con: duckdb.DuckDBPyConnection,
    expressions: Iterable[Expression] = (),
    catalogue: Catalogue | None = None,
) -> None:
    """Registers what these expressions call, and what any expression may call, unless an earlier
    call did."""
    found = Catalogue({}, {}, {}) if catalogue is None else catalogue
    known = _KNOWN.setdefault(con, set())
    # A statement that has raised may have left the connection busy.
    with con.cursor() as cursor:
        register_expressions(cursor, expressions, found, known)
