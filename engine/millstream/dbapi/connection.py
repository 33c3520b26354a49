"""A database as a connection of PEP 249."""

from __future__ import annotations

from typing import Any

from millstream.connecting import connect as connect_database
from millstream.dbapi import exceptions
from millstream.dbapi.cursor import Cursor
from millstream.dbapi.exceptions import InterfaceError, NotSupportedError, translated
from millstream.service.database import Database


class Connection:
    """A database and its session. `database` is the same with Millstream's own interface."""

    Warning = exceptions.Warning
    Error = exceptions.Error
    InterfaceError = exceptions.InterfaceError
    DatabaseError = exceptions.DatabaseError
    DataError = exceptions.DataError
    OperationalError = exceptions.OperationalError
    IntegrityError = exceptions.IntegrityError
    InternalError = exceptions.InternalError
    ProgrammingError = exceptions.ProgrammingError
    NotSupportedError = exceptions.NotSupportedError

    def __init__(self, database: Database) -> None:
        self.database = database
        self._closed = False
        self._changed = False
        """Whether a statement without rows was executed since the last commit."""

    def cursor(self) -> Cursor:
        """A cursor, for one statement at a time."""
        self.require_open()
        return Cursor(self)

    def execute(self, operation: str, parameters: Any = ()) -> Cursor:
        """Execute a statement with a new cursor, and return that, as in sqlite3."""
        return self.cursor().execute(operation, parameters)

    def commit(self) -> None:
        """Do nothing: each statement is committed when it is executed."""
        self.require_open()
        self._changed = False

    def rollback(self) -> None:
        """Do nothing if nothing was changed since the last commit; otherwise raises
        NotSupportedError: each statement was committed when it was executed."""
        self.require_open()
        if self._changed:
            self._changed = False
            raise NotSupportedError("each statement is committed at once: nothing can be undone")

    def note_change(self) -> None:
        """A statement without rows was executed."""
        self._changed = True

    def require_open(self) -> None:
        """Raises InterfaceError when it is closed."""
        if self._closed:
            raise InterfaceError("the connection is closed")

    def close(self) -> None:
        """Close the database. Raises InterfaceError when it is closed already."""
        self.require_open()
        self._closed = True
        with translated():
            self.database.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._closed:
            self.close()


def connect(path: str = ":memory:", **options: Any) -> Connection:
    """Open a database; `options` are those of `millstream.connect`."""
    with translated():
        return Connection(connect_database(path, **options))
