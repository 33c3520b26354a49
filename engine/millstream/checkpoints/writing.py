"""Writes a checkpoint of one task: all rows of its state, or only what has changed since."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from millstream.checkpoints.fingerprint import fingerprint_of
from millstream.checkpoints.manifest import Checkpoint
from millstream.checkpoints.repository import Repository, StateId
from millstream.checkpoints.stopping import Stopped
from millstream.executor.changelog import last_rows, rows_by_table
from millstream.log.log import DirectReader, Log
from millstream.model.batch import PART
from millstream.operators.program import StateTable
from millstream.state.positions import Position, stored_position
from millstream.state.store import Store
from millstream.state.tables import columns_of, indexed, key_text, quoted

FILE_BYTES = 32 << 20
"""About the bytes of a file's rows before they are compressed; a reader holds one at a time."""
_BATCH_ROWS = 50_000
_RECORDS = 64
"""Changelog records that are read at a time; each has some 800 KB at most."""
_FILES_MAX = 24
"""A checkpoint of more files is written anew."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task whose state is in `store`, with all tables of its sub-topology."""

    store: Store
    state: StateId
    tables: Sequence[StateTable]
    changelog: str
    partition: int


def write_checkpoint(
    task: Task,
    repository: Repository,
    log: Log[pa.Table],
    last: Checkpoint | None,
    stopped: Callable[[], bool] = lambda: False,
) -> Checkpoint | None:
    """Write a checkpoint of what a task has committed, on top of the `last` one where that is less
    work for the one who reads it; None if there is nothing new. Raises UnavailableError when the
    place does not answer, Stopped once `stopped` says so; then there is no new checkpoint."""
    cursor = task.store.cursor()
    try:
        task.store.take_snapshot(cursor)
        at = stored_position(
            cursor, task.store.database, task.state.query_id, task.state.subtopology, task.partition
        )
        if at is None or not at.at or (last is not None and at.at <= last.position):
            return None
        fingerprint = fingerprint_of(log, task.changelog, task.partition, at.at)
        if fingerprint is None:
            return None
        if last is None or not _extends(task, log, last, at):
            rows = _unless(stopped, _all(task, cursor))
            files = repository.write_rows(task.state, task.partition, at.at, rows)
            found = Checkpoint(at.at, max(at.written, 0), at.at, fingerprint, files)
            repository.publish(task.state, task.partition, found)
            return found
    finally:
        # A transaction that stays open would keep DuckDB from taking its own checkpoints.
        cursor.rollback()
        cursor.close()
    rows = _unless(stopped, _changed(task, log, last.position, at.at))
    files = repository.write_rows(task.state, task.partition, at.at, rows, changes=True)
    found = Checkpoint(at.at, max(at.written, 0), last.base, fingerprint, (*last.files, *files))
    repository.publish(task.state, task.partition, found)
    return found


def _unless(
    stopped: Callable[[], bool], tables: Iterator[tuple[str, pa.Table]]
) -> Iterator[tuple[str, pa.Table]]:
    for each in tables:
        if stopped():
            raise Stopped
        yield each


def rows_since(at: Position, last: Checkpoint) -> int:
    """The rows on a changelog since a checkpoint. They are counted anew with each snapshot."""
    return at.written - last.written if at.written >= last.written else at.written


def _extends(task: Task, log: Log[pa.Table], last: Checkpoint, at: Position) -> bool:
    """Whether what has changed since a checkpoint can be added to it: then less than half as many
    rows are changes as there are besides."""
    changed = last.changed_rows + rows_since(at, last)
    few = changed * 2 <= last.base_rows and len(last.files) < _FILES_MAX
    return few and log.start_offset(task.changelog, task.partition) <= last.position


def _all(task: Task, cursor: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, pa.Table]]:
    """The rows of all tables, each in the order of its key: an index is filled faster then."""
    state = task.state
    for table in task.tables:
        name = task.store.table(state.query_id, state.subtopology, table.name)
        columns = ", ".join(map(quoted, columns_of(table)))
        order = f" ORDER BY {key_text(table)}" if indexed(table) else ""
        reader = cursor.sql(
            f"SELECT {columns} FROM {name} WHERE {quoted(PART)} = {task.partition}{order}"
        ).to_arrow_reader(_BATCH_ROWS)
        for rows in _by_size(pa.Table.from_batches([batch]) for batch in reader):
            yield table.name, rows


def _by_size(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables for a file each."""
    held: list[pa.Table] = []
    for rows in tables:
        if rows.num_rows:
            held.append(rows)
        if sum(each.nbytes for each in held) >= FILE_BYTES:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _changed(
    task: Task, log: Log[pa.Table], first: int, end: int
) -> Iterator[tuple[str, pa.Table]]:
    """The last rows of the keys on a range of the changelog, some of it at a time."""
    tables = {table.name: table for table in task.tables}
    reader = DirectReader(log)
    with task.store.cursor() as cursor:
        position, size = first, 0
        held: dict[str, list[pa.Table]] = {}
        while position < end:
            fetched = reader.read(task.changelog, task.partition, position, _RECORDS, end)
            position = fetched.next_offset
            for name, rows in rows_by_table(fetched.records(), tables).items():
                held.setdefault(name, []).extend(rows)
            size += fetched.bytes
            if size >= FILE_BYTES or position >= end:
                for name, rows in held.items():
                    yield name, last_rows(cursor, tables[name], rows, task.partition)
                held, size = {}, 0
