"""Texts in a pull query that are compared with dates and times, and have to be some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import duckdb

from millstream.functions.function import Catalogue
from millstream.model.expressions import Cast, Expression, Literal, walk
from millstream.model.types import DATE, STRING, TIME, TIMESTAMP, SqlType
from millstream.operators.guards import guarded_text
from millstream.query import wordings

_LIKE: dict[SqlType, str] = {
    DATE: "'2024-01-31'",
    TIME: "'12:30:00'",
    TIMESTAMP: "'2024-01-31T12:30:00'",
}


def check_constants(
    expressions: Iterable[Expression], cursor: duckdb.DuckDBPyConnection, catalogue: Catalogue
) -> None:
    """Raise StatementError for a text that is no value of the type that it is compared with: such a
    comparison is false for every row, so the answer would be empty."""
    found = list(dict.fromkeys(_constants(expressions)))
    if not found:
        return
    tests = (f"{guarded_text(cast, catalogue, str)} IS NULL" for cast in found)
    ((*unreadable,),) = cursor.execute(f"SELECT {', '.join(tests)}").fetchall()
    for cast, missing in zip(found, unreadable, strict=True):
        if missing:
            assert isinstance(cast.operand, Literal)
            hint = f"Write it as {_LIKE[cast.type]}."
            raise wordings.NO_TIME(text=str(cast.operand.value), type=cast.type, hint=hint)


def _constants(expressions: Iterable[Expression]) -> Iterator[Cast]:
    for expression in expressions:
        for part in walk(expression):
            if (
                isinstance(part, Cast)
                and part.implicit
                and part.type in _LIKE
                and isinstance(part.operand, Literal)
                and part.operand.type == STRING
                and part.operand.value is not None
            ):
                yield part
