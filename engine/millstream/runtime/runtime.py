"""The runtime: a state machine over queries, driven by `step(now)` or query by query.

It has no thread, clock, randomness or I/O of its own. Tests put a seeded scheduler around it and
call `step`. Production puts threads around it that call `candidates` and `advance` one query each.
Two methods that name the same query must not run at once, and no other method may run while one of
these does, except the read-only ones (`candidates`, `inputs`, `status`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Generic

from millstream.log.log import Batch, Log, Participant, TopicPartition
from millstream.model.errors import ConflictError, FencedError, StatementError
from millstream.model.problem import Problem
from millstream.runtime.alignment import (
    Lineage,
    QueryTopics,
    Reached,
    feeding,
    inputs_and_outputs,
    lineage,
    reached_by,
    topics_of,
)
from millstream.runtime.ports import Background, Executor, NoBackground, NoRestorer, Restorer
from millstream.runtime.query_runner import STOPPED, QueryRunner
from millstream.runtime.scheduling import (
    FIRST_BATCH,
    RUN_MS,
    USERS_RUN_MS,
    Candidate,
    next_batch,
    rest_ms,
)
from millstream.runtime.spec import (
    CommitRounds,
    ExecutorSpec,
    Guarantee,
    Metrics,
    ProblemSink,
    QuerySpec,
    QueryState,
    QueryStatus,
    RuntimeSettings,
    Step,
    Subscription,
    TaskStatus,
)
from millstream.runtime.status import status_of, tasks_of
from millstream.runtime.waking import awaiting, backlog, wake_at

__all__ = [
    "ExecutorSpec",
    "Guarantee",
    "Metrics",
    "QuerySpec",
    "QueryState",
    "QueryStatus",
    "Runtime",
    "RuntimeSettings",
    "Step",
]


def _ignore(_query_id: str, _problems: Sequence[Problem]) -> None:
    return None


class Runtime(Generic[Batch]):
    """Runs queries over a log; a query that fails never stops another one."""

    def __init__(
        self,
        log: Log[Batch],
        settings: RuntimeSettings | None = None,
        problems: ProblemSink = _ignore,
        restorer: Restorer | None = None,
    ) -> None:
        """`problems` receives the rows that could not be used, with the query they belong to.
        `restorer` brings state up to date; by default each query does so by itself."""
        self._log = log
        self._settings = settings or RuntimeSettings()
        self._problems = problems
        self._restorer = restorer or NoRestorer()
        self._queries: dict[str, QueryRunner[Batch]] = {}
        self._next = 0
        self._changes = count(1)
        self._query_topics: tuple[int, Mapping[str, QueryTopics]] = 0, {}
        self.background: Background = NoBackground()
        """Where queries that are added from now on write outputs while they go on."""
        self.rounds = CommitRounds()
        self.changes = 0
        """Another number whenever the set of queries has changed."""

    def add_query(self, spec: QuerySpec[Batch]) -> None:
        """Add a query; its tasks are opened in the next steps. Takes ownership of the executors.
        Raises ConflictError if the id is taken and StatementError if two of its sub-topologies read
        one topic (they would share one position)."""
        if spec.query_id in self._queries:
            raise ConflictError(f"Query {spec.query_id} is running already")
        topics = [topic for executor in spec.executors for topic in executor.inputs]
        twice = sorted({topic for topic in topics if topics.count(topic) > 1})
        if twice:
            raise StatementError(
                f"Query {spec.query_id} reads topic {twice[0]} in two places",
                hint="Copy the topic into a second stream and read that one in one of them.",
            )
        settings = self._settings
        if spec.users_functions:
            first = min(max(FIRST_BATCH, spec.min_batch_records), settings.max_batch_records)
            settings = replace(settings, max_batch_records=first)
        self._queries[spec.query_id] = QueryRunner(
            spec, self._log, settings, self._problems, self._restorer, self.background
        )
        self.changes = next(self._changes)

    def remove_query(self, query_id: str, now: int = 0, *, commit: bool = True) -> None:
        """Stop a query and close its executors, by default with a last commit (best effort). Its
        positions and topics stay: the caller drops them. No error when absent."""
        execution = self._queries.pop(query_id, None)
        if execution is not None:
            self.changes = next(self._changes)
            execution.close(now, commit=commit)

    def pause(self, query_id: str) -> None:
        """Commit and stop processing in the next step; the state stays open."""
        execution = self._execution(query_id)
        execution.pause_wanted = True

    def resume(self, query_id: str) -> None:
        """Continue after `pause`, or retry after an error. Raises FencedError for a query whose
        identity belongs to a newer owner."""
        execution = self._execution(query_id)
        if execution.state is QueryState.FENCED:
            raise FencedError(
                f"Query {query_id} is run by a newer instance",
                hint="Stop this instance, or remove the query from it.",
            )
        execution.resume()

    def inputs(self) -> tuple[TopicPartition, ...]:
        """The partitions that the queries read."""
        executions = tuple(self._queries.values())
        return tuple(
            topic_partition for query in executions for topic_partition in query.positions()
        )

    def status(
        self, ends: Mapping[TopicPartition, int], query_ids: Collection[str] | None = None
    ) -> tuple[QueryStatus, ...]:
        """All queries in the order in which they were added, or these. `ends`: of their inputs, as
        far as they are known."""
        executions = tuple(self._queries.values()) if query_ids is None else self._among(query_ids)
        return tuple(status_of(execution, ends) for execution in executions)

    def _among(self, query_ids: Collection[str]) -> tuple[QueryRunner[Batch], ...]:
        found = (self._queries.get(query_id) for query_id in query_ids)
        return tuple(execution for execution in found if execution is not None)

    def activity(self) -> dict[str, int]:
        """A number for each query that changes with its status."""
        queries = tuple(self._queries.items())
        return {query_id: query.activity for query_id, query in queries}

    def states(self) -> dict[str, QueryState]:
        """What each query is doing."""
        queries = tuple(self._queries.values())
        return {query.spec.query_id: query.state for query in queries}

    def state(self, query_id: str) -> QueryState | None:
        """What a query is doing; None if it does not run here."""
        execution = self._queries.get(query_id)
        return None if execution is None else execution.state

    def tasks(self, query_id: str) -> tuple[TaskStatus, ...]:
        """The open tasks of a query; none where it does not run here."""
        execution = self._queries.get(query_id)
        return () if execution is None else tasks_of(execution)

    def executors(self, query_id: str) -> tuple[Executor[Batch], ...]:
        """The sub-topology runners of a query, in their order; none where it does not run here."""
        execution = self._queries.get(query_id)
        return () if execution is None else tuple(k.executor for k in execution.spec.executors)

    def retrying(self) -> dict[str, str]:
        """The queries that retry by themselves, and their errors."""
        queries = tuple(self._queries.values())
        return {
            query.spec.query_id: query.retry_state.error
            for query in queries
            if query.retry_state.error and query.state not in STOPPED
        }

    def query_status(self, query_id: str) -> QueryStatus:
        """One query; raises StatementError if it does not run here."""
        execution = self._execution(query_id)
        return status_of(execution, self._log.end_offsets(execution.positions()))

    def step(self, now: int) -> Step:
        """Do one bounded piece of work (at most one run or one commit) for the next query that
        has any. `now` is in ms and never goes back."""
        executions = list(self._queries.values())
        for turn in range(len(executions)):
            index = (self._next + turn) % len(executions)
            if executions[index].advance(now):
                self._next = index + 1
                return Step(True, now)
        wakes = [wake for query in executions if (wake := wake_at(query, now)) is not None]
        waits = any(map(awaiting, executions))
        return Step(False, min(wakes, default=None), waits)

    # ---- query by query ----------------------------------------------------------------------

    def query_ids(self) -> tuple[str, ...]:
        """The queries in the order in which they were added."""
        return tuple(self._queries)

    def subscriptions(self) -> dict[str, Subscription]:
        """What each query has to be told of."""
        queries = tuple(self._queries.items())
        return {query_id: query.subscription for query_id, query in queries}

    def subscription(self, query_id: str) -> Subscription | None:
        """The same of one query; None where it does not run here."""
        query = self._queries.get(query_id)
        return None if query is None else query.subscription

    def candidates(self, waited: Mapping[str, int], now: int) -> tuple[Candidate, ...]:
        """The data for choosing among the idle queries. `waited`: for how many ms each has been
        waiting."""
        known = ((query_id, self._queries.get(query_id)) for query_id in waited)
        return tuple(
            Candidate(
                query_id,
                backlog(execution),
                execution.spec.priority,
                waited[query_id],
                execution.dirty and wake_at(execution, now) == now,
                execution.spec.users_functions,
            )
            for query_id, execution in known
            if execution is not None
        )

    def advance(self, query_id: str, now: int, *, commits: bool = True) -> Step:
        """As `step`, for one query; an absent query has nothing to do. Without `commits` it may be
        `due` instead of committing."""
        execution = self._queries.get(query_id)
        if execution is None:
            return Step(False, None)
        before, called = execution.metrics.records_in, execution.runners.called_s
        if execution.advance(now, commits=commits):
            records = execution.metrics.records_in - before
            called_ms = round(1000 * (execution.runners.called_s - called))
            return Step(True, now, records=records, called_ms=called_ms)
        due = not commits and execution.due(now)
        return Step(False, wake_at(execution, now), awaiting(execution), due=due)

    def pace(self, query_id: str, step: Step, took_ms: int, cpu_ms: int) -> int:
        """Adapt the size of a query's next runs to how long a step took, and how long it computed.
        Returns for how many ms the query should leave the time to others."""
        execution = self._queries.get(query_id)
        if execution is None:
            return 0
        spec = execution.spec
        size, full = execution.settings.max_batch_records, self._settings.max_batch_records
        least = min(full, spec.min_batch_records)
        wanted = next_batch(size, full, step.records, took_ms, RUN_MS, least)
        if spec.users_functions:
            # Not all that the run took: much of a short run is the same however short it is.
            called_ms = step.called_ms if spec.measures_calls else took_ms
            called = next_batch(size, full, step.records, called_ms, USERS_RUN_MS, least)
            wanted = min(wanted, called)
        if wanted != size:
            execution.settings = replace(execution.settings, max_batch_records=wanted)
        return rest_ms(took_ms, cpu_ms) if spec.users_functions else 0

    def commit_query(self, query_id: str, now: int, *, commits: bool = True) -> Step:
        """Commit pending work of one query, without waiting for its interval. Returns what the next
        step would have to wait for. Without `commits` it may be `due` instead."""
        execution = self._queries.get(query_id)
        if execution is None:
            return Step(False, None)
        if not commits and execution.pending:
            return Step(False, now, due=True)
        execution.commit_now(now)
        return Step(False, wake_at(execution, now), awaiting(execution))

    @property
    def commits_together(self) -> bool:
        """Whether a commit round costs less than a commit of each query."""
        return self._log.commits_together

    def commit_round(self, query_ids: Sequence[str], now: int) -> None:
        """Commit pending work of these queries in one transaction of the log, or in several where
        it is much. Each of them is flushed, and concluded, by itself: one that fails does not hold
        back the others."""
        began = self._settings.stopwatch()
        prepared = [(query, query.prepare(now)) for query in self._among(query_ids)]
        sent = [(query, participant) for query, participant in prepared if participant is not None]
        for together in _within(sent, self._settings.max_pending_bytes):
            results = self._log.transact_all([participant for _, participant in together])
            for (query, _), result in zip(together, results, strict=True):
                query.conclude(now, result)
        self.rounds = self.rounds.plus(len(sent), self._settings.stopwatch() - began)

    def end_at(self, query_id: str, bounds: Mapping[TopicPartition, int]) -> None:
        """Have a query treat these offsets as the ends of its partitions, even if more records
        exist; without any, the log's ends."""
        execution = self._queries.get(query_id)
        if execution is not None:
            execution.runners.end_at(bounds)

    def reached(self, query_id: str) -> Reached | None:
        """How far a query has read; None where it does not run here."""
        execution = self._queries.get(query_id)
        return None if execution is None else reached_by(execution)

    def lineage(self, query_ids: Collection[str]) -> Lineage:
        """The queries that feed the outputs of these, these included."""
        queries = tuple(query for query in self._queries.values() if not query.spec.transient)
        return lineage([topics_of(query) for query in queries], query_ids)

    def feeding(self, topics: Collection[str]) -> frozenset[str]:
        """The queries that write these topics, or keep them as tables, and all that feed them."""
        return feeding(list(self._topics().values()), topics)

    def _topics(self) -> Mapping[str, QueryTopics]:
        """What each query reads and writes; found once for each set of queries."""
        changes = self.changes
        if self._query_topics[0] != changes:
            queries = tuple(self._queries.items())
            self._query_topics = (
                changes,
                {query_id: inputs_and_outputs(query) for query_id, query in queries},
            )
        return self._query_topics[1]

    def awaited(self, topics: Collection[str]) -> frozenset[str]:
        """The queries whose results somebody waits for: those that feed these topics, and transient
        ones with all that feed them."""
        known = self._topics()
        queries = tuple(self._queries.items())
        transient = {id for id, query in queries if query.spec.transient} & known.keys()
        read = (known[query_id].inputs for query_id in transient)
        return self.feeding(frozenset(topics).union(*read)) | transient

    def fail(self, query_id: str, error: Exception) -> None:
        """Stop one query because of a fault in the surrounding program."""
        execution = self._queries.get(query_id)
        if execution is not None:
            execution.fail(error)

    def detach(self, query_id: str) -> Callable[[int, bool], None]:
        """Remove a query that is still running. The caller that sees it stop calls the result with
        the time and whether to commit."""
        execution = self._queries.pop(query_id)
        self.changes = next(self._changes)
        return lambda now, commit: execution.close(now, commit=commit)

    # ---- all queries -------------------------------------------------------------------------

    def commit(self, now: int) -> None:
        """Commit every query that has pending work, without waiting for its interval."""
        for execution in self._queries.values():
            execution.commit_now(now)

    def close(self, now: int = 0, *, commit: bool = True) -> None:
        """Stop all queries, by default after a last commit (best effort); idempotent."""
        for query_id in list(self._queries):
            self.remove_query(query_id, now, commit=commit)

    def _execution(self, query_id: str) -> QueryRunner[Batch]:
        try:
            return self._queries[query_id]
        except KeyError:
            raise StatementError(f"There is no query {query_id}") from None


_Sent = tuple[QueryRunner[Batch], Participant[Batch]]


def _within(sent: Sequence[_Sent[Batch]], limit: int) -> Iterator[Sequence[_Sent[Batch]]]:
    """The participants in order, cut so that none of the parts has more than `limit` bytes, unless
    a single participant has. A long transaction would keep all others from the log."""
    part: list[_Sent[Batch]] = []
    size = 0
    for query, participant in sent:
        own = sum(output.bytes for output in participant.appended)
        if part and size + own > limit:
            yield part
            part, size = [], 0
        part.append((query, participant))
        size += own
    if part:
        yield part
