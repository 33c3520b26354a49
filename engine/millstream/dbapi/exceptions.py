"""The exceptions of PEP 249, and those of Millstream as one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from millstream.model.errors import (
    ConflictError,
    CorruptionError,
    FencedError,
    MillstreamError,
    RecordError,
    StatementError,
    UnavailableError,
)


class Warning(Exception):
    """Never raised; PEP 249 requires it."""


class Error(Exception):
    """Any error. `__cause__` is Millstream's own, with its code and the place in the text."""


class InterfaceError(Error):
    """A connection or cursor is used in a way that it does not allow, such as after its end."""


class DatabaseError(Error):
    """An error of the database."""


class DataError(DatabaseError):
    """A record or value is invalid."""


class OperationalError(DatabaseError):
    """The database cannot do it now, or this process may not do it any more."""


class IntegrityError(DatabaseError):
    """Never raised: streams and tables have no constraints. PEP 249 requires it."""


class InternalError(DatabaseError):
    """What the database has stored is damaged."""


class ProgrammingError(DatabaseError):
    """The statement is wrong, or a name is missing or taken."""


class NotSupportedError(DatabaseError):
    """Millstream does not have it."""


_KINDS: dict[type[MillstreamError], type[DatabaseError]] = {
    StatementError: ProgrammingError,
    ConflictError: ProgrammingError,
    RecordError: DataError,
    UnavailableError: OperationalError,
    FencedError: OperationalError,
    CorruptionError: InternalError,
}


@contextmanager
def translated() -> Iterator[None]:
    """Raise errors of Millstream as those of PEP 249."""
    try:
        yield
    except MillstreamError as error:
        kind = next((to for kind, to in _KINDS.items() if isinstance(error, kind)), DatabaseError)
        raise kind(str(error)) from error
