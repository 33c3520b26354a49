"""The CPU of this process by stage, so that the stages add up to the total."""

from __future__ import annotations

import functools
import importlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OTHER = "other"
NATIVE = "other threads"
"""Threads of libraries that no entry of `native` names."""


def thread_cpu(thread: int) -> int | None:
    """Nanoseconds of CPU of a thread of this process, of any library; None if it has ended."""
    try:
        # The kernel's clock of one thread. pthread_getcpuclockid makes the same number, and crashes
        # for a thread that has ended.
        return time.clock_gettime_ns((~thread << 3) | 6)
    except OSError:
        return None


class _Track:
    """One thread in Python: what it is doing, since which time of its clock, and what it has
    spent."""

    def __init__(self) -> None:
        self.stages = [OTHER]
        self.since = time.thread_time_ns()
        self.spent: Counter[str] = Counter()

    def enter(self, stage: str) -> None:
        self._count()
        self.stages.append(stage)

    def leave(self) -> None:
        self._count()
        self.stages.pop()

    def _count(self) -> None:
        now = time.thread_time_ns()
        self.spent[self.stages[-1]] += now - self.since
        self.since = now

    def until(self, now: int) -> Counter[str]:
        """What was spent, including what has not ended yet."""
        return self.spent + Counter({self.stages[-1]: max(0, now - self.since)})


class StageClock:
    """Counts what each stage itself spends: while it calls another one, that one counts.

    `native`: stages of threads that run no Python, by the beginning of the thread's name. A library
    that computes in the thread that calls it counts to the stage of the call.
    """

    def __init__(self, native: Mapping[str, str]) -> None:
        self._native = native
        self._local = threading.local()
        self._tracks: dict[int, _Track] = {}

    def timed(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        """The function; its calls count to `stage`."""

        @functools.wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            track = self._track()
            track.enter(stage)
            try:
                return function(*arguments, **named)
            finally:
                track.leave()

        return timed

    def _track(self) -> _Track:
        track: _Track | None = getattr(self._local, "track", None)
        if track is None:
            track = self._local.track = self._tracks[threading.get_native_id()] = _Track()
        return track

    @contextmanager
    def watching(self, stages: Mapping[str, str]) -> Iterator[None]:
        """Time the functions at these places (module:name) until the block ends."""
        replaced: list[tuple[Any, str, Any]] = []
        try:
            for place, stage in stages.items():
                module, _, path = place.partition(":")
                *classes, name = path.split(".")
                owner: Any = importlib.import_module(module)
                for part in classes:
                    owner = getattr(owner, part)
                replaced.append((owner, name, getattr(owner, name)))
                setattr(owner, name, self.timed(getattr(owner, name), stage))
            yield
        finally:
            for owner, name, function in reversed(replaced):
                setattr(owner, name, function)

    @contextmanager
    def measured(self) -> Iterator[dict[str, float]]:
        """CPU seconds by stage of what the process does in the block, complete when it has ended.
        They add up to the CPU of the process: what no stage counts is `other`."""
        self._track()
        found: dict[str, float] = {}
        before, native, total = self._stages(), self._native_threads(), time.process_time_ns()
        yield found
        total = time.process_time_ns() - total
        spent = self._stages()
        spent.subtract(before)
        for thread, (stage, cpu) in self._native_threads().items():
            spent[stage] += cpu - native.get(thread, (stage, 0))[1]
        # This includes what threads did that have ended, where no stage counts it.
        spent[OTHER] = total - sum(value for stage, value in spent.items() if stage != OTHER)
        found |= {stage: value / 1e9 for stage, value in spent.items()}

    def _stages(self) -> Counter[str]:
        spent: Counter[str] = Counter()
        for thread, track in dict(self._tracks).items():
            now = thread_cpu(thread)
            spent += track.spent if now is None else track.until(now)
        return spent

    def _native_threads(self) -> dict[int, tuple[str, int]]:
        """Stage and CPU of each thread that runs no Python."""
        python = {thread.native_id for thread in threading.enumerate()}
        found = {}
        for thread in map(int, os.listdir("/proc/self/task")):
            cpu = None if thread in python else thread_cpu(thread)
            if cpu is not None:
                found[thread] = (self._stage_of(thread), cpu)
        return found

    def _stage_of(self, thread: int) -> str:
        try:
            name = Path(f"/proc/self/task/{thread}/comm").read_text(encoding="utf-8")
        except OSError:
            return NATIVE
        return next((s for begin, s in self._native.items() if name.startswith(begin)), NATIVE)
