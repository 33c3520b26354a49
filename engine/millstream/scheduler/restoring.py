"""The restore thread: replays changelogs beside the threads that process queries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from millstream.executor.replica import DuckReplica
from millstream.functions.function import Catalogue
from millstream.log.log import WatchedLog
from millstream.log.watchers import News
from millstream.runtime.restoration import FollowSpec, Progress, Restoration, Role
from millstream.runtime.spec import QueryStatus, RuntimeSettings, Step, TaskStatus
from millstream.runtime.tasks import TaskState
from millstream.scheduler.catch_up_gate import CatchUpGate
from millstream.scheduler.checkpoints import Checkpoints
from millstream.scheduler.fair_lock import FairRLock
from millstream.state.store import Store
from millstream.topology.topology import Topology

IDLE_SECONDS = 1.0
"""The longest wait for news of the changelogs that are followed."""
AWAIT_SECONDS = 0.05
"""The longest wait for fetched records. Polling again is cheap, and a notification of the log may
be missed."""


def _completed(status: QueryStatus, more: Sequence[Progress], restored: int) -> QueryStatus:
    tasks = (TaskStatus(each.task, TaskState.RESTORING, each.lag) for each in more)
    sub_topologies = (
        replace(
            sub,
            to_restore=sub.to_restore
            + sum(each.lag for each in more if each.task.subtopology == sub.index),
        )
        for sub in status.sub_topologies
    )
    metrics = replace(status.metrics, restored=status.metrics.restored + restored)
    return replace(
        status, tasks=(*status.tasks, *tasks), sub_topologies=tuple(sub_topologies), metrics=metrics
    )


class Restoring:
    """Implements `runtime.ports.Restorer` with a thread. Until the thread is started, `prepare`
    replays in the calling thread.

    Queries are added and removed between two steps of the thread, so a statement waits for at most
    one step. Processing threads call `prepare`, which does not wait once the thread runs.
    """

    def __init__(
        self,
        log: WatchedLog[pa.Table],
        clock: Callable[[], int],
        settings: RuntimeSettings,
        on_ready: Callable[[str], None],
        checkpoints: Checkpoints | None = None,
    ) -> None:
        """`on_ready` is called with the query when partitions that it requested are restored.
        `checkpoints`: what state is loaded from before its changelog is replayed."""
        self.failure: BaseException | None = None
        """The fault of which the thread died, if it did."""
        self._restoration: Restoration[pa.Table] = Restoration(
            log, settings, on_ready=on_ready, lock=threading.Lock()
        )
        self.catch_up_gate = CatchUpGate()
        self.checkpoints = checkpoints
        if checkpoints is not None:
            checkpoints.on_loaded = self.loaded
        self._standby: dict[str, frozenset[int]] = {}
        self._clock = clock
        self._step_lock = FairRLock()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._on_ready = on_ready
        self._cancel = log.on_news(self._on_news)

    # ---- queries whose changelogs are followed -------------------------------------------------

    def add_query(self, store: Store, topology: Topology, functions: Catalogue) -> None:
        """Prepare to follow the changelogs of a query. Its functions must be registered. An earlier
        query of the same id is removed."""
        sub_topologies = tuple(
            FollowSpec(
                sub.index,
                DuckReplica(store, topology.query_id, sub, functions),
                sub.changelog,
                sub.partitions,
            )
            for sub in topology.subtopologies
            if sub.changelog is not None
        )
        if self.checkpoints is not None:
            self.checkpoints.add_query(store, topology, functions)
        with self._step_lock:
            self._restoration.remove_query(topology.query_id)
            self._restoration.add_query(topology.query_id, sub_topologies)

    def remove_query(self, query_id: str) -> None:
        """Release a query's state; does nothing if the query is unknown."""
        if self.checkpoints is not None:
            self.checkpoints.remove_query(query_id)
        self._standby.pop(query_id, None)
        with self._step_lock:
            self._restoration.remove_query(query_id)

    def standby(self, query_id: str, partitions: frozenset[int]) -> None:
        """See `Restoration.standby`."""
        self._standby[query_id] = partitions
        self._follow_standbys(query_id)

    def _follow_standbys(self, query_id: str) -> None:
        wanted = self._standby.get(query_id, frozenset())
        self._restoration.standby(query_id, wanted - self._held(query_id, standby=wanted))
        self._wake.set()

    def _held(self, query_id: str, **wanted: frozenset[int]) -> frozenset[int]:
        """See `Checkpoints.held`."""
        if self.checkpoints is None:
            return frozenset()
        held = self.checkpoints.held(query_id, **wanted)
        if held and self._thread is None and not self._stopping:
            self.checkpoints.load()
            held = self.checkpoints.held(query_id, **wanted)
        return held

    def loaded(self, query_id: str) -> None:
        """Partitions of a query were loaded from checkpoints, as far as there are any."""
        if query_id in self._standby:
            self._follow_standbys(query_id)
        self._on_ready(query_id)

    def prepare(self, query_id: str, wanted: frozenset[int]) -> frozenset[int]:
        """See `runtime.ports.Restorer`. Without a thread it replays the missing records itself."""
        may = self.catch_up_gate.granted(query_id, wanted)
        may -= self._held(query_id, processed=may)
        granted = self._restoration.prepare(query_id, may)
        if granted != may and self._thread is None and not self._stopping:
            self.run_until_idle()
            granted = self._restoration.prepare(query_id, may)
        self._wake.set()
        return granted

    def partitions(self, query_id: str) -> int:
        """See `Restoration.partitions`."""
        return self._restoration.partitions(query_id)

    def left(self, query_id: str) -> dict[int, int]:
        """See `Restoration.left`."""
        return self._restoration.left(query_id)

    def ready(self, query_id: str) -> frozenset[int]:
        """See `Restoration.ready`."""
        return self._restoration.ready(query_id)

    def progress(self, query_id: str | None = None) -> tuple[Progress, ...]:
        """See `Restoration.progress`."""
        return self._restoration.progress(self._clock(), query_id)

    def completed(self, statuses: Sequence[QueryStatus]) -> tuple[QueryStatus, ...]:
        """The statuses, completed with the tasks that are still being restored here."""
        starting = [progress for progress in self.progress() if progress.role is Role.STARTING]
        restored = self._restoration.restored()
        return tuple(
            _completed(
                status,
                [progress for progress in starting if progress.query_id == status.query_id],
                restored.get(status.query_id, 0),
            )
            for status in statuses
        )

    def retry_errors(self) -> dict[str, str]:
        """See `Restoration.retry_errors`."""
        return self._restoration.retry_errors()

    # ---- the thread ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="millstream-restore", daemon=True)
        self._thread.start()
        if self.checkpoints is not None:
            self.checkpoints.start()

    def run_until_idle(self) -> bool:
        """Replay everything in the calling thread; returns whether anything was done."""
        worked = False
        while True:
            self._wake.clear()
            step = self._step()
            worked |= step.progress
            if not step.progress and not step.awaiting:
                return worked
            if not step.progress:
                self._wake.wait(AWAIT_SECONDS)

    def close(self) -> None:
        """End the thread and release everything; idempotent."""
        self._cancel()
        self._stopping = True
        self._wake.set()
        if self.checkpoints is not None:
            self.checkpoints.close()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._step_lock:
            self._restoration.close()

    def _on_news(self, news: News) -> None:
        if not self._restoration.followed.isdisjoint(news.grown):
            self._wake.set()

    def _step(self) -> Step:
        with self._step_lock:
            return self._restoration.step(self._clock())

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._wake.clear()
                step = self._step()
                if not step.progress:
                    self._wake.wait(AWAIT_SECONDS if step.awaiting else IDLE_SECONDS)
        except BaseException as failure:
            self.failure = failure
            raise
