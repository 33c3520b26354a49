"""A query over history in the shell: its progress, then its rows."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain

import pyarrow as pa

from millstream.model.python_values import tuples
from millstream.query.results import History
from millstream_cli.sessions.objects import with_objects
from millstream_cli.sessions.results import (
    TABLE_ROWS_MAX,
    Live,
    Outcome,
    Progress,
    ResultTable,
    Row,
)

_LOOK_SECONDS = 0.2


def shown(result: History, progress: Progress | None = None) -> Outcome:
    """A table when there are few rows; else the rows as they arrive. KeyboardInterrupt ends the
    query."""
    first: list[Row] = []
    while len(first) < TABLE_ROWS_MAX:
        batch = _awaited(result, progress)
        if batch is None:
            return ResultTable(result.columns, first, query=True)
        first += with_objects(tuples(batch), batch.schema)
    return Live(result.columns, chain([first], _batches(result)), result.close)


def _awaited(result: History, progress: Progress | None) -> pa.Table | None:
    """The next rows, read in a thread, so that progress and Ctrl-C are handled meanwhile."""
    inbox: queue.Queue[pa.Table | BaseException | None] = queue.Queue()

    def read() -> None:
        try:
            inbox.put(result.next_batch())
        except BaseException as error:
            inbox.put(error)

    threading.Thread(target=read, name="millstream-history", daemon=True).start()
    try:
        while True:
            _tell(result, progress)
            with suppress(queue.Empty):
                found = inbox.get(timeout=_LOOK_SECONDS)
                break
    except KeyboardInterrupt:
        result.close()
        raise
    if isinstance(found, BaseException):
        raise found
    return found


def _tell(result: History, progress: Progress | None) -> None:
    if progress is not None:
        for stage in result.progress():
            progress(stage.done, stage.total, stage.name)


def _batches(result: History) -> Iterator[Sequence[Row]]:
    for table in result.batches():
        yield list(with_objects(tuples(table), table.schema))
