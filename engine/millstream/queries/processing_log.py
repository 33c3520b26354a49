"""The processing log: the latest rows that could not be processed, and counts of all of them."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from millstream.model.problem import Problem

KEPT_MAX = 10_000


@dataclass(slots=True)
class ProcessingLog:
    """Keeps the newest `KEPT_MAX` problems, and counts all by query and kind."""

    on_add: Callable[[str, Sequence[Problem]], None] | None = None
    """Called by `add` with its arguments, in the same thread."""
    _kept: deque[tuple[str, Problem]] = field(default_factory=lambda: deque(maxlen=KEPT_MAX))
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, query_id: str, problems: Sequence[Problem]) -> None:
        """Record problems of a query."""
        with self._lock:
            for problem in problems:
                self._kept.append((query_id, problem))
                self._counts[query_id, problem.kind] += problem.count
        if self.on_add is not None:
            self.on_add(query_id, problems)

    def counts(self, query_id: str) -> dict[str, int]:
        """The number of rows of a query that had a problem, by kind."""
        with self._lock:
            counted = sorted(self._counts.items())
        return {kind: count for (owner, kind), count in counted if owner == query_id}

    def table(self) -> pa.Table:
        """The kept problems, oldest first."""
        with self._lock:
            kept = list(self._kept)
        columns = ("kind", "message", "topic", "partition", "offset", "count", "raw_key")
        rows = {name: [getattr(problem, name) for _, problem in kept] for name in columns}
        rows["raw_value"] = [problem.raw_value for _, problem in kept]
        return pa.table({"query": [query for query, _ in kept], **rows})
