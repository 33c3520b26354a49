"""What a process and its children use, read from /proc (Linux)."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
_UTIME, _CSTIME, _PARENT = 11, 14, 1
"""Fields in /proc/PID/stat behind the name of the command."""


def tree(root: int) -> list[int]:
    """A process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _fields(int(folder.name))):
            parents.setdefault(int(fields[_PARENT]), []).append(int(folder.name))
    found, open_ = [], [root]
    while open_:
        found.append(open_.pop())
        open_ += parents.get(found[-1], [])
    return found


def cpu_seconds(processes: list[int]) -> float:
    """User and system time so far, that of children that have ended included."""
    ticks = 0
    for process in processes:
        ticks += sum(int(field) for field in _fields(process)[_UTIME : _CSTIME + 1])
    return ticks / TICKS


def peak_mb(processes: list[int]) -> int:
    """The peaks of resident memory, added."""
    return sum(_peak_kb(process) for process in processes) >> 10


def _fields(process: int) -> list[str]:
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _peak_kb(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    lines = [line for line in text.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) if lines else 0
