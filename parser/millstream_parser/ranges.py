"""The part of a source's history that a query reads, written behind the name of the source."""

from __future__ import annotations

from .cursor import Cursor
from .failure import SyntaxFailure
from .history import AsOf, Moment, OffsetRange, Range, TimeRange
from .span import Span
from .tokens import Kind

_BEFORE_A_SOURCE = frozenset({"FROM", "JOIN", ",", "("})


def history_range(cursor: Cursor) -> Range | None:
    """`range`, if there is one at the cursor."""
    start = cursor.at
    if cursor.accept("AS", "OF", "TIMESTAMP"):
        return AsOf(_moment(cursor), cursor.span_from(start))
    if cursor.accept("BETWEEN", "OFFSETS"):
        first = _offsets(cursor)
        cursor.expect("AND")
        return OffsetRange(first, _offsets(cursor), cursor.span_from(start))
    if cursor.accept("FROM", "TIMESTAMP"):
        begin = _moment(cursor)
        cursor.expect("TO")
        return TimeRange(begin, _moment(cursor), cursor.span_from(start))
    return None


def _moment(cursor: Cursor) -> Moment:
    if cursor.token.kind is Kind.STRING:
        return cursor.string()
    if cursor.token.kind is not Kind.INTEGER:
        hint = "Write a time as '2026-01-31T12:00:00' or as milliseconds since 1970."
        raise cursor.unexpected("STRING", "INTEGER_VALUE", hint=hint)
    return cursor.integer()


def _offsets(cursor: Cursor) -> tuple[int, ...]:
    if cursor.accept("("):
        return cursor.comma_list(Cursor.integer, ")")
    return (cursor.integer(),)


def cut_ranges(cursor: Cursor, end: int) -> tuple[tuple[Span, Range], ...]:
    """The ranges in a query that only SQL's own parser reads, up to token `end`, each with the
    position of its text."""
    found: list[tuple[Span, Range]] = []
    at = cursor.at
    while at < end:
        cursor.at = at + 1
        named = cursor.tokens[at].upper in _BEFORE_A_SOURCE and cursor.is_name()
        at += 1
        if not named:
            continue
        cursor.advance()
        start = cursor.at
        try:
            ranged = history_range(cursor)
        except SyntaxFailure:
            continue  # Something like EXTRACT(YEAR FROM TIMESTAMP '…').
        if ranged is not None:
            found.append((cursor.span_from(start), ranged))
            at = cursor.at
    return tuple(found)
