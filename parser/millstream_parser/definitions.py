"""CREATE, ALTER and DROP."""

from __future__ import annotations

from sqlglot import exp

from .cursor import Cursor
from .properties import check_window, optional_properties, properties
from .queries import query
from .statements import (
    AlterSource,
    AlterTopic,
    ColumnRole,
    CreateAs,
    CreateConnector,
    CreateSource,
    CreateType,
    DropConnector,
    DropSource,
    DropType,
    Element,
    Statement,
)
from .tokens import Kind
from .types import data_type


def create(cursor: Cursor) -> Statement:
    """CREATE …"""
    start = cursor.at
    cursor.expect("CREATE")
    if cursor.looking_at("TYPE"):
        return _create_type(cursor, start)
    if cursor.token.upper in ("SOURCE", "SINK") and cursor.ahead(1).upper == "CONNECTOR":
        return _create_connector(cursor, start)
    or_replace = cursor.accept("OR", "REPLACE")
    read_only = cursor.accept("SOURCE")
    if cursor.token.upper not in ("STREAM", "TABLE"):
        words = ["'STREAM'", "'TABLE'"]
        words += [] if read_only else ["'SOURCE'"]
        words += [] if read_only or or_replace else ["'SINK'", "'TYPE'", "'OR'"]
        raise cursor.unexpected(*words)
    kind = cursor.advance().upper
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name_token = cursor.token
    name = cursor.name()
    listed = elements(cursor, kind) if cursor.looking_at("(") else ()
    found = optional_properties(cursor)
    if not listed and not read_only and cursor.accept("AS"):
        body = query(cursor, persistent=True)
        span = cursor.span_from(start)
        return CreateAs(kind, name, body, found, or_replace, if_not_exists, span)
    check_window(cursor, found, name_token)
    span = cursor.span_from(start)
    return CreateSource(kind, name, listed, found, or_replace, if_not_exists, read_only, span)


def elements(cursor: Cursor, kind: str) -> tuple[Element, ...]:
    """`elements` of a STREAM or TABLE (`kind`), which determines how keys are marked."""
    cursor.expect("(")
    if cursor.accept(")"):
        return ()

    def one(cursor: Cursor) -> Element:
        return _element(cursor, kind)

    return cursor.comma_list(one, ")")


def _element(cursor: Cursor, kind: str) -> Element:
    start = cursor.at
    name = cursor.name()
    type_ = data_type(cursor)
    header = None
    role = ColumnRole.VALUE
    if cursor.accept("PRIMARY", "KEY"):
        role = ColumnRole.PRIMARY_KEY
    elif cursor.accept("KEY"):
        role = ColumnRole.KEY
    elif cursor.accept("HEADERS"):
        role = ColumnRole.HEADERS
    elif cursor.accept("HEADER"):
        role = ColumnRole.HEADER
        cursor.expect("(")
        header = cursor.string()
        cursor.expect(")")
    wrong = ColumnRole.PRIMARY_KEY if kind == "STREAM" else ColumnRole.KEY
    if role is wrong:
        right = "KEY" if kind == "STREAM" else "PRIMARY KEY"
        span = cursor.lines.span(cursor.tokens[start].start, cursor.tokens[start].end)
        raise cursor.fail(
            f"Line: {span.line}, Col: {span.column}: Column `{name}` is a '{role.value}' column:"
            f" please use '{right}' for {kind.lower()}s.",
            cursor.tokens[start],
        )
    return Element(name, type_, role, header, cursor.span_from(start))


def _create_type(cursor: Cursor, start: int) -> CreateType:
    cursor.expect("TYPE")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()
    cursor.expect("AS")
    type_ = data_type(cursor)
    return CreateType(name, type_, if_not_exists, cursor.span_from(start))


def _create_connector(cursor: Cursor, start: int) -> CreateConnector:
    kind = cursor.advance().upper
    cursor.expect("CONNECTOR")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = connector_name(cursor)
    found = properties(cursor, fold=False)
    return CreateConnector(kind, name, found, if_not_exists, cursor.span_from(start))


def connector_name(cursor: Cursor) -> str:
    """A connector's name: a name, or a string as typed."""
    if cursor.token.kind is Kind.STRING and cursor.token.text:
        return cursor.string()
    return cursor.name("connector name")


def drop(cursor: Cursor) -> Statement:
    """DROP …"""
    start = cursor.at
    cursor.expect("DROP")
    kind = cursor.expect_one("STREAM", "TABLE", "CONNECTOR", "TYPE")
    if_exists = cursor.accept("IF", "EXISTS")
    if kind == "CONNECTOR":
        return DropConnector(connector_name(cursor), if_exists, cursor.span_from(start))
    name = cursor.name()
    if kind == "TYPE":
        return DropType(name, if_exists, cursor.span_from(start))
    delete_topic = cursor.accept("DELETE")
    if delete_topic:
        cursor.expect("TOPIC")
    return DropSource(kind, name, if_exists, delete_topic, cursor.span_from(start))


def alter_source(cursor: Cursor) -> AlterSource:
    """ALTER STREAM|TABLE …"""
    start = cursor.at
    cursor.expect("ALTER")
    kind = cursor.expect_one("STREAM", "TABLE")
    name = cursor.name()
    columns = [_added(cursor)]
    while cursor.accept(","):
        columns.append(_added(cursor))
    return AlterSource(kind, name, tuple(columns), cursor.span_from(start))


def alter_topic(cursor: Cursor) -> AlterTopic:
    """ALTER TOPIC topic SET ('name' = 'value', …) or RESET ('name', …)."""
    start = cursor.at
    cursor.expect("ALTER", "TOPIC")
    topic = cursor.name_or_string("topic")
    action = cursor.expect_one("SET", "RESET")
    cursor.expect("(")
    if action == "RESET":
        reset = cursor.comma_list(Cursor.string, ")")
        return AlterTopic(topic, (), reset, cursor.span_from(start))
    settings = cursor.comma_list(_topic_setting, ")")
    return AlterTopic(topic, settings, (), cursor.span_from(start))


def _topic_setting(cursor: Cursor) -> tuple[str, str]:
    name = cursor.string()
    cursor.expect("=")
    if cursor.token.kind is Kind.STRING:
        return name, cursor.string()
    sign = "-" if cursor.accept("-") else ""
    if cursor.token.kind is not Kind.INTEGER:
        raise cursor.unexpected("STRING", "INTEGER_VALUE")
    return name, f"{sign}{cursor.advance().text}"


def _added(cursor: Cursor) -> tuple[str, exp.DataType]:
    cursor.expect("ADD")
    # COLUMN is itself a possible name: it is the noise word only if a name and a type follow.
    if cursor.looking_at("COLUMN") and not _ends_definition(cursor, 2):
        cursor.advance()
    return cursor.name(), data_type(cursor)


def _ends_definition(cursor: Cursor, n: int) -> bool:
    return cursor.ahead(n).kind is Kind.END or cursor.ahead(n).upper in (",", ";", "(", "<")
