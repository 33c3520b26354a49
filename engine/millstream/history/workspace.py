"""A DuckDB instance for tasks of bounded runs, in which each gets its own state."""

from __future__ import annotations

import atexit
import os
import threading
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

_SPARES = 2
"""How many an engine keeps, each of some megabytes."""
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
        self.functions, self.memory_limit = functions, memory_limit
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
        self.closed = False
        self._known: set[str] = set()
        self._numbers = count()
        self.stores = 0
        """How many states are in use."""

    @contextmanager
    def store(self) -> Iterator[Store]:
        """An empty state, removed at the end."""
        name = f"state{next(self._numbers)}"
        self._memory.attach_state(":memory:", name)
        self.stores += 1
        try:
            store = Store(self._memory.connection, name)
            store.functions = self._known
            yield store
        finally:
            # A reader that stops early may release a task after the workspace.
            if not self.closed:
                self._memory.detach_state(name)
            self.stores -= 1

    def close(self) -> None:
        """Release it; idempotent."""
        if not self.closed:
            self.closed = True
            self._memory.close()
            self._folder.remove()


class Workspaces:
    """Lends workspaces to the runs of an engine, and keeps a few for the next ones: opening one
    takes longer than a query over a small topic. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spares: list[Workspace] = []
        self._closed = False

    @contextmanager
    def lent(self, functions: Catalogue, memory_limit: str) -> Iterator[Workspace]:
        """A workspace for one run. One in which a run has failed, or with which a task of the run
        has not ended, is not used again."""
        workspace = self._taken(functions, memory_limit)
        try:
            yield workspace
        except Exception:
            workspace.close()
            raise
        finally:
            self._take_back(workspace)

    def _taken(self, functions: Catalogue, memory_limit: str) -> Workspace:
        with self._lock:
            # Functions are known to DuckDB by name: of another catalogue one may be another.
            for place, spare in enumerate(self._spares):
                if spare.functions is functions and spare.memory_limit == memory_limit:
                    return self._spares.pop(place)
        return Workspace(functions, memory_limit)

    def _take_back(self, workspace: Workspace) -> None:
        with self._lock:
            usable = not (self._closed or workspace.closed or workspace.stores)
            spares = [workspace, *self._spares] if usable else self._spares
            self._spares, unused = spares[:_SPARES], spares[_SPARES:]
        for each in unused if usable else [workspace]:
            each.close()

    def close(self) -> None:
        """Close those that are not in use now, and the others when their run ends; idempotent."""
        with self._lock:
            self._closed = True
            spares, self._spares = self._spares, []
        for spare in spares:
            spare.close()


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
