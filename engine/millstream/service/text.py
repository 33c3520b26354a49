"""From the text of a client to statements, each with its own text and its place in the script."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.model.errors import MillstreamError, Span, StatementError
from millstream_parser import SyntaxFailure, parse
from millstream_parser import statements as s


@dataclass(frozen=True, slots=True)
class Piece:
    """A statement of a script: `text` is its own, spans in it refer to `script`."""

    statement: s.Statement
    text: str
    script: str


def parse_text(text: str) -> list[Piece]:
    """The statements of a script; StatementError where it does not parse."""
    try:
        parsed = parse(text, extended_pull=True)
    except SyntaxFailure as failure:
        where = failure.span
        span = Span(where.line, where.column, where.start, where.end) if where else None
        raise StatementError(
            failure.message, detail=failure.detail, hint=failure.hint, span=span, code="E-SYNTAX"
        ) from failure
    return [Piece(statement, _text_of(statement, text), text) for statement in parsed]


def _text_of(statement: s.Statement, script: str) -> str:
    where = statement.span
    return script[where.start : where.end] if where else script


def locate(error: MillstreamError, script: str) -> None:
    """Show the line an error points at, unless the error shows one already."""
    if error.span is None or error.detail or not script:
        return
    lines = script.splitlines()
    if error.span.line <= len(lines):
        line = lines[error.span.line - 1]
        error.detail = f"{line}\n{' ' * (error.span.column - 1)}^"
