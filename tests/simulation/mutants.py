"""Planted bugs: each one breaks a rule of the runtime, the log or the executors on purpose, so that
the simulation has to prove that it would notice."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from millstream.log.log import Appended, Fetched, Log, Member, Outcome, TopicPartition
from millstream.log.membership import SoleMember
from millstream.model.errors import FencedError, UnavailableError
from millstream.runtime.channels import Channels
from millstream.runtime.ports import RunResult, Snapshots
from millstream.runtime.query_runner import STOPPED, QueryRunner
from millstream.runtime.record_collector import Prepared, RecordCollector
from millstream.runtime.sender_buffer import SenderBuffer
from millstream.runtime.spec import Guarantee, QueryState
from millstream.runtime.subtopology_runner import SubTopologyRunner
from tests.simulation.pure import PureExecutor, Shape
from tests.simulation.world import QUERY, Mutant, World


class Through:
    """Forwards all other calls to `inner`."""

    def __init__(self, inner: Any, world: World) -> None:
        self.inner = inner
        self.world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def join(self, group: str, partitions: int) -> Member[Any]:
        """The only member of a group writes through this log."""
        if self.world.coordinator is not None:
            return self.world.broker.join(group, partitions)
        return SoleMember(self, group, partitions)  # type: ignore[arg-type]


# ---- the log ------------------------------------------------------------------------------------


class UnfencedWriter(Through):
    def __init__(self, inner: Any, world: World, identity: str) -> None:
        super().__init__(inner, world)
        self.identity = identity

    def _insist(self, act: str, *arguments: Any) -> Any:
        try:
            return getattr(self.inner, act)(*arguments)
        except FencedError:
            self.inner = self.world.broker.writer(self.identity)
            return getattr(self.inner, act)(*arguments)

    def append(self, appended: Sequence[Appended[Any]]) -> None:
        self._insist("append", appended)

    def transact(self, *arguments: Any) -> Outcome:
        outcome: Outcome = self._insist("transact", *arguments)
        return outcome


class SplitWriter(Through):
    def transact(
        self, group: str, appended: Sequence[Appended[Any]], positions: Mapping[Any, int]
    ) -> Outcome:
        outcome: Outcome = self.inner.transact(group, appended, {})
        if outcome is not Outcome.COMMITTED:
            return outcome
        moved: Outcome = self.inner.transact(group, (), positions)
        return moved


class InsistentWriter(UnfencedWriter):
    """Retries with its memory after an unknown outcome."""

    def transact(self, *arguments: Any) -> Outcome:
        outcome: Outcome = self.inner.transact(*arguments)
        if outcome is Outcome.UNKNOWN:
            self.inner = self.world.broker.writer(self.identity)
            outcome = self.inner.transact(*arguments)
        return outcome


class CertainWriter(Through):
    """Treats an unknown outcome as success."""

    def transact(self, *arguments: Any) -> Outcome:
        outcome: Outcome = self.inner.transact(*arguments)
        return Outcome.COMMITTED if outcome is Outcome.UNKNOWN else outcome


class OtherWriters(Through):
    """A log whose writers are of another kind."""

    def __init__(self, inner: Any, world: World, kind: type[Through]) -> None:
        super().__init__(inner, world)
        self.kind = kind

    def writer(self, identity: str, *, size: int = 0) -> Any:
        inner = self.inner.writer(identity, size=size)
        if issubclass(self.kind, UnfencedWriter):
            return self.kind(inner, self.world, identity)
        return self.kind(inner, self.world)


class EagerTruncation(Through):
    """Forgets repartition records whether they were consumed or not."""

    def truncate(self, topic: str, partition: int, _before: int) -> None:
        self.inner.truncate(topic, partition, self.inner.end_offset(topic, partition))


class ForgetfulLog(Through):
    """Remembers positions from before the last writer was opened."""

    def __init__(self, inner: Any, world: World) -> None:
        super().__init__(inner, world)
        self.stale: dict[TopicPartition, int] | None = None

    def positions(
        self, group: str, topic_partitions: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, int]:
        if self.stale is None:
            self.stale = self.inner.positions(group)
        return dict(self.stale)


class EarlyPositions(Through):
    """Reads positions before it settles and fences: they may move in between."""

    def __init__(self, inner: Any, world: World) -> None:
        super().__init__(inner, world)
        self.early: dict[TopicPartition, int] | None = None

    def writer(self, identity: str, *, size: int = 0) -> Any:
        try:
            self.early = self.inner.positions(QUERY)
        except UnavailableError:
            self.early = None
        self.world.effect("early positions")
        return self.inner.writer(identity, size=size)

    def positions(
        self, group: str, topic_partitions: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int]
        found = self.inner.positions(group) if self.early is None else dict(self.early)
        return found


# ---- the executors -------------------------------------------------------------------------------


class TornExecutor(Through):
    """Makes the position durable, then the rows."""

    def commit(self, positions: Mapping[int, int]) -> None:
        saved = self.inner.disk.saved
        for partition, position in positions.items():
            saved[partition] = (position, saved.get(partition, (0, {}))[1])
        self.world.effect("executor.torn")
        self.inner.commit(positions)


class ElephantExecutor(Through):
    """Keeps its state over a discard."""

    def __init__(self, inner: Any, world: World) -> None:
        super().__init__(inner, world)
        self.kept: dict[int, dict[int, int]] = {}

    def discard(self) -> None:
        self.kept = {partition: dict(rows) for partition, rows in self.inner.state.items()}
        self.inner.discard()

    def open(self, partition: int) -> int:
        position: int = self.inner.open(partition)
        self.inner.state[partition].update(self.kept.get(partition, {}))
        return position


class SilentExecutor(Through):
    """Flushes no changelog."""

    def flush(self) -> tuple[Appended[Any], ...]:
        flushed: tuple[Appended[Any], ...] = self.inner.flush()
        return tuple(one for one in flushed if one.topic != "changelog")


class HoardingExecutor(Through):
    """Flushes no coalesced outputs."""

    def flush(self) -> tuple[Appended[Any], ...]:
        flushed: tuple[Appended[Any], ...] = self.inner.flush()
        return tuple(one for one in flushed if one.topic == "changelog")


class GreedyExecutor(Through):
    """Reports that it consumed all of its input."""

    def run(
        self, inputs: Sequence[Fetched[Any]], *, together: bool, closing: bool = False
    ) -> RunResult[Any]:
        result: RunResult[Any] = self.inner.run(inputs, together=together, closing=closing)
        consumed = {(one.topic, one.partition): one.next_offset for one in inputs}
        return replace(result, consumed=consumed)


class RashExecutor(Through):
    """Skips the last record of each replayed batch but the last of a batch of one."""

    def restore(self, partition: int, fetched: Fetched[Any]) -> None:
        rows = fetched.batch[:-1] if fetched.count > 1 else fetched.batch
        self.inner.restore(
            partition,
            Fetched(fetched.topic, partition, rows, len(rows), fetched.next_offset, fetched.end),
        )


class HalfSnapshot(Through):
    """Treats a snapshot as complete with its first piece."""

    def snapshots(self) -> Snapshots:
        begun = self.inner.snapshots().begun
        return Snapshots(begun, begun)


# ---- the runtime --------------------------------------------------------------------------------


class LocalFirst(QueryRunner[Any]):
    """Makes state durable before the log has committed."""

    def _transact(self, prepared: Prepared[Any]) -> Outcome:
        flushed = prepared.records
        for runner in self.runners:
            ahead = runner.changelog_positions()
            for output in flushed:
                if output.topic == runner.spec.changelog:
                    ahead[output.partition] += output.count
            runner.spec.executor.commit(ahead)
        return super()._transact(prepared)


class AskedPosition(QueryRunner[Any]):
    """Reads the changelog's end from the log after the commit, when it may belong to another
    writer."""

    def _transact(self, prepared: Prepared[Any]) -> Outcome:
        flushed = prepared.records
        outcome = super()._transact(prepared)
        for runner in self.runners:
            if runner.spec.changelog is not None and outcome is Outcome.COMMITTED:
                for task in runner.tasks.values():
                    end = self.log.end_offset(runner.spec.changelog, task.id.partition)
                    added = sum(
                        one.count
                        for one in flushed
                        if (one.topic, one.partition) == (runner.spec.changelog, task.id.partition)
                    )
                    task.restored = end - added
        return outcome


class PositionsFirst(QueryRunner[Any]):
    """At least once, commits positions before their outputs and changes."""

    def _transact(self, prepared: Prepared[Any]) -> Outcome:
        flushed = prepared.records
        positions = prepared.positions
        if self.spec.guarantee is Guarantee.EXACTLY_ONCE:
            return super()._transact(prepared)
        outcome = self.collector.writer.transact(self.spec.group, (), positions)
        self.collector.writer.append((*self.collector.pending, *flushed))
        return outcome

    def _deliver(
        self, runner: SubTopologyRunner[Any], result: RunResult[Any], *, soon: bool
    ) -> None:
        if self.spec.guarantee is Guarantee.AT_LEAST_ONCE:
            self.collector.pending.extend(result.outputs)
            return
        super()._deliver(runner, result, soon=soon)


class KeptOutputs(QueryRunner[Any]):
    """Starts over without dropping the outputs that were waiting for the commit."""

    def discard(self) -> None:
        kept = list(self.collector.pending)
        super().discard()
        self.collector.pending.extend(kept)


class RepeatedOutputs(QueryRunner[Any]):
    """Keeps committed outputs for the next commit as well, now and then."""

    def _committed(self, now: int) -> bool:
        kept = self.collector.pending[:1] if self.metrics.commits % 8 == 7 else []
        super()._committed(now)
        self.collector.pending.extend(kept)
        return True


class MemoryAfterDoubt(QueryRunner[Any]):
    """After a commit in doubt, continues with the state in memory from the committed positions."""

    def _retry(self, now: int, error: Exception) -> None:
        if not any(runner.tasks for runner in self.runners):
            super()._retry(now, error)
            return
        self.collector.pending.clear()
        self.dirty = False
        self.collector.open()
        self.committed = self.log.positions(self.spec.group)
        for runner in self.runners:
            runner.buffer.clear()
            for topic_partition in runner.positions:
                runner.positions[topic_partition] = self.committed.get(topic_partition, 0)


class BlindRecovery(QueryRunner[Any]):
    """After a commit in doubt, believes that it did not happen."""

    def _open(self, now: int) -> None:
        before = dict(self.committed)
        super()._open(now)
        for runner in self.runners:
            for topic_partition in runner.positions:
                runner.positions[topic_partition] = before.get(
                    topic_partition, runner.positions[topic_partition]
                )


class ShortRestore(QueryRunner[Any]):
    """Assumes that the changelog ends before its last records."""

    def _open(self, now: int) -> None:
        super()._open(now)
        for runner in self.runners:
            for task in runner.tasks.values():
                task.target = max(task.restored, task.target - 3)
                task.arrive()


class CutRestore(QueryRunner[Any]):
    """Runs tasks that are past where their changelog ended, if only by a part of a transaction."""

    def _restore(self) -> bool:
        tasks = [task for runner in self.runners for task in runner.tasks.values()]
        targets = [task.target for task in tasks]
        worked = super()._restore()
        for task, target in zip(tasks, targets, strict=True):
            task.target = target
            task.arrive()
        self._settle_state()
        return worked


class HastyRun(QueryRunner[Any]):
    """Runs tasks whose changelog is not replayed yet."""

    def _restore(self) -> None:
        for runner in self.runners:
            for task in runner.tasks.values():
                task.restored = task.target
                task.arrive()
        super()._restore()


class SettledEarly(QueryRunner[Any]):
    """Lets go of tasks before their work is committed."""

    def _follow(self, now: int) -> bool:
        change = self.holding.change()
        if change is not None:
            self.holding.settle(change)
            if self.dirty and not change.dropping and self.state not in STOPPED:
                self._commit(now)
            self.discard()
            if self.state not in STOPPED:
                self.state = QueryState.OPENING
        return change is not None


class LostCommitted(QueryRunner[Any]):
    """Commits lost tasks with the credential of a later assignment."""

    def _follow(self, now: int) -> bool:
        change = self.holding.change()
        if change is not None and change.dropping:
            self.holding._assignment = change.assignment
            self.collector._writer = self.holding.writer()
            if self.dirty and self.state not in STOPPED:
                self._commit(now)
        return super()._follow(now)


class UndoneRun(QueryRunner[Any]):
    """Forgets to commit the positions of inputs that gave no output."""

    def _transact(self, prepared: Prepared[Any]) -> Outcome:
        positions = prepared.positions
        if not self.collector.pending:
            positions = {
                topic_partition: self.committed.get(topic_partition, 0)
                for topic_partition in positions
            }
        return super()._transact(replace(prepared, positions=positions))


class EarlyTruncation(QueryRunner[Any]):
    """Truncates the changelog before the snapshot is committed."""

    def _transact(self, prepared: Prepared[Any]) -> Outcome:
        for runner in self.runners:
            for partition in runner.spec.executor.snapshots().complete:
                start = runner.snapshot_starts[partition]
                self.log.truncate(str(runner.spec.changelog), partition, start)
        return super()._transact(prepared)


class LateSnapshotStart(QueryRunner[Any]):
    """Assumes that a snapshot begins at its last piece."""

    def _transact(self, prepared: Prepared[Any]) -> Outcome:
        for runner in self.runners:
            for partition in runner.spec.executor.snapshots().complete:
                end = self.log.end_offset(str(runner.spec.changelog), partition)
                runner.snapshot_starts[partition] = end
        return super()._transact(prepared)


class NotAwaited(QueryRunner[Any]):
    """Commits positions while outputs are written beside it."""

    def _flush(self) -> Any:
        self.collector._under_way = None
        return super()._flush()


class DeafCollector(RecordCollector[Any]):
    def _arrived(self) -> None:
        with suppress(UnavailableError):
            super()._arrived()


class Deaf(QueryRunner[Any]):
    """Ignores that outputs could not be written beside it."""

    def _open(self, now: int) -> None:
        self.collector.__class__ = DeafCollector
        super()._open(now)


class OutOfTurnCollector(RecordCollector[Any]):
    def _append_beside(self, outputs: Sequence[Appended[Any]]) -> None:
        before, self._under_way = self._under_way, None
        super()._append_beside(outputs)
        if before is not None:
            before.wait()


class OutOfTurn(QueryRunner[Any]):
    """Writes outputs before those of an earlier run, which are written beside it."""

    def _open(self, now: int) -> None:
        self.collector.__class__ = OutOfTurnCollector
        super()._open(now)


class PassingChannels(Channels[Any]):
    def older_first(self, *_reads: Any) -> None:
        return


class FullChannels(Channels[Any]):
    def drained(self, *_places: Any) -> bool:
        return True


class YoungerRows(QueryRunner[Any]):
    """Reads separate channels before the joint one, whose rows were sent earlier."""

    def _open(self, now: int) -> None:
        for runner in self.runners:
            runner.channels.__class__ = PassingChannels
        super()._open(now)


class HastyGathering(QueryRunner[Any]):
    """Sends together while something is left that tasks have sent apart."""

    def _open(self, now: int) -> None:
        for runner in self.runners:
            runner.channels.__class__ = FullChannels
        super()._open(now)


class ForgottenDrops(SenderBuffer[Any]):
    """Does not read again what it has dropped."""

    def _drop(self, senders: Collection[int], offset: int) -> None:
        return


class ForgettingBuffers(QueryRunner[Any]):
    """Drops held-back records for good."""

    def _open(self, now: int) -> None:
        super()._open(now)
        for runner in self.runners:
            runner.sender_buffers = {
                at: ForgottenDrops(buffer.labels, buffer.senders)
                for at, buffer in runner.sender_buffers.items()
            }


class FarPositions(QueryRunner[Any]):
    """Commits the position of the sender whose rows are consumed the furthest."""

    def positions(self) -> dict[TopicPartition, int]:
        furthest = {
            at: max(buffer._ahead.values(), default=0)
            for runner in self.runners
            for at, buffer in runner.sender_buffers.items()
        }
        return {at: max(p, furthest.get(at, 0)) for at, p in super().positions().items()}


class CommonMark(PureExecutor):
    """Skips the rows of each sender up to where those of another one are consumed."""

    def _marks(self, partition: int) -> tuple[dict[int | None, tuple[int, int]], int]:
        marks, top = super()._marks(partition)
        return dict.fromkeys(marks, max(marks.values(), default=(0, 0))), top


# ---- their names --------------------------------------------------------------------------------


class WithWriter(Mutant):
    def __init__(self, kind: type[Through]) -> None:
        self.kind = kind

    def log(self, world: World, log: Log[Any]) -> Any:
        return OtherWriters(log, world, self.kind)


class WithLog(Mutant):
    def __init__(self, kind: type[Through]) -> None:
        self.kind = kind

    def log(self, world: World, log: Log[Any]) -> Any:
        return self.kind(log, world)


class WithExecutor(Mutant):
    def __init__(self, kind: type[Through]) -> None:
        self.kind = kind

    def executor(self, world: World, executor: PureExecutor) -> Any:
        return self.kind(executor, world)


class WithExecution(Mutant):
    def __init__(self, kind: type[QueryRunner[Any]]) -> None:
        self.kind = kind

    def execution(self) -> type[QueryRunner[Any]]:
        return self.kind


class WithCommonMark(Mutant):
    def executor(self, world: World, executor: PureExecutor) -> Any:
        executor.__class__ = CommonMark
        return executor


class TablesAsStreams(Mutant):
    """At least once, writes the rows of tables outside of transactions, where a process that has
    lost its tasks can overwrite what their owner wrote."""

    def streams(self, shape: Shape) -> frozenset[str]:
        return frozenset(job.target for job in shape.jobs)


MUTANTS: dict[str, Mutant] = {
    "rows of tables appended like rows of streams": TablesAsStreams(),
    "no fencing": WithWriter(UnfencedWriter),
    "positions outside of the transaction": WithWriter(SplitWriter),
    "retry from memory after an unknown outcome": WithWriter(InsistentWriter),
    "unknown taken for committed": WithWriter(CertainWriter),
    "restore stops short of the end": WithExecution(ShortRestore),
    "unconsumed repartition records truncated": WithLog(EagerTruncation),
    "stale positions on reopening": WithLog(ForgetfulLog),
    "positions read before the writer is opened": WithLog(EarlyPositions),
    "position and rows not atomic": WithExecutor(TornExecutor),
    "state kept across reopening": WithExecutor(ElephantExecutor),
    "changelog not flushed": WithExecutor(SilentExecutor),
    "coalesced output not flushed": WithExecutor(HoardingExecutor),
    "leftovers skipped": WithExecutor(GreedyExecutor),
    "restore skips records": WithExecutor(RashExecutor),
    "snapshot complete with its first piece": WithExecutor(HalfSnapshot),
    "changelog truncated before the snapshot is committed": WithExecution(EarlyTruncation),
    "changelog truncated within the snapshot": WithExecution(LateSnapshotStart),
    "local state before the log": WithExecution(LocalFirst),
    "changelog position asked after the commit": WithExecution(AskedPosition),
    "positions before outputs": WithExecution(PositionsFirst),
    "outputs kept over a discard": WithExecution(KeptOutputs),
    "committed outputs repeated": WithExecution(RepeatedOutputs),
    "memory kept after a doubtful commit": WithExecution(MemoryAfterDoubt),
    "doubtful commit taken for undone": WithExecution(BlindRecovery),
    "running before the replay ends": WithExecution(HastyRun),
    "restored into a transaction": WithExecution(CutRestore),
    "positions not committed without output": WithExecution(UndoneRun),
    "tasks let go of before their commit": WithExecution(SettledEarly),
    "outputs written beside a commit": WithExecution(NotAwaited),
    "outputs written beside and lost": WithExecution(Deaf),
    "outputs written beside out of turn": WithExecution(OutOfTurn),
    "lost tasks committed": WithExecution(LostCommitted),
    "what was sent together passed": WithExecution(YoungerRows),
    "sent together before all is read": WithExecution(HastyGathering),
    "a kept record dropped and not read again": WithExecution(ForgettingBuffers),
    "position committed beyond a held record": WithExecution(FarPositions),
    "a record skipped by another sender's mark": WithCommonMark(),
}
"""By name, the fault of each."""
