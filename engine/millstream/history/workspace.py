"""Where tasks of bounded runs work: a DuckDB instance, in which each gets a state of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count

from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.function import Catalogue
from millstream.log.embedded import EmbeddedLog
from millstream.state.store import Store


class Workspace:
    """An instance in memory with functions that tasks may call. Opening one takes longer than a
    small task, so many share it, one after another."""

    def __init__(self, functions: Catalogue) -> None:
        self.functions = functions
        self._memory = EmbeddedLog.open(":memory:")
        self._closed = False
        self._known: set[str] = set()
        self._numbers = count()

    @contextmanager
    def store(self) -> Iterator[Store]:
        """An empty state, gone at the end."""
        name = f"state{next(self._numbers)}"
        self._memory.attach_state(":memory:", name)
        try:
            store = Store(self._memory.connection, name)
            store.functions = self._known
            yield store
        finally:
            # Who reads no further may let a task go after the workspace.
            if not self._closed:
                self._memory.detach_state(name)

    def close(self) -> None:
        """Release it; idempotent."""
        self._closed = True
        self._memory.close()


@cache
def lasting() -> Workspace:
    """The one that a worker of Spark keeps for all of its tasks, without users' functions: the next
    job may have others of the same names."""
    return Workspace(builtin_catalogue())
