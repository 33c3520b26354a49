"""The outcomes of statements, and their differences from the expected ones."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.model.errors import MillstreamError
from millstream_cli.screen.cells import is_number
from millstream_cli.testing.cases import (
    Expected,
    ExpectedError,
    ExpectedMessage,
    ExpectedRows,
    Step,
)
from millstream_cli.testing.cells import aligned, matches, render, table_lines

_PLACE = re.compile(r"line \d+:\d+: |Line: \d+, Col: \d+: ")
"""The position of an error, which `--update` leaves out, since it changes with the lines above."""


@dataclass(frozen=True, slots=True)
class ResultRows:
    """Rows. `ordered`: whether the statement defines their order. `expectation_required`: whether a
    test must state the expected rows of such a statement."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    ordered: bool
    expectation_required: bool


@dataclass(frozen=True, slots=True)
class Message:
    """The statement succeeded with this message."""

    text: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The statement was refused or failed."""

    error: MillstreamError


Outcome = ResultRows | Message | Failed


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a case failed: `reason` states the difference, and `details` show it."""

    line: int
    reason: str
    details: tuple[str, ...] = ()
    statement: str = ""


def failure_of(step: Step, outcome: Outcome) -> Failure | None:
    """The difference between an outcome and the expected one; None if they agree."""
    found = _difference(step.expected, outcome)
    if found is None:
        return None
    reason, details = found
    line = step.block[0] if step.expected is not None else step.line
    return Failure(line, reason, tuple(details), step.text)


Difference = tuple[str, Sequence[str]]


def _difference(expected: Expected | None, outcome: Outcome) -> Difference | None:
    match expected, outcome:
        case ExpectedRows(), ResultRows():
            return _rows_differ(expected, outcome)
        case ExpectedError(texts), Failed(error):
            missing = [text for text in texts if text not in str(error)]
            if not missing:
                return None
            return "another error was expected", [
                *(f"- error: {text}" for text in missing),
                *(f"+ error: {line}" for line in str(error).splitlines()),
            ]
        case ExpectedMessage(text), Message(actual):
            if text in actual:
                return None
            return "another message was expected", [f"- ok: {text}", f"+ ok: {actual}"]
        case None, ResultRows(expectation_required=True):
            lines = table_lines(outcome.columns, outcome.rows)
            return "no expected rows are given", [f"+ {line}" for line in lines]
        case None, ResultRows() | Message():
            return None
        case None, Failed(error):
            return "the statement failed", str(error).splitlines()
        case _, Failed(error) if expected is not None:
            return f"{_kind_of(expected)} was expected", [
                *(f"- {line}" for line in expected_lines(expected)),
                *(f"+ error: {line}" for line in str(error).splitlines()),
            ]
        case _:
            assert expected is not None
            return f"{_kind_of(expected)} was expected", [
                *(f"- {line}" for line in expected_lines(expected)),
                *(f"+ {line}" for line in outcome_lines(outcome)),
            ]


def _kind_of(expected: Expected) -> str:
    match expected:
        case ExpectedRows():
            return "a table"
        case ExpectedError():
            return "an error"
        case ExpectedMessage():
            return "a message"


def expected_lines(expected: Expected) -> list[str]:
    """The lines of an expectation."""
    match expected:
        case ExpectedRows(columns, rows):
            texts = [[_shown(cell.text, cell.quoted) for cell in row] for row in rows]
            return _table(list(columns), texts)
        case ExpectedError(texts):
            return [f"error: {text}".rstrip() for text in texts]
        case ExpectedMessage(text):
            return [f"ok: {text}"]


def outcome_lines(outcome: Outcome) -> list[str]:
    """The lines of the expectation that an outcome meets."""
    match outcome:
        case ResultRows(columns, rows):
            return table_lines(columns, rows)
        case Message(text):
            return [f"ok: {text.splitlines()[0] if text else ''}"]
        case Failed(error):
            first = error.message.splitlines()[0]
            return [f"error: {_PLACE.sub('', first) or first}"]


def _shown(text: str, quoted: bool) -> str:
    return render(text) if quoted and render(text) != text else text


def _table(names: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    left = [False] * len(names)
    return [aligned(row, widths, left) for row in (names, *rows)]


def _rows_differ(expected: ExpectedRows, actual: ResultRows) -> Difference | None:
    if expected.columns != actual.columns:
        return "the columns differ", [
            f"- | {' | '.join(expected.columns)} |",
            f"+ | {' | '.join(actual.columns)} |",
        ]
    got = [tuple(map(render, row)) for row in actual.rows]
    wanted = [_as_rendered(row, actual, got) for row in expected.rows]
    ordered = actual.ordered if expected.ordered is None else expected.ordered
    if wanted == got if ordered else Counter(wanted) == Counter(got):
        return None
    if not ordered:
        wanted, got = _lined_up(wanted, got)
    same = Counter(wanted) == Counter(got)
    reason = "the order of the rows differs" if same else _counted(wanted, got)
    return reason, _diff(actual, wanted, got)


def _as_rendered(row: Sequence[Any], actual: ResultRows, got: Sequence[tuple[str, ...]]) -> Any:
    """An expected row in the rendering of an actual row that it matches, if there is one, so that
    texts can be compared."""
    for values, rendered in zip(actual.rows, got, strict=True):
        if all(map(matches, row, values)):
            return rendered
    return tuple(_shown(cell.text, cell.quoted) for cell in row)


def _lined_up(wanted: list[Any], got: list[Any]) -> tuple[list[Any], list[Any]]:
    """Both lists, with their common rows first and in the same order."""
    common = Counter(wanted) & Counter(got)
    shared = list(common.elements())
    return (
        shared + list((Counter(wanted) - common).elements()),
        shared + list((Counter(got) - common).elements()),
    )


def _counted(wanted: Sequence[Any], got: Sequence[Any]) -> str:
    missing = (Counter(wanted) - Counter(got)).total()
    extra = (Counter(got) - Counter(wanted)).total()
    parts = [f"{missing} missing"] * (missing > 0)
    parts += [f"{extra} not expected"] * (extra > 0)
    return f"the rows differ: {', '.join(parts)}"


def _diff(actual: ResultRows, wanted: Sequence[Any], got: Sequence[Any]) -> list[str]:
    """The rows below their column names: `-` before missing rows, `+` before unexpected ones."""
    rows = [*wanted, *got]
    widths = [
        max(len(name), *(len(row[i]) for row in rows)) if rows else len(name)
        for i, name in enumerate(actual.columns)
    ]
    right = [any(is_number(row[i]) for row in actual.rows) for i in range(len(widths))]
    lines = [f"  {aligned(actual.columns, widths, right)}"]
    matcher = difflib.SequenceMatcher(None, wanted, got, autojunk=False)
    for tag, low, high, start, end in matcher.get_opcodes():
        same = tag == "equal"
        for row in wanted[low:high]:
            lines.append(f"{' ' if same else '-'} {aligned(row, widths, right)}")
        for row in () if same else got[start:end]:
            lines.append(f"+ {aligned(row, widths, right)}")
    return lines
