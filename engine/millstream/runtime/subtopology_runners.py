"""Runs the sub-topologies of a query together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Generic

from millstream.log.log import Appended, Batch, Log, Reader, TopicPartition, Writer
from millstream.runtime.hand_over import HandOver
from millstream.runtime.remote_upstreams import RemoteUpstreams
from millstream.runtime.spec import QuerySpec, RuntimeSettings
from millstream.runtime.subtopology_runner import SubTopologyRunner
from millstream.runtime.tasks import Task, TaskState

Flushed = Sequence[tuple[Appended[Batch], ...]]
"""What the executors flushed, one entry for each sub-topology."""


class SubTopologyRunners(Generic[Batch]):
    """All `SubTopologyRunner`s of a query, in their order."""

    def __init__(self, spec: QuerySpec[Batch]) -> None:
        self.remote_upstreams = RemoteUpstreams[Batch](spec)
        self.hand_over = HandOver[Batch](spec.batches)
        self._left: frozenset[TopicPartition] = frozenset()
        """Of which the commit that is under way writes what was handed over."""
        self._all = tuple(
            SubTopologyRunner(
                index, executor, self.remote_upstreams, self.hand_over, spec.max_task_idle_ms
            )
            for index, executor in enumerate(spec.executors)
        )
        self._repartitions = spec.repartitions
        self._changelogs: Reader[Batch] | None = None
        """Exists while there is something to replay."""
        sent = {topic: runner for runner in self._all for topic in runner.spec.outputs}
        for runner in self._all:
            own = spec.repartitions.intersection(runner.spec.inputs)
            runner.channels.senders = {topic: sent[topic] for topic in own if topic in sent}

    def __iter__(self) -> Iterator[SubTopologyRunner[Batch]]:
        return iter(self._all)

    # ---- tasks -------------------------------------------------------------------------------

    def open(
        self,
        log: Log[Batch],
        committed: Mapping[TopicPartition, int],
        start: Mapping[TopicPartition, int],
        owned: Collection[int],
    ) -> None:
        """See `SubTopologyRunner.open`."""
        for runner in self._all:
            runner.open(log, committed, start, owned)
        self.remote_upstreams.opened(owned)
        self.gather(log)

    def gather(self, log: Log[Batch]) -> None:
        """Send the tasks' rows to each other together if all tasks are open here and nothing is
        left of what was sent through separate channels, or on one partition by other instances.
        Separate channels are for senders that advance at different rates."""
        together = self._whole and all(
            runner.arranged and runner.channels.drained(log, runner.tasks, runner.positions)
            for runner in self._all
        )
        for runner in self._all:
            runner.channels.together = together
        if together and self.hand_over.possible and not self.hand_over.active:
            self._hand_over(log)

    def handed_to(self, runner: SubTopologyRunner[Batch]) -> bool:
        """Whether rows that were handed over may wait for a sub-topology."""
        return bool(runner.channels.senders) and self.hand_over.bytes > 0

    def gathers(self, runner: SubTopologyRunner[Batch], settings: RuntimeSettings) -> bool:
        """Whether a sub-topology should wait for more rows to be handed over: a run costs less for
        each row the more there are."""
        return self.handed_to(runner) and self.hand_over.bytes < settings.max_gathered_bytes

    def _hand_over(self, log: Log[Batch]) -> None:
        """From now on, what the tasks send to each other stays in memory."""
        places = [
            topic_partition
            for runner in self._all
            for topic_partition in runner.positions
            if topic_partition[0] in self._repartitions
        ]
        if places:
            self.hand_over.begin(log.written_ends(places))

    @property
    def scattered(self) -> bool:
        """Whether tasks still use separate channels that are no longer needed."""
        return self._whole and any(
            count > 1 and not runner.channels.together
            for runner in self._all
            for count in (*runner.spec.channels.values(), *runner.spec.senders.values())
        )

    def _gather_soon(self, log: Log[Batch]) -> None:
        """See `gather`: with each commit, where it takes no request."""
        if self.scattered and not any(
            count > 1 for runner in self._all for count in runner.spec.channels.values()
        ):
            self.gather(log)

    @property
    def _whole(self) -> bool:
        return all(runner.whole for runner in self._all)

    def inputs_of(self, owned: Collection[int]) -> list[TopicPartition]:
        """What the tasks of these partitions read."""
        return [
            topic_partition for runner in self._all for topic_partition in runner.inputs_of(owned)
        ]

    def tasks(self) -> list[Task]:
        """All open tasks."""
        return [task for runner in self._all for task in runner.tasks.values()]

    @property
    def running(self) -> bool:
        """Whether no task waits for its state."""
        return all(task.state is TaskState.RUNNING for task in self.tasks())

    def restore(self, log: Log[Batch], max_records: int) -> int | None:
        """Replay one read, durable when this returns; returns the records, or None if none had
        arrived. The caller calls `restored` when all tasks are.

        It commits at once because a replay of hours must not start over, and a failing run must
        undo only itself."""
        if self._changelogs is None:
            self._changelogs = log.reader(alone=True)
        for runner in self._all:
            count = runner.restore(log, self._changelogs, max_records)
            if count is not None:
                runner.spec.executor.commit(runner.changelog_positions())
                return count
        return None

    def restored(self) -> None:
        """Release what was fetched of the changelogs. Idempotent."""
        if self._changelogs is not None:
            self._changelogs.close()
            self._changelogs = None

    @property
    def idle_until(self) -> int | None:
        """When the first task that waits for an input goes on without it; None where none waits."""
        waits = (runner.idling.next_at for runner in self._all)
        return min((at for at in waits if at is not None), default=None)

    # ---- input -------------------------------------------------------------------------------

    def positions(self) -> dict[TopicPartition, int]:
        """How far each input partition is processed, as far as it is on the log; callable from any
        thread."""
        return {
            topic_partition: self.hand_over.durable(topic_partition, at)
            for runner in self._all
            for topic_partition, at in dict(runner.positions).items()
        }

    def end_at(self, bounds: Mapping[TopicPartition, int]) -> None:
        """See `SubTopologyRunner.end_at`."""
        for runner in self._all:
            runner.end_at(bounds)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of buffered input."""
        return sum(runner.buffered_bytes for runner in self._all)

    @property
    def records_in(self) -> int:
        """Records processed since the query was added."""
        return sum(runner.metrics.records_in for runner in self._all)

    @property
    def called_s(self) -> float:
        """For how many seconds functions in Python were called since the query was added."""
        return sum(runner.metrics.calls.seconds for runner in self._all)

    @property
    def awaiting(self) -> bool:
        """Whether the last requested records have not arrived yet."""
        return any(runner.awaiting for runner in self._all)

    # ---- commit ------------------------------------------------------------------------------

    def leave(self) -> list[Appended[Batch]]:
        """What was handed over and is not processed. The caller writes it and calls `resume`."""
        left = {at: records for runner in self._all for at, records in runner.leave().items()}
        self._left = frozenset(left)
        return [appended for records in left.values() for appended in records]

    def resume(self, log: Log[Batch]) -> None:
        """What was left is on the log, behind the positions."""
        if self._left:
            for runner in self._all:
                for topic_partition in self._left & runner.positions.keys():
                    runner.resume(topic_partition)
            self.hand_over.written(log.written_ends(self._left))
            self._left = frozenset()

    def spill(self, log: Log[Batch], writer: Writer[Batch]) -> None:
        """Write what was handed over at once, because it is too much to keep."""
        if left := self.leave():
            writer.append(left)
            self.resume(log)

    def flush(self) -> Flushed[Batch]:
        """See `Executor.flush`."""
        return [runner.spec.executor.flush() for runner in self._all]

    def begin_snapshots(self, log: Log[Batch]) -> None:
        """See `SubTopologyRunner.begin_snapshots`."""
        for runner in self._all:
            runner.begin_snapshots(log)

    def settle(self, flushed: Flushed[Batch]) -> int:
        """The log has committed: make the state durable. Returns the number of outputs flushed."""
        written = 0
        for runner, outputs in zip(self._all, flushed, strict=True):
            runner.settle_snapshots()
            written += runner.settle_flush(outputs)
            runner.spec.executor.commit(runner.changelog_positions())
            runner.watermark.committed()
        return written

    def settle_transient(self, flushed: Flushed[Batch]) -> int:
        """Make the state durable where no transaction goes with it. Returns the number of outputs
        flushed."""
        written = 0
        for runner, outputs in zip(self._all, flushed, strict=True):
            written += runner.settle_flush(outputs)
            runner.spec.executor.commit(runner.changelog_positions())
        return written

    def forget(self, log: Log[Batch]) -> None:
        """After a commit: delete consumed repartition records and changelogs behind snapshots, and
        see whether the tasks can send together now."""
        for runner in self._all:
            runner.forget(log, self._repartitions)
        self._gather_soon(log)

    # ---- the end -----------------------------------------------------------------------------

    def close_tasks(self) -> None:
        """Close all tasks and drop the buffered input."""
        self.restored()
        self.hand_over.stop()
        self._left = frozenset()
        for runner in self._all:
            runner.close_tasks()

    def discard(self) -> None:
        """Have all executors discard what is not committed; then raise the first error."""
        failed: list[Exception] = []
        for runner in self._all:
            try:
                runner.spec.executor.discard()
            except Exception as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def close(self) -> None:
        """Release the executors."""
        for runner in self._all:
            runner.spec.executor.close()
