"""What a piece of work costs, in this process and in all that it has started."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of this process and all below it, and seconds."""

    cpu: float
    wall: float


class Meter:
    """The CPU time of this process and all that it has started. A process counts with what it had
    used when it was last seen: Spark ends workers whose time no process inherits."""

    def __init__(self) -> None:
        self._used: dict[tuple[int, str], int] = {}

    @contextmanager
    def measured(self, costs: list[Cost]) -> Iterator[None]:
        """Add what the block costs."""
        cpu, wall = self._seconds(), time.perf_counter()
        yield
        costs.append(Cost(self._seconds() - cpu, time.perf_counter() - wall))

    def _seconds(self) -> float:
        below: dict[int, list[int]] = {}
        known: dict[int, tuple[tuple[int, str], int]] = {}
        for name in os.listdir("/proc"):
            try:
                fields = Path(f"/proc/{int(name)}/stat").read_text().rpartition(")")[2].split()
            except (OSError, ValueError):
                continue
            below.setdefault(int(fields[1]), []).append(int(name))
            known[int(name)] = ((int(name), fields[19]), int(fields[11]) + int(fields[12]))
        left = [os.getpid()]
        while left:
            process = left.pop()
            if process in known:
                identity, ticks = known[process]
                self._used[identity] = ticks
            left += below.get(process, [])
        return sum(self._used.values()) / os.sysconf("SC_CLK_TCK")
