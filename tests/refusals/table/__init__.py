"""Statements that are refused, by the room whose template words the refusal."""

from __future__ import annotations

from tests.refusals.table import (
    catalog,
    connectors,
    ddl,
    model,
    parser,
    plan,
    query,
    service,
    statements,
)
from tests.refusals.table.row import Refused

TABLES = (model, catalog, plan, ddl, query, connectors, statements, service, parser)
ROWS: tuple[Refused, ...] = tuple(row for table in TABLES for row in table.ROWS)
