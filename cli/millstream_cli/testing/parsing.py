"""From the text of a test file to its cases.

`--@test: name` begins a case; the statements before the first one begin each of them. A file
without is one case. Behind a statement stand, in the lines right below it, what is expected:

    -- | A | B |      a table as the shell prints it: names, a rule, rows
    -- error: text    the statement is refused, or fails, with an error that holds the text
    -- ok: text       it succeeds with a message that holds the text
    -- ordered        before a table: the order of its rows counts (or: unordered)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from millstream.model.errors import StatementError
from millstream.service.text import read_text
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
    """A test file that cannot be read; `line` is the place in it."""

    __test__ = False

    def __init__(self, message: str, line: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.line = line


def read_file(path: str) -> TestFile:
    """The cases of a file; TestFileError where it is no test file."""
    try:
        return parse_file(read_text(path, "the test file"), path)
    except TestFileError:
        raise
    except StatementError as error:
        raise TestFileError(error.message, 1) from error


def parse_file(text: str, path: str) -> TestFile:
    """The cases of the text of a file."""
    shared, *drafts = _drafts(text)
    if not drafts:
        shared.name = Path(path).stem
        drafts, shared = [shared], _Draft("", 1)
    for draft in drafts:
        if not draft.steps:
            raise TestFileError(f"The case '{draft.name}' has no statement", draft.line)
    setup, skipped = tuple(shared.steps), shared.skipped
    return TestFile(
        path,
        text,
        tuple(
            Case(
                draft.name,
                draft.line,
                (*setup, *draft.steps),
                draft.error or shared.error,
                {**skipped, **draft.skipped},
            )
            for draft in drafts
        ),
    )


@dataclass(slots=True)
class _Draft:
    """A case while its lines are read."""

    name: str
    line: int
    steps: list[Step] = field(default_factory=list)
    error: ExpectedError | None = None
    skipped: dict[str, str] = field(default_factory=dict)


def _drafts(text: str) -> list[_Draft]:
    """What stands before the first case, and the cases."""
    lines = text.split("\n")
    drafts = [_Draft("", 1)]
    for part in _parts(text):
        match part:
            case Step():
                drafts[-1].steps.append(_with_expected(part, lines))
            case Lexeme():
                line = text.count("\n", 0, part.start) + 1
                _directive(part.text, line, drafts)
    _check_loose(lines, drafts)
    return drafts


def _parts(text: str) -> Iterator[Step | Lexeme]:
    """The statements, without what is expected of them, and the directives between them."""
    words: list[Lexeme] = []
    for word in lexemes(text):
        if word.piece is LexemeKind.COMMENT and word.closed | word.text.startswith("--"):
            if word.text.startswith("--@") and not words:
                yield word
            continue
        if not word.closed:
            line = text.count("\n", 0, word.start) + 1
            raise TestFileError(f"What begins with {word.text[:20]!r} is not closed", line)
        words.append(word)
        if word.text == ";":
            if len(words) > 1:
                yield _step(text, words)
            words = []
    if words:
        line = text.count("\n", 0, words[0].start) + 1
        raise TestFileError("The last statement does not end with ';'", line)


def _step(text: str, words: Sequence[Lexeme]) -> Step:
    start, end = words[0].start, words[-1].end
    line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
    behind = text.count("\n", 0, end) + 2
    return Step(text[start:end], line, column, (behind, behind))


def _directive(text: str, line: int, drafts: list[_Draft]) -> None:
    found = _DIRECTIVE.fullmatch(text.strip())
    name, value = (found[1], found[2] or "") if found else (text[3:], "")
    draft = drafts[-1]
    match name:
        case "test" if value:
            if any(value == other.name for other in drafts):
                raise TestFileError(f"There are two cases of the name '{value}'", line)
            drafts.append(_Draft(value, line))
        case "expected.error":
            # A class of Java: that something fails is what can be said here.
            draft.error = ExpectedError(draft.error.texts if draft.error else ())
        case "expected.message" if value:
            draft.error = ExpectedError((*(draft.error.texts if draft.error else ()), value))
        case "skip" if ":" in value:
            mode, reason = value.split(":", 1)
            draft.skipped.update({part.strip(): reason.strip() for part in mode.split(",")})
        case _:
            raise TestFileError(
                f"This directive is not understood: {text.strip()}",
                line,
                hint=f"There are {', '.join(f'--@{known}: …' for known in _DIRECTIVES)}.",
            )


def _with_expected(step: Step, lines: Sequence[str]) -> Step:
    """The statement with what the lines below it expect."""
    first = end = step.block[0]
    while end <= len(lines) and (_content(lines[end - 1])) is not None:
        end += 1
    block = [content for line in lines[first - 1 : end - 1] if (content := _content(line))]
    if not block:
        return step
    return replace(step, block=(first, end), expected=_expected(block, first))


def _content(line: str) -> str | None:
    """What a line of an expectation says; None for any other line."""
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
        raise TestFileError("Expected are rows, an error or a message, not several of them", line)
    ordered = _ORDERS.get(block[0])
    return _table(block[ordered is not None :], line + (ordered is not None), ordered)


def _table(block: Sequence[str], first: int, ordered: bool | None) -> ExpectedRows:
    rows: list[tuple[Cell, ...]] = []
    for line, text in enumerate(block, first):
        if text.startswith("+") or (len(rows) == 1 and _RULE.fullmatch(text) and "-" in text):
            continue
        cells = split_row(text)
        if cells is None:
            raise TestFileError(f"This is no row of a table: {text}", line)
        if rows and len(cells) != len(rows[0]):
            raise TestFileError(
                f"The row has {len(cells)} cells, the table {len(rows[0])} columns: {text}", line,
                hint='Text with a | in it is written as a JSON string: "a|b".',
            )  # fmt: skip
        rows.append(tuple(cells))
    if not rows:
        raise TestFileError("The table has no names of columns", first)
    return ExpectedRows(tuple(name.text for name in rows[0]), tuple(rows[1:]), ordered)


def _check_loose(lines: Sequence[str], drafts: Sequence[_Draft]) -> None:
    """TestFileError for a line that expects something of no statement."""
    taken = {
        line for draft in drafts for step in draft.steps for line in range(*step.block)
    }  # fmt: skip
    inside = {
        step.line + offset
        for draft in drafts
        for step in draft.steps
        for offset in range(step.text.count("\n") + 1)
    }
    for number, line in enumerate(lines, 1):
        if number not in taken and number not in inside and _content(line) is not None:
            raise TestFileError(
                f"No statement stands right above what is expected: {line.strip()}", number
            )
