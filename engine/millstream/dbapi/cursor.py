"""A cursor of PEP 249: executes a statement and fetches its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Protocol

from millstream.dbapi.exceptions import InterfaceError, ProgrammingError, translated
from millstream.model.schema import Schema
from millstream.model.shown_types import schema_of
from millstream.query.results import Done, History, Result, Rows, Stream
from millstream.service.database import Database
from millstream_parser import Values

Row = tuple[Any, ...]
Description = tuple[tuple[str, str, None, None, int | None, int | None, bool], ...]


class Executing(Protocol):
    """What a cursor needs of its connection."""

    database: Database

    def require_open(self) -> None:
        """Raises InterfaceError when it is closed."""

    def note_change(self) -> None:
        """A statement without rows was executed."""


class Cursor:
    """Executes one statement at a time. Rows of a push query are fetched as they come: `fetchone`
    waits for the next one, and `close` ends the query."""

    def __init__(self, connection: Executing) -> None:
        self.connection = connection
        self.description: Description | None = None
        """The columns of the rows: name, type, and of a DECIMAL precision and scale. None without
        rows."""
        self.rowcount = -1
        """How many rows there are, or were inserted, if that is known."""
        self.rownumber: int | None = None
        """How many rows were fetched."""
        self.arraysize = 1
        """How many rows `fetchmany` returns at most by default."""
        self.lastrowid = None
        """Always None: rows have no ids."""
        self._result: Result | None = None
        self._rows: Iterator[Row] | None = None
        self._closed = False

    def execute(self, operation: str, parameters: Values = ()) -> Cursor:
        """Execute one or more statements; the rows are those of the last one. See
        `Database.execute` for `parameters`."""
        self._begin()
        with translated():
            result = self.connection.database.execute(operation, parameters)
        self._result = result
        match result:
            case Done():
                self.connection.note_change()
            case Rows():
                self.description = _description(result.schema or schema_of(result.table))
                self.rowcount = len(result)
                self._rows = iter(result)
            case Stream():
                self.description = _description(result.schema)
                self._rows = iter(result.fetchone, None)
            case History():
                self.description = _description(result.schema or schema_of(result.empty))
                self._rows = iter(result)
        self.rownumber = None if self._rows is None else 0
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Values]) -> Cursor:
        """Execute a statement once for each row of parameters; INSERT is one transaction for all
        of them. Raises ProgrammingError for a query."""
        self._begin()
        with translated():
            self.rowcount = self.connection.database.executemany(operation, seq_of_parameters)
        self.connection.note_change()
        return self

    def fetchone(self) -> Row | None:
        """The next row; None at the end. Raises ProgrammingError after a statement without rows."""
        return next(iter(self.fetchmany(1)), None)

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next rows, at most `size`, or `arraysize`. Of a push query it waits for one and
        returns what has come with it."""
        rows, size = self._open_rows(), self.arraysize if size is None else size
        with translated():
            if isinstance(self._result, Stream):
                found: list[Row] = [*self._result.fetchmany(size)]
            else:
                found = list(islice(rows, size))
        return self._counted(found)

    def fetchall(self) -> list[Row]:
        """All further rows. Raises ProgrammingError for a push query without LIMIT, which does not
        end."""
        rows = self._open_rows()
        with translated():
            found = [*(self._result.fetchall() if isinstance(self._result, Stream) else rows)]
        return self._counted(found)

    def _counted(self, rows: list[Row]) -> list[Row]:
        self.rownumber = (self.rownumber or 0) + len(rows)
        return rows

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def setinputsizes(self, sizes: Any) -> None:
        """Do nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing, as PEP 249 allows."""

    def close(self) -> None:
        """End it, and the query whose rows it fetches. Idempotent."""
        if not self._closed:
            self._closed = True
            self._end()

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self) -> None:
        self._require_open()
        self._end()

    def _end(self) -> None:
        result, self._result, self._rows = self._result, None, None
        self.description, self.rowcount, self.rownumber = None, -1, None
        if isinstance(result, Stream | History):
            with translated():
                result.close()

    def _open_rows(self) -> Iterator[Row]:
        self._require_open()
        if self._rows is None:
            # JupySQL looks for these words, which are those of psycopg.
            raise ProgrammingError("no results to fetch: the last statement returned no rows")
        return self._rows

    def _require_open(self) -> None:
        self.connection.require_open()
        if self._closed:
            raise InterfaceError("the cursor is closed")


def _description(schema: Schema) -> Description:
    return tuple(
        (
            column.name,
            str(column.type),
            None,
            None,
            getattr(column.type, "precision", None),
            getattr(column.type, "scale", None),
            True,
        )
        for column in schema.columns
    )
