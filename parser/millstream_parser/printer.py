"""Statements -> canonical text: `parse(print_statement(s)) == (s,)`.

Names are written without quotes where possible, properties in the given order, one clause of a
query per line. Printed text has no final semicolon.
"""

from __future__ import annotations

import re

from sqlglot import exp

from millstream_grammar.keywords import HARD

from .names import is_plain, quote, quote_string
from .print_expressions import print_expression, print_type
from .print_queries import print_duration, print_query
from .statements import (
    AlterSource,
    AlterTopic,
    AssertSchema,
    AssertSource,
    AssertTopic,
    AssertValues,
    Backup,
    ColumnRole,
    ControlQuery,
    CopyFrom,
    CreateAs,
    CreateConnector,
    CreateSource,
    CreateType,
    DefineVariable,
    Describe,
    DropConnector,
    DropSource,
    DropType,
    Duration,
    Element,
    Explain,
    InsertInto,
    InsertValues,
    Peek,
    PrintTopic,
    Properties,
    PropertyValue,
    Replay,
    RunScript,
    SelectStatement,
    SetProperty,
    Show,
    Spool,
    Statement,
)

_AS_TYPED = re.compile(r"[A-Za-z_][A-Za-z0-9_@]*")


def print_statement(statement: Statement) -> str:
    """The canonical text of a statement, without a final semicolon."""
    text = (
        _definition(statement)
        or _data(statement)
        or _assertion(statement)
        or _inspection(statement)
        or _control(statement)
    )
    if text is None:
        raise ValueError(f"{type(statement).__name__} is not a statement")
    return text


def _definition(statement: Statement) -> str | None:
    match statement:
        case CreateSource(kind, name, elements, properties):
            source = "SOURCE " if statement.read_only else ""
            return (
                f"CREATE {_replace(statement)}{source}{kind} {_exists(statement)}{quote(name)}"
                f"{_elements(elements)}{_with(properties)}"
            )
        case CreateAs(kind, name, query, properties):
            head = f"CREATE {_replace(statement)}{kind} {_exists(statement)}{quote(name)}"
            return f"{head}{_with(properties)} AS {print_query(query)}"
        case DropSource(kind, name):
            tail = " DELETE TOPIC" if statement.delete_topic else ""
            return f"DROP {kind} {_if(statement)}{quote(name)}{tail}"
        case AlterSource(kind, name, columns):
            added = (f"ADD COLUMN {quote(c)} {print_type(t)}" for c, t in columns)
            return f"ALTER {kind} {quote(name)} {', '.join(added)}"
        case AlterTopic(topic, settings, reset):
            pairs = (f"{quote_string(name)} = {quote_string(value)}" for name, value in settings)
            listed = ", ".join(map(quote_string, reset) if reset else pairs)
            return f"ALTER TOPIC {_typed(topic)} {'RESET' if reset else 'SET'} ({listed})"
        case CreateType(name, type_):
            return f"CREATE TYPE {_exists(statement)}{quote(name)} AS {print_type(type_)}"
        case DropType(name):
            return f"DROP TYPE {_if(statement)}{quote(name)}"
        case CreateConnector(kind, name, properties):
            listed = _with(properties) or " WITH ()"
            return f"CREATE {kind} CONNECTOR {_exists(statement)}{quote(name)}{listed}"
        case DropConnector(name):
            return f"DROP CONNECTOR {_if(statement)}{quote(name)}"
        case _:
            return None


def _data(statement: Statement) -> str | None:
    match statement:
        case SelectStatement(query, extended):
            return (extended or "") if query is None else print_query(query)
        case InsertValues(target, columns, rows):
            listed = ", ".join(map(_values, rows))
            return f"INSERT INTO {quote(target)}{_columns(columns)} VALUES {listed}"
        case InsertInto(target, query, properties):
            return f"INSERT INTO {quote(target)}{_with(properties)} {print_query(query)}"
        case CopyFrom(target, path, properties):
            return f"COPY {quote(target)} FROM {quote_string(path)}{_with(properties)}"
        case _:
            return None


def _assertion(statement: Statement) -> str | None:
    match statement:
        case AssertTopic(topic, properties, timeout, exists):
            absent = "" if exists else "NOT EXISTS "
            return f"ASSERT {absent}TOPIC {_typed(topic)}{_with(properties)}{_timeout(timeout)}"
        case AssertSchema(subject, schema_id, timeout, exists):
            absent = "" if exists else "NOT EXISTS "
            of = "" if subject is None else f" SUBJECT {_typed(subject)}"
            number = "" if schema_id is None else f" ID {schema_id}"
            return f"ASSERT {absent}SCHEMA{of}{number}{_timeout(timeout)}"
        case AssertValues(source, columns, values, tombstone):
            words = ("NULL VALUES", "KEY") if tombstone else ("VALUES", "VALUES")
            listed = _columns(columns)
            return f"ASSERT {words[0]} {quote(source)}{listed} {words[1]} {_values(values)}"
        case AssertSource(kind, name, elements, properties):
            return f"ASSERT {kind} {quote(name)}{_elements(elements)}{_with(properties)}"
        case _:
            return None


def _inspection(statement: Statement) -> str | None:
    match statement:
        case Show(listing, extended, everything):
            every = "ALL " if everything else ""
            return f"SHOW {every}{listing.value}{' EXTENDED' if extended else ''}"
        case Describe("SOURCE", name, extended):
            # A plain TABLES would list all of them.
            written = "`TABLES`" if name == "TABLES" else quote(name)
            return f"DESCRIBE {written}{' EXTENDED' if extended else ''}"
        case Describe(what, name, extended):
            shown = f" {quote(name)}" if name else ""
            return f"DESCRIBE {what}{shown}{' EXTENDED' if extended else ''}"
        case Explain(inner, query_id, stage):
            shown = f"({stage}) " if stage else ""
            of = print_statement(inner) if inner is not None else quote(query_id or "")
            return f"EXPLAIN {shown}{of}"
        case PrintTopic(topic, from_beginning, interval, limit):
            parts = [f"PRINT {_typed(topic)}"]
            parts += ["FROM BEGINNING"] if from_beginning else []
            parts += [] if interval is None else [f"INTERVAL {interval}"]
            parts += [] if limit is None else [f"LIMIT {limit}"]
            return " ".join(parts)
        case Peek(query_id, node, limit):
            shown = "" if limit is None else f" LIMIT {limit}"
            return f"PEEK {quote(query_id)} AT {_typed(node)}{shown}"
        case _:
            return None


def _control(statement: Statement) -> str | None:
    match statement:
        case ControlQuery(action, query_id):
            return f"{action} {'ALL' if query_id is None else quote(query_id)}"
        case SetProperty(name, None):
            return f"UNSET {quote_string(name)}"
        case SetProperty(name, str(value), system):
            head = "ALTER SYSTEM" if system else "SET"
            return f"{head} {quote_string(name)}={quote_string(value)}"
        case DefineVariable(name, None):
            return f"UNDEFINE {quote(name)}"
        case DefineVariable(name, str(value)):
            return f"DEFINE {quote(name)}={quote_string(value)}"
        case Backup(place, keep):
            shown = "" if keep is None else f" KEEP {keep}"
            return f"BACKUP TO {quote_string(place)}{shown}"
        case Replay(topic, letters, limit):
            shown = "" if limit is None else f" LIMIT {limit}"
            return f"REPLAY {_typed(topic)} FROM {_typed(letters)}{shown}"
        case RunScript(path):
            return f"RUN SCRIPT {quote_string(path)}"
        case Spool(path):
            return f"SPOOL {'OFF' if path is None else quote_string(path)}"
        case _:
            return None


def _replace(statement: CreateSource | CreateAs) -> str:
    return "OR REPLACE " if statement.or_replace else ""


def _exists(statement: CreateSource | CreateAs | CreateType | CreateConnector) -> str:
    return "IF NOT EXISTS " if statement.if_not_exists else ""


def _if(statement: DropSource | DropType | DropConnector) -> str:
    return "IF EXISTS " if statement.if_exists else ""


def _elements(elements: tuple[Element, ...]) -> str:
    return f" ({', '.join(print_element(e) for e in elements)})" if elements else ""


def print_element(element: Element) -> str:
    """`column type [marker]`."""
    text = f"{quote(element.name)} {print_type(element.type)}"
    match element.role:
        case ColumnRole.VALUE:
            return text
        case ColumnRole.HEADER:
            return f"{text} HEADER({quote_string(element.header or '')})"
        case role:
            return f"{text} {role.value}"


def _with(properties: Properties) -> str:
    listed = ", ".join(f"{_property_name(n)}={_property_value(v)}" for n, v in properties)
    return f" WITH ({listed})" if properties else ""


def _property_name(name: str) -> str:
    return name if is_plain(name) else quote_string(name)


def _property_value(value: PropertyValue) -> str:
    match value:
        case str():
            return quote_string(value)
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            text = repr(value)
            return text if "e" in text else f"{text}E0"
        case exp.Expression():
            return print_expression(value)


def _columns(columns: tuple[str, ...]) -> str:
    return f" ({', '.join(quote(c) for c in columns)})" if columns else ""


def _values(values: tuple[exp.Expression, ...]) -> str:
    return f"({', '.join(print_expression(v) for v in values)})"


def _timeout(timeout: Duration | None) -> str:
    return "" if timeout is None else f" TIMEOUT {print_duration(timeout)}"


def _typed(name: str) -> str:
    """A topic or subject: plain names keep their case."""
    plain = _AS_TYPED.fullmatch(name) is not None and name.upper() not in HARD
    return name if plain else quote_string(name)
