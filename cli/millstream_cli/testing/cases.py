"""Test files as data: cases of statements, each with what is expected of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream_cli.testing.cells import Cell


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """A table. `ordered`: the order of its rows counts; None leaves that to the statement."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    ordered: bool | None = None


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """The statement is refused, or fails, with an error that holds these texts."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExpectedMessage:
    """The statement succeeds with a message that holds this text."""

    text: str


Expected = ExpectedRows | ExpectedError | ExpectedMessage


@dataclass(frozen=True, slots=True)
class Step:
    """A statement. `text` begins at `line` and `column` of the file, both from 1; what is expected
    stands in the lines `block[0]` up to `block[1]`, without the latter: an empty range behind the
    statement where nothing is."""

    text: str
    line: int
    column: int
    block: tuple[int, int]
    expected: Expected | None = None

    @property
    def placed(self) -> str:
        """The text with its place in the file, so that errors tell that."""
        return "\n" * (self.line - 1) + " " * (self.column - 1) + self.text


@dataclass(frozen=True, slots=True)
class Case:
    """What runs in a database of its own. `error`: some statement fails with it, and ends the
    case; `skipped` are modes in which the case cannot run, each with the reason."""

    name: str
    line: int
    steps: tuple[Step, ...]
    error: ExpectedError | None = None
    skipped: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TestFile:
    """The cases of a file."""

    __test__ = False  # no class of tests, whatever pytest makes of its name

    path: str
    text: str
    cases: tuple[Case, ...]
