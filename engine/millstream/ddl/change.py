"""`plan_change` plans a statement that changes the catalog, or refuses it. It changes nothing, and
needs no engine."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from millstream.catalog.catalog import last_terminated
from millstream.ddl.control import control_query
from millstream.ddl.effects import Change, EndQuery
from millstream.ddl.environment import ConfiguredStatement, Environment, PlanningContext
from millstream.ddl.persistent import create_as, insert_into
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.ddl.sources import alter_source, create_source, create_type, drop_source, drop_type
from millstream_parser import statements as s

Definition = (
    s.CreateSource
    | s.CreateAs
    | s.InsertInto
    | s.DropSource
    | s.AlterSource
    | s.CreateType
    | s.DropType
    | s.ControlQuery
)
"""The statements that change the catalog. They are written to the command topic."""


def plan_change(
    given: ConfiguredStatement, before: CatalogSnapshot, environment: Environment
) -> Change:
    """The catalog after a statement, and its effects. Raises StatementError or ConflictError if the
    statement is refused."""
    statement, context = given.statement, PlanningContext(given, before, environment)
    if not isinstance(statement, Definition):
        raise TypeError(f"{type(statement).__name__} is no definition")
    change = _plan(statement, context)
    if isinstance(statement, s.CreateAs):
        # The query that OR REPLACE ends has a successor: it is replaced, not terminated.
        return change
    return _with_terminated(change, before, given.issued_at)


def _plan(statement: Definition, context: PlanningContext) -> Change:
    before = context.before
    match statement:
        case s.CreateSource():
            return create_source(statement, context)
        case s.CreateAs():
            return create_as(statement, context)
        case s.InsertInto():
            return insert_into(statement, context)
        case s.DropSource():
            return drop_source(statement, context)
        case s.AlterSource():
            return alter_source(statement, before)
        case s.CreateType():
            return create_type(statement, before)
        case s.DropType():
            return drop_type(statement, before)
        case s.ControlQuery():
            return control_query(statement, before)
    assert_never(statement)


def _with_terminated(change: Change, before: CatalogSnapshot, ended_at: int) -> Change:
    """The change, whose catalog lists the queries that it ends."""
    ended = [item.query_id for item in change.effects if isinstance(item, EndQuery)]
    if not ended:
        return change
    records = [before.catalog.queries[query_id] for query_id in ended]
    terminated = last_terminated(before.catalog.terminated, records, ended_at)
    return replace(change, after=change.after.with_terminated(terminated))
