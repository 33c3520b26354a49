"""From the text of a client to statements, each with its own text and its place in the script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from millstream.model.errors import MillstreamError, Span, StatementError
from millstream_parser import SyntaxFailure, parse, split, substitute
from millstream_parser import statements as s


@dataclass(frozen=True, slots=True)
class Piece:
    """A statement of a script: `text` is its own, spans in it refer to `script`."""

    statement: s.Statement
    text: str
    script: str


def read_text(path: str, what: str) -> str:
    """The text of a file of statements; StatementError where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else failure.reason
        raise StatementError(f"Cannot read {what} {path}: {reason}") from failure


def parse_text(
    text: str, *, extended_pull: bool = True, test_statements: bool = True
) -> list[Piece]:
    """The statements of a script; StatementError where it does not parse. A server knows no
    `test_statements` (ASSERT VALUES, STREAM and TABLE)."""
    try:
        parsed = parse(text, extended_pull=extended_pull, test_statements=test_statements)
    except SyntaxFailure as failure:
        raise _translated(failure) from failure
    return [Piece(statement, _text_of(statement, text), text) for statement in parsed]


def split_text(text: str) -> Iterator[str]:
    """The statements of a script as text, each on the line and in the column where it stands."""
    try:
        spans = split(text)
    except SyntaxFailure as failure:
        raise _translated(failure) from failure
    for span in spans:
        place = "\n" * (span.line - 1) + " " * (span.column - 1)
        yield place + text[span.start : span.end]


def substituted(text: str, variables: Mapping[str, str]) -> str:
    """The text with `${name}` replaced; StatementError where a value cannot stand."""
    try:
        return substitute(text, variables)
    except SyntaxFailure as failure:
        raise _translated(failure) from failure


def _translated(failure: SyntaxFailure) -> StatementError:
    where = failure.span
    span = Span(where.line, where.column, where.start, where.end) if where else None
    return StatementError(
        failure.message, detail=failure.detail, hint=failure.hint, span=span, code="E-SYNTAX"
    )


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
