"""Opens the state of a log. A state that cannot be used is replaced by an empty one.

State can always be restored from the changelogs. So a state that is unreadable is renamed and kept
instead of refused, as is one beside an embedded log that belongs to another one.
"""

from __future__ import annotations

import logging
from contextlib import suppress

import duckdb

from millstream.log.duckfile import STATE
from millstream.log.embedded import EmbeddedLog
from millstream.model.errors import CorruptionError, MillstreamError
from millstream.model.file_damage import tells_of_damage
from millstream.model.problem import Problem
from millstream.model.settings import EngineSettings
from millstream.state.examination import ahead_of_changelogs
from millstream.state.files import QUARANTINE, SUFFIX, put_aside
from millstream.state.shrinking import shrink, sparse
from millstream.state.store import Store

MEMORY = ":memory:"
_LOG = logging.getLogger("millstream")


class OtherLogError(CorruptionError):
    """A state belongs to another log than the one that is opened."""


def open_state(
    log: EmbeddedLog, path: str, identity: str, prefix: str
) -> tuple[Store, Problem | None]:
    """Attach the state of the log at `path`; returns it, and the problem if it was replaced.
    `prefix`: that of internal topics.

    Raises UnavailableError if its file cannot be opened for a reason other than its content.
    """
    if path == MEMORY:
        return _attached(log, MEMORY, identity), None
    file = f"{path}{SUFFIX}"
    try:
        store = _attached(log, file, identity)
        if sparse(log.connection, STATE):
            store = _shrunk(log, file, identity)
        _check_not_ahead(log, store, prefix)
        return store, None
    except (MillstreamError, duckdb.Error) as error:
        if not _unusable(error):
            raise
        problem = _replaced(file, error)
    _put_aside(log, file)
    return _attached(log, file, identity), problem


def open_local_state(
    path: str, settings: EngineSettings, identity: str
) -> tuple[Store, Problem | None]:
    """Open the state at `path` of an instance on a shared log; returns it, and the problem if it
    was replaced. A state of another log is refused: that is a wrong path, not a damage.

    Raises CorruptionError for it, UnavailableError if the file cannot be opened for a reason other
    than its content, StatementError for settings that cannot be.
    """
    try:
        return _claimed(path, settings, identity), None
    except (MillstreamError, duckdb.Error) as error:
        if path == MEMORY or not _unusable(error):
            raise
        problem = _replaced(path, error)
    put_aside(path)
    return _claimed(path, settings, identity), problem


def files_of(path: str) -> dict[str, str]:
    """The files of the log at `path` and of its state; none for a log in memory."""
    return {} if path == MEMORY else {"log": path, "state": f"{path}{SUFFIX}"}


def _replaced(file: str, error: Exception) -> Problem:
    """Log that a state is put aside; returns the problem for the processing log."""
    reason = str(error).splitlines()[0].rstrip(".")
    message = f"The state cannot be used: {reason}. It was renamed to "
    message += f"{file}{QUARANTINE} and is rebuilt from the changelogs."
    _LOG.warning(message)
    return Problem("STATE", message, "", -1)


def _claimed(path: str, settings: EngineSettings, identity: str) -> Store:
    store = Store.open(path, threads=settings.threads, memory_limit=settings.memory_limit)
    try:
        if store.claim(identity):
            return store
    except BaseException:
        store.close()
        raise
    store.close()
    raise OtherLogError(
        f"The state in '{path}' belongs to another cluster or command topic",
        hint="Give another file; the state is restored from the changelogs.",
    )


def _attached(log: EmbeddedLog, file: str, identity: str) -> Store:
    log.attach_state(file)
    store = Store(log.connection, STATE)
    if not store.claim(identity):
        raise CorruptionError(f"The state in '{file}' belongs to another log")
    return store


def _shrunk(log: EmbeddedLog, file: str, identity: str) -> Store:
    """The state in a smaller file, if that can be made now."""
    log.detach_state()
    try:
        shrink(file)
    except (duckdb.Error, OSError) as error:
        _LOG.warning("The file %s is not made smaller: %s", file, error)
    return _attached(log, file, identity)


def _check_not_ahead(log: EmbeddedLog, store: Store, prefix: str) -> None:
    """Refuse a state that knows more than the log, which has lost the end of a changelog."""

    def end_of(name: str, part: int) -> int | None:
        topic = log.topic(name)
        return log.end_offset(name, part) if topic and part < topic.partitions else None

    with store.cursor() as cursor:
        for where, what in ahead_of_changelogs(cursor, prefix, end_of, store.database):
            raise CorruptionError(f"The {where}: {what}")


def _unusable(error: Exception) -> bool:
    """Whether the content of the file is the cause of the error."""
    match error:
        case OtherLogError():
            return False
        case duckdb.IOException():
            return tells_of_damage(error)
    return isinstance(error, CorruptionError | duckdb.Error)


def _put_aside(log: EmbeddedLog, file: str) -> None:
    with suppress(duckdb.Error):
        log.detach_state()
    put_aside(file)
