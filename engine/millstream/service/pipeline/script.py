"""The script of a pipeline: what it defines is made, unless it is there already."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.model.errors import MillstreamError
from millstream.plan.types import sql_type
from millstream.service.engine import Engine
from millstream.service.execution import execute_piece
from millstream.service.headless import read_queries
from millstream.service.session import Session
from millstream.service.statements.control import set_property
from millstream.service.text import (
    ParsedStatement,
    first_line,
    parse_text,
    show_line,
    show_statement,
)
from millstream_parser import print_statement
from millstream_parser import statements as s

Script = Mapping[str, ParsedStatement]
"""The statements of a script, by their text as statements are printed."""


def apply_script(engine: Engine, path: str, session: Session) -> Script:
    """Execute the statements of a file, passing over those whose source or query is there.

    StatementError for a file that cannot be read or holds other statements: nothing is executed
    then. ConflictError or StatementError where a name stands for something else.
    """
    pieces = read_queries(path, "script of a pipeline")
    there = _definitions(engine)
    script = {print_statement(piece.statement): piece for piece in pieces}
    for piece in pieces:
        statement = piece.statement
        if isinstance(statement, s.SetProperty):
            set_property(statement, session)
        elif not (print_statement(statement) in there or _same_type(engine, statement)):
            execute_piece(engine, piece, session)
    return script


def show_query(error: MillstreamError, statement: str, script: Script) -> None:
    """Have an error of a query's epoch show the query's statement, and where in the script it is,
    if it is there."""
    piece = script.get(_printed(statement)[0])
    if piece is not None:
        show_statement(error, piece)
    else:
        show_line(error, first_line(statement))


def _definitions(engine: Engine) -> frozenset[str]:
    """What made the sources and queries that are there, printed as statements are."""
    catalog = engine.catalog
    texts = {source.statement for source in catalog.sources.values()}
    texts |= {query.statement for query in catalog.queries.values()}
    return frozenset(printed for text in texts if text for printed in _printed(text))


def _printed(text: str) -> list[str]:
    return [print_statement(piece.statement) for piece in parse_text(text)]


def _same_type(engine: Engine, statement: s.Statement) -> bool:
    types = engine.catalog.types
    return (
        isinstance(statement, s.CreateType)
        and statement.name in types
        and sql_type(statement.type, types) == types[statement.name]
    )
