"""Statements about queries, settings, variables and the client."""

from __future__ import annotations

from .cursor import Cursor
from .statements import (
    Backup,
    ControlQuery,
    DefineVariable,
    Replay,
    RunScript,
    SetProperty,
    Spool,
    Statement,
)
from .tokens import Kind


def control_query(cursor: Cursor) -> ControlQuery:
    """TERMINATE, PAUSE or RESUME of a query id or of ALL."""
    start = cursor.at
    action = cursor.expect_one("TERMINATE", "PAUSE", "RESUME")
    query_id = None if cursor.accept("ALL") else cursor.name("query id")
    return ControlQuery(action, query_id, cursor.span_from(start))


def set_property(cursor: Cursor) -> SetProperty:
    """SET 'name' = 'value', UNSET 'name', ALTER SYSTEM 'name' = 'value'."""
    start = cursor.at
    if cursor.accept("UNSET"):
        return SetProperty(cursor.string(), None, span=cursor.span_from(start))
    system = cursor.accept("ALTER", "SYSTEM")
    if not system:
        cursor.expect("SET")
    name = cursor.string()
    cursor.expect("=")
    value = cursor.string()
    return SetProperty(name, value, system, cursor.span_from(start))


def define_variable(cursor: Cursor) -> DefineVariable:
    """DEFINE name = 'value', UNDEFINE name."""
    start = cursor.at
    if cursor.accept("UNDEFINE"):
        return DefineVariable(cursor.name(), None, cursor.span_from(start))
    cursor.expect("DEFINE")
    name = cursor.name()
    cursor.expect("=")
    value = cursor.string()
    return DefineVariable(name, value, cursor.span_from(start))


def run_script(cursor: Cursor) -> RunScript:
    """RUN SCRIPT 'file'."""
    start = cursor.at
    cursor.expect("RUN", "SCRIPT")
    path = cursor.string()
    return RunScript(path, cursor.span_from(start))


def backup(cursor: Cursor) -> Backup:
    """BACKUP TO 'place' [KEEP n]."""
    start = cursor.at
    cursor.expect("BACKUP", "TO")
    place = cursor.string()
    keep = cursor.integer() if cursor.accept("KEEP") else None
    return Backup(place, keep, cursor.span_from(start))


def replay(cursor: Cursor) -> Replay:
    """REPLAY topic FROM dead_letter_topic [LIMIT n]."""
    start = cursor.at
    cursor.expect("REPLAY")
    topic = cursor.name_or_string("topic")
    cursor.expect("FROM")
    letters = cursor.name_or_string("topic")
    limit = cursor.integer() if cursor.accept("LIMIT") else None
    return Replay(topic, letters, limit, cursor.span_from(start))


def spool(cursor: Cursor) -> Statement:
    """SPOOL OFF, or SPOOL path, where a path without quotes reaches up to the semicolon."""
    start = cursor.at
    cursor.expect("SPOOL")
    if cursor.accept("OFF"):
        return Spool(None, cursor.span_from(start))
    first = cursor.token
    if first.kind is Kind.STRING:
        path = cursor.string()
    else:
        while cursor.token.kind is not Kind.END and not cursor.looking_at(";"):
            cursor.advance()
        if cursor.token is first:
            raise cursor.unexpected("'OFF'", "STRING")
        path = cursor.text[first.start : cursor.tokens[cursor.at - 1].end]
    return Spool(path, cursor.span_from(start))
