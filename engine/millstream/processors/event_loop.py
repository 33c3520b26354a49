"""The event loop in which calls of processors wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


async def together(works: Sequence[Coroutine[Any, Any, Result]]) -> list[Result]:
    """The results of several coroutines. When one fails, the others are cancelled."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class EventLoop:
    """The event loop of some processors. It runs only during `run`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """The result of a coroutine. Where another event loop runs in this thread, as in notebooks,
        it runs in a thread of its own meanwhile."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._loop.run_until_complete(coroutine)
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self._loop.run_until_complete, coroutine).result()

    def close(self) -> None:
        """Cancel what users have left in it."""
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self.run(_over(left, self._loop))
        self._loop.close()


async def _over(left: set[asyncio.Task[Any]], loop: asyncio.AbstractEventLoop) -> None:
    await asyncio.gather(*left, return_exceptions=True)
    await loop.shutdown_asyncgens()
