"""Parses the text of a client into statements, each with its text and its position in the
script."""

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
    parameter_keys,
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
"""The most characters of a statement that an error shows."""


@dataclass(frozen=True, slots=True)
class ParsedStatement:
    """A statement of a script. `text`: its own text. `script`: the text that its spans refer to."""

    statement: s.Statement
    text: str
    script: str


def read_text(path: str, what: str) -> str:
    """The text of a file of statements. Raises StatementError if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else failure.reason
        raise StatementError(f"Cannot read {what} {path}: {reason}") from failure


def read_script(path: str) -> str:
    """The text of a script. A backslash at the end of a line continues the line."""
    return without_continuations(read_text(path, "script"))


def parse_text(
    text: str,
    *,
    extended_pull: bool = True,
    test_statements: bool = True,
    parameters: Parameters | None = None,
) -> list[ParsedStatement]:
    """The statements of a script. Raises StatementError if it does not parse.

    `test_statements`: whether ASSERT VALUES, STREAM and TABLE are allowed; a server does not allow
    them. With `parameters`, the text of each statement except SELECT is printed from its tree, so
    that it contains the values of the parameters.
    """
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
    """The values for the parameters of a script; None without values. Raises StatementError if
    there are too many or too few, or one cannot be used."""
    if not values:
        return None
    parameters = Parameters(values)
    try:
        parameters.check(text)
    except SyntaxFailure as failure:
        raise translated(failure) from failure
    return parameters


def keys_of_parameters(text: str) -> list[str]:
    """See `parameter_keys`; raises StatementError where it is no text of SQL."""
    try:
        return parameter_keys(text)
    except SyntaxFailure as failure:
        raise translated(failure) from failure


def split_text(text: str) -> Iterator[str]:
    """The text of each statement of a script, padded so that it keeps its line and column."""
    try:
        spans = split(text)
    except SyntaxFailure as failure:
        raise translated(failure) from failure
    for span in spans:
        padding = "\n" * (span.line - 1) + " " * (span.column - 1)
        yield padding + text[span.start : span.end]


def substituted(text: str, variables: Mapping[str, str]) -> str:
    """The text with each `${name}` replaced by its value. Raises StatementError if a value is not
    allowed at its position."""
    try:
        return substitute(text, variables)
    except SyntaxFailure as failure:
        raise translated(failure) from failure


def translated(failure: SyntaxFailure) -> StatementError:
    """A syntax error of the parser as an error of the engine."""
    where = failure.span
    span = Span(where.line, where.column, where.start, where.end) if where else None
    return StatementError(
        failure.message, detail=failure.detail, hint=failure.hint, span=span, code="E-SYNTAX"
    )


def _text_of(statement: s.Statement, script: str) -> str:
    where = statement.span
    return script[where.start : where.end] if where else script


def locate_by_name(error: MillstreamError, parsed: ParsedStatement) -> None:
    """Give an error without a position the position of the first name or text of the statement that
    is also a parameter of the error's template. The parts of a statement other than its expressions
    have no positions of their own."""
    where, named = parsed.statement.span, {str(value) for value in error.parameters.values()}
    named |= {name for value in named for name in _QUOTED.findall(value)}
    if error.span is not None or where is None or not named:
        return
    for lexeme in lexemes(parsed.text):
        meant = _meant(lexeme)
        if meant is not None and not named.isdisjoint((meant, meant.upper())):
            start = where.start + lexeme.start
            line = parsed.script.count("\n", 0, start) + 1
            column = start - parsed.script.rfind("\n", 0, start)
            error.span = Span(line, column, start, start + lexeme.end - lexeme.start)
            return


def _meant(lexeme: Lexeme) -> str | None:
    """The name or text that a lexeme stands for; None for keywords and numbers."""
    if lexeme.kind in (LexemeKind.QUOTED, LexemeKind.STRING):
        return lexeme.decoded
    return lexeme.text if lexeme.kind is LexemeKind.WORD and lexeme.upper not in HARD else None


def locate(error: MillstreamError, script: str) -> None:
    """Add the line that an error points at, unless the error has a detail already."""
    if error.span is None or error.detail or not script:
        return
    lines = script.split("\n")  # as the parser counts them
    if error.span.line <= len(lines):
        line = lines[error.span.line - 1]
        error.detail = f"{line}\n{' ' * (error.span.column - 1)}^"


def show_statement(error: MillstreamError, parsed: ParsedStatement) -> None:
    """Add the statement that failed, and its position in the script, to an error. If the error has
    a position already, show that line."""
    if error.span is not None:
        locate(error, parsed.script)
        return
    line, place = first_line(parsed.text), ""
    where = parsed.statement.span
    if where is not None:
        error.span = Span(where.line, where.column, where.start, where.end)
        place = f"line {where.line}, column {where.column}: "
    show_line(error, place + line)


def show_line(error: MillstreamError, line: str) -> None:
    """Append a line to the detail of an error."""
    error.detail = "\n".join(part for part in (error.detail, line) if part)


def first_line(text: str) -> str:
    """The first line of a statement, shortened."""
    lines = text.strip().splitlines() or [""]
    short = lines[0][:_SHOWN].rstrip()
    return short if short == text.strip() else f"{short} …"
