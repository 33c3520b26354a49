"""Work with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from millstream_server.answers import in_time


async def adding(*waits: Awaitable[int]) -> int:
    """The sum of what comes one after the other; -1 for an error."""
    total = 0
    for one in waits:
        try:
            total += await one
        except ValueError:
            total -= 1
    return total


async def given(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def wrong() -> int:
    await asyncio.sleep(0)
    raise ValueError


def ran(*waits: Any, seconds: float = 60.0) -> int:
    async def run() -> int:
        return await in_time(adding(*waits), seconds)

    return asyncio.run(run())


def test_work_that_need_not_wait_is_done_even_without_time() -> None:
    assert ran(seconds=0) == 0


def test_work_that_waits_goes_on_with_what_it_gets() -> None:
    assert ran(given(1), wrong(), given(5)) == 5


def test_work_that_waits_too_long_is_ended() -> None:
    async def run() -> bool:
        never = asyncio.get_running_loop().create_future()
        with pytest.raises(TimeoutError):
            await in_time(adding(never), 0)
        return never.cancelled()

    assert asyncio.run(run())


def test_errors_of_work_are_its_own() -> None:
    async def failing() -> None:
        await asyncio.sleep(0)
        raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        asyncio.run(in_time(failing(), 60))


def test_work_is_ended_with_the_task_that_waits_for_it() -> None:
    async def run() -> bool:
        never = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(in_time(adding(never), 60))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled() and never.cancelled()

    assert asyncio.run(run())
