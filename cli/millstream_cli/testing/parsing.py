"""Parses the text of a test file into cases.

`--@test: name` begins a case. The statements before the first case run at the start of every case.
A file without this directive is one case. The lines right below a statement state its expected
outcome:

    -- | A | B |      a table as the shell prints it: names, a rule, rows
    -- error: text    the statement is refused or fails; the error contains the text
    -- ok: text       it succeeds; the message contains the text
    -- ordered        before a table: the order of its rows is compared (or: unordered)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from millstream.model.errors import StatementError
from millstream.scripts.text import read_text
from millstream_cli.testing.cases import (
    Case,
    Expected,
    ExpectedError,
    ExpectedMessage,
    ExpectedRows,
    Step,
    TestFile,
)
from millstream_cli.testing.cells import Cell, split_row
from millstream_parser.lexemes import Lexeme, LexemeKind, lexemes

_DIRECTIVE = re.compile(r"--@([A-Za-z.]+)(?::\s*(.*?))?\s*")
_DIRECTIVES = ("test", "expected.error", "expected.message", "skip")
_RULE = re.compile(r"[-+|: ]+")
_ORDERS = {"ordered": True, "unordered": False}
_MARKS = ("error:", "ok:")


class TestFileError(StatementError):
    """A test file is invalid. `line`: the line of the error."""

    __test__ = False

    def __init__(self, message: str, line: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.line = line


def read_file(path: str) -> TestFile:
    """The cases of a file. Raises TestFileError if it is not a test file."""
    try:
        return parse_file(read_text(path, "the test file"), path)
    except TestFileError:
        raise
    except StatementError as error:
        raise TestFileError(error.message, 1) from error


def parse_file(text: str, path: str) -> TestFile:
    """The cases of the text of a file."""
    shared, *cases = _open_cases(text)
    if not cases:
        shared.name = Path(path).stem
        cases, shared = [shared], _OpenCase("", 1)
    for case in cases:
        if not case.steps:
            raise TestFileError(f"The case '{case.name}' has no statement", case.line)
    setup, skipped = tuple(shared.steps), shared.skipped
    return TestFile(
        path,
        text,
        tuple(
            Case(
                case.name,
                case.line,
                (*setup, *case.steps),
                case.error or shared.error,
                {**skipped, **case.skipped},
            )
            for case in cases
        ),
    )


@dataclass(slots=True)
class _OpenCase:
    """A case that is being read."""

    name: str
    line: int
    steps: list[Step] = field(default_factory=list)
    error: ExpectedError | None = None
    skipped: dict[str, str] = field(default_factory=dict)


def _open_cases(text: str) -> list[_OpenCase]:
    """The statements before the first case, and the cases."""
    lines = text.split("\n")
    cases = [_OpenCase("", 1)]
    for part in _statements_and_directives(text):
        match part:
            case Step():
                cases[-1].steps.append(_with_expected(part, lines))
            case Lexeme():
                line = text.count("\n", 0, part.start) + 1
                _directive(part.text, line, cases)
    _check_unattached(lines, cases)
    return cases


def _statements_and_directives(text: str) -> Iterator[Step | Lexeme]:
    """The statements, without their expectations, and the directives between them."""
    pending: list[Lexeme] = []
    for lexeme in lexemes(text):
        if lexeme.kind is LexemeKind.COMMENT and lexeme.closed | lexeme.text.startswith("--"):
            if lexeme.text.startswith("--@") and not pending:
                yield lexeme
            continue
        if not lexeme.closed:
            line = text.count("\n", 0, lexeme.start) + 1
            opening = lexeme.text[:20]
            raise TestFileError(f"The quote or comment {opening!r} is not closed", line)
        pending.append(lexeme)
        if lexeme.text == ";":
            if len(pending) > 1:
                yield _step(text, pending)
            pending = []
    if pending:
        line = text.count("\n", 0, pending[0].start) + 1
        raise TestFileError("The last statement does not end with ';'", line)


def _step(text: str, tokens: Sequence[Lexeme]) -> Step:
    start, end = tokens[0].start, tokens[-1].end
    line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
    below = text.count("\n", 0, end) + 2
    return Step(text[start:end], line, column, (below, below))


def _directive(text: str, line: int, cases: list[_OpenCase]) -> None:
    found = _DIRECTIVE.fullmatch(text.strip())
    name, value = (found[1], found[2] or "") if found else (text[3:], "")
    current = cases[-1]
    match name:
        case "test" if value:
            if any(value == other.name for other in cases):
                raise TestFileError(f"There are two cases with the name '{value}'", line)
            cases.append(_OpenCase(value, line))
        case "expected.error":
            # The value is a Java class, so only the failure itself is expected.
            current.error = ExpectedError(current.error.texts if current.error else ())
        case "expected.message" if value:
            current.error = ExpectedError((*(current.error.texts if current.error else ()), value))
        case "skip" if ":" in value:
            mode, reason = value.split(":", 1)
            current.skipped.update({part.strip(): reason.strip() for part in mode.split(",")})
        case _:
            raise TestFileError(
                f"Unknown directive: {text.strip()}",
                line,
                hint=f"The directives are {', '.join(f'--@{known}: …' for known in _DIRECTIVES)}.",
            )


def _with_expected(step: Step, lines: Sequence[str]) -> Step:
    """The statement with the expectation of the lines below it."""
    first = end = step.block[0]
    while end <= len(lines) and (_content(lines[end - 1])) is not None:
        end += 1
    block = [content for line in lines[first - 1 : end - 1] if (content := _content(line))]
    if not block:
        return step
    return replace(step, block=(first, end), expected=_expected(block, first))


def _content(line: str) -> str | None:
    """The content of a line of an expectation; None for any other line."""
    line = line.strip()
    if not line.startswith("--"):
        return None
    text = line[2:].strip()
    known = text.startswith(("|", "+-", *_MARKS)) or text in _ORDERS
    return text if known else None


def _expected(block: Sequence[str], line: int) -> Expected:
    marks = {mark for text in block for mark in _MARKS if text.startswith(mark)}
    if marks == {"error:"} and all(text.startswith("error:") for text in block):
        return ExpectedError(tuple(text.removeprefix("error:").strip() for text in block))
    if marks == {"ok:"} and len(block) == 1:
        return ExpectedMessage(block[0].removeprefix("ok:").strip())
    if marks:
        raise TestFileError(
            "A statement expects rows, an error or a message, not several of them", line
        )
    ordered = _ORDERS.get(block[0])
    return _table(block[ordered is not None :], line + (ordered is not None), ordered)


def _table(block: Sequence[str], first: int, ordered: bool | None) -> ExpectedRows:
    rows: list[tuple[Cell, ...]] = []
    for line, text in enumerate(block, first):
        if text.startswith("+") or (len(rows) == 1 and _RULE.fullmatch(text) and "-" in text):
            continue
        cells = split_row(text)
        if cells is None:
            raise TestFileError(f"This is not a row of a table: {text}", line)
        if rows and len(cells) != len(rows[0]):
            raise TestFileError(
                f"The row has {len(cells)} cells, the table {len(rows[0])} columns: {text}", line,
                hint='Text that contains a | is written as a JSON string: "a|b".',
            )  # fmt: skip
        rows.append(tuple(cells))
    if not rows:
        raise TestFileError("The table has no column names", first)
    return ExpectedRows(tuple(name.text for name in rows[0]), tuple(rows[1:]), ordered)


def _check_unattached(lines: Sequence[str], cases: Sequence[_OpenCase]) -> None:
    """Raise TestFileError for an expectation that is not right below a statement."""
    taken = {
        line for case in cases for step in case.steps for line in range(*step.block)
    }  # fmt: skip
    inside = {
        step.line + offset
        for case in cases
        for step in case.steps
        for offset in range(step.text.count("\n") + 1)
    }
    for number, line in enumerate(lines, 1):
        if number not in taken and number not in inside and _content(line) is not None:
            raise TestFileError(
                f"No statement is right above this expectation: {line.strip()}", number
            )
