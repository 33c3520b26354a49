"""Runs one query: open, replay, run, commit, and recovery when any of these fails.

The steps of a commit, in an order that must not change:

1. flush every executor: coalesced outputs, then changelogs;
2. one log transaction: records and consumed positions (at least once: records first, then
positions);
3. the executors' own commits, with the changelog position their state now corresponds to;
4. consumed records of repartition topics are deleted, and changelogs behind complete snapshots.

State may lag its changelog, never lead it. When an outcome is unknown, memory is discarded: a new
writer resolves what the old one left open, and the tasks are opened again from what is committed. A
fenced query stops for good; if it took the identity back, two owners would fence each other for
ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Generic

from millstream.log.identity import cause, check_seen, check_topics
from millstream.log.log import (
    Batch,
    DirectReader,
    Log,
    Outcome,
    Participant,
    Reader,
    Result,
    TopicPartition,
)
from millstream.model.errors import CorruptionError, FencedError, UnavailableError
from millstream.model.problem import Problem
from millstream.runtime.assigned_tasks import AssignedTasks
from millstream.runtime.idle_closing import IdleClosing
from millstream.runtime.lost_records import poll
from millstream.runtime.ports import Background, Restorer, RunResult
from millstream.runtime.record_collector import Prepared, RecordCollector
from millstream.runtime.retry_state import RetryState
from millstream.runtime.spec import Metrics, ProblemSink, QuerySpec, QueryState, RuntimeSettings
from millstream.runtime.subtopology_runner import SubTopologyRunner
from millstream.runtime.subtopology_runners import SubTopologyRunners

STOPPED = frozenset({QueryState.PAUSED, QueryState.ERROR, QueryState.FENCED})
DOUBTS = 6
"""How many times a member that finds its input or state damaged checks again before it stops."""


class QueryRunner(Generic[Batch]):
    """The tasks of one query and the state they share; stepped by `Runtime`."""

    def __init__(
        self,
        spec: QuerySpec[Batch],
        log: Log[Batch],
        settings: RuntimeSettings,
        report: ProblemSink,
        restorer: Restorer,
        background: Background,
    ) -> None:
        self.spec = spec
        self.log = log
        self.reader: Reader[Batch] = DirectReader(log)
        self.settings = settings
        self.report = report
        self.runners = SubTopologyRunners(spec)
        self.closing = IdleClosing(spec, self.runners)
        self.state = QueryState.OPENING
        self.metrics = Metrics()
        self.activity = 0
        """The number of pieces of work: while it stays the same, so do the metrics."""
        self.pause_wanted = False
        self.retry_state = RetryState()
        self.holding = AssignedTasks(spec, log, restorer)
        hand_over = self.runners.hand_over
        self.collector = RecordCollector(spec, self.holding.writer, background, hand_over)
        self.committed: dict[TopicPartition, int] = {}
        self.topics = {topic.name: topic for topic in spec.topics}
        self.subscription = spec.subscription
        self.dirty = self.drained = False
        """`drained`: what was handed over is processed, as far as possible."""
        self.prepared: tuple[Prepared[Batch], Participant[Batch]] | None = None
        """What it contributes to the commit round that is under way."""
        self.dirty_since = self.last_commit = self.commit_began = self.next_gathering = 0

    # ---- one slice of work -------------------------------------------------------------------

    def advance(self, now: int, *, commits: bool = True) -> bool:
        """Do one bounded piece of work; returns whether there was any. Without `commits` a commit
        that is `due` is none: it is left to a commit round."""
        if self.state is QueryState.FENCED:
            return False
        if self.state in STOPPED or (now < self.retry_state.retry_at and not self.pause_wanted):
            return self.holding.joined and self._guarded(now, self._follow)
        return self._guarded(now, partial(self._advance, commits=commits))

    def commit_now(self, now: int) -> None:
        """Commit pending work without waiting for the interval."""
        if self.dirty and self.state not in STOPPED:
            self._guarded(now, self._commit)

    def _guarded(self, now: int, action: Callable[[int], bool]) -> bool:
        """Run `action`; any error becomes a state of this query and of no other."""
        runs = self.metrics.runs
        worked = self._attempted(now, action)
        # Afterwards: another thread that reads this number finds all that the work has counted.
        self.activity += worked or self.metrics.runs != runs
        return worked

    def _attempted(self, now: int, action: Callable[[int], bool]) -> bool:
        try:
            return action(now)
        except FencedError as error:
            self._stop(QueryState.FENCED, error)
        except UnavailableError as error:
            self._retry(now, error)
        except CorruptionError as error:
            # An instance that lost a task without noticing may find that the new owner has
            # advanced.
            if self.holding.shared and self.retry_state.failures < DOUBTS:
                self._retry(now, error)
            else:
                self.fail(cause(self.log, self.spec.topics, error, self.spec.after_growth))
        except Exception as error:
            self.fail(cause(self.log, self.spec.topics, error, self.spec.after_growth))
        return True

    def _follow(self, now: int) -> bool:
        """Adopt the current assignment; returns whether it changed. Other instances may be waiting
        for their tasks, so even a stopped query releases what it must not keep."""
        change = self.holding.change()
        if change is None:
            self.holding.keep_positions(self.committed, now)
            return False
        if self.dirty and not change.dropping and self.state not in STOPPED:
            self._commit(now)
        self.discard()
        self.holding.settle(change)
        if self.state not in STOPPED:
            self.state = QueryState.OPENING
        return True

    def _advance(self, now: int, *, commits: bool = True) -> bool:
        worked = self._attended(now)
        if worked is not None:
            return worked
        if not self._due(now):
            return self._process(now)
        if self.runners.hand_over.bytes and not self.drained:
            # As pieces of work of their own: a commit round must not wait for them.
            self.drained = not self._drain(now)
            return True
        return (commits or not self.pending) and self._commit(now)

    def _due(self, now: int) -> bool:
        return self.dirty and now >= self.commit_due()

    def _near(self, now: int) -> bool:
        """Whether the commit is due within a quarter of its interval: outputs then wait for it."""
        due = self.commit_due()
        return self.dirty and now >= due - (due - self.last_commit) // 4

    @property
    def pending(self) -> bool:
        """Whether it has something to commit in a commit round: not if it may hold up others."""
        if self.state is not QueryState.RUNNING or self.spec.transient or self.pause_wanted:
            return False
        return self.dirty and not self.collector.large and not self.retry_state.failures

    def due(self, now: int) -> bool:
        """Whether a commit round has to commit it now."""
        return self.pending and self._due(now) and now >= self.retry_state.retry_at

    def _attended(self, now: int) -> bool | None:
        """Do what comes before processing; returns whether that was any work, or None if there is
        nothing of the kind."""
        if self._follow(now) and now < self.retry_state.retry_at:
            return True
        if self.pause_wanted:
            self._pause(now)
            return True
        if self.state is QueryState.OPENING:
            self._open(now)
            return True
        check_seen(self.log, self.topics, self.spec.after_growth)
        if self.state is QueryState.RESTORING:
            return self._restore()
        return None

    def _open(self, now: int) -> None:
        """Resolve and fence first, then read the committed positions: in the other order, a
        position could still move after it was read. Without tasks, as each query on a shared log
        begins, it requests nothing."""
        owned = self.holding.open
        if owned and (not self.spec.transient or self.spec.repartitions):
            self.collector.open()
        check_topics(self.log, self.spec.topics if owned else (), self.spec.after_growth)
        self.reader = self.runners.hand_over.over(self.log.reader())
        inputs = () if self.spec.transient else self.runners.inputs_of(owned)
        self.committed = dict(self.log.positions(self.spec.group, inputs)) if inputs else {}
        self.metrics.opened += bool(owned)
        self.runners.open(self.log, self.committed, self.spec.start, owned)
        # The first commit stores a start position that was passed in, even without records.
        missing = self.spec.start.keys() - self.committed.keys()
        self.dirty = not missing.isdisjoint(self.positions())
        self.dirty_since = self.last_commit = now
        self.state = QueryState.RESTORING
        self._settle_state()

    def _restore(self) -> bool:
        """Replay one read; returns whether it had any records."""
        count = self.runners.restore(self.log, self.settings.restore_records)
        if count is None:
            return False
        self.metrics.restored += count
        self._settle_state()
        return True

    def _settle_state(self) -> None:
        if self.runners.running:
            self.runners.restored()
            self.state = QueryState.RUNNING
            self.retry_state.over()

    def _process(self, now: int) -> bool:
        """Run each sub-topology over its available input, upstream first: a downstream one then
        reads what was just sent, ordered by time with its other input. While there is more input
        than an upstream one can take at once, it waits for more rows to be handed over."""
        progress = behind = self.drained = False
        self.runners.remote_upstreams.look(self.holding.lag, now, self.settings.lag_interval_ms)
        for runner in self.runners:
            if progress and behind and self.runners.gathers(runner, self.settings):
                continue
            if not self._poll(runner, now):
                return progress
            progress |= self._step(runner, now)
            behind |= bool(runner.fetch_quota.behind)
        return progress or (not self.dirty and self._rest(now))

    def _step(self, runner: SubTopologyRunner[Batch], now: int) -> bool:
        runner.wait_for_inputs(now)
        ready = runner.punctuation.begin(now) or runner.buffered > 0
        return (ready and not runner.awaiting and self._run(runner, now)) or runner.searching

    def _drain(self, now: int) -> bool:
        """Process what was handed over, which a commit would write; returns whether it could."""
        progress = False
        for runner in self.runners:
            if self.runners.handed_to(runner) and self._poll(runner, now):
                progress |= self._step(runner, now)
        return progress

    def _rest(self, now: int) -> bool:
        """The query is idle; returns whether there was work even so."""
        for runner in self.closing.due(now, self.last_commit):
            if self._run(runner, now, closing=True):
                return True
        if self.runners.remote_upstreams.passed(self.positions(), self.committed):
            self.dirty, self.dirty_since = True, now
        elif self.runners.scattered and now >= self.next_gathering:
            self.next_gathering = now + self.settings.lag_interval_ms
            with suppress(UnavailableError):
                self.runners.gather(self.log)
        return False

    def _poll(self, runner: SubTopologyRunner[Batch], now: int) -> bool:
        """Whether the log was readable."""
        room = self.settings.max_buffered_bytes - self.runners.buffered_bytes
        try:
            if room > 0:
                self._report(poll(runner, self.spec, self.reader, self.settings, room, self.log))
        except UnavailableError as error:
            if not self.spec.retried:
                raise
            # Only reading was tried, so the state in memory stays valid.
            self.retry_state.wait(now, error, self.settings)
            return False
        self.retry_state.over()
        return True

    def _run(self, runner: SubTopologyRunner[Batch], now: int, *, closing: bool = False) -> bool:
        result, moved = runner.run(closing=closing)
        self.metrics.runs += 1
        self.metrics.records_in = self.runners.records_in
        self.metrics.last_run = now if moved else self.metrics.last_run
        if not self.dirty:
            self.dirty = moved > 0 or result.productive
            self.dirty_since = now
        self._deliver(runner, result, soon=self.log.commits_together and self._near(now))
        runner.watermark.ran(result, held=self.collector.holds_moved)
        return moved > 0 or result.closed

    def _deliver(
        self, runner: SubTopologyRunner[Batch], result: RunResult[Batch], *, soon: bool
    ) -> None:
        outputs = result.outputs
        if result.problems:
            self._report(result.problems)
            outputs += tuple(self.spec.dead_letters(result.problems))
        self.metrics.records_out += sum(output.count for output in result.outputs)
        self.collector.deliver(outputs, result.kept, soon=soon, commits=result.commits)
        if self.spec.transient:
            self._forget_consumed()

    # ---- commit ------------------------------------------------------------------------------

    def commit_due(self) -> int:
        """The time of the next commit; 0: at once."""
        own = self.spec.commit_interval_ms
        interval = self.settings.commit_interval_ms if own is None else own
        return 0 if self.collector.full(self.settings) else self.last_commit + interval

    def _commit(self, now: int) -> bool:
        """Commit everything done so far; if the outcome is in doubt, start over."""
        if self.spec.transient:
            return self._commit_transient(now)
        prepared = self._flush()
        return self._conclude(now, prepared, self._transact(prepared))

    def _commit_transient(self, now: int) -> bool:
        self.commit_began = self.settings.stopwatch()
        if self.collector.full(self.settings):
            self.runners.spill(self.log, self.collector.writer)
        flushed = self.runners.flush()
        self.collector.hand_out(output for outputs in flushed for output in outputs)
        self.metrics.records_out += self.runners.settle_transient(flushed)
        return self._committed(now)

    def _flush(self) -> Prepared[Batch]:
        self.commit_began = self.settings.stopwatch()
        self.collector.pending.extend(self.runners.leave())
        flushed = self.runners.flush()
        self.runners.begin_snapshots(self.log)
        # Until this commit has succeeded: they may move, and its outcome may stay unknown.
        self.committed = {}
        return Prepared(flushed, self.positions())

    def _conclude(self, now: int, prepared: Prepared[Batch], outcome: Result) -> bool:
        """The log has committed, or it has not."""
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is not Outcome.COMMITTED:
            self._retry(now, UnavailableError("The outcome of a commit is not known", code="E-TXN"))
            return True
        self.committed = prepared.positions
        self.metrics.records_out += self.runners.settle(prepared.flushed)
        self.runners.resume(self.log)
        self._forget_consumed()
        return self._committed(now)

    def prepare(self, now: int) -> Participant[Batch] | None:
        """Flush everything done so far for a commit round, which has to call `conclude`; None if
        nothing is pending or if that failed."""
        if self.pending:
            self._guarded(now, self._prepare)
        return None if self.prepared is None else self.prepared[1]

    def _prepare(self, _now: int) -> bool:
        prepared = self._flush()
        participant = self.collector.participant(prepared.records, prepared.positions)
        self.prepared = prepared, participant
        return True

    def conclude(self, now: int, result: Result) -> None:
        """End a commit round: with its outcome, or with the error of this query's transaction."""
        assert self.prepared is not None
        (prepared, _), self.prepared = self.prepared, None
        self._guarded(now, lambda now: self._conclude(now, prepared, result))

    def _transact(self, prepared: Prepared[Batch]) -> Outcome:
        return self.collector.transact(prepared.records, prepared.positions)

    def _committed(self, now: int) -> bool:
        self.collector.settled()
        self.dirty = False
        self.last_commit = now
        self.retry_state.failures = 0
        took = self.settings.stopwatch() - self.commit_began
        self.metrics.committed(took, max(0, now - self.dirty_since))
        return True

    def positions(self) -> dict[TopicPartition, int]:
        """How far each input partition is processed."""
        return self.runners.positions()

    def _forget_consumed(self) -> None:
        """Deletion can happen at any later time, so a busy log is no error."""
        with suppress(UnavailableError):
            self.runners.forget(self.log)

    def _report(self, problems: Sequence[Problem]) -> None:
        if problems:
            self.metrics.problems += len(problems)
            self.report(self.spec.query_id, problems)

    # ---- pausing, failing, closing -----------------------------------------------------------

    def _pause(self, now: int) -> None:
        if self.dirty:
            self._commit(now)
        for task in self.runners.tasks():
            task.suspend()
        self.state = QueryState.PAUSED

    def resume(self) -> None:
        """Go on after a pause, or try again after an error."""
        self.pause_wanted = False
        self.retry_state.retry_now()
        if self.state not in (QueryState.PAUSED, QueryState.ERROR):
            return
        tasks = self.runners.tasks()
        for task in tasks:
            task.resume()
        self.state = QueryState.RESTORING if tasks else QueryState.OPENING
        if tasks:
            self._settle_state()

    def _retry(self, now: int, error: Exception) -> None:
        if not self.spec.retried or (self.spec.transient and self.metrics.runs):
            # Its client already has the results so far; starting over would repeat them.
            self._stop(QueryState.ERROR, error)
            return
        try:
            self.discard()
        except Exception as second:
            self.state = QueryState.ERROR
            self.retry_state.explain(second)
            self._tell(second)
            return
        self.metrics.reopened += 1
        self.state = QueryState.OPENING
        self.retry_state.wait(now, error, self.settings)

    def _stop(self, state: QueryState, error: Exception) -> None:
        self.state = state
        self.retry_state.explain(error)
        try:
            self.discard()
        except Exception as second:
            self.retry_state.also(second)
        if state is QueryState.FENCED:
            self.holding.close()
        self._tell(error)

    def fail(self, error: Exception) -> None:
        """Stop it for an error that a retry cannot fix."""
        self._stop(QueryState.ERROR, error)

    def _tell(self, error: Exception) -> None:
        if self.spec.on_error is not None:
            self.spec.on_error(error)

    def discard(self) -> None:
        """Discard everything that is not committed and close the writer."""
        self.dirty = False
        self.prepared = None
        self.runners.close_tasks()
        self.reader.close()
        self.collector.discard()
        self.runners.discard()

    def close(self, now: int, *, commit: bool) -> None:
        """Stop for good, committing first if asked to and possible; idempotent."""
        if commit and self.dirty and self.state not in STOPPED:
            try:
                self._commit(now)
            except Exception as error:
                self.retry_state.explain(error)
        try:
            self.discard()
        finally:
            self.runners.close()
            self.holding.close()
