"""Measures the process that the engine runs in."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from millstream.metrics.figures import ProcessMetrics

_THREADS, _RESIDENT_PAGES = 17, 21
"""Indexes of fields of /proc/self/stat, counted after the name of the program (proc(5))."""


def process_metrics(uptime_seconds: float, files: Mapping[str, str]) -> ProcessMetrics:
    """Its resources at this moment. `files`: paths by their labels."""
    memory, threads = _linux()
    return ProcessMetrics(
        uptime_seconds,
        time.process_time(),
        memory,
        threads or threading.active_count(),
        {name: _size(path) for name, path in files.items()},
    )


def _linux() -> tuple[int | None, int]:
    """Resident memory and threads, including those of libraries; (None, 0) on other systems."""
    try:
        text = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
        page = os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None, 0
    fields = text.rpartition(")")[2].split()
    return int(fields[_RESIDENT_PAGES]) * page, int(fields[_THREADS])


def _size(path: str) -> int:
    """The size on disk, including the write-ahead log."""
    size = 0
    for file in (path, f"{path}.wal"):
        with suppress(OSError):
            size += Path(file).stat().st_size
    return size
