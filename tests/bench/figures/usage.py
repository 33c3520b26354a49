"""What this process has used: CPU, time, memory, threads."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Used:
    """CPU seconds of all threads of this process, and seconds."""

    cpu: float = 0.0
    wall: float = 0.0

    @property
    def percent(self) -> float:
        """The share of one core."""
        return 100 * self.cpu / self.wall

    def __str__(self) -> str:
        return f"{self.wall:.2f} s, {self.cpu:.2f} CPU-s"


def cpu_seconds() -> float:
    """User and system time of this process so far, of all its threads."""
    # `os.times` has the same in hundredths of a second, which is too coarse for an idle process.
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def measured() -> Iterator[Used]:
    """Measures the block; the result is complete when the block has ended."""
    used = Used()
    cpu, wall = cpu_seconds(), time.perf_counter()
    yield used
    used.cpu, used.wall = cpu_seconds() - cpu, time.perf_counter() - wall


def resident_mb() -> int:
    """The resident memory now; `ru_maxrss` would be the peak."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmRSS:"))


def threads() -> int:
    """The threads of this process, those of libraries included."""
    return len(os.listdir("/proc/self/task"))
