"""Which statements of a script are executed together: those in a row that only create."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from millstream.ddl.persistent import has_backfill
from millstream.model.errors import MillstreamError
from millstream.scripts.text import ParsedStatement
from millstream_parser import statements as s


def runs(
    statements: Iterable[ParsedStatement], *, together: bool
) -> Iterator[Sequence[ParsedStatement]]:
    """The statements in their order, each alone, or those that only create `together`."""
    run: list[ParsedStatement] = []
    try:
        for parsed in statements:
            if together and only_creates(parsed.statement):
                run.append(parsed)
                continue
            if run:
                yield run
                run = []
            yield [parsed]
    except MillstreamError:
        # The text behind them cannot be parsed.
        if run:
            yield run
        raise
    if run:
        yield run


def only_creates(statement: s.Statement) -> bool:
    """Whether a statement ends and replaces nothing, and needs no job before it."""
    match statement:
        case s.CreateAs():
            return not statement.or_replace and not has_backfill(statement)
        case s.CreateSource():
            return not statement.or_replace
        case s.CreateType() | s.InsertInto():
            return True
        case _:
            return False
