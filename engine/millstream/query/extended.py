"""Pull queries beyond the dialect: joins, GROUP BY, subqueries, … over the committed tables.

The text is parsed to a tree, the tree is checked against lists of what is allowed, and the query
that runs is printed from the tree: what a user types never reaches DuckDB as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from millstream.model.errors import StatementError
from millstream.query.allowed import FUNCTIONS, NODES
from millstream.query.growth import bounded_growth

UNREADABLE = "E-SYNTAX"
"""The code of the error for a text that is no SQL."""


def extended_sql(text: str, relation: Callable[[str], str]) -> str:
    """The DuckDB query of a pull query beyond the dialect.

    `relation` gives the subquery (without parentheses) of a stream or table by its name, or
    raises StatementError. Raises StatementError for whatever is not on the lists.
    """
    tree = _parsed(text)
    for node in list(tree.walk()):
        _check(node)
    for table, name in list(_tables(tree)):
        given = table.args.get("alias") or exp.TableAlias(
            this=exp.to_identifier(table.name, quoted=True)
        )
        subquery = exp.Subquery(
            this=_parsed(relation(name)), alias=given, joins=table.args.get("joins")
        )
        table.replace(subquery)
    try:
        return str(bounded_growth(tree).sql(dialect="duckdb"))
    except RecursionError as failure:
        raise StatementError("The pull query is nested too deep.", code="E-SQL-LIMIT") from failure


def sources_of(text: str) -> tuple[str, ...]:
    """The streams and tables that a pull query beyond the dialect reads; raises StatementError as
    `extended_sql` does for a text that is none."""
    return tuple(name for _, name in _tables(_parsed(text)))


def _tables(tree: exp.Expr) -> Iterator[tuple[exp.Table, str]]:
    """The places where streams and tables stand, and their names."""
    for table in list(tree.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier) or table.args.get("db"):
            raise StatementError(f"Only streams and tables can be queried, not {table.sql()}")
        if table.name.upper() not in _common(table):
            yield table, table.name if table.this.quoted else table.name.upper()


def _common(table: exp.Expr) -> Iterator[str]:
    """The names that WITH clauses give to relations where the table stands. A definition sees the
    ones before it only: a name that is not in scope must never reach DuckDB as a table."""
    node: exp.Expr = table
    while node.parent is not None:
        below, node = node, node.parent
        if isinstance(node, exp.With):
            before = node.expressions[: node.expressions.index(below)]
            yield from (cte.alias_or_name.upper() for cte in before)
            # The clause of the query itself is done with; go on above that query.
            node = node.parent or node
        elif (clause := node.args.get("with_")) is not None:
            yield from (cte.alias_or_name.upper() for cte in clause.expressions)


def _parsed(text: str) -> exp.Expr:
    try:
        trees = [tree for tree in parse(text.rstrip().rstrip(";"), dialect="duckdb") if tree]
    except (SqlglotError, RecursionError) as failure:
        first = str(failure).splitlines()[0]
        raise StatementError(f"Cannot read the pull query: {first}", code=UNREADABLE) from failure
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise StatementError("A pull query is one SELECT")
    return trees[0]


def _check(node: exp.Expr) -> None:
    if isinstance(node, exp.With) and node.recursive:
        raise StatementError("WITH RECURSIVE is not allowed in a pull query")
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        name = str(node.this).upper()
    elif isinstance(node, NODES):
        return
    elif isinstance(node, exp.Func):
        name = node.sql_name()
    else:
        raise StatementError(f"{type(node).__name__} is not allowed in a pull query")
    if name not in FUNCTIONS:
        raise StatementError(
            f"Function {name} is not allowed in a pull query",
            hint="Queries of the dialect itself may call every function of SHOW FUNCTIONS.",
        )
