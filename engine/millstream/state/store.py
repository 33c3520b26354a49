"""The physical store under all state: one DuckDB database, a schema for each sub-topology.

Processing uses sessions with one cursor and one open transaction each; everything else reads
committed state through cursors of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, TracebackType

import duckdb
import pyarrow as pa

from millstream.model.batch import PART
from millstream.model.duckdb_settings import LOCK, SECURE
from millstream.model.errors import (
    CorruptionError,
    MillstreamError,
    StatementError,
    UnavailableError,
)
from millstream.model.file_damage import marked, tells_of_damage
from millstream.model.retry import retry_until
from millstream.operators.program import StateTable
from millstream.state.descriptions import Descriptions
from millstream.state.files import SUFFIX
from millstream.state.positions import (
    Position,
    Positions,
    create_positions,
    positions_of,
    positions_table,
)
from millstream.state.table_sizes import TableSizes
from millstream.state.tables import (
    DELETED,
    columns_of,
    create_text,
    indexed,
    quoted,
    schema_of,
    sought_text,
    upsert_texts,
)
from millstream.state.views import Views

_NONE: Mapping[int, int] = MappingProxyType({})
_MANY = 2000
"""From this many rows on, sorting them by their position in the table pays off."""

KEEP_FAILURES = "SET disabled_optimizers = 'statistics_propagation'"
"""What a database needs in which programs run. That optimizer drops what decides nothing, and with
it the failure of it: `CASE WHEN 1 / a = 1 THEN 'x' ELSE 'y' END <> 'z'` was true where `a` is 0."""


_DAMAGE = ("corrupt", "checksum", "read enough bytes", "deserialize")


class Store:
    """A state database, attached to a DuckDB connection that also runs the programs.

    >>> store = Store.open(":memory:")
    >>> session = store.session("CTAS_T_1", 0, tables)
    """

    def __init__(self, root: duckdb.DuckDBPyConnection, database: str) -> None:
        """`root`: an open connection; `database`: the name under which the state is attached."""
        self._root = root
        self.database = database
        self.identity = ""
        """That of the log it belongs to, once it is claimed."""
        self.functions: set[str] = set()
        """Names of the Python functions registered with the instance."""
        self._versions = itertools.count(1)
        self.version = 0
        """Another number whenever tables were created, altered or dropped: DuckDB plans prepared
        statements again at each run from then on, so sessions prepare theirs anew."""
        root.execute(KEEP_FAILURES)
        create_positions(root, database)
        self.descriptions = Descriptions(root, database)
        ((path,),) = root.execute(
            "SELECT path FROM duckdb_databases() WHERE database_name = ?", [database]
        ).fetchall()
        self._path = str(path or ":memory:")

    @staticmethod
    def open(path: str | Path, *, threads: int = 1, memory_limit: str | None = None) -> Store:
        """Open or create the state database at `path`, or one in memory for ":memory:".

        `threads` is what one statement may use; processing threads bring their own. Data beyond
        `memory_limit` ("2GB"; None: most of the machine's memory) is spilled to a folder beside the
        file. Raises StatementError for an invalid size, UnavailableError if another process has the
        file, CorruptionError if it cannot be read.
        """
        root = duckdb.connect(":memory:", config=dict(SECURE))
        try:
            root.execute(f"SET threads = {threads}")
            literal = str(path).replace("'", "''")
            if memory_limit is not None:
                size = memory_limit.replace("'", "''")
                root.execute(f"SET memory_limit = '{size}'")
            if str(path) != ":memory:":
                root.execute(f"SET temp_directory = '{literal}.tmp'")
            with marked(str(path)):
                root.execute(f"ATTACH '{literal}' AS state")
            store = Store(root, "state")
            # In this order: afterwards files and settings are locked.
            root.execute("SET enable_external_access = false")
            root.execute(LOCK)
        except CorruptionError:
            root.close()
            raise
        except duckdb.Error as error:
            root.close()
            raise _not_opened(path, memory_limit, error) from error
        return store

    def claim(self, identity: str) -> bool:
        """Whether the state belongs to the log of this identity; a new state is bound to it from
        now on."""
        table = f'{quoted(self.database)}.main."$identity"'
        self._root.execute(f"CREATE TABLE IF NOT EXISTS {table} (id VARCHAR)")
        found = self._root.execute(f"SELECT id FROM {table}").fetchall()
        if not found:
            self._root.execute(f"INSERT INTO {table} VALUES (?)", [identity])
        self.identity = found[0][0] if found else identity
        return self.identity == identity

    def damage(self, error: duckdb.Error) -> CorruptionError | None:
        """The error of a read that failed because the file is damaged; None if it did for another
        reason."""
        text = str(error)
        if not any(sign in text.casefold() for sign in _DAMAGE):
            return None
        log = self._path.removesuffix(SUFFIX)
        return CorruptionError(
            f"The state '{self._path}' is damaged.",
            detail=text,
            hint=f"Close the database and run millstream check {log} --repair; then it is rebuilt"
            " from the changelogs.",
            code="E-STATE-DAMAGED",
        )

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection that sees committed state; the caller closes it."""
        return self._root.cursor()

    def take_snapshot(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Give a cursor a snapshot of the current state, until it rolls back."""
        cursor.begin()
        # DuckDB fixes a transaction's snapshot of a database at its first access.
        cursor.execute(f"SELECT 1 FROM {positions_table(self.database)} LIMIT 1").fetchall()

    def positions(self, query_id: str, subtopology: int) -> dict[int, int]:
        """The changelog position of each partition of a sub-topology whose state can be used."""
        cursor = self.cursor()
        try:
            return positions_of(cursor, self.database, query_id, subtopology)
        finally:
            cursor.close()

    def table(self, query_id: str, subtopology: int, name: str) -> str:
        """The full SQL name of a state table, for queries through `cursor`."""
        return ".".join(map(quoted, (self.database, schema_of(query_id, subtopology), name)))

    def row_counts(self) -> dict[tuple[str, int], dict[str, int]]:
        """About how many rows each table of each sub-topology has. Rows that were deleted count
        until a checkpoint. Nothing once the store is closed."""
        try:
            with self.cursor() as cursor:
                found = cursor.execute(
                    "SELECT schema_name, table_name, estimated_size FROM duckdb_tables()"
                    " WHERE database_name = ? AND schema_name <> 'main'"
                    " AND NOT starts_with(table_name, '$')",
                    [self.database],
                ).fetchall()
        except duckdb.ConnectionException:
            return {}
        counts: dict[tuple[str, int], dict[str, int]] = {}
        for schema, table, rows in found:
            query_id, _, subtopology = schema.rpartition("_")
            counts.setdefault((query_id, int(subtopology)), {})[table] = rows
        return counts

    def altered(self) -> None:
        """Note that tables were created, altered or dropped."""
        self.version = next(self._versions)

    def session(self, query_id: str, subtopology: int, tables: Sequence[StateTable]) -> Session:
        """The processing side of a sub-topology's state; creates its tables when absent."""
        return Session(self, query_id, subtopology, tuple(tables))

    def widen(self, query_id: str, subtopology: int, table: StateTable) -> None:
        """Give a state table the value columns it lacks, NULL in every row; no error when there is
        no such table. No session may be writing to it."""
        cursor = self.cursor()
        try:
            name = self.table(query_id, subtopology, table.name)
            for column, kind in table.value:
                cursor.execute(
                    f"ALTER TABLE IF EXISTS {name} ADD COLUMN IF NOT EXISTS {quoted(column)} {kind}"
                )
        finally:
            cursor.close()
            self.altered()

    def query_ids(self) -> set[str]:
        """The queries that have state."""
        cursor = self.cursor()
        try:
            found = cursor.sql(
                "SELECT schema_name FROM duckdb_schemas() WHERE database_name = "
                f"'{self.database}' AND regexp_matches(schema_name, '_[0-9]+$')"
            ).fetchall()
        finally:
            cursor.close()
        return {schema.rpartition("_")[0] for (schema,) in found}

    def drop_query(self, query_id: str) -> None:
        """Remove all state of a query; no error when there is none."""
        cursor = self.cursor()
        try:
            found = cursor.sql(
                "SELECT DISTINCT schema_name FROM duckdb_schemas() WHERE database_name = "
                f"'{self.database}' AND regexp_matches(schema_name, '^' || "
                f"regexp_escape('{query_id.replace(chr(39), chr(39) * 2)}') || '_[0-9]+$')"
            ).fetchall()
            for (schema,) in found:
                cursor.execute(f"DROP SCHEMA {quoted(self.database)}.{quoted(schema)} CASCADE")
            cursor.execute(
                f"DELETE FROM {positions_table(self.database)} WHERE query = ?", [query_id]
            )
            self.descriptions.drop(cursor, query_id)
        finally:
            cursor.close()
            self.altered()

    def checkpoint(self) -> bool:
        """Fold the write-ahead log into the file; False when a transaction is open somewhere."""
        try:
            self._root.execute(f"CHECKPOINT {quoted(self.database)}")
        except duckdb.TransactionException:
            return False
        return True

    def close(self) -> None:
        """Close the database after the last statement that reads it has ended; idempotent. Its file
        is released even if cursors remain."""
        with suppress(duckdb.Error):
            self._root.execute(f"DETACH {quoted(self.database)}")
        retry_until(self._root.close, duckdb.ResourceInUseException)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Session:
    """One sub-topology's tables, written in one transaction that `commit` ends.

    `connection` resolves the tables by their bare names; `views` register relations for it. A
    statement that fails aborts the transaction (DuckDB has no savepoints): the caller rolls back
    and writes its changes again.
    """

    def __init__(
        self, store: Store, query_id: str, subtopology: int, tables: tuple[StateTable, ...]
    ) -> None:
        self.tables = {table.name: table for table in tables}
        self.connection = store.cursor()
        self.views = Views(self.connection)
        self._positions = Positions(self.connection, store.database, query_id, subtopology)
        self._sizes = TableSizes(self.connection, self.tables)
        self._open = False
        if tables:
            schema = f"{quoted(store.database)}.{quoted(schema_of(query_id, subtopology))}"
            self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            for table in tables:
                self.connection.execute(create_text(schema, table))
                sought = sought_text(schema, table)
                if sought is not None:
                    self.connection.execute(sought)
            store.descriptions.write(self.connection, query_id, subtopology, tables)
            self.connection.execute(f"USE {schema}")
            store.altered()
        self._store, self._version = store, store.version

    @property
    def begun(self) -> bool:
        """Whether a transaction is open."""
        return self._open

    def begin(self) -> None:
        """Begin the transaction unless one is open."""
        if not self._open and self.tables:
            if self._version != self._store.version:
                self._version = self._store.version
                self.views.prepare_again()
                self._positions.prepare_again()
            self.connection.execute("BEGIN")
            self._open = True
            self.views.small = self._sizes.small()

    def position(self, part: int) -> Position | None:
        """The committed changelog position of a partition; None when it was never committed, or
        when a load of its state was broken off: it has to be cleared then."""
        self._sizes.forget()
        return self._positions.read(part)

    def has_rows(self, part: int | None = None) -> bool:
        """Whether any table has rows of a partition; of any, without one."""
        own = "" if part is None else f" WHERE {quoted(PART)} = {part}"
        found = (f"EXISTS (SELECT 1 FROM {quoted(name)}{own})" for name in self.tables)
        ((some,),) = self.connection.execute(f"SELECT {' OR '.join(found)}").fetchall()
        return bool(some)

    def insert(self, name: str, rows: pa.Table) -> None:
        """Add rows whose keys are not in a table, and were not in this transaction."""
        self.begin()
        columns = ", ".join(map(quoted, columns_of(self.tables[name])))
        self.views.show("$rows", rows)
        self.connection.execute(
            f'INSERT INTO {quoted(name)} ({columns}) SELECT {columns} FROM "$rows"'
        )
        self.views.release()
        self._sizes.wrote(rows.num_rows)

    def clear(self, part: int) -> None:
        """Remove all rows of a partition."""
        self.begin()
        for name in self.tables:
            self.connection.execute(f"DELETE FROM {quoted(name)} WHERE {quoted(PART)} = {part}")

    def upsert(
        self, name: str, rows: pa.Table, registered: str | None = None, *, fresh: bool = False
    ) -> None:
        """Write rows by key; those with `$deleted` = TRUE are removed. At most one row per key.

        `registered`: the name under which `views` has `rows` already. `fresh`: these keys have no
        rows yet.
        """
        if rows.num_rows == 0:
            return
        self.begin()
        table = self.tables[name]
        source = registered or "$rows"
        if registered is None:
            self.views.show(source, rows)
        deleting = DELETED in rows.column_names
        many = indexed(table) and rows.num_rows >= _MANY
        for text in upsert_texts(table, source, deleting=deleting, fresh=fresh, many=many):
            self.views.execute(text, size=rows.num_rows)
        self._sizes.wrote(rows.num_rows)
        if registered is None:
            self.views.release()

    def commit(self, positions: Mapping[int, int], written: Mapping[int, int] = _NONE) -> None:
        """Make everything durable, with the changelog position of each partition and the rows
        `written` to the changelog since the last snapshot.

        Raises UnavailableError when it cannot be written; the changelog still has the lost changes.
        """
        if not self.tables:
            return
        self.begin()
        try:
            self._positions.store(positions, written)
            self.connection.execute("COMMIT")
        except duckdb.Error as error:
            with suppress(duckdb.Error):
                self.connection.execute("ROLLBACK")
            self._forget()
            raise UnavailableError(
                "the state could not be written",
                detail=str(error),
                hint="Free some space; the query goes on by itself then.",
                code="E-STATE-WRITE",
            ) from error
        finally:
            self._open = False

    def rollback(self) -> None:
        """Discard everything since the last commit."""
        if self._open:
            self._open = False
            self.connection.execute("ROLLBACK")
            self._forget()

    def _forget(self) -> None:
        self.views.forget()
        self._positions.forget()

    def close(self) -> None:
        """Roll back and close; idempotent."""
        self._open = False
        self.connection.close()


def _not_opened(path: str | Path, memory_limit: str | None, error: duckdb.Error) -> MillstreamError:
    # What is no file of DuckDB is not put aside as damaged: its path may be a wrong one.
    damaged = tells_of_damage(error) and "valid DuckDB" not in str(error)
    match error:
        # The second is raised where this process has the file.
        case duckdb.IOException() | duckdb.ResourceInUseException() if not damaged:
            return UnavailableError(
                f"the state database {path} could not be opened",
                detail=str(error),
                hint="close the other process that uses it, or check the disk",
            )
        case duckdb.ParserException():
            return StatementError(
                f"the state database {path} cannot be opened with memory_limit {memory_limit!r}",
                detail=str(error),
                hint="give a size such as '2GB'",
                code="E-CONFIG",
            )
    return CorruptionError(
        f"the state database {path} is not readable",
        detail=str(error),
        hint="move it away; the state is rebuilt from the changelogs",
    )
