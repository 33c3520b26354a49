"""The results of statements."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from millstream.history.progress import StageProgress
from millstream.model.errors import MillstreamError
from millstream.model.physical import arrow_type
from millstream.model.python_values import tuples
from millstream.model.schema import Schema
from millstream.query import wordings
from millstream.query.changes import Row, changed_rows, without_deletions
from millstream.query.display import ROWS_SHOWN, counted, html_table, show_live
from millstream.query.rendered_rows import RenderedRows

_SIGNALS_SECONDS = 0.5
_AGAIN_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a statement without rows: a message, and the query that it started, if any.
    `changed` is false if there was nothing to do (IF NOT EXISTS, IF EXISTS)."""

    message: str
    query_id: str | None = None
    changed: bool = True

    def arrow(self) -> pa.Table:
        """The message as a table of one row, so that all results can be shown the same way."""
        return pa.table({"message": [self.message]})

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter([(self.message,)])

    def _repr_html_(self) -> str:
        return html_table((), (), self.message)


@dataclass(frozen=True, slots=True)
class Rows:
    """A complete result: of a pull query, SHOW, DESCRIBE, EXPLAIN or PRINT.

    `title`: the line that a shell prints above the table. `schema`: set for queries.
    """

    table: pa.Table
    title: str = ""
    schema: Schema | None = None

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.table

    def df(self) -> Any:
        """The rows as a pandas DataFrame (needs pandas)."""
        return self.table.to_pandas()

    def pl(self) -> Any:
        """The rows as a polars DataFrame (needs polars)."""
        return _polars(self.table)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.table.column_names)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples."""
        return list(self)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row, or None if there is none."""
        return next(iter(self), None)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for batch in self.table.to_batches():
            yield from tuples(batch)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def _repr_html_(self) -> str:
        return _html(self.table)


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """New rows for the clients of a push query: the columns of the query, and `$diff` if rows may
    be deletions. `rendered`: the cache of their serialised form by `number`, shared by all clients;
    None if there is one client."""

    rows: pa.Table
    rendered: RenderedRows | None = None
    number: int = 0


@dataclass(slots=True)
class Stream:
    """A running push query: iterate for rows, `close()` (or leave a `with`) to end it. A row whose
    `deleted` is true means that the result with its key no longer exists.

    Iteration blocks until a row arrives and ends at the query's LIMIT or when it is terminated.
    The buffer is bounded: a client that stops reading is disconnected with an error. In a notebook,
    a stream that is the value of a cell shows its newest rows, for as long as it runs.
    """

    query_id: str
    schema: Schema
    columns: list[str]
    on_close: Callable[[], None]
    limit: int | None = None
    buffer: queue.Queue[Change | MillstreamError | None] = field(default_factory=queue.Queue)
    """Unbounded itself: the code that puts rows in checks the bounds."""
    idle: Callable[[], bool] | None = None
    """Without an engine thread: runs the engine until it is idle; False if nothing was done."""
    on_put: Callable[[], None] | None = None
    """Called after each addition to the buffer, for a reader that does not block on it. Set it
    before checking `ready`."""
    key: tuple[str, ...] = ()
    """The key columns of a table's rows: a row replaces the previous row of its key."""
    statement: str = ""
    """The text of the query, as EXPLAIN shows it."""
    closed: bool = False
    delivered: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    _fetched: pa.Table | None = None
    """The rows from which `fetchone` takes."""
    _taken: int = 0
    _rows: Iterator[Row] = field(default_factory=lambda: iter(()))

    @property
    def buffered_bytes(self) -> int:
        """The size of the rows in the buffer. Each of the two counters has one writing thread."""
        return self.bytes_in - self.bytes_out

    def put(self, change: Change) -> None:
        """Add rows for the client."""
        self.bytes_in += change.rows.nbytes
        self._put(change)

    def batches(self) -> Iterator[pa.Table]:
        """Rows as Arrow tables, one per batch that the engine produced, without deletions;
        `changes` includes them."""
        for table in self.changes():
            rows = without_deletions(table)
            if rows.num_rows:
                yield rows

    def changes(self) -> Iterator[pa.Table]:
        """Rows as Arrow tables. Rows of a table may have a last column `$diff`: less than 1 for the
        deletion of a key, whose other columns are NULL."""
        try:
            if self._fetched is not None:
                left, self._fetched = self._fetched.slice(self._taken), None
                self._rows = iter(())
                if left.num_rows:
                    yield left
            while (change := self.next_change()) is not None:
                yield change.rows
        finally:
            self.close()

    def arrow(self) -> pa.Table:
        """All rows up to the end of the query as an Arrow table, without deletions. Raises
        StatementError for a query without LIMIT, which does not end."""
        self._require_end()
        found = list(self.batches())
        return pa.concat_tables(found) if found else self.arrow_schema.empty_table()

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the rows in `batches`."""
        names = (column.name for column in self.schema.columns)
        types = (arrow_type(column.type) for column in self.schema.columns)
        return pa.schema(zip(names, types, strict=True))

    def df(self) -> Any:
        """The same as a pandas DataFrame (needs pandas)."""
        return self.arrow().to_pandas()

    def pl(self) -> Any:
        """The same as a polars DataFrame (needs polars)."""
        return _polars(self.arrow())

    def fetchone(self) -> Row | None:
        """Wait for the next row; None at the end."""
        while (row := next(self._rows, None)) is None:
            change = self.next_change()
            if change is None:
                return None
            self._fetched, self._taken = change.rows, 0
            self._rows = changed_rows(change.rows)
        self._taken += 1
        return row

    def fetchmany(self, size: int) -> list[Row]:
        """Wait for the next row; returns it with those that have come with it, at most `size`."""
        first = self.fetchone() if size > 0 else None
        if first is None:
            return []
        more = list(islice(self._rows, size - 1))
        self._taken += len(more)
        return [first, *more]

    def fetchall(self) -> list[Row]:
        """All rows up to the end of the query; raises StatementError as `arrow` does."""
        self._require_end()
        return list(self)

    def _require_end(self) -> None:
        if self.limit is None and self.idle is None:
            raise wordings.FETCHED_WITHOUT_END(
                hint="Add LIMIT, or take rows as they come: iterate, or call fetchmany(size).",
            )

    def next_change(self) -> Change | None:
        """Wait for the next rows; None at the end."""
        if self._satisfied():
            return None
        item = self._next()
        if isinstance(item, MillstreamError):
            raise item
        if item is None:
            return None
        self.bytes_out += item.rows.nbytes
        return self._limited(item)

    @property
    def ready(self) -> bool:
        """Whether `next_change` returns without waiting."""
        return self._satisfied() or not self.buffer.empty()

    def __iter__(self) -> Iterator[Row]:
        for table in self.changes():
            yield from changed_rows(table)

    def close(self) -> None:
        """End the query; idempotent."""
        if not self.closed:
            self.closed = True
            self.on_close()
            self._put(None)

    def fail(self, error: MillstreamError) -> None:
        """End the query with an error, which the client gets after the rows in the buffer."""
        self._put(error)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        shown = display(HTML(""), display_id=True)
        show_live(self, lambda text: shown.update(HTML(text)))

    def _put(self, item: Change | MillstreamError | None) -> None:
        self.buffer.put_nowait(item)
        # The reader may reset it at any time.
        on_put = self.on_put
        if on_put is not None:
            on_put()

    def _satisfied(self) -> bool:
        return self.limit is not None and self.delivered >= self.limit

    def _next(self) -> Change | MillstreamError | None:
        while self.idle is None:
            # CPython does not handle a signal that arrives just before an unbounded wait.
            with contextlib.suppress(queue.Empty):
                return self.buffer.get(timeout=_SIGNALS_SECONDS)
        while self.buffer.empty():
            # The final commit may emit rows although no record was left to process.
            if not self.idle() and self.buffer.empty():
                return None
        return self.buffer.get_nowait()

    def _limited(self, change: Change) -> Change:
        count = change.rows.num_rows
        room = count if self.limit is None else self.limit - self.delivered
        self.delivered += min(room, count)
        return change if count <= room else Change(change.rows.slice(0, room))


class History:
    """The rows of a historical query, read on demand: iterate, or fetch all of them at once.

    `close()` ends the query, from any thread; `progress()` returns how far it has read.
    """

    def __init__(
        self,
        schema: Schema | None,
        empty: pa.Table,
        batches: Generator[pa.Table],
        cancel: Callable[[], None],
        progress: Callable[[], Sequence[StageProgress]],
    ) -> None:
        """`empty`: an empty table with the columns of the result."""
        self.schema = schema
        self.empty = empty
        self.columns = list(empty.column_names)
        self.delivered = 0
        """The number of rows that were returned."""
        self.progress = progress
        """The progress of each stage of the query."""
        self.explain: Callable[[MillstreamError], None] = lambda _error: None
        """Called with an error that ends the query, before it is raised."""
        self._batches = batches
        self._cancel = cancel
        self._reading = threading.Lock()
        self._table: pa.Table | None = None

    def next_batch(self) -> pa.Table | None:
        """Wait for the next rows; None at the end, and after `close`."""
        try:
            with self._reading:
                table = next(self._batches, None)
        except MillstreamError as error:
            self.explain(error)
            raise
        self.delivered += 0 if table is None else table.num_rows
        return table

    def batches(self) -> Iterator[pa.Table]:
        """Rows as Arrow tables, once. Ends the query when the iteration ends."""
        try:
            while (table := self.next_batch()) is not None:
                yield table
        finally:
            self.close()

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        if self._table is None:
            found = list(self.batches())
            self._table = pa.concat_tables(found) if found else self.empty
        return self._table

    def df(self) -> Any:
        """All rows as a pandas DataFrame (needs pandas)."""
        return self.arrow().to_pandas()

    def pl(self) -> Any:
        """All rows as a polars DataFrame (needs polars)."""
        return _polars(self.arrow())

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples."""
        return list(self)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row, or None if there is none; the others are not read."""
        return next(iter(self), None)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for table in [self._table] if self._table is not None else self.batches():
            yield from tuples(table)

    def _repr_html_(self) -> str:
        return _html(self.arrow())

    def cancel(self) -> None:
        """Cancel the query without waiting for its end; idempotent."""
        self._cancel()

    def close(self) -> None:
        """End the query; idempotent."""
        self._cancel()
        while not self._reading.acquire(timeout=_AGAIN_SECONDS):
            self._cancel()
        try:
            self._batches.close()
        finally:
            self._reading.release()

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _polars(table: pa.Table) -> Any:
    import polars

    return polars.from_arrow(table)


def _html(table: pa.Table) -> str:
    shown = table.slice(0, ROWS_SHOWN)
    caption = counted(shown.num_rows, table.num_rows)
    return html_table(table.column_names, tuples(shown), caption)


Result = Done | Rows | Stream | History
