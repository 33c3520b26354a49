"""Scripts: sequences of statements, and the production of each kind."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from .control import (
    backup,
    control_query,
    define_variable,
    replay,
    run_script,
    set_property,
    spool,
)
from .cursor import Cursor
from .data import copy, insert
from .definitions import alter_source, alter_topic, create, drop
from .expressions import expression
from .failure import SyntaxFailure
from .inspection import assertion, describe, is_query_id, peek, print_topic, show
from .other_dialects import STATEMENTS
from .parameters import Parameters
from .queries import emits, query, starts_query
from .ranges import cut_ranges
from .statements import Explain, SelectStatement, Span, Statement
from .tokens import Kind, Lines, tokenize
from .types import data_type

MAX_STATEMENTS = 500
T = TypeVar("T")

_STAGES = ("STATEMENT", "PLAN", "TOPOLOGY", "PROGRAM")


def parse(
    text: str,
    *,
    extended_pull: bool = False,
    test_statements: bool = True,
    parameters: Parameters | None = None,
) -> tuple[Statement, ...]:
    """The statements of a script. The semicolon of the last one may be left out.

    With `extended_pull`, a SELECT or WITH without EMIT that goes beyond the dialect is kept as text
    for the pull engine. Without `test_statements`, ASSERT VALUES, STREAM and TABLE are not
    accepted, as in a server. Each `?`, `$1` or `:name` is replaced by its literal from
    `parameters`. Raises SyntaxFailure; the limits are 1 MiB of text, 20,000 tokens, 500 statements
    and 128 levels of nesting.
    """
    cursor = _cursor(text, parameters)
    cursor.extended = extended_pull
    cursor.test_statements = test_statements
    found: list[Statement] = []
    while cursor.token.kind is not Kind.END:
        if cursor.accept(";"):
            continue
        if len(found) == MAX_STATEMENTS:
            raise cursor.fail(f"The script has too many statements: the limit is {MAX_STATEMENTS}")
        cursor.first = cursor.at
        cursor.depth = 0
        found.append(_extended(cursor) if extended_pull else statement(cursor))
        _expect_end(cursor)
    return tuple(found)


def split(text: str) -> tuple[Span, ...]:
    """The positions of a script's statements, without parsing them; for scripts whose later
    statements depend on what earlier ones define. Raises SyntaxFailure as `parse` does."""
    cursor = _unbound(text)
    found: list[Span] = []
    while cursor.token.kind is not Kind.END:
        start = cursor.at
        while not (cursor.looking_at(";") or cursor.tokens[cursor.at].kind is Kind.END):
            cursor.at += 1
        if cursor.at > start:
            found.append(cursor.span_from(start))
        cursor.accept(";")
    return tuple(found)


def parse_expression(text: str, parameters: Parameters | None = None) -> exp.Expression:
    """One expression, as sqlglot tree (`expressions.py` lists the nodes), with the literals of the
    `parameters`. Raises SyntaxFailure."""
    cursor = _cursor(text, parameters)
    return _alone(cursor, expression(cursor))


def parse_type(text: str) -> exp.DataType:
    """One type, such as `MAP<STRING, DECIMAL(4, 2)>`. Raises SyntaxFailure."""
    cursor = _cursor(text)
    return _alone(cursor, data_type(cursor))


def _cursor(text: str, parameters: Parameters | None = None) -> Cursor:
    cursor = _unbound(text)
    cursor.tokens = (parameters or Parameters()).bound(cursor.tokens, cursor.lines)
    return cursor


def _unbound(text: str) -> Cursor:
    lines = Lines.of(text)
    return Cursor(text, lines, tokenize(text, lines))


def _alone(cursor: Cursor, tree: T) -> T:
    if cursor.token.kind is not Kind.END:
        raise cursor.unexpected("<EOF>")
    return tree


def _expect_end(cursor: Cursor) -> None:
    if cursor.token.kind is Kind.END or cursor.looking_at(";"):
        return
    raise cursor.unexpected()


def statement(cursor: Cursor) -> Statement:
    """`statement`, without its semicolon."""
    word = cursor.token.upper if cursor.token.kind is Kind.WORD else ""
    read = PRODUCTIONS.get(word)
    if read is None:
        raise _unknown(cursor)
    return read(cursor)


def _select(cursor: Cursor) -> SelectStatement:
    start = cursor.at
    body = query(cursor)
    return SelectStatement(body, span=cursor.span_from(start))


def _extended(cursor: Cursor) -> Statement:
    """A statement, or a pull query in more SQL than the dialect has, kept as text."""
    if not starts_query(cursor) and not cursor.looking_at("WITH"):
        return statement(cursor)
    start = cursor.at
    if emits(cursor):
        return statement(cursor)
    end = start
    while cursor.tokens[end].kind is not Kind.END and cursor.tokens[end].upper != ";":
        end += 1
    try:
        found = statement(cursor)
        _expect_end(cursor)
    except SyntaxFailure as failure:
        # More than the dialect: the pull engine parses it, and reports errors.
        beyond = failure
    else:
        assert isinstance(found, SelectStatement)
        return replace(found, bound=_bound(cursor, start, end))
    cursor.at = start
    ranges = cut_ranges(cursor, end)
    cursor.at = end
    text = cursor.text[cursor.tokens[start].start : cursor.tokens[end - 1].end]
    bound = _bound(cursor, start, end)
    return SelectStatement(None, text, ranges, bound, beyond, span=cursor.span_from(start))


def _bound(cursor: Cursor, start: int, end: int) -> tuple[tuple[Span, exp.Expression], ...]:
    """The values of parameters among the tokens of a query, each with its position."""
    found: list[tuple[Span, exp.Expression]] = []
    at = start
    while at < end:
        first = cursor.tokens[at]
        last = at + 1
        while first.about and last < end and cursor.tokens[last].start == first.start:
            last += 1
        if first.about:
            alone = Cursor(cursor.text, cursor.lines, [*cursor.tokens[at:last], cursor.tokens[-1]])
            found.append((cursor.lines.span(first.start, first.end), expression(alone)))
        at = last
    return tuple(found)


def _explain(cursor: Cursor) -> Explain:
    """EXPLAIN [(stage)] of a statement or a query id."""
    start = cursor.at
    cursor.expect("EXPLAIN")
    stage = None
    if cursor.accept("("):
        stage = cursor.expect_one(*_STAGES)
        cursor.expect(")")
    if is_query_id(cursor):
        return Explain(None, cursor.name(), stage, cursor.span_from(start))
    if cursor.looking_at("EXPLAIN"):
        raise cursor.unexpected("statement", "query id")
    inner = _extended(cursor) if cursor.extended else statement(cursor)
    return Explain(inner, None, stage, cursor.span_from(start))


def _alter(cursor: Cursor) -> Statement:
    if cursor.looking_at("ALTER", "SYSTEM"):
        return set_property(cursor)
    if cursor.looking_at("ALTER", "TOPIC"):
        return alter_topic(cursor)
    if cursor.ahead(1).upper not in ("STREAM", "TABLE"):
        cursor.advance()
        raise cursor.unexpected("'STREAM'", "'TABLE'", "'SYSTEM'")
    return alter_source(cursor)


PRODUCTIONS: dict[str, Callable[[Cursor], Statement]] = {
    "SELECT": _select,
    "CREATE": create,
    "DROP": drop,
    "ALTER": _alter,
    "INSERT": insert,
    "COPY": copy,
    "TERMINATE": control_query,
    "PAUSE": control_query,
    "RESUME": control_query,
    "SET": set_property,
    "UNSET": set_property,
    "DEFINE": define_variable,
    "UNDEFINE": define_variable,
    "ASSERT": assertion,
    "SHOW": show,
    "LIST": show,
    "DESCRIBE": describe,
    "EXPLAIN": _explain,
    "PRINT": print_topic,
    "PEEK": peek,
    "BACKUP": backup,
    "REPLAY": replay,
    "RUN": run_script,
    "SPOOL": spool,
}
"""First word -> the production of the statement."""

_ALL_WORDS = f"A statement starts with {', '.join(PRODUCTIONS)}."
_OPENINGS = (
    *("SELECT", "INSERT INTO", "COPY", "TERMINATE", "PAUSE", "RESUME", "SET", "UNSET"),
    *("DEFINE", "UNDEFINE", "EXPLAIN", "DESCRIBE", "PRINT", "PEEK", "RUN SCRIPT", "SPOOL"),
    *("BACKUP TO", "REPLAY"),
    *("CREATE STREAM", "CREATE TABLE", "CREATE TYPE", "CREATE SOURCE CONNECTOR"),
    *("CREATE SINK CONNECTOR", "DROP STREAM", "DROP TABLE", "DROP TYPE", "DROP CONNECTOR"),
    *("ALTER STREAM", "ALTER TABLE", "ALTER SYSTEM", "ALTER TOPIC"),
    *("ASSERT TOPIC", "ASSERT SCHEMA", "SHOW STREAMS", "SHOW TABLES", "SHOW TOPICS"),
    *("SHOW QUERIES", "SHOW PROPERTIES", "SHOW FUNCTIONS", "SHOW TYPES", "SHOW VARIABLES"),
    *("SHOW CONNECTORS", "LIST STREAMS", "LIST TABLES", "LIST TOPICS", "LIST QUERIES"),
)


def _unknown(cursor: Cursor) -> SyntaxFailure:
    """The error for an unknown first word, with the nearest ones."""
    token = cursor.token
    if token.kind is Kind.END:
        return cursor.unexpected("statement")
    shown = cursor.shown(token)
    words = f"{shown} {cursor.ahead(1).upper}".strip().upper()
    near = difflib.get_close_matches(words, _OPENINGS, n=3, cutoff=0.6)
    first = difflib.get_close_matches(shown.upper(), PRODUCTIONS, n=3, cutoff=0.6)
    near += [word for word in first if not any(n.split()[0] == word for n in near)]
    span = cursor.lines.span(token.start, token.end)
    reason = (
        f"Syntax Error\nUnknown statement '{shown}'\n"
        f"Syntax error at or near '{shown}' at line {span.line}:{span.column}"
    )
    guess = f"Did you mean {', '.join(near[:3])}?" if near else _ALL_WORDS
    hint = STATEMENTS.get(shown.upper(), guess)
    return cursor.lines.failure(reason, token.start, token.end, hint, unexpected=True)
