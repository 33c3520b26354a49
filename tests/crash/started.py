"""The processes that a process has started: those of Spark."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

LEFT_SECONDS = 60.0
"""How long what Spark has started may outlive the engine."""


def descendants(pid: int) -> dict[int, str]:
    """What a process has started, and what that has, by their ids: their commands."""
    return {each: command(each) for each in _ids(pid)}


def _ids(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in map(int, children):
            yield child
            yield from _ids(child)


def command(pid: int) -> str:
    """What a process runs; "" where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def kill_drivers(pid: int) -> int:
    """Kill the JVMs that a process has started for Spark; how many there were."""
    drivers = [each for each, runs in descendants(pid).items() if "SparkSubmit" in runs]
    for driver in drivers:
        os.kill(driver, signal.SIGKILL)
    return len(drivers)


def left_behind(started: Mapping[int, str]) -> list[str]:
    """The commands of those that have not ended after all; they are killed."""

    def running() -> list[int]:
        return [pid for pid, was in started.items() if was and command(pid) == was]

    if _until(lambda: not running(), LEFT_SECONDS):
        return []
    found = {pid: command(pid)[:80] for pid in running()}
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return list(found.values())


def _until(holds: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
