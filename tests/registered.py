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
    register_expressions(con, expressions, found, _KNOWN.setdefault(con, set()))
