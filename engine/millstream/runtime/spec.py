"""Inputs and outputs of the runtime: specifications, settings, states, figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic

from millstream.log.batches import Batches
from millstream.log.log import Appended, Batch, Topic, TopicPartition
from millstream.model.event_time import NEVER
from millstream.model.problem import Problem
from millstream.runtime.calls import NO_CALLS, Calls
from millstream.runtime.durations import Durations
from millstream.runtime.ports import Executor, Punctuator
from millstream.runtime.sender_buffer import Labels
from millstream.runtime.tasks import TaskId, TaskState


class Guarantee(Enum):
    """`processing.guarantee`. At least once, outputs are readable after every run and a crash may
    repeat them; exactly once, they become readable with the commit."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once_v2"


@dataclass(frozen=True, slots=True)
class ExecutorSpec(Generic[Batch]):
    """A sub-topology: its executor, the topics it reads (task p reads partition p of each), its
    changelog topic if it has state, and the topics it writes.

    `channels`: for topics with exchange channels, their number. Task p reads partition p of each
    channel; the channels lie one behind the other in the topic. The first channel holds what an
    instance has sent that held all tasks of the sending sub-topology; the others hold what each of
    these tasks has sent.

    `senders`: for topics whose records say which tasks have sent them, the number of these tasks;
    `labels` reads what the records say. A further channel of such a topic holds no such records.
    """

    executor: Executor[Batch]
    inputs: tuple[str, ...]
    partitions: int
    changelog: str | None = None
    outputs: tuple[str, ...] = ()
    channels: Mapping[str, int] = field(default_factory=dict)
    holds_results: bool = False
    """Whether results wait in its state until stream time has passed their windows."""
    senders: Mapping[str, int] = field(default_factory=dict)
    labels: Labels[Batch] | None = None
    punctuator: Punctuator | None = None
    """The executor, if it calls functions by the clock of the wall."""

    def topic_partitions(self, task: int) -> Iterator[TopicPartition]:
        """What a task reads."""
        return places_of(self.inputs, self.partitions, self.channels, task)

    def names_senders(self, topic_partition: TopicPartition) -> bool:
        """Whether the records of a partition say which tasks have sent them."""
        topic, partition = topic_partition
        return topic in self.senders and partition < self.partitions

    def places_in(self, topic: str, task: int) -> Iterator[TopicPartition]:
        """Its channels of one topic."""
        return places_of((topic,), self.partitions, self.channels, task)


def places_of(
    topics: Iterable[str], tasks: int, channels: Mapping[str, int], task: int
) -> Iterator[TopicPartition]:
    """What one of `tasks` tasks reads of some topics, one entry per channel."""
    for topic in topics:
        for channel in range(channels.get(topic, 1)):
            yield topic, channel * tasks + task


def _no_letters(_: Sequence[Problem]) -> Sequence[Appended[Batch]]:
    return ()


@dataclass(frozen=True, slots=True)
class QuerySpec(Generic[Batch]):
    """A query to run. `executors` holds one entry for each sub-topology, in their order.

    * `group`: the group whose positions are committed; the writer's identity is `query_id`.
    * `streams`: the topics on which it writes rows of streams. At least once, they are written
      outside of transactions: a row may be repeated, and come late. A late row of a table could
      overwrite a newer one.
    * `start`: where to read a partition that has no committed position; the default is the
      first retained record. A transient query always starts there.
    * `repartitions`: the query's own repartition topics. Records on them are deleted once the
      query has committed behind them.
    * `topics`: the topics that it reads and writes, as they were at its creation; it stops with an
      error when one of them has been replaced.
    * `transient`: nothing is committed, and outputs to all but repartition topics are passed to
      `on_outputs` at once (push queries).
    * `on_error`: called when the query stops with an error that it does not recover from by itself;
      like `on_outputs` it may not call the runtime.
    """

    query_id: str
    group: str
    executors: tuple[ExecutorSpec[Batch], ...]
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    repartitions: frozenset[str] = frozenset()
    streams: frozenset[str] = frozenset()
    start: Mapping[TopicPartition, int] = field(default_factory=dict)
    topics: tuple[Topic, ...] = ()
    transient: bool = False
    tasks: frozenset[int] | None = None
    """For a transient query, the tasks to run, if not all of them."""
    priority: int = 0
    """Among queries with equal work, one of a higher priority runs sooner."""
    users_functions: bool = False
    """Whether it calls functions in Python that may be slow: its runs are kept short then."""
    measures_calls: bool = False
    """Whether its runs tell how long those took: processors do, functions in expressions do not."""
    min_batch_records: int = 1
    """How many records a run may have however long it takes: those that wait at the same time take
    no longer than one."""
    retried: bool = True
    """Whether to retry recoverable errors; otherwise it stops with the first error."""
    commit_interval_ms: int | None = None
    """How often to commit; None: as the runtime's settings say."""
    skips_lost: bool = False
    """Whether it goes on behind records that were deleted before it has read them, instead of
    stopping."""
    max_task_idle_ms: int = 0
    """How long a task with records of one topic waits for those of another; see `TaskIdling`."""
    batches: Batches[Batch] | None = None
    """Where given, rows move between sub-topologies in memory if all tasks are here; see
    `HandOver`."""
    idle_window_close_ms: int = 0
    """How long it has to be idle for its windows to close without a record; 0: they never do."""
    dead_letters: Callable[[Sequence[Problem]], Sequence[Appended[Batch]]] = _no_letters
    """The records to write for those that could not be processed; may read the log."""
    on_outputs: Callable[[Sequence[Appended[Batch]]], None] | None = None
    on_error: Callable[[Exception], None] | None = None

    @property
    def subscription(self) -> Subscription:
        """The topics that it reads; those that it was made for, and its group."""
        read = frozenset(topic for executor in self.executors for topic in executor.inputs)
        made_for = frozenset(topic.name for topic in self.topics)
        named = made_for | {self.group}
        return Subscription(read, named, self.priority, self.users_functions)

    def after_growth(self, topic: str) -> str:
        """What to do when a topic has another number of partitions than the query was made for."""
        readers = [executor for executor in self.executors if topic in executor.inputs]
        if topic in self.repartitions or any(topic == one.changelog for one in self.executors):
            why = "It is an internal topic, of which each partition belongs to one task."
        elif any(executor.changelog for executor in readers):
            why = (
                "The state of a task is that of the keys of its partition, and keys have moved to "
                "other partitions."
            )
        elif readers:
            why = "The query has a task for each partition that there was, and none for the others."
        else:
            why = "The query writes each key to one partition, and keys have moved to others."
        return (
            f"{why} End it (TERMINATE {self.query_id}, or DROP of its sink, which keeps the topic)"
            " and create it again, with 'auto.offset.reset' = 'earliest' to read what is retained."
        )


def _still() -> int:
    return 0


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """Bounds of one step and the rhythm of commits. Times in ms, sizes in records or bytes."""

    commit_interval_ms: int = 100
    max_batch_records: int = 200_000
    """Records handed to one run, over all partitions; an idle partition may add a share."""
    max_partition_bytes: int = 16 << 20
    """Bytes to ask for in one read, by the record size of earlier reads."""
    max_buffered_bytes: int = 256 << 20
    """Buffered input of one query; reading stops above it."""
    max_held_bytes: int = 64 << 20
    """Moved rows that a sub-topology keeps in memory because rows of slower senders come first;
    what exceeds it is read again."""
    max_pending_bytes: int = 64 << 20
    """Output buffered for the commit (exactly once); more brings the commit forward."""
    max_pending_records: int = 1_000_000
    max_gathered_bytes: int = 16 << 20
    """Rows that wait in memory for more to be handed over, while more input is there and no commit
    is due."""
    restore_records: int = 100_000
    restore_bytes: int = 2 << 20
    """Bytes of a changelog to follow at a time; other work may have to wait this long."""
    restore_tolerance: int = 10
    """Changelog records that a task may lack when it is granted to its query runner."""
    lag_interval_ms: int = 1_000
    """How often to request the ends of the standbys' changelogs."""
    state_kept_ms: int = 600_000
    """How long to keep the state of a task that is neither processed nor followed here."""
    idle_poll_ms: int | None = None
    """How long to wait before looking at the log again when there was nothing to do; None: until it
    reports news."""
    await_poll_ms: int = 50
    """The same while something is awaited: fetched records, state, a measurement of lag. Looking
    again is what asks for it again if the answer was lost."""
    backoff_ms: int = 100
    max_backoff_ms: int = 10_000
    stopwatch: Callable[[], int] = _still
    """Monotone nanoseconds, only for measuring durations."""


class QueryState(Enum):
    """What a query is doing. ERROR and FENCED stay until the query is resumed or removed;
    a fenced query can only be removed."""

    OPENING = "OPENING"
    RESTORING = "RESTORING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    ERROR = "ERROR"
    FENCED = "FENCED"


@dataclass(slots=True)
class Metrics:
    """Counters of one query since it was added."""

    records_in: int = 0
    records_out: int = 0
    runs: int = 0
    commits: int = 0
    restored: int = 0
    """Changelog records replayed."""
    problems: int = 0
    reopened: int = 0
    """How often all memory was discarded and opened again, after an error."""
    opened: int = 0
    """How often tasks were opened: the first time, whenever more or fewer are to be open, and after
    each error."""
    commit_wait_ms: int = 0
    """How long the oldest work of the last commit had been pending."""
    commit_wait_max_ms: int = 0
    commit_took: Durations = field(default_factory=Durations)
    """How long the commits themselves took, by the settings' stopwatch."""
    last_run: int = 0
    """The time of the last run that consumed records, in ms; 0 before the first."""

    def committed(self, took: int, waited_ms: int) -> None:
        """Count a commit that took so long, by the stopwatch, after work had waited for it."""
        self.commits += 1
        self.commit_took = self.commit_took.plus(took)
        self.commit_wait_ms = waited_ms
        self.commit_wait_max_ms = max(self.commit_wait_max_ms, waited_ms)


@dataclass(slots=True)
class SubTopologyMetrics:
    """Counters of one sub-topology since its query was added."""

    records_in: int = 0
    records_out: int = 0
    changes: int = 0
    """Records appended to the changelog."""
    late: int = 0
    """Rows that came after their window had closed."""
    problems: int = 0
    """Rows with any other entry in the processing log."""
    stream_time: int = NEVER
    """The greatest event time processed, in ms; NEVER before the first record."""
    calls: Calls = NO_CALLS
    """Those of functions in Python."""


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One task: its state, and how many records it has yet to replay. `position`: the position of
    its state on the changelog, 0 without one."""

    id: TaskId
    state: TaskState
    to_restore: int
    position: int = 0


@dataclass(frozen=True, slots=True)
class SubTopologyStatus:
    """One sub-topology: what it reads and writes, how far it lags (-1: unknown) and its
    counters."""

    index: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tasks: int
    lag: int
    to_restore: int
    metrics: SubTopologyMetrics


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """A snapshot of one query. `error` and `code` say why it stopped or what it waits for."""

    query_id: str
    state: QueryState
    transient: bool
    error: str
    code: str
    tasks: tuple[TaskStatus, ...]
    positions: Mapping[TopicPartition, int]
    """How far each input partition is processed (not necessarily committed)."""
    lag: Mapping[TopicPartition, int]
    """Records not yet processed; -1 where the log cannot say."""
    metrics: Metrics
    sub_topologies: tuple[SubTopologyStatus, ...]


@dataclass(frozen=True, slots=True)
class Subscription:
    """What makes a query worth a look: that one of the topics `grown`, which it reads, has more, or
    that one of the topics and groups `changed` is another one than before. `functions`: it calls
    functions in Python, so threads of their own run it."""

    grown: frozenset[str]
    changed: frozenset[str]
    priority: int
    functions: bool = False


@dataclass(frozen=True, slots=True)
class CommitRounds:
    """The commit rounds of an instance: the commits of queries in them, the queries of the largest
    one, and how long the rounds took. Frozen, so that other threads read a consistent set."""

    commits: int = 0
    largest: int = 0
    took: Durations = field(default_factory=Durations)

    def plus(self, queries: int, took: int) -> CommitRounds:
        """These rounds and one more."""
        return CommitRounds(
            self.commits + queries, max(self.largest, queries), self.took.plus(took)
        )


@dataclass(frozen=True, slots=True)
class Step:
    """`progress`: work was done, step again at once. Otherwise nothing will happen before `wake_at`
    (None: never) unless the log gets records or a query is added or resumed. `awaiting`: records on
    the log are requested and have not arrived yet. `records`: how many were processed. `called_ms`:
    how long functions in Python were called for them. `due`: the query waits for a commit round.
    """

    progress: bool
    wake_at: int | None
    awaiting: bool = False
    records: int = 0
    called_ms: int = 0
    due: bool = False


ProblemSink = Callable[[str, Sequence[Problem]], None]
"""Called with the query id and the problems of one run; writes the processing log."""
