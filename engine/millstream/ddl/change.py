"""`plan_change` plans a statement that changes the catalog, or refuses it. It changes nothing, and
needs no engine."""

from __future__ import annotations

from typing import assert_never

from millstream.ddl.control import control_query
from millstream.ddl.effects import Change
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
