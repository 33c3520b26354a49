"""The steps that threads execute now, to show what holds up a query whose step does not end."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

LONG_SECONDS = 10.0
"""From when on a step is shown: steps of queries without Python functions take less than one."""
_FRAMES_SHOWN = 20
_CALLS_SHOWN = 3
"""Of many calls that wait, the different ones."""
_PACKAGE = Path(__file__).resolve().parent.parent


class RunningSteps:
    """Callable from any thread."""

    def __init__(self) -> None:
        self._steps: dict[str, tuple[int, float]] = {}
        """By query: the thread that executes its step, and since when."""

    def begin(self, query_id: str) -> None:
        """This thread begins a step."""
        self._steps[query_id] = threading.get_ident(), time.monotonic()

    def end(self, query_id: str) -> None:
        """The step has ended."""
        self._steps.pop(query_id, None)

    def long(self, query_id: str) -> str:
        """For how long the step of a query has been running, if that is long, and the calls of
        users' code that it is in, outermost first; "" otherwise."""
        step = self._steps.get(query_id)
        if step is None or (seconds := time.monotonic() - step[1]) < LONG_SECONDS:
            return ""
        frame = sys._current_frames().get(step[0])
        if frame is None:
            return ""
        loop = _loop_of(frame)
        calls = _calls_of_users(traceback.extract_stack(frame)) if loop is None else _awaited(loop)
        return f"a step of it has been running for {seconds:.0f} s{calls}"


def _loop_of(frame: FrameType) -> asyncio.AbstractEventLoop | None:
    """The event loop that a thread runs, in which calls of users wait."""
    inner: FrameType | None = frame
    while inner is not None:
        loop = inner.f_locals.get("self")
        if inner.f_code.co_name == "run_forever" and isinstance(loop, asyncio.AbstractEventLoop):
            return loop
        inner = inner.f_back
    return None


def _awaited(loop: asyncio.AbstractEventLoop) -> str:
    """Where some of the calls of users wait, outermost first."""
    calls = map(_awaits, asyncio.all_tasks(loop))
    shown = sorted({call for stack in calls if (call := _calls_of_users(stack))})
    more = (
        f"\n… and in {len(shown) - _CALLS_SHOWN} other places" if len(shown) > _CALLS_SHOWN else ""
    )
    return "".join(shown[:_CALLS_SHOWN]) + more


def _awaits(task: asyncio.Task[Any]) -> traceback.StackSummary:
    """The coroutines of a task, each of which waits for the next one."""
    frames: list[tuple[FrameType, int]] = []
    coroutine: object = task.get_coro()
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        frames.append((frame, frame.f_lineno))
        coroutine = getattr(coroutine, "cr_await", None)
    return traceback.StackSummary.extract(iter(frames))


def _calls_of_users(stack: traceback.StackSummary) -> str:
    """What users' code does, and what that has called; "" if a step is not in such code."""
    own = [_PACKAGE in Path(call.filename).parents for call in stack]
    first = next((n for n in range(len(own)) if not own[n] and True in own[:n]), len(own))
    listed = traceback.format_list(stack[first:][-_FRAMES_SHOWN:])
    return ", now in\n" + "".join(listed).rstrip() if listed else ""
