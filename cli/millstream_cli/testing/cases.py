"""The contents of a test file: cases of statements with their expected outcomes."""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream_cli.testing.cells import Cell


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """An expected table. `ordered`: whether the order of its rows is compared; None: as the
    statement defines it."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    ordered: bool | None = None


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """An expected error: its message contains these texts."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExpectedMessage:
    """An expected success: its message contains this text."""

    text: str


Expected = ExpectedRows | ExpectedError | ExpectedMessage


@dataclass(frozen=True, slots=True)
class Step:
    """A statement. `text` begins at `line` and `column` of the file, both counted from 1. `block`:
    the lines of the expectation, end exclusive; an empty range below the statement if it has
    none."""

    text: str
    line: int
    column: int
    block: tuple[int, int]
    expected: Expected | None = None

    @property
    def padded_text(self) -> str:
        """The text, padded so that errors have its line and column in the file."""
        return "\n" * (self.line - 1) + " " * (self.column - 1) + self.text


@dataclass(frozen=True, slots=True)
class Case:
    """Statements that run in a database of their own. `error`: the error with which one of them
    must fail, which ends the case. `skipped`: the modes in which the case cannot run, each with the
    reason."""

    name: str
    line: int
    steps: tuple[Step, ...]
    error: ExpectedError | None = None
    skipped: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TestFile:
    """The cases of a file."""

    __test__ = False  # pytest takes it for a class of tests by its name

    path: str
    text: str
    cases: tuple[Case, ...]
