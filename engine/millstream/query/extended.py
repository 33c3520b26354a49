"""Pull queries beyond the dialect: joins, GROUP BY, subqueries, … over the committed tables.

The text is parsed to a tree, the tree is checked against lists of what is allowed, and the query
that runs is printed from the tree: what a user types never reaches DuckDB as text.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from millstream.model.errors import StatementError
from millstream.query.allowed import FUNCTIONS

_REFUSED_NODES = (
    exp.Command,
    exp.Create,
    exp.Drop,
    exp.Insert,
    exp.Update,
    exp.Delete,
    exp.Copy,
    exp.Set,
    exp.Attach,
    exp.Pragma,
    exp.Into,
    exp.Parameter,
    exp.Placeholder,
    exp.Lateral,
)


def extended_sql(text: str, relation: Callable[[str], str]) -> str:
    """The DuckDB query of a pull query beyond the dialect.

    `relation` gives the subquery (without parentheses) of a stream or table by its name, or
    raises StatementError. Raises StatementError for whatever is not on the lists.
    """
    tree = _parsed(text)
    common = {cte.alias_or_name.upper() for cte in tree.find_all(exp.CTE)}
    for node in list(tree.walk()):
        _check(node)
    for table in list(tree.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier) or table.args.get("db"):
            raise StatementError(f"Only streams and tables can be queried, not {table.sql()}")
        name = table.name if table.this.quoted else table.name.upper()
        if name.upper() in common:
            continue
        alias = table.alias or table.name
        subquery = exp.Subquery(
            this=_parsed(relation(name)), alias=exp.TableAlias(this=exp.to_identifier(alias))
        )
        table.replace(subquery)
    return str(tree.sql(dialect="duckdb"))


def _parsed(text: str) -> exp.Expr:
    try:
        trees = [tree for tree in parse(text.rstrip().rstrip(";"), dialect="duckdb") if tree]
    except (SqlglotError, RecursionError) as failure:
        first = str(failure).splitlines()[0]
        raise StatementError(f"Cannot read the pull query: {first}") from failure
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise StatementError("A pull query is one SELECT")
    return trees[0]


def _check(node: exp.Expr) -> None:
    if isinstance(node, _REFUSED_NODES):
        raise StatementError(f"{type(node).__name__} is not allowed in a pull query")
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        name = str(node.this).upper()
    elif isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Cast | exp.Case):
        name = node.sql_name()
    else:
        return
    if name not in FUNCTIONS:
        raise StatementError(
            f"Function {name} is not allowed in a pull query",
            hint="Queries of the dialect itself may call every function of SHOW FUNCTIONS.",
        )
