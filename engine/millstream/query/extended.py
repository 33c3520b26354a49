"""Pull queries beyond the dialect: joins, GROUP BY, subqueries, … over the committed tables.

The text is parsed to a tree, the tree is checked against allow-lists, and the query that runs is
printed from the tree: a user's text never reaches DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from millstream.operators.sql import identifier
from millstream.query import wordings
from millstream.query.allowed import FUNCTIONS, NODES
from millstream.query.growth import bounded_growth
from millstream_parser.history import Range
from millstream_parser.lexemes import LexemeKind, lexemes
from millstream_parser.statements import AliasedSource, Query, SelectStatement, Span

UNREADABLE = "E-SYNTAX"
"""The error code for a text that is not SQL."""
_MARK = "FOR VERSION AS OF"
"""The placeholder for a range where sqlglot reads a table."""


@dataclass(frozen=True, slots=True)
class Written:
    """The text of a query whose ranges of history and whose parameters are replaced by
    placeholders, and the replaced values."""

    text: str
    ranges: tuple[Range, ...] = ()
    bound: tuple[exp.Expression, ...] = ()

    @staticmethod
    def of(statement: SelectStatement, text: str) -> Written:
        """`text` is the statement's own text from its script."""
        begins = statement.span.start if statement.span is not None else 0
        query, ranges = statement.query, list(statement.ranges)
        if query is not None:
            given = (source.range for source in sources_in(query))
            ranges = [(part.span, part) for part in given if part is not None and part.span]
        cut = [span for span, _ in ranges]
        bound = [part for part in statement.bound if not any(_within(part[0], c) for c in cut)]
        marks = [(span, f"{_MARK} {number}") for number, span in enumerate(cut)]
        marks += [(span, f"${number}") for number, (span, _) in enumerate(bound, 1)]
        marks += list(_requoted(text, begins))
        for span, mark in sorted(marks, key=lambda item: item[0].start, reverse=True):
            text = f"{text[: span.start - begins]}{mark}{text[span.end - begins :]}"
        values = tuple(value for _, value in bound)
        return Written(text, tuple(part for _, part in ranges), values)


def _requoted(text: str, begins: int) -> Iterator[tuple[Span, str]]:
    """Names between backquotes, and how DuckDB reads them."""
    for lexeme in lexemes(text):
        if lexeme.kind is LexemeKind.QUOTED and lexeme.text[0] == "`":
            place = Span(1, 1, begins + lexeme.start, begins + lexeme.end)
            yield place, identifier(lexeme.decoded)


def _within(span: Span, other: Span) -> bool:
    return other.start <= span.start and span.end <= other.end


def sources_in(query: Query) -> tuple[AliasedSource, ...]:
    """The sources in FROM and JOIN of a query of the dialect, in all its SELECTs."""
    own = (query.source, *(join.source for join in query.joins))
    return (*own, *(source for branch in query.union for source in sources_in(branch)))


def extended_sql(written: Written, relation: Callable[[str, Range | None], str]) -> str:
    """The DuckDB query of a pull query beyond the dialect.

    `relation` gives the subquery (without parentheses) of a stream or table by its name and the
    range of its history, or raises StatementError. Raises StatementError for everything that is not
    on the lists.
    """
    tree = _with_values(_parsed(written.text), written.bound)
    ranges = _ranges(tree, written.ranges)
    for node in list(tree.walk()):
        _check(node)
    for table, name in list(_tables(tree)):
        given = table.args.get("alias") or exp.TableAlias(
            this=exp.to_identifier(table.name, quoted=True)
        )
        subquery = exp.Subquery(
            this=_parsed(relation(name, ranges.get(id(table)))),
            alias=given,
            joins=table.args.get("joins"),
        )
        table.replace(subquery)
    try:
        return str(bounded_growth(tree).sql(dialect="duckdb"))
    except RecursionError as failure:
        raise wordings.NESTED_TOO_DEEP(code="E-SQL-LIMIT") from failure


def sources_of(written: Written) -> tuple[str, ...]:
    """The streams and tables that a pull query beyond the dialect reads; raises StatementError as
    `extended_sql` does for an invalid text."""
    return tuple(name for _, name in _tables(_parsed(written.text)))


def _tables(tree: exp.Expr) -> Iterator[tuple[exp.Table, str]]:
    """The positions of streams and tables, and their names."""
    for table in list(tree.find_all(exp.Table)):
        owner = table.args.get("db")
        if not isinstance(table.this, exp.Identifier) or table.args.get("catalog"):
            raise wordings.NOT_QUERIED(sql=table.sql())
        if owner is not None:
            yield table, f"{_folded(owner)}.{_folded(table.this)}"
        elif table.name.upper() not in _common(table):
            yield table, _folded(table.this)


def _folded(identifier: exp.Identifier) -> str:
    return identifier.name if identifier.quoted else identifier.name.upper()


def mentioned(written: Written) -> frozenset[str] | None:
    """The names in a query, including columns, in upper case and as written; None if it may refer
    to all columns of a source."""
    tree = _parsed(written.text)
    stars = (star for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Count))
    if next(stars, None) is not None:
        return None
    names = {found.name for found in tree.find_all(exp.Identifier)}
    return frozenset(names | {name.upper() for name in names})


def _ranges(tree: exp.Expr, given: Sequence[Range]) -> dict[int, Range]:
    """The ranges by their tables; their placeholders are removed from the tree."""
    found: dict[int, Range] = {}
    for table in tree.find_all(exp.Table):
        mark = table.args.get("version")
        if mark is None:
            continue
        number = getattr(mark.args.get("expression"), "name", "")
        if not number.isdigit() or int(number) >= len(given):
            raise wordings.FOR_VERSION()
        found[id(table)] = given[int(number)]
        table.set("version", None)
    return found


def _common(table: exp.Expr) -> Iterator[str]:
    """The names of WITH relations that are in scope at the table. A definition can use only the
    ones before it: a name that is not in scope must never reach DuckDB as a table."""
    node: exp.Expr = table
    while node.parent is not None:
        below, node = node, node.parent
        if isinstance(node, exp.With):
            before = node.expressions[: node.expressions.index(below)]
            yield from (cte.alias_or_name.upper() for cte in before)
            # The clause of the query itself is done; continue above that query.
            node = node.parent or node
        elif (clause := node.args.get("with_")) is not None:
            yield from (cte.alias_or_name.upper() for cte in clause.expressions)


def _parsed(text: str) -> exp.Expr:
    try:
        trees = [tree for tree in parse(text.rstrip().rstrip(";"), dialect="duckdb") if tree]
    except (SqlglotError, RecursionError) as failure:
        first = str(failure).splitlines()[0]
        raise wordings.UNREADABLE(first=first, code=UNREADABLE) from failure
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise wordings.ONE_SELECT()
    return trees[0]


def _with_values(tree: exp.Expr, values: Sequence[exp.Expression]) -> exp.Expr:
    for place in list(tree.find_all(exp.Placeholder)):
        place.replace(values[int(str(place.this)) - 1].copy())
    return tree


def _check(node: exp.Expr) -> None:
    if isinstance(node, exp.With) and node.recursive:
        raise wordings.RECURSION()
    if isinstance(node, exp.Limit | exp.Offset) and node.expression.is_string:
        # DuckDB looks at it when there is a first row.
        raise wordings.UNREADABLE(first="LIMIT takes a number", code=UNREADABLE)
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        name = str(node.this).upper()
    elif isinstance(node, NODES):
        return
    elif isinstance(node, exp.Func):
        name = node.sql_name()
    else:
        raise wordings.NOT_ALLOWED(name=type(node).__name__)
    if name not in FUNCTIONS:
        raise wordings.FUNCTION_NOT_ALLOWED(
            name=name,
            hint="Queries of the dialect itself may call every function of SHOW FUNCTIONS.",
        )
