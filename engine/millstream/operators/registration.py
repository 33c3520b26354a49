"""Makes the Python functions that expressions call known to DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import duckdb

from millstream.functions.function import Catalogue
from millstream.model.expressions import Expression
from millstream.operators.scalar import python_functions
from millstream.operators.udfs import JAVA_DOUBLE, register, register_builtin
from millstream.plan.nodes import (
    Aggregate,
    Filter,
    Flatten,
    Node,
    Project,
    Repartition,
    inputs,
)


def register_expressions(
    con: duckdb.DuckDBPyConnection, expressions: Iterable[Expression], catalogue: Catalogue
) -> None:
    """Register what the expressions need and the database does not know yet."""
    wanted = {
        function.name: function
        for expression in expressions
        for function in python_functions(expression, catalogue)
    }
    known = _known(con)
    if JAVA_DOUBLE not in known:
        register_builtin(con)
    for name, function in wanted.items():
        if name not in known:
            register(con, name, function.function, function.parameters, function.result)


def node_expressions(node: Node) -> Iterator[Expression]:
    """All expressions of a plan."""
    match node:
        case Filter():
            yield node.predicate
        case Project():
            yield from node.expressions
        case Flatten():
            yield from (argument for call in node.calls for argument in call.arguments)
        case Repartition():
            yield from (named.expression for named in node.keys)
        case Aggregate():
            yield from (a for _, call in node.aggregates for a in call.arguments)
    for below in inputs(node):
        yield from node_expressions(below)


def _known(con: duckdb.DuckDBPyConnection) -> set[str]:
    found = con.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name LIKE 'ms\\_%' "
        "ESCAPE '\\'"
    ).fetchall()
    return {name for (name,) in found}
