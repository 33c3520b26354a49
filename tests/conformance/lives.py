"""Engines that are killed: what outlives the process, and at which of its effects it dies.

A world holds what a crash leaves behind: the log and the state. The engine's memory does not.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from millstream.backup.check import check_database
from millstream.command_topic.commands import database_id
from millstream.functions.catalogue import builtin_catalogue
from millstream.log.batches import TABLES
from millstream.log.embedded import EmbeddedLog
from millstream.log.faults import Fault, SimulatedCrash
from millstream.log.log import Appended, DirectReader, Outcome, TopicPartition, Writer
from millstream.log.membership import SoleMember
from millstream.log.simulated import SimulatedLog
from millstream.service.engine import Engine, with_functions
from millstream.service.execution import resume_engine
from millstream.service.opening import open_state
from millstream.state.store import Store
from tests.conformance.engine_case import SETTINGS
from tests.conformance.functions import functions

COMMITTED = "transact.commit"
"""The effect between the log's commit and the state's."""
_SHARED_MEMORY = Path("/dev/shm")
_CATALOGUE = with_functions(builtin_catalogue(), functions())


class Trap:
    """Lets the process die at the n-th effect from now on, or the n-th of a name."""

    def __init__(self) -> None:
        self._left = 0
        self._place: str | None = None
        self.killed: Counter[str] = Counter()
        """Deaths so far, by effect."""

    def set(self, left: int, place: str | None = None) -> None:
        """Die at effect number `left`, counted from 1, of those named `place` (None: of all)."""
        self._left, self._place = left, place

    def clear(self) -> None:
        """Let the process live."""
        self._left = 0

    def effect(self, name: str) -> None:
        """Something happens outside of the process's memory."""
        if self._left == 0 or self._place not in (None, name):
            return
        self._left -= 1
        if self._left == 0:
            self.killed[name] += 1
            raise SimulatedCrash(name)

    def fault(self, name: str) -> Fault:
        """The same for requests; all of them are carried out."""
        self.effect(f"before {name}")
        return Fault.NONE


class World(Protocol):
    """A log and a state, and the process that has them open."""

    trap: Trap
    loaded: int
    """Tasks whose state was loaded from checkpoints."""

    def open(self) -> Engine:
        """Start the process."""

    def die(self, engine: Engine, *, wipe: bool) -> None:
        """End it as a kill does; `wipe`: its state is lost too."""

    def close(self) -> None:
        """Release everything."""


class SimulatedWorld:
    """A simulated log, and state in memory that outlives the engine."""

    loaded = 0

    def __init__(self, *, markers: bool) -> None:
        self.trap = Trap()
        self._log: SimulatedLog[pa.Table] = SimulatedLog(
            TABLES, effect=self.trap.effect, fault=self.trap.fault, markers=markers
        )
        self._store = Store.open(":memory:")

    def open(self) -> Engine:
        """See `World`."""
        return resume_engine(self._log, self._store, SETTINGS, lambda: 0, _CATALOGUE)

    def die(self, engine: Engine, *, wipe: bool) -> None:
        """See `World`. Uncommitted changes are rolled back, as DuckDB does in a killed process's
        file."""
        self.trap.clear()
        engine.runtime.close(commit=False)
        if wipe:
            self._store.close()
            self._store = Store.open(":memory:")

    def close(self) -> None:
        """See `World`."""
        self._store.close()


class EmbeddedWorld:
    """A file with its state beside it. A kill leaves the bytes that were written: the files are
    copied as they are, and the copy is opened next; every other one is checked before.
    `checkpoints`: before a state is lost, it is written to a place from which the next process
    loads it."""

    def __init__(self, *, checkpoints: bool = False) -> None:
        self.trap = Trap()
        self.loaded = 0
        memory = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
        self._folder = Path(tempfile.mkdtemp(prefix="millstream-", dir=memory))
        self._life = 0
        self._settings = SETTINGS
        if checkpoints:
            self._settings = replace(SETTINGS, checkpoints_url=str(self._folder / "place"))
        self._log: EmbeddedLog | None = None

    @property
    def _path(self) -> str:
        return str(self._folder / f"life{self._life}")

    def open(self) -> Engine:
        """See `World`."""
        log = EmbeddedLog.open(self._path)
        self._log = log
        identity = database_id(log, SETTINGS.command_topic)
        store, problem = open_state(log, self._path, identity, SETTINGS.internal_prefix)
        assert problem is None, problem
        log.lock()
        log_of_now = MortalLog(log, self.trap.effect)
        return resume_engine(log_of_now, store, self._settings, _zero, _CATALOGUE)

    def die(self, engine: Engine, *, wipe: bool) -> None:
        """See `World`."""
        self.trap.clear()
        if engine.restoring is not None and engine.restoring.checkpoints is not None:
            self.loaded += engine.restoring.checkpoints.counts.loaded
            engine.restoring.checkpoints.fewest = 0
            engine.restoring.checkpoints.write()
        before = self._path
        self._life += 1
        for suffix in ("", ".wal") if wipe else ("", ".wal", ".state", ".state.wal"):
            if Path(before + suffix).exists():
                shutil.copyfile(before + suffix, self._path + suffix)
        if self._life % 2:
            checked = check_database(self._path, self._settings)
            assert checked.well, [str(damage) for damage in (*checked.log, *checked.state)]
        engine.runtime.close(commit=False)
        self._release()
        for old in self._folder.glob(f"{Path(before).name}*"):
            old.unlink()

    def _release(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            log.connection.close()

    def close(self) -> None:
        """See `World`."""
        self._release()
        shutil.rmtree(self._folder)


def _zero() -> int:
    return 0


class MortalLog:
    """An embedded log that can die before and after each operation."""

    def __init__(self, log: EmbeddedLog, effect: Callable[[str], None]) -> None:
        self._log = log
        self._effect = effect

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._log, name)
        if name not in _REQUESTS:
            return found

        def called(*arguments: Any) -> Any:
            self._effect(f"before {name}")
            result = found(*arguments)
            self._effect(name)
            return result

        return called

    def reader(self, *, alone: bool = False) -> DirectReader[pa.Table]:
        """See `Log`."""
        return DirectReader(self)

    def writer(self, identity: str, *, size: int = 0) -> MortalWriter:
        """See `Log`."""
        return MortalWriter(self._log.writer(identity, size=size), self._effect)

    def join(self, group: str, partitions: int) -> SoleMember[pa.Table]:
        """See `Log`."""
        return SoleMember(self, group, partitions)


_REQUESTS = frozenset({"create_topic", "delete_topic", "forget_group", "read", "truncate"})


class MortalWriter:
    """The same for one identity's writer; the names are those of the simulated log."""

    def __init__(self, writer: Writer[pa.Table], effect: Callable[[str], None]) -> None:
        self._writer = writer
        self._effect = effect
        effect("writer")

    def append(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """See `Writer`."""
        self._effect("append")
        self._writer.append(appended)
        self._effect("append.done")

    def transact(
        self,
        group: str,
        appended: Sequence[Appended[pa.Table]],
        positions: Mapping[TopicPartition, int],
    ) -> Outcome:
        """See `Writer`."""
        self._effect("transact")
        outcome = self._writer.transact(group, appended, positions)
        self._effect(COMMITTED)
        return outcome

    def close(self) -> None:
        """See `Writer`."""
        self._writer.close()
