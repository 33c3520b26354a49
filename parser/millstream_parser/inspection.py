"""SHOW, DESCRIBE, PRINT and ASSERT. EXPLAIN is in `script.py`: it holds any other statement."""

from __future__ import annotations

from .cursor import Cursor
from .data import column_names
from .definitions import connector_name, elements
from .expressions import expression
from .properties import optional_properties
from .queries import duration
from .statements import (
    AssertSchema,
    AssertSource,
    AssertTopic,
    AssertValues,
    Describe,
    Duration,
    Listing,
    Peek,
    PrintTopic,
    Show,
    Statement,
)
from .tokens import Kind

_EXTENDABLE = (Listing.TOPICS, Listing.STREAMS, Listing.TABLES, Listing.QUERIES)


def show(cursor: Cursor) -> Show:
    """SHOW or LIST."""
    start = cursor.at
    cursor.expect_one("SHOW", "LIST")
    everything = cursor.accept("ALL")
    if everything:
        cursor.expect("TOPICS")
    listing = Listing.TOPICS if everything else _listing(cursor)
    extended = listing in _EXTENDABLE and cursor.accept("EXTENDED")
    return Show(listing, extended, everything, cursor.span_from(start))


def _listing(cursor: Cursor) -> Listing:
    """The words of a listing. No listing begins with all words of another."""
    left = {tuple(listing.value.split()): listing for listing in Listing}
    expected = (*dict.fromkeys(words[0] for words in left), "ALL")
    while () not in left:
        word = cursor.expect_one(*expected)
        left = {words[1:]: listing for words, listing in left.items() if words[0] == word}
        expected = tuple(words[0] for words in left if words)
    return left[()]


def describe(cursor: Cursor) -> Describe:
    """DESCRIBE of a source, of all objects of a kind, of a function or of a connector."""
    start = cursor.at
    cursor.expect("DESCRIBE")
    if cursor.token.upper in ("STREAMS", "TABLES"):
        what, name = cursor.advance().upper, ""
    elif cursor.looking_at("FUNCTION") and cursor.is_name(1):
        cursor.advance()
        # Functions are found whatever their case, so the folded name is the canonical one.
        return Describe("FUNCTION", cursor.name().upper(), span=cursor.span_from(start))
    elif cursor.accept("CONNECTOR"):
        return Describe("CONNECTOR", connector_name(cursor), span=cursor.span_from(start))
    else:
        what, name = "SOURCE", cursor.name()
    extended = cursor.accept("EXTENDED")
    return Describe(what, name, extended, cursor.span_from(start))


def print_topic(cursor: Cursor) -> PrintTopic:
    """PRINT topic [FROM BEGINNING] [INTERVAL n] [LIMIT n]."""
    start = cursor.at
    cursor.expect("PRINT")
    topic = cursor.name_or_string("topic")
    from_beginning = cursor.accept("FROM")
    if from_beginning:
        cursor.expect("BEGINNING")
    interval = cursor.integer() if cursor.accept("INTERVAL") or cursor.accept("SAMPLE") else None
    limit = cursor.integer() if cursor.accept("LIMIT") else None
    return PrintTopic(topic, from_beginning, interval, limit, cursor.span_from(start))


def peek(cursor: Cursor) -> Peek:
    """PEEK query AT node [LIMIT n]."""
    start = cursor.at
    cursor.expect("PEEK")
    query_id = cursor.name()
    cursor.expect("AT")
    node = cursor.name_or_string("node")
    limit = cursor.integer() if cursor.accept("LIMIT") else None
    return Peek(query_id, node, limit, cursor.span_from(start))


def assertion(cursor: Cursor) -> Statement:
    """ASSERT: of topics and schemas, and the forms of the test tool."""
    start = cursor.at
    cursor.expect("ASSERT")
    exists = not cursor.accept("NOT", "EXISTS")
    if cursor.accept("TOPIC"):
        topic = cursor.name_or_string("topic")
        found = optional_properties(cursor)
        timeout = _timeout(cursor)
        return AssertTopic(topic, found, timeout, exists, cursor.span_from(start))
    if cursor.accept("SCHEMA"):
        return _schema(cursor, start, exists=exists)
    if not exists or not cursor.test_statements:
        raise cursor.unexpected("'TOPIC'", "'SCHEMA'")
    if cursor.looking_at("VALUES") or cursor.looking_at("NULL", "VALUES"):
        return _values(cursor, start)
    if cursor.token.upper in ("STREAM", "TABLE"):
        kind = cursor.advance().upper
        name = cursor.name()
        listed = elements(cursor, kind) if cursor.looking_at("(") else ()
        found = optional_properties(cursor)
        return AssertSource(kind, name, listed, found, cursor.span_from(start))
    raise cursor.unexpected("'NOT'", "'TOPIC'", "'SCHEMA'")


def _schema(cursor: Cursor, start: int, *, exists: bool) -> AssertSchema:
    subject = cursor.name_or_string("subject") if cursor.accept("SUBJECT") else None
    schema_id = cursor.integer() if cursor.accept("ID") else None
    if subject is None and schema_id is None:
        raise cursor.unexpected("'SUBJECT'", "'ID'")
    timeout = _timeout(cursor)
    return AssertSchema(subject, schema_id, timeout, exists, cursor.span_from(start))


def _timeout(cursor: Cursor) -> Duration | None:
    return duration(cursor) if cursor.accept("TIMEOUT") else None


def _values(cursor: Cursor, start: int) -> AssertValues:
    tombstone = cursor.accept("NULL")
    cursor.expect("VALUES")
    source = cursor.name()
    columns = column_names(cursor)
    cursor.expect("KEY" if tombstone else "VALUES")
    cursor.expect("(")
    values = cursor.comma_list(expression, ")")
    return AssertValues(source, columns, values, tombstone, cursor.span_from(start))


def is_query_id(cursor: Cursor) -> bool:
    """Whether only a name is left of the statement, as in EXPLAIN query_id."""
    ends = cursor.ahead(1).kind is Kind.END or cursor.ahead(1).upper == ";"
    return cursor.is_name() and ends
