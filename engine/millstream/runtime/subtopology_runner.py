"""Runs one sub-topology: its executor, its tasks, and its buffered input."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Generic

from millstream.log.log import Appended, Batch, Fetched, Log, Reader, TopicPartition
from millstream.model.errors import CorruptionError, MillstreamError
from millstream.model.event_time import END, NEVER
from millstream.model.problem import LATE
from millstream.runtime.changelogs import check_position, skip_truncated
from millstream.runtime.channels import Channels
from millstream.runtime.fetch_quota import FetchQuota, records_between
from millstream.runtime.hand_over import HandOver
from millstream.runtime.ports import RunResult
from millstream.runtime.punctuation import Punctuation
from millstream.runtime.remote_upstreams import RemoteUpstreams
from millstream.runtime.sender_buffer import SenderBuffer
from millstream.runtime.spec import ExecutorSpec, RuntimeSettings, SubTopologyMetrics
from millstream.runtime.task_idling import TaskIdling
from millstream.runtime.tasks import Task, TaskId, TaskState
from millstream.runtime.watermark import Watermark

Reached = tuple[object, ...]
"""Whether a partition is at its end, and up to which event time it has come; of one with several
senders, also what of it is presented."""
GAP_READS = 16
"""Reads that only pass transaction markers, before other partitions are read."""


class SubTopologyRunner(Generic[Batch]):
    """The tasks of one sub-topology, run together: one run serves all their partitions."""

    def __init__(
        self,
        index: int,
        spec: ExecutorSpec[Batch],
        remote_upstreams: RemoteUpstreams[Batch],
        hand_over: HandOver[Batch],
        max_task_idle_ms: int = 0,
    ) -> None:
        self.index = index
        self.spec = spec
        self.tasks: dict[int, Task] = {}
        """By partition."""
        self.positions: dict[TopicPartition, int] = {}
        self.buffer: dict[TopicPartition, Fetched[Batch]] = {}
        self.sender_buffers: dict[TopicPartition, SenderBuffer[Batch]] = {}
        self.searching = False
        """Whether the last reads went on behind records that are held back."""
        self.arranged_at: dict[TopicPartition, int] = {}
        """Where the partitions with labelled records ended when the tasks were opened."""
        self.hand_over = hand_over
        self.fetch_quota = FetchQuota()
        self.snapshot_starts: dict[int, int] = {}
        self.superseded: dict[TopicPartition, int] = {}
        self.metrics = SubTopologyMetrics()
        self.awaiting = False
        """Whether the last reads left out records that have not arrived yet."""
        self.open_windows = False
        self.punctuation = Punctuation()
        """Whether results may wait for stream time."""
        self.watermark = Watermark()
        self.stuck: dict[TopicPartition, Reached] = {}
        """What the held-back rows of the last run wait for, if upstream is still to send it. Until
        it arrives, or upstream's watermark advances, no other input changes the result."""
        self.channels = Channels(spec, remote_upstreams)
        self.idling = TaskIdling(max_task_idle_ms)
        self.bounds: Mapping[TopicPartition, int] = {}
        """The offsets at which partitions are treated as ended, even if more records exist."""

    def open(
        self,
        log: Log[Batch],
        committed: Mapping[TopicPartition, int],
        start: Mapping[TopicPartition, int],
        owned: Collection[int],
    ) -> None:
        """Open the `owned` tasks at their committed positions and determine what they have to
        replay."""
        self.tasks = {p: Task(TaskId(self.index, p)) for p in self._tasks_of(owned)}
        self.open_windows = self.spec.holds_results and bool(self.tasks)
        self.punctuation = Punctuation(self.spec.punctuator if self.tasks else None)
        changelog = self.spec.changelog
        # Include uncommitted records: an earlier owner's last transaction may still be open.
        asked = [(changelog, p) for p in self.tasks] if changelog else []
        ends = log.written_ends(asked) if asked else {}
        for partition, task in self.tasks.items():
            for topic_partition in self.spec.topic_partitions(partition):
                position = committed.get(topic_partition, start.get(topic_partition))
                if position is None:
                    position = log.start_offset(*topic_partition)
                self.positions[topic_partition] = position
            task.restored = self.spec.executor.open(partition)
            if changelog is not None:
                task.target = ends[changelog, partition]
                check_position(task.id, changelog, task.restored, task.target)
                if task.restored < task.target:
                    self._skip_truncated(log, task)
            task.move(TaskState.RESTORING)
            task.arrive()
        self._open_buffers(log)

    def _open_buffers(self, log: Log[Batch]) -> None:
        labels = self.spec.labels
        places = [at for at in self.positions if self.spec.names_senders(at)]
        if not places or labels is None:
            return
        self.sender_buffers = {at: SenderBuffer(labels, self.spec.senders[at[0]]) for at in places}
        own = [at for at in places if at[0] in self.channels.senders]
        self.arranged_at = log.written_ends(own) if own and self.whole else {}

    @property
    def arranged(self) -> bool:
        """Whether everything is consumed that other instances have sent here."""
        return all(self.positions[at] >= end for at, end in self.arranged_at.items())

    def _skip_truncated(self, log: Log[Batch], task: Task) -> bool:
        """Whether the task must start anew."""
        assert self.spec.changelog is not None
        before = task.restored
        task.restored = skip_truncated(
            log, self.spec.executor, self.spec.changelog, task.id.partition, before
        )
        return task.restored != before

    def _tasks_of(self, owned: Collection[int]) -> list[int]:
        return [partition for partition in range(self.spec.partitions) if partition in owned]

    def inputs_of(self, owned: Collection[int]) -> list[TopicPartition]:
        """What the tasks of these partitions read."""
        return [
            topic_partition
            for task in self._tasks_of(owned)
            for topic_partition in self.spec.topic_partitions(task)
        ]

    def restore(self, log: Log[Batch], reader: Reader[Batch], max_records: int) -> int | None:
        """Replay one read of one task's changelog; returns the records, None if none has come."""
        self.awaiting = False
        if self.spec.changelog is None:
            return None
        for task in self.tasks.values():
            if task.state is TaskState.RESTORING:
                # All are asked for, so all are fetched at the same time.
                count = self._restore(log, reader, task, self.spec.changelog, max_records)
                if count is not None:
                    self.awaiting = False
                    return count
        return None

    def _restore(
        self, log: Log[Batch], reader: Reader[Batch], task: Task, changelog: str, max_records: int
    ) -> int | None:
        reader.begin()
        try:
            fetched = reader.read(changelog, task.id.partition, task.restored, max_records)
        except CorruptionError:
            # An earlier owner may truncate behind its last snapshot only now.
            if self._skip_truncated(log, task):
                return 0
            raise
        if fetched.awaited or fetched.next_offset == task.restored:
            # In the latter case a transaction is open: its owner ends it, or it times out.
            self.awaiting = True
            return None
        self.spec.executor.restore(task.id.partition, fetched)
        task.restored = fetched.next_offset
        if task.restored >= task.target and not fetched.end:
            # A new owner writes behind the target: never stop within one of its transactions.
            task.target = log.end_offset(changelog, task.id.partition)
        task.arrive()
        return fetched.count

    def poll(self, reader: Reader[Batch], settings: RuntimeSettings, room: int) -> int:
        """Read input for the running tasks until `room` bytes are buffered; returns the bytes."""
        if self.awaiting:
            # The former end of a partition may not be its end any more.
            self.buffer.clear()
        gained = 0
        self.awaiting = self.searching = False
        topic_partitions = self._places()
        reader.begin(topic_partitions)
        for topic_partition in topic_partitions:
            known = self.buffer.get(topic_partition)
            if (known is not None and known.count) or gained > room:
                continue
            fetched = self._read(reader, topic_partition, settings)
            self.buffer[topic_partition] = fetched
            self.awaiting |= fetched.awaited
            gained += fetched.bytes
        self.channels.older_first(self.tasks, self.buffer, self.fetch_quota.behind)
        if not self.awaiting and not self.buffered:
            untils = (END if read.end else read.until for read in self.buffer.values())
            self.watermark.idled(min(untils, default=END))
        if self.stuck and all(
            (read := self.buffer.get(topic_partition))
            and (not read.count or topic_partition in self.sender_buffers)
            and self._reached(read) == reached
            for topic_partition, reached in self.stuck.items()
        ):
            self.buffer.clear()
        return gained

    def _read(
        self, reader: Reader[Batch], topic_partition: TopicPartition, settings: RuntimeSettings
    ) -> Fetched[Batch]:
        topic, partition = topic_partition
        quota = self.fetch_quota.quota(topic_partition, self.positions, settings)
        bound = self.bounds.get(topic_partition)
        if topic_partition in self.sender_buffers:
            return self._read_of_senders(reader, topic_partition, quota, settings)
        for _ in range(GAP_READS):
            fetched = reader.read(topic, partition, self.positions[topic_partition], quota, bound)
            if fetched.count:
                break
            moved = fetched.next_offset > self.positions[topic_partition]
            self.positions[topic_partition] = fetched.next_offset
            if fetched.end or not moved:
                break
        self.fetch_quota.read(topic_partition, fetched)
        # A sender to a partition with a bound has sent everything before the bound.
        return fetched if bound is not None else self.channels.bounded(fetched)

    def _read_of_senders(
        self,
        reader: Reader[Batch],
        topic_partition: TopicPartition,
        quota: int,
        settings: RuntimeSettings,
    ) -> Fetched[Batch]:
        buffer, bound = self.sender_buffers[topic_partition], self.bounds.get(topic_partition)
        budget = max(1, settings.max_held_bytes // len(self.sender_buffers))
        for _ in range(GAP_READS):
            before = buffer.version
            position = self.positions[topic_partition]
            fetched = buffer.read(reader, topic_partition, position, quota, budget, bound)
            if fetched.count:
                self.searching |= not fetched.awaited and buffer.version != before
                break
            self.positions[topic_partition] = fetched.next_offset
            if fetched.end or fetched.next_offset == position:
                break
        self.fetch_quota.read(topic_partition, fetched)
        if bound is not None:
            return self.channels.whole(fetched)
        return self.channels.bounded(fetched)

    def end_at(self, bounds: Mapping[TopicPartition, int]) -> None:
        """Treat partitions as ended at these offsets; without any, at the log's ends."""
        self.bounds = bounds
        for at in bounds.keys() & self.positions.keys():
            self.positions[at] = self.hand_over.ended(at, self.positions[at], bounds[at])
        self.buffer.clear()
        for buffer in self.sender_buffers.values():
            buffer.forget()

    @property
    def whole(self) -> bool:
        """Whether all of its tasks are open here."""
        return len(self.tasks) == self.spec.partitions

    def _places(self) -> list[TopicPartition]:
        return [
            topic_partition
            for task in self.tasks.values()
            if task.state is TaskState.RUNNING
            for topic_partition in self.spec.topic_partitions(task.id.partition)
        ]

    @property
    def buffered(self) -> int:
        """Buffered records."""
        return sum(fetched.count for fetched in self.buffer.values())

    @property
    def buffered_bytes(self) -> int:
        """Their bytes."""
        return sum(fetched.bytes for fetched in self.buffer.values())

    def wait_for_inputs(self, now: int) -> None:
        """Have tasks wait for topics without records, as long as they are set to."""
        if self.bounds or self.awaiting:
            self.idling.next_at = None
            return
        tasks = (tuple(self.spec.topic_partitions(partition)) for partition in self.tasks)
        self.buffer = self.idling.held(self.buffer, tasks, self.positions, now)
        if self.idling.next_at is not None:
            # Rows of any time may come of what waits.
            self.watermark.reached = NEVER

    @property
    def idle(self) -> bool:
        """Whether the last poll has found all partitions at their ends, with nothing to come of
        upstream, and no row is held back."""
        reads = self.buffer.values()
        known = len(reads) == len(self._places()) and not self.awaiting
        waits = self.idling.next_at is not None
        return known and not waits and all(read.end and not read.count for read in reads)

    def run(self, *, closing: bool = False) -> tuple[RunResult[Batch], int]:
        """Run the executor over everything buffered. Returns the result and the number of records
        consumed, as a distance in offsets (0: all of it was held back). `closing`: the sub-topology
        is idle, and its windows are closed."""
        inputs = [self.buffer[place] for place in self._places() if place in self.buffer]
        together = self.channels.together
        result = self.spec.executor.run(inputs, together=together, closing=closing)
        moved = records = 0
        for fetched in inputs:
            topic_partition = (fetched.topic, fetched.partition)
            before = self.positions[topic_partition]
            after = result.consumed.get(topic_partition, before)
            if not before <= after <= fetched.next_offset:
                raise MillstreamError(
                    f"Sub-topology {self.index} was handed"
                    f" {topic_partition[0]}-{topic_partition[1]} from {before} to"
                    f" {fetched.next_offset} and claims to have consumed it up to {after}"
                )
            self.positions[topic_partition] = after
            self.hand_over.consumed(topic_partition, after)
            if topic_partition in self.sender_buffers:
                ahead = result.ahead.get(topic_partition, {})
                taken = self.sender_buffers[topic_partition].consumed(after, ahead)
                moved += after - before + taken.ahead
                records += taken.records
                continue
            moved += after - before
            records += records_between(fetched, before, after)
            self.fetch_quota.consumed(
                topic_partition,
                after - before,
                fetched.next_offset - before,
                moved=fetched.topic in self.channels.senders,
            )
        if self.idling.next_at is not None:
            result = replace(result, watermark=NEVER)
        stuck = self._waits() and not (moved and self.sender_buffers)
        self.stuck = self._waited_for() if stuck else {}
        self.buffer.clear()
        self.open_windows = (
            self.spec.holds_results and not closing and (self.open_windows or moved > 0)
        )
        self._count(result, records)
        return result, moved

    def _waited_for(self) -> dict[TopicPartition, Reached]:
        """If rows were held back, the partitions that they may wait for: those of which none was,
        and those on which several senders write."""
        reads = self.buffer.items()
        if all(self.positions[at] == read.next_offset for at, read in reads):
            return {}
        return {
            at: self._reached(read)
            for at, read in reads
            if self.positions[at] == read.next_offset or at in self.sender_buffers
        }

    def _reached(self, read: Fetched[Batch]) -> Reached:
        buffer = self.sender_buffers.get((read.topic, read.partition))
        known = () if buffer is None else (buffer.version, read.senders)
        return (read.end, read.until, *known)

    def _waits(self) -> bool:
        """Whether a partition is at its end only for now: upstream will send more."""
        return any(
            not read.end
            and not (read.senders and (read.senders.joint or read.senders.barrier))
            and topic_partition[0] in self.channels.senders
            and topic_partition not in self.fetch_quota.behind
            for topic_partition, read in self.buffer.items()
        )

    def _count(self, result: RunResult[Batch], records: int) -> None:
        self.metrics.records_in += records
        self.metrics.stream_time = max(self.metrics.stream_time, result.last)
        self.metrics.calls = self.metrics.calls.plus(result.calls)
        self.metrics.records_out += sum(output.count for output in result.outputs)
        for problem in result.problems:
            if problem.kind == LATE:
                self.metrics.late += problem.count
            else:
                self.metrics.problems += problem.count

    def leave(self) -> dict[TopicPartition, Sequence[Appended[Batch]]]:
        """Give up what was handed over and is not processed, for the commit to write it; `resume`
        has to follow."""
        left = {}
        for topic_partition in self.positions:
            first, records = self.hand_over.leave(topic_partition)
            if records:
                executor = self.spec.executor
                left[topic_partition] = executor.hand_back(*topic_partition, first, records)
        return left

    def resume(self, topic_partition: TopicPartition) -> None:
        """Read from the log what was left of a partition. Its position is the end that the log had
        before."""
        at = self.positions[topic_partition]
        self.positions[topic_partition] = self.hand_over.durable(topic_partition, at)
        self.buffer.pop(topic_partition, None)
        self.stuck = {}
        known = self.sender_buffers.get(topic_partition)
        if known is not None:
            self.sender_buffers[topic_partition] = SenderBuffer(known.labels, known.senders)

    def settle_flush(self, flushed: Sequence[Appended[Batch]]) -> int:
        """Note that what the executor flushed is committed; returns how many outputs there were."""
        written = 0
        for output in flushed:
            if output.topic == self.spec.changelog:
                self.advance_changelog(output.partition, output.count)
                self.metrics.changes += output.count
            else:
                written += output.count
        self.metrics.records_out += written
        return written

    def changelog_positions(self) -> dict[int, int]:
        """The changelog position of each open task's state."""
        return {partition: task.restored for partition, task in self.tasks.items()}

    def begin_snapshots(self, log: Log[Batch]) -> None:
        """Note where the snapshots begin that the flush has started. It is read before the
        transaction, whose success proves that no other writer has appended anything."""
        for partition in self.spec.executor.snapshots().begun:
            assert self.spec.changelog is not None
            end = log.end_offset(self.spec.changelog, partition)
            self.snapshot_starts[partition] = end

    def settle_snapshots(self) -> None:
        """After the commit: note before which offsets the changelogs may be truncated."""
        snapshots = self.spec.executor.snapshots()
        for partition in snapshots.begun:
            # Transaction markers make the count fall short; it must not fall behind the truncation
            # offset.
            task = self.tasks[partition]
            task.restored = max(task.restored, self.snapshot_starts[partition])
        for partition in snapshots.complete:
            topic_partition = (str(self.spec.changelog), partition)
            self.superseded[topic_partition] = self.snapshot_starts.pop(partition)

    def forget(self, log: Log[Batch], repartitions: frozenset[str]) -> None:
        """Delete consumed repartition records and changelogs behind snapshots."""
        for (topic, partition), position in self.positions.items():
            if topic in repartitions:
                durable = self.hand_over.durable((topic, partition), position)
                log.truncate(topic, partition, durable)
        for (topic, partition), start in list(self.superseded.items()):
            log.truncate(topic, partition, start)
            del self.superseded[topic, partition]

    def advance_changelog(self, partition: int, count: int) -> None:
        """Count `count` changes of the task that were appended to its changelog.

        The position is counted rather than requested: between a commit and the request, a newer
        owner of the identity may have appended its own changes, which this state lacks. Where a log
        spends offsets on markers the count falls short, which is safe: a store may lag its
        changelog.
        """
        self.tasks[partition].restored += count
        self.tasks[partition].target = self.tasks[partition].restored

    def close_tasks(self) -> None:
        """Close all tasks and drop the buffered input; the caller closes the executor."""
        for task in self.tasks.values():
            task.close()
        self.tasks = {}
        self.positions.clear()
        self.buffer.clear()
        self.sender_buffers = {}
        self.arranged_at = {}
        self.awaiting = self.searching = False
        self.fetch_quota.behind.clear()
        self.snapshot_starts.clear()
        self.stuck = {}
        self.watermark.reset()
        self.idling.reset()
