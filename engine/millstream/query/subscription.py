"""Push queries for programs that use asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable

import pyarrow as pa

from millstream.query.changes import Row, changed_rows, without_deletions
from millstream.query.results import Change, Stream


async def changes(stream: Stream) -> AsyncGenerator[Change, None]:
    """The rows of a push query as they arrive, without a blocked thread. The event loop is notified
    only while it waits for rows."""
    loop, arrived = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        with contextlib.suppress(RuntimeError):
            # The loop may have ended before the engine.
            loop.call_soon_threadsafe(arrived.set)

    while True:
        stream.on_put = tell
        while stream.idle is None and not stream.ready:
            await arrived.wait()
            arrived.clear()
        stream.on_put = None
        change = stream.next_change()
        if change is None:
            return
        yield change


class Subscription:
    """The rows of a push query, for `async for`. The query starts with the iteration and ends with
    it: at its LIMIT, when it is terminated, at `break`, or at the end of an `async with`.

    ```python
    async for row in db.subscribe("SELECT * FROM orders EMIT CHANGES"):
        print(row, row.deleted)
    ```

    A row whose `deleted` is true means that the result with its key no longer exists. The buffer is
    bounded: a program that stops reading is disconnected with an error.
    """

    def __init__(self, start: Callable[[], Stream]) -> None:
        """`start` starts the query; it may block, and is called in another thread."""
        self._start = start
        self._stream: Stream | None = None
        self._closed = False

    async def batches(self) -> AsyncIterator[pa.Table]:
        """Rows as Arrow tables, one per batch that the engine produced, without deletions."""
        async for table in self._tables():
            rows = without_deletions(table)
            if rows.num_rows:
                yield rows

    async def __aiter__(self) -> AsyncIterator[Row]:
        async for table in self._tables():
            for row in changed_rows(table):
                yield row

    async def _tables(self) -> AsyncIterator[pa.Table]:
        stream = await self._started()
        try:
            async with contextlib.aclosing(changes(stream)) as found:
                async for change in found:
                    yield change.rows
        finally:
            await _closed(stream)

    async def _started(self) -> Stream:
        if self._closed or self._stream is not None:
            raise RuntimeError("a subscription is read once: subscribe again")
        starting = asyncio.get_running_loop().run_in_executor(None, self._start)
        try:
            self._stream = await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_ended)
            raise
        if self._closed:
            await _closed(self._stream)
        return self._stream

    async def aclose(self) -> None:
        """End the query; idempotent."""
        self._closed = True
        if self._stream is not None:
            await _closed(self._stream)

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _closed(stream: Stream) -> None:
    """Close it in another thread: it may wait for a step of its query."""
    await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, stream.close))


def _ended(started: asyncio.Future[Stream]) -> None:
    """End a query that nobody waits for any more."""
    if not started.cancelled() and started.exception() is None:
        # The loop may be ending, and its threads with it.
        threading.Thread(target=started.result().close, daemon=True).start()
