"""Executes one text many times, with other parameters each time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from millstream.model.errors import MillstreamError, StatementError, prefixed
from millstream.query.results import Done, History, Result, Stream
from millstream.query.session import Session
from millstream.scripts.text import ParsedStatement, keys_of_parameters
from millstream.service.engine import Engine
from millstream.service.execution import check_running, execute_script, located, parse_script
from millstream.statements import wordings
from millstream.statements.bulk_inserts import insert_tuples
from millstream.statements.inserting import Inserts, append_rows, rows_to_insert, together
from millstream_parser import Values
from millstream_parser import statements as s
from millstream_parser.data import has_nulls_alone


def execute_many(engine: Engine, text: str, rows: Iterable[Values], session: Session) -> int:
    """Execute a text once for each row of parameters; returns how often. INSERT INTO … VALUES is
    one transaction for all of them."""
    check_running(engine)
    given = list(rows)
    keys = keys_of_parameters(text)
    for number, row in enumerate(given, 1):
        if isinstance(row, str | bytes) or not isinstance(row, Mapping | Sequence):
            raise _unusable(number, f"it is of type {type(row).__name__}, not a tuple or dict.")
    if not given:
        return 0
    insert = _insert(text, keys, session)
    if insert is None:
        for number, row in enumerate(given, 1):
            with _numbered(number):
                _exhaust(execute_script(engine, text, session, row))
    elif _is_tuple(insert, keys):
        assert isinstance(insert.statement, s.InsertValues)
        tuples = [_ordered(row, keys, number) for number, row in enumerate(given, 1)]
        with located(insert):
            insert_tuples(insert.statement, tuples, engine.inserts, session)
    else:
        _insert_evaluated(text, given, engine.inserts, session)
    return len(given)


def _insert(text: str, keys: Sequence[str], session: Session) -> ParsedStatement | None:
    """The INSERT INTO … VALUES that a text is, with NULL for each parameter; None for others."""
    numbered = all(key.isdecimal() for key in keys)
    values: Values = [None] * len(set(keys)) if numbered else dict.fromkeys(keys)
    try:
        parsed = list(parse_script(text, session, values))
    except MillstreamError:
        return None  # Where NULL is not allowed; other errors are raised as it is executed.
    if len(parsed) == 1 and isinstance(parsed[0].statement, s.InsertValues):
        return parsed[0]
    return None


def _is_tuple(insert: ParsedStatement, keys: Sequence[str]) -> bool:
    """Whether each value is a parameter of its own, so that rows need not become text."""
    statement = insert.statement
    return (
        isinstance(statement, s.InsertValues)
        and has_nulls_alone(statement)
        and len(statement.rows[0]) == len(keys) == len(set(keys))
    )


def _ordered(row: Values, keys: Sequence[str], number: int) -> tuple[Any, ...]:
    """The values in the order in which the text asks for them."""
    if len(row) != len(keys):
        raise _unusable(number, f"it has {len(row)} values, and the text asks for {len(keys)}.")
    try:
        if isinstance(row, Mapping):
            return tuple(row[key] for key in keys)
        return tuple(row[int(key) - 1] for key in keys)
    except (LookupError, ValueError):
        asked = ", ".join(keys)
        raise _unusable(number, f"it has no value for one of the parameters {asked}.") from None


def _insert_evaluated(
    text: str, rows: Sequence[Values], inserts: Inserts, session: Session
) -> None:
    """Insert rows some of whose values are expressions, in one transaction."""
    found, catalog = [], inserts.registry.catalog
    for number, row in enumerate(rows, 1):
        with _numbered(number):
            (parsed,) = parse_script(text, session, row)
            assert isinstance(parsed.statement, s.InsertValues)
            with located(parsed):
                found.append(
                    rows_to_insert(parsed.statement, parsed.script, catalog, inserts, session)
                )
    append_rows(together(found), inserts)
    session.inserted = True


def _exhaust(results: Iterator[Result]) -> None:
    """Execute statements, none of which may be a query."""
    for result in results:
        if isinstance(result, Stream | History):
            result.close()
        if not isinstance(result, Done):
            raise wordings.QUERY_OF_MANY(hint="Execute it once for each row.")


@contextmanager
def _numbered(number: int) -> Iterator[None]:
    """Say which row of parameters an error is about."""
    try:
        yield
    except StatementError as error:
        raise prefixed(f"Row {number} of the parameters: ", error) from error


def _unusable(number: int, reason: str) -> StatementError:
    return wordings.ROW_OF_PARAMETERS(row=number, reason=reason)
