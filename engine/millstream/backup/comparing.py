"""Compares the state of a database with its changelogs, row by row: each changelog is replayed in
a place of its own up to the position that the state has, as it would be if the state were lost."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from millstream.executor.changelog import apply
from millstream.log.examination import Damage, reading_values
from millstream.model.batch import PART
from millstream.model.duckdb_settings import SECURE
from millstream.model.errors import CorruptionError, UnavailableError
from millstream.operators.program import StateTable
from millstream.state.descriptions import described
from millstream.state.positions import stored_positions
from millstream.state.store import Store
from millstream.state.tables import columns_of, expired_text, quoted, schema_of

_FOUND, _REBUILT = "found", "rebuilt"


@dataclass(frozen=True, slots=True)
class _Task:
    query_id: str
    subtopology: int
    part: int
    position: int

    def __str__(self) -> str:
        return f"state of {self.query_id}, sub-topology {self.subtopology}, partition {self.part}"


def differences(state: str, log: str, prefix: str) -> Iterator[Damage]:
    """Where the state in a file differs from its changelogs in the file of a log. Both can be read,
    and no process has them open. State that an earlier version wrote is not described, so it is not
    compared; neither is that of a partition which is rebuilt anyway when it is opened. `prefix`:
    that of internal topics. Raises UnavailableError (E-DISK-IO) if there is no space for temporary
    files, or they cannot be written."""
    try:
        with (
            tempfile.TemporaryDirectory(prefix="millstream-check-") as folder,
            reading_values(log) as values,
            _attached(state, folder) as root,
        ):
            tables = described(root, _FOUND)
            store = Store(root, _REBUILT)
            for row in stored_positions(root, _FOUND):
                task = _Task(*row)
                own = tables.get((task.query_id, task.subtopology), ())
                topic = f"{prefix}{task.query_id}-{task.subtopology}-changelog"
                start = values.start(topic, task.part)
                if own and start is not None and start <= task.position:
                    records = values.read(topic, task.part, task.position)
                    yield from _compared(store, task, own, records)
    except (duckdb.Error, OSError) as error:
        # All that is compared has been read before, so it is not the state that failed.
        raise UnavailableError(
            "The state could not be compared with its changelogs",
            detail=str(error),
            hint="Free space for temporary files, or name another folder for them in TMPDIR.",
            code="E-DISK-IO",
        ) from error


@contextmanager
def _attached(state: str, folder: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the state, which it cannot change, and an empty database beside it."""
    config = {**SECURE, "threads": 1, "temp_directory": folder}
    with duckdb.connect(":memory:", config=config) as root:
        rebuilt = str(Path(folder, "rebuilt.db"))
        for path, name, mode in ((state, _FOUND, "(READ_ONLY)"), (rebuilt, _REBUILT, "")):
            literal = path.replace("'", "''")
            root.execute(f"ATTACH '{literal}' AS {name} {mode}")
        yield root


def _compared(
    store: Store, task: _Task, tables: tuple[StateTable, ...], records: Iterable[pa.Table]
) -> Iterator[Damage]:
    session = store.session(task.query_id, task.subtopology, tables)
    try:
        try:
            for batch in records:
                apply(session, task.part, batch)
                session.commit({task.part: task.position})
        except CorruptionError as error:
            yield Damage(str(task), f"a record of its changelog cannot be read: {error.message}")
            return
        for table in tables:
            what = ", ".join(_wrong(session.connection, task, table))
            if what:
                yield Damage(f"{task}, table {table.name}", what)
        # One partition after another takes the same space.
        session.clear(task.part)
        session.commit({task.part: 0})
    finally:
        session.close()


def _wrong(connection: duckdb.DuckDBPyConnection, task: _Task, table: StateTable) -> Iterator[str]:
    """What is not alike in both tables."""
    columns = ", ".join(map(quoted, columns_of(table)))
    schema = quoted(schema_of(task.query_id, task.subtopology))
    found, rebuilt = (
        f"SELECT {columns} FROM {database}.{schema}.{quoted(table.name)}"
        f" WHERE {quoted(PART)} = {task.part}"
        for database in (_FOUND, _REBUILT)
    )
    added = _count(connection, f"{found} EXCEPT ALL {rebuilt}")
    if added:
        yield f"rows that its changelog does not have: {added}"
    lost = f"({rebuilt} EXCEPT ALL {found}) t"
    missing = _count(connection, f"FROM {lost}")
    if missing and table.expiry is not None:
        expired = expired_text(table.expiry, "CROSS JOIN")
        missing -= _count(connection, f"SELECT 1 FROM {lost} {expired}")
    if missing:
        yield f"rows of its changelog that are missing: {missing}"


def _count(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    ((count,),) = connection.execute(f"SELECT count(*) FROM ({query})").fetchall()
    return int(count)
