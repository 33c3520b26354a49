"""Executes the script of a pipeline, except statements whose source or query exists already."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.catalog.catalog import Catalog
from millstream.model.errors import MillstreamError
from millstream.plan.types import sql_type
from millstream.query.session import Session
from millstream.scripts.text import (
    ParsedStatement,
    first_line,
    parse_text,
    show_line,
    show_statement,
)
from millstream.service.engine import Engine
from millstream.service.execution import execute_statement
from millstream.service.headless import read_queries
from millstream.statements.control import set_property
from millstream_parser import print_statement
from millstream_parser import statements as s

Script = Mapping[str, ParsedStatement]
"""The statements of a script by their printed text."""


def apply_script(engine: Engine, path: str, session: Session) -> Script:
    """Execute the statements of a file, except those whose source or query exists already.

    Raises StatementError if the file cannot be read or contains other kinds of statements; then it
    executes nothing. Raises ConflictError or StatementError if a name has another definition.
    """
    statements = read_queries(path, "script of a pipeline")
    existing = _definitions(engine.catalog)
    script = {print_statement(parsed.statement): parsed for parsed in statements}
    for parsed in statements:
        statement = parsed.statement
        if isinstance(statement, s.SetProperty):
            set_property(statement, session)
        elif not (print_statement(statement) in existing or _same_type(engine.catalog, statement)):
            execute_statement(engine, parsed, session)
    return script


def show_query(error: MillstreamError, statement: str, script: Script) -> None:
    """Add the statement of a query to an error of its epoch; with its position if it is in the
    script."""
    parsed = script.get(_printed(statement)[0])
    if parsed is not None:
        show_statement(error, parsed)
    else:
        show_line(error, first_line(statement))


def _definitions(catalog: Catalog) -> frozenset[str]:
    """The printed statements that created the existing sources and queries."""
    texts = {source.statement for source in catalog.sources.values()}
    texts |= {query.statement for query in catalog.queries.values()}
    return frozenset(printed for text in texts if text for printed in _printed(text))


def _printed(text: str) -> list[str]:
    return [print_statement(parsed.statement) for parsed in parse_text(text)]


def _same_type(catalog: Catalog, statement: s.Statement) -> bool:
    types = catalog.types
    return (
        isinstance(statement, s.CreateType)
        and statement.name in types
        and sql_type(statement.type, types) == types[statement.name]
    )
