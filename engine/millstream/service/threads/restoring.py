"""The thread around restoration: replays changelogs beside the threads that process queries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from millstream.executor.replica import DuckReplica
from millstream.functions.function import Catalogue
from millstream.log.log import WatchedLog
from millstream.runtime.restoration import FollowSpec, Progress, Restoration, Role
from millstream.runtime.spec import QueryStatus, RuntimeSettings, TaskStatus
from millstream.runtime.tasks import TaskState
from millstream.service.threads.catch_up_gate import CatchUpGate
from millstream.service.threads.fair_lock import FairRLock
from millstream.state.store import Store
from millstream.topology.topology import Topology

IDLE_SECONDS = 0.1
"""How often standbys look whether their changelogs have grown."""
AWAIT_SECONDS = 0.05
"""Asking again is cheap, and the log's word that something has come might be missed."""


def _completed(status: QueryStatus, more: Sequence[Progress], restored: int) -> QueryStatus:
    tasks = (TaskStatus(one.task, TaskState.RESTORING, one.lag) for one in more)
    stages = (
        replace(
            stage,
            to_restore=stage.to_restore
            + sum(one.lag for one in more if one.task.subtopology == stage.index),
        )
        for stage in status.stages
    )
    metrics = replace(status.metrics, restored=status.metrics.restored + restored)
    return replace(status, tasks=(*status.tasks, *tasks), stages=tuple(stages), metrics=metrics)


class Restoring:
    """Implements `runtime.ports.Restorer` with a thread that does the work; until it is started,
    who asks does it himself.

    Queries are added and removed between two of its steps, so a statement waits for one of them;
    who processes asks (`prepare`) without waiting.
    """

    def __init__(
        self,
        log: WatchedLog[pa.Table],
        clock: Callable[[], int],
        settings: RuntimeSettings,
        on_ready: Callable[[], None],
    ) -> None:
        """`on_ready` is called when a query can have partitions that it has asked for."""
        self.failure: BaseException | None = None
        """Why the thread has died, by a fault that is no query's."""
        self._machine: Restoration[pa.Table] = Restoration(
            log, settings, on_ready=lambda _query_id: on_ready(), lock=threading.Lock()
        )
        self.abreast = CatchUpGate()
        self._clock = clock
        self._turn = FairRLock()
        self._news = threading.Event()
        self._awaiting = False
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._cancel = log.on_append(self._heard)

    # ---- what is to be followed ---------------------------------------------------------------

    def add_query(self, store: Store, topology: Topology, functions: Catalogue) -> None:
        """Be ready to follow the changelogs of a query, whose functions are registered; what was
        known of the same id is forgotten."""
        stages = tuple(
            FollowSpec(
                sub.index,
                DuckReplica(store, topology.query_id, sub, functions),
                sub.changelog,
                sub.partitions,
            )
            for sub in topology.subtopologies
            if sub.changelog is not None
        )
        with self._turn:
            self._machine.remove_query(topology.query_id)
            self._machine.add_query(topology.query_id, stages)

    def remove_query(self, query_id: str) -> None:
        """Let go of a query's state; no error when it is not known."""
        with self._turn:
            self._machine.remove_query(query_id)

    def standby(self, query_id: str, partitions: frozenset[int]) -> None:
        """See `Restoration.standby`."""
        self._machine.standby(query_id, partitions)
        self._news.set()

    def prepare(self, query_id: str, wanted: frozenset[int]) -> frozenset[int]:
        """See `runtime.ports.Restorer`; replays what is missing if there is no thread to do it."""
        may = self.abreast.granted(query_id, wanted)
        granted = self._machine.prepare(query_id, may)
        if granted != may and self._thread is None and not self._stopping:
            self.run_until_idle()
            granted = self._machine.prepare(query_id, may)
        self._news.set()
        return granted

    def partitions(self, query_id: str) -> int:
        """See `Restoration.partitions`."""
        return self._machine.partitions(query_id)

    def ready(self, query_id: str) -> frozenset[int]:
        """See `Restoration.ready`."""
        return self._machine.ready(query_id)

    def progress(self) -> tuple[Progress, ...]:
        """See `Restoration.progress`."""
        return self._machine.progress(self._clock())

    def completed(self, statuses: Sequence[QueryStatus]) -> tuple[QueryStatus, ...]:
        """With the tasks that are restored here before these queries get them."""
        starting = [one for one in self.progress() if one.role is Role.STARTING]
        restored = self._machine.restored()
        return tuple(
            _completed(
                status,
                [one for one in starting if one.query_id == status.query_id],
                restored.get(status.query_id, 0),
            )
            for status in statuses
        )

    def troubles(self) -> dict[str, str]:
        """See `Restoration.troubles`."""
        return self._machine.troubles()

    # ---- the thread ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="millstream-restore", daemon=True)
        self._thread.start()

    def run_until_idle(self) -> bool:
        """Without a thread: replay all there is; whether anything was done."""
        worked = False
        while True:
            self._news.clear()
            step = self._step()
            worked |= step[0]
            if not any(step):
                return worked
            if not step[0]:
                self._news.wait(AWAIT_SECONDS)

    def close(self) -> None:
        """End the thread and let go of everything; idempotent."""
        self._cancel()
        self._stopping = True
        self._news.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._turn:
            self._machine.close()

    def _heard(self) -> None:
        if self._awaiting:
            self._news.set()

    def _step(self) -> tuple[bool, bool]:
        """Whether something was done, and whether something is on its way."""
        with self._turn:
            step = self._machine.step(self._clock())
        self._awaiting = step.awaiting
        return step.progress, step.awaiting

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._news.clear()
                progress, awaiting = self._step()
                if not progress:
                    self._news.wait(AWAIT_SECONDS if awaiting else IDLE_SECONDS)
        except BaseException as failure:
            self.failure = failure
            raise
