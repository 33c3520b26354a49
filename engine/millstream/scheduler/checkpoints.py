"""The checkpoints of the state of an instance: one thread writes them, another one loads them.

A partition is loaded before anything else holds its state: `held` names those that neither the
restoration nor a query runner may have yet.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa

from millstream.checkpoints.fingerprint import agrees
from millstream.checkpoints.loading import Loading, Range
from millstream.checkpoints.manifest import Checkpoint
from millstream.checkpoints.repository import Repository, StateId, in_path
from millstream.checkpoints.stopping import Stopped
from millstream.checkpoints.writing import Task, rows_since, write_checkpoint
from millstream.executor.channel_watermarks import state_tables
from millstream.functions.function import Catalogue
from millstream.log.log import Log
from millstream.model.clock import now_ms
from millstream.model.errors import MillstreamError
from millstream.operators.compile import compile_subtopology
from millstream.operators.program import StateTable
from millstream.state.bulk_table import drop_leftovers
from millstream.state.positions import stored_position
from millstream.state.store import Store
from millstream.topology.topology import SubTopology, Topology

FEWEST_ROWS = 10_000
"""Rows on a changelog that are replayed in less time than a checkpoint of them is fetched."""
ORPHAN_ROUNDS = 60
"""In each of so many rounds, checkpoints of queries that are gone are looked for."""
CLOSE_SECONDS = 10
_LOG = logging.getLogger("millstream")
TaskKey = tuple[str, int, int]


@dataclass(frozen=True)
class StatefulSubTopology:
    """A sub-topology with state."""

    query_id: str
    sub: SubTopology
    functions: Catalogue
    changelog: str

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        """All tables of its state."""
        program = compile_subtopology(self.sub, self.functions, headers=False, cached=False)
        return state_tables(program, self.sub)

    def state(self, log: Log[pa.Table]) -> StateId | None:
        """The name of its state; None if its changelog does not exist any more."""
        topic = log.describe([self.changelog]).get(self.changelog)
        return None if topic is None else StateId(self.query_id, self.sub.index, topic.id)


@dataclass(frozen=True, slots=True)
class Written:
    """A checkpoint that this process has written: up to which position of the changelog, and at
    which time of day in ms."""

    position: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class CheckpointCounts:
    """The tasks whose state was written or loaded, and the attempts that failed: since this process
    began."""

    written: int = 0
    loaded: int = 0
    failed: int = 0


@dataclass(slots=True)
class _Query:
    """`processed` and `standby`: the partitions that are wanted here. `open`: those of them that
    others may hold. `loading`: those that a thread loads."""

    subs: tuple[StatefulSubTopology, ...]
    store: Store
    processed: frozenset[int] = frozenset()
    standby: frozenset[int] = frozenset()
    open: frozenset[int] = frozenset()
    loading: frozenset[int] = frozenset()
    removed: bool = False

    @property
    def waiting(self) -> frozenset[int]:
        """The partitions that are to be loaded, or are being loaded."""
        return (self.processed | self.standby) - self.open


class Checkpoints:
    """Writes and loads the checkpoints of the queries of one instance; for use from any thread."""

    def __init__(
        self,
        repository: Repository,
        log: Log[pa.Table],
        interval_ms: int,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        """`clock`: the time of day in ms."""
        self.repository = repository
        self._log = log
        self._clock = clock
        self.counts = CheckpointCounts()
        self._written: dict[TaskKey, Written] = {}
        self._interval = interval_ms / 1000
        self.on_loaded: Callable[[str], None] = lambda _query_id: None
        """Called, in the thread that loads, with a query of which partitions are not held any
        more."""
        self.fewest = FEWEST_ROWS
        """Rows on a changelog since the last checkpoint for a new one."""
        self._queries: dict[str, _Query] = {}
        self._lock = threading.Condition()
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._last: dict[TaskKey, Checkpoint | None] = {}
        """The newest checkpoint of each task that is processed here, as far as it is known."""
        self._gone: frozenset[str] = frozenset()
        self._failing = False

    # ---- queries ------------------------------------------------------------------------------

    def add_query(self, store: Store, topology: Topology, functions: Catalogue) -> None:
        """Take note of a query. An earlier one of the same id is removed."""
        self.remove_query(topology.query_id)
        subs = tuple(
            StatefulSubTopology(topology.query_id, sub, functions, sub.changelog)
            for sub in topology.subtopologies
            if sub.changelog is not None
        )
        with self._lock:
            self._queries[topology.query_id] = _Query(subs, store)

    def remove_query(self, query_id: str) -> None:
        """Forget a query, after what is being loaded of it was broken off."""
        with self._lock:
            query = self._queries.pop(query_id, None)
            if query is not None:
                query.removed = True
                self._lock.wait_for(lambda: not query.loading)

    def held(
        self,
        query_id: str,
        *,
        processed: frozenset[int] | None = None,
        standby: frozenset[int] | None = None,
    ) -> frozenset[int]:
        """Say which partitions of a query are wanted here; returns those that nobody may have
        before `on_loaded` is called again."""
        with self._lock:
            query = self._queries.get(query_id)
            if query is None or not query.subs or self._closing.is_set():
                return frozenset()
            query.processed = query.processed if processed is None else processed
            query.standby = query.standby if standby is None else standby
            query.open &= query.processed | query.standby
            if query.waiting:
                self._lock.notify_all()
            return query.waiting

    def written(self, query_id: str) -> dict[tuple[int, int], Written]:
        """The newest checkpoint of each task of a query that this process has written, by
        sub-topology and partition."""
        with self._lock:
            return {key[1:]: found for key, found in self._written.items() if key[0] == query_id}

    # ---- threads ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the threads."""
        for name, run in (("load", self._load_all), ("checkpoint", self._write_all)):
            thread = threading.Thread(target=run, name=f"millstream-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """End the threads; idempotent."""
        self._closing.set()
        with self._lock:
            for query in self._queries.values():
                query.removed = True
            self._lock.notify_all()
        for thread in self._threads:
            # A place that does not answer must not keep the database from closing.
            thread.join(CLOSE_SECONDS)
        self._threads.clear()

    def load(self) -> None:
        """Load in the calling thread what waits for it."""
        while (found := self._next()) is not None:
            self._load(*found)

    def _load_all(self) -> None:
        while not self._closing.is_set():
            self.load()
            with self._lock:
                self._lock.wait_for(lambda: self._closing.is_set() or self._awaited())

    def _awaited(self) -> bool:
        return any(query.waiting for query in self._queries.values())

    def _next(self) -> tuple[str, _Query, bool] | None:
        """A query with something to load, and whether nobody holds any of its state."""
        with self._lock:
            for query_id, query in self._queries.items():
                if query.waiting and not query.removed:
                    query.loading = query.waiting
                    return query_id, query, not query.open
        return None

    def _load(self, query_id: str, query: _Query, alone: bool) -> None:
        try:
            for sub in query.subs:
                self._load_sub(query, sub, alone)
        except Stopped:
            pass
        except Exception as error:
            # What was not loaded is replayed, whatever the reason is.
            _LOG.warning("No checkpoint of %s was loaded: %s", query_id, error)
            self._count(failed=1)
        finally:
            with self._lock:
                query.open |= query.loading & (query.processed | query.standby)
                query.loading = frozenset()
                self._lock.notify_all()
        if not query.removed:
            self.on_loaded(query_id)

    def _load_sub(self, query: _Query, sub: StatefulSubTopology, alone: bool) -> None:
        state = sub.state(self._log)
        partitions = [p for p in sorted(query.loading) if p < sub.sub.partitions]
        if state is None or not partitions:
            return
        ends = self._log.written_ends([(sub.changelog, p) for p in partitions])
        ranges = {
            p: Range(self._log.start_offset(sub.changelog, p), ends[sub.changelog, p])
            for p in partitions
        }
        loading = Loading(
            query.store,
            self.repository,
            state,
            sub.tables,
            partial(agrees, self._log, sub.changelog),
            lambda: query.removed,
        )
        loaded = loading.load({p: each for p, each in ranges.items() if each.end}, alone=alone)
        self._count(loaded=len(loaded))
        if loaded:
            _LOG.info(
                "The state of %s, sub-topology %d, was loaded from checkpoints: %s",
                sub.query_id,
                sub.sub.index,
                ", ".join(f"partition {p} as of {at}" for p, at in loaded.items()),
            )

    # ---- writing ------------------------------------------------------------------------------

    def _write_all(self) -> None:
        rounds = 0
        while not self._closing.wait(self._interval):
            self.write()
            rounds += 1
            if rounds % ORPHAN_ROUNDS == 0:
                self.delete_orphans()

    def write(self) -> int:
        """Write a checkpoint of each task that has changed enough; returns how many."""
        with self._lock:
            queries = [(query, query.processed & query.open) for query in self._queries.values()]
        tasks = {
            (sub.query_id, sub.sub.index, partition): (query, sub, partition)
            for query, partitions in queries
            for sub in query.subs
            for partition in sorted(partitions)
            if partition < sub.sub.partitions
        }
        self._last = {key: last for key, last in self._last.items() if key in tasks}
        with self._lock:
            self._written = {key: each for key, each in self._written.items() if key in tasks}
        written = 0
        for key, (query, sub, partition) in tasks.items():
            if query.removed or self._closing.is_set():
                continue
            try:
                written += self._write(key, query.store, sub, partition)
                self._failing = False
            except Stopped:
                continue
            except Exception as error:
                if not query.removed:
                    self._count(failed=1)
                if not query.removed and not self._failing:
                    # The next ones most likely fail for the same reason.
                    self._failing = True
                    _LOG.warning("No checkpoint of %s was written: %s", sub.query_id, error)
        return written

    def _count(self, *, written: int = 0, loaded: int = 0, failed: int = 0) -> None:
        with self._lock:
            old = self.counts
            self.counts = CheckpointCounts(
                old.written + written, old.loaded + loaded, old.failed + failed
            )

    def _write(self, key: TaskKey, store: Store, sub: StatefulSubTopology, partition: int) -> bool:
        with store.cursor() as cursor:
            at = stored_position(cursor, store.database, *key)
        last = self._last.get(key)
        if at is None or (at.written < self.fewest and (last is None or at.at == last.position)):
            return False
        state = sub.state(self._log)
        if state is None:
            return False
        if key not in self._last:
            known = partial(agrees, self._log, sub.changelog, partition)
            earlier = self.repository.newest(state, partition, 0, at.at)
            own = (each for each in earlier if known(each.fingerprint))
            last = next(own, None)
            self._last[key] = last
        if last is not None and rows_since(at, last) < self.fewest:
            return False
        task = Task(store, state, sub.tables, sub.changelog, partition)
        found = write_checkpoint(
            task, self.repository, self._log, last, lambda: self._closing.is_set()
        )
        if found is None:
            return False
        self._last[key] = found
        with self._lock:
            self._written[key] = Written(found.position, self._clock())
        self._count(written=1)
        return True

    def delete_orphans(self) -> None:
        """Delete the checkpoints of changelogs that do not exist any more, nor did at the last
        call."""
        try:
            known = {in_path(topic.id) for topic in self._log.topics()}
            found = frozenset(
                folder
                for folder in self.repository.states()
                if folder.rpartition("@")[2] not in known
            )
            for folder in found & self._gone:
                self.repository.drop(folder)
            self._gone = found
        except MillstreamError as error:
            _LOG.warning("Checkpoints of former queries were not deleted: %s", error)


def open_checkpoints(
    url: str,
    store: Store,
    log: Log[pa.Table],
    interval_ms: int,
    clock: Callable[[], int],
) -> Checkpoints:
    """The checkpoints at a URL. Raises StatementError (E-CONFIG) if it names no place."""
    drop_leftovers(store)
    return Checkpoints(Repository.of(url, store.identity), log, interval_ms, clock)
