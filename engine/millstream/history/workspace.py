"""Where tasks of bounded runs work: a DuckDB instance, in which each gets a state of its own."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.function import Catalogue
from millstream.history.folders import OwnFolder
from millstream.history.splits import MEMORY_LIMIT
from millstream.log.embedded import EmbeddedLog
from millstream.state.store import Store

_LOCAL_DIRS = "SPARK_LOCAL_DIRS"
"""Where a worker of Spark is told which folders its executor has for temporary files."""


class Workspace:
    """An instance in memory with functions that tasks may call. Opening one takes longer than a
    small task, so many share it, one after another.

    It has one thread: whoever runs tasks beside each other has an instance for each. States that
    have no room in its memory go to files, which are gone with it.
    """

    def __init__(
        self,
        functions: Catalogue,
        memory_limit: str = MEMORY_LIMIT,
        beneath: Path | None = None,
    ) -> None:
        """`memory_limit`: what DuckDB may use, as "1GB"; `beneath`: where its files are made,
        instead of among the temporary ones. StatementError where that is no size."""
        self.functions = functions
        self._folder = OwnFolder("tasks", beneath)
        try:
            self._memory = EmbeddedLog.open(
                ":memory:",
                threads=1,
                memory_limit=memory_limit,
                temp_directory=str(self._folder.path / "spilled"),
            )
        except BaseException:
            self._folder.remove()
            raise
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
        if not self._closed:
            self._closed = True
            self._memory.close()
            self._folder.remove()


@cache
def lasting(memory_limit: str) -> Workspace:
    """The one that a worker of Spark keeps for all of its tasks, without users' functions: the next
    job may have others of the same names."""
    made = Workspace(builtin_catalogue(), memory_limit, of_spark())
    atexit.register(made.close)
    return made


def of_spark() -> Path | None:
    """A folder that the executor of this worker has for temporary files, and removes when it ends:
    workers are killed without notice. None where this is no worker."""
    folders = map(Path, filter(None, os.environ.get(_LOCAL_DIRS, "").split(",")))
    return next((folder for folder in folders if folder.is_dir()), None)
