"""A DuckDB instance for tasks of bounded runs, in which each gets its own state."""

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
"""The environment variable with the temporary folders of a Spark worker's executor."""


class Workspace:
    """An in-memory instance with the functions that tasks may call. Opening one takes longer than a
    small task, so many tasks share it, one after another.

    It has one thread: concurrent tasks need an instance each. States beyond its memory are spilled
    to files, which are removed with it.
    """

    def __init__(
        self,
        functions: Catalogue,
        memory_limit: str = MEMORY_LIMIT,
        beneath: Path | None = None,
    ) -> None:
        """`memory_limit`: the memory that DuckDB may use, such as "1GB"; `beneath`: the parent
        folder of its files, instead of the one for temporary files. Raises StatementError for an
        invalid size."""
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
        """An empty state, removed at the end."""
        name = f"state{next(self._numbers)}"
        self._memory.attach_state(":memory:", name)
        try:
            store = Store(self._memory.connection, name)
            store.functions = self._known
            yield store
        finally:
            # A reader that stops early may release a task after the workspace.
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
    """The instance that a Spark worker keeps for all of its tasks, without user functions: the next
    job may have others of the same names."""
    made = Workspace(builtin_catalogue(), memory_limit, of_spark())
    atexit.register(made.close)
    return made


def of_spark() -> Path | None:
    """A temporary folder of this worker's executor, which removes it when it ends: workers are
    killed without notice. None outside of a worker."""
    folders = map(Path, filter(None, os.environ.get(_LOCAL_DIRS, "").split(",")))
    return next((folder for folder in folders if folder.is_dir()), None)
