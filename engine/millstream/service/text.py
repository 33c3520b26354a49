"""From the text of a client to statements, each with its own text and its place in the script."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from millstream.model.errors import MillstreamError, Span, StatementError
from millstream_grammar.keywords import HARD
from millstream_parser import (
    Parameters,
    SyntaxFailure,
    Values,
    parse,
    print_statement,
    split,
    substitute,
    without_continuations,
)
from millstream_parser import statements as s
from millstream_parser.lexemes import Lexeme, LexemeKind, lexemes

_QUOTED = re.compile("`([^`]+)`")
_SHOWN = 100
"""Characters of a statement that an error shows."""


@dataclass(frozen=True, slots=True)
class ParsedStatement:
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


def read_script(path: str) -> str:
    """The text of a script, in which a backslash at the end of a line continues it."""
    return without_continuations(read_text(path, "script"))


def parse_text(
    text: str,
    *,
    extended_pull: bool = True,
    test_statements: bool = True,
    parameters: Parameters | None = None,
) -> list[ParsedStatement]:
    """The statements of a script; StatementError where it does not parse. A server knows no
    `test_statements` (ASSERT VALUES, STREAM and TABLE). The text of a statement that is kept is
    printed anew where it may have parameters: their values are in it then."""
    try:
        parsed = parse(
            text,
            extended_pull=extended_pull,
            test_statements=test_statements,
            parameters=parameters,
        )
    except SyntaxFailure as failure:
        raise translated(failure) from failure
    return [
        ParsedStatement(
            statement,
            _text_of(statement, text)
            if parameters is None or isinstance(statement, s.SelectStatement)
            else print_statement(statement),
            text,
        )
        for statement in parsed
    ]


def parameters_for(text: str, values: Values) -> Parameters | None:
    """The values for the parameters of a script; None where there are none. StatementError where
    they are too many, too few, or cannot be used."""
    if not values:
        return None
    parameters = Parameters(values)
    try:
        parameters.check(text)
    except SyntaxFailure as failure:
        raise translated(failure) from failure
    return parameters


def split_text(text: str) -> Iterator[str]:
    """The statements of a script as text, each on the line and in the column where it stands."""
    try:
        spans = split(text)
    except SyntaxFailure as failure:
        raise translated(failure) from failure
    for span in spans:
        place = "\n" * (span.line - 1) + " " * (span.column - 1)
        yield place + text[span.start : span.end]


def substituted(text: str, variables: Mapping[str, str]) -> str:
    """The text with `${name}` replaced; StatementError where a value cannot stand."""
    try:
        return substitute(text, variables)
    except SyntaxFailure as failure:
        raise translated(failure) from failure


def translated(failure: SyntaxFailure) -> StatementError:
    """What the parser refuses, as an error of the engine."""
    where = failure.span
    span = Span(where.line, where.column, where.start, where.end) if where else None
    return StatementError(
        failure.message, detail=failure.detail, hint=failure.hint, span=span, code="E-SYNTAX"
    )


def _text_of(statement: s.Statement, script: str) -> str:
    where = statement.span
    return script[where.start : where.end] if where else script


def point(error: MillstreamError, piece: ParsedStatement) -> None:
    """Have a refusal without a place point at the first name or text in its statement that its
    template was given: what there is besides the expressions has no place of its own."""
    where, named = piece.statement.span, {str(value) for value in error.parameters.values()}
    named |= {name for value in named for name in _QUOTED.findall(value)}
    if error.span is not None or where is None or not named:
        return
    for lexeme in lexemes(piece.text):
        meant = _meant(lexeme)
        if meant is not None and not named.isdisjoint((meant, meant.upper())):
            start = where.start + lexeme.start
            line = piece.script.count("\n", 0, start) + 1
            column = start - piece.script.rfind("\n", 0, start)
            error.span = Span(line, column, start, start + lexeme.end - lexeme.start)
            return


def _meant(lexeme: Lexeme) -> str | None:
    """The name or text that a word of a statement stands for; None for keywords and numbers."""
    if lexeme.piece in (LexemeKind.QUOTED, LexemeKind.STRING):
        return lexeme.decoded
    return lexeme.text if lexeme.piece is LexemeKind.WORD and lexeme.upper not in HARD else None


def locate(error: MillstreamError, script: str) -> None:
    """Show the line an error points at, unless the error shows one already."""
    if error.span is None or error.detail or not script:
        return
    lines = script.split("\n")  # as the parser counts them
    if error.span.line <= len(lines):
        line = lines[error.span.line - 1]
        error.detail = f"{line}\n{' ' * (error.span.column - 1)}^"


def show_statement(error: MillstreamError, piece: ParsedStatement) -> None:
    """Have an error that came while a statement was carried out say which one it was, and where in
    the script, unless it points at some part of it."""
    if error.span is not None:
        locate(error, piece.script)
        return
    line, place = first_line(piece.text), ""
    where = piece.statement.span
    if where is not None:
        error.span = Span(where.line, where.column, where.start, where.end)
        place = f"line {where.line}, column {where.column}: "
    show_line(error, place + line)


def show_line(error: MillstreamError, line: str) -> None:
    """Have an error show a line behind what it shows already."""
    error.detail = "\n".join(part for part in (error.detail, line) if part)


def first_line(text: str) -> str:
    """The first line of a statement, shortened."""
    lines = text.strip().splitlines() or [""]
    short = lines[0][:_SHOWN].rstrip()
    return short if short == text.strip() else f"{short} …"
