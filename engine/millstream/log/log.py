"""The one interface to a log; `embedded`, `simulated` and `kafka` implement it.

Every implementation passes the same suite (tests/unit/log/suite.py). All methods may raise
`UnavailableError` (retry) and `FencedError`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Generic, Protocol, TypeVar

from millstream.log.usage import TopicUsage
from millstream.log.watchers import OnNews
from millstream.model.errors import MillstreamError
from millstream.model.event_time import END, NEVER

Batch = TypeVar("Batch")
"""The type of a batch: Arrow tables of `model.batch.RAW_SCHEMA`, lists in pure simulations."""

TopicPartition = tuple[str, int]

AS_THE_CLUSTER = -1
"""Replicas of a new topic: the cluster's default."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A named, partitioned sequence of records. `config`: cleanup.policy, retention.ms, …"""

    name: str
    partitions: int
    replicas: int = 1
    config: Mapping[str, str] = field(default_factory=dict)
    id: str = field(default="", compare=False)
    """Set by the log: distinguishes a topic from a later one of the same name."""
    numbered: bool = field(default=False, compare=False)
    """Set by the log: its batches have `NUMBERED_SCHEMA`, so that records of several topics can be
    taken in the order in which they arrived."""


def configured(topic: Topic, changes: Mapping[str, str | None]) -> Topic:
    """The topic with changed settings; None removes one."""
    settings = {**topic.config, **changes}
    kept = {name: value for name, value in settings.items() if value is not None}
    return replace(topic, config=kept)


@dataclass(frozen=True, slots=True)
class SenderEnds:
    """How far the senders of a partition have come whose records say which tasks have sent them.

    `limits`: for some senders, the offset from which on their rows are not to be processed yet,
    although records from there on may be in the batch. `joint`: the records are of an instance with
    all tasks, which has merged their rows. `complete`: nothing more was readable of the others than
    what was read. `barrier`: records of the other kind follow, and are not
    read before these are consumed. The times up to which all rows have arrived (`Fetched.until`):
    `together` of rows that were sent by an instance with all tasks, `here` of the senders in
    `local`, `elsewhere` of all others; of senders with a limit, none has.
    """

    limits: Mapping[int, int]
    joint: bool = False
    complete: bool = False
    barrier: bool = False
    local: frozenset[int] = frozenset()
    together: int = END
    here: int = NEVER
    elsewhere: int = NEVER


@dataclass(frozen=True, slots=True)
class Fetched(Generic[Batch]):
    """Records of one partition from the requested offset on.

    `count` records are in `batch`; reading continues at `next_offset` (past gaps and markers).
    `end`: nothing more was readable at the time of the read. `bytes` is the approximate size of the
    batch in memory, which controls back-pressure.
    """

    topic: str
    partition: int
    batch: Batch
    count: int
    next_offset: int
    end: bool
    bytes: int = 0
    awaited: bool = False
    """The batch is empty only because records have not arrived yet (of a `Reader`; watchers of the
    log are called when they have)."""
    until: int = NEVER
    """If this is not the end, the event time up to which all records have arrived nevertheless."""
    senders: SenderEnds | None = None
    """The same for each sender, where the records say who has sent them."""
    later: Callable[[], Batch] | None = None
    """Reads the records, which are not in `batch` then. Only readers of logs with a record at every
    offset leave this to the caller, which may not need them."""

    def records(self) -> Batch:
        """The records; each call may read them. Raises what `Log.read` raises."""
        return self.batch if self.later is None else self.later()


@dataclass(frozen=True, slots=True)
class Appended(Generic[Batch]):
    """Records to append to one partition, in order."""

    topic: str
    partition: int
    batch: Batch
    count: int
    bytes: int = 0


class Outcome(Enum):
    """The outcome of a transaction. UNKNOWN is real: every caller must handle it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Writer(Protocol[Batch]):
    """The writer of one identity. Opening it fences every earlier one of that name and aborts what
    it left open."""

    def append(self, appended: Sequence[Appended[Batch]]) -> None:
        """Append outside of a transaction: the records are durable and readable when this
        returns."""

    def send(self, appended: Sequence[Appended[Batch]]) -> None:
        """Append records that may be repeated, and may come late: as `append`, where the log can
        faster, but a writer that was fenced may still write them. If this raises, some of them may
        be written."""

    def transact(
        self,
        group: str,
        appended: Sequence[Appended[Batch]],
        positions: Mapping[TopicPartition, int],
    ) -> Outcome:
        """Make the records readable and move the group's positions, both or neither.

        Raises FencedError when a newer writer of the identity exists (nothing was written).
        """

    def close(self) -> None:
        """Give up the identity; idempotent."""


@dataclass(frozen=True, slots=True)
class Participant(Generic[Batch]):
    """What one writer commits in a commit round; see `Writer.transact`."""

    writer: Writer[Batch]
    group: str
    appended: Sequence[Appended[Batch]]
    positions: Mapping[TopicPartition, int]


Result = Outcome | Exception
"""What became of one participant: the outcome, or the error that `Writer.transact` raises."""


class Reader(Protocol[Batch]):
    """Reads partitions in order. It may prefetch what the caller will request next; a caller that
    holds records back requests them again."""

    def begin(self, together: Collection[TopicPartition] = ()) -> None:
        """Begin a read of these partitions in one common order: the end of a partition is reported
        only if it still was one when everything read of the others had arrived. Any other partition
        is read for itself."""

    def read(
        self,
        topic: str,
        partition: int,
        offset: int,
        max_records: int,
        before: int | None = None,
    ) -> Fetched[Batch]:
        """As `Log.read`, but without blocking: records that have not arrived yet are `awaited`.
        With `before` the partition ends at that offset: nothing behind it is read."""

    def ready(self, positions: Mapping[TopicPartition, int]) -> int:
        """About how many records `read` could give from these positions on. Callable from any
        thread, without blocking and without taking a lock."""

    def close(self) -> None:
        """Release what was fetched; idempotent."""


@dataclass(frozen=True, slots=True)
class DirectReader(Generic[Batch]):
    """The reader of a log that does not prefetch."""

    log: Log[Batch]

    def begin(self, together: Collection[TopicPartition] = ()) -> None:
        """Each read returns what is on the log now."""

    def read(
        self,
        topic: str,
        partition: int,
        offset: int,
        max_records: int,
        before: int | None = None,
    ) -> Fetched[Batch]:
        """As `Log.read`."""
        if before is None:
            return self.log.read(topic, partition, offset, max_records)
        return read_before(
            lambda count: self.log.read(topic, partition, offset, count),
            offset,
            max_records,
            before,
        )

    def ready(self, positions: Mapping[TopicPartition, int]) -> int:
        """The number of records between the positions and the ends."""
        ends = ends_one_by_one(self.log, positions)
        return sum(
            max(0, end - positions[topic_partition]) for topic_partition, end in ends.items()
        )

    def close(self) -> None:
        """Nothing to release."""


def read_before(
    read: Callable[[int], Fetched[Batch]], offset: int, max_records: int, before: int
) -> Fetched[Batch]:
    """At most `max_records` with offsets below `before`, where the partition is taken to end.
    `read` returns a number of records from `offset` on, up to the offset behind the last one if it
    finds that many, else behind what is missing there, too; where offsets are missing, that may be
    past `before`, and fewer are read then."""
    count = min(max_records, before - offset)
    while count > 0:
        found = read(count)
        if found.next_offset < before:
            return found
        if found.next_offset == before or not found.count:
            return replace(found, next_offset=before, end=True)
        # Only a read of just as many records says where the last of them lies.
        count = found.count if found.count < count else count // 2
    return replace(read(0), next_offset=max(offset, before), end=True, awaited=False)


def ends_one_by_one(
    log: Log[Batch], topic_partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """`end_offsets` of a log that responds at once."""
    ends = {}
    for topic_partition in topic_partitions:
        with suppress(MillstreamError):
            ends[topic_partition] = log.end_offset(*topic_partition)
    return ends


def create_one_by_one(log: Log[Batch], topics: Sequence[Topic]) -> list[Topic | MillstreamError]:
    """`create_topics` of a log that responds at once."""
    results: list[Topic | MillstreamError] = []
    for topic in topics:
        try:
            log.create_topic(topic)
            results.append(log.topic(topic.name) or topic)
        except MillstreamError as error:
            results.append(error)
    return results


def describe_one_by_one(log: Log[Batch], names: Collection[str]) -> dict[str, Topic]:
    """`describe` of a log that responds at once."""
    found = ((name, log.topic(name)) for name in names)
    return {name: topic for name, topic in found if topic is not None}


def of_places(
    positions: Mapping[TopicPartition, int], topic_partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """These positions, or those of `topic_partitions` where any are given."""
    return {
        topic_partition: at
        for topic_partition, at in positions.items()
        if not topic_partitions or topic_partition in topic_partitions
    }


@dataclass(frozen=True, slots=True)
class Assignment:
    """The tasks of a query that one member holds: partition p stands for task p of each of its
    sub-topologies that has a task p.

    `epoch` grows with each change. Tasks held before the epoch `lost` may belong to another member
    already: they must be dropped, not committed.
    """

    epoch: int
    partitions: frozenset[int]
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group has read: the `ends` of partitions, and the positions that it had committed
    after these were requested; partitions without one are left out."""

    positions: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


class Member(Protocol[Batch]):
    """One instance's membership in a group whose members share the tasks of a query.

    The assignment can change at any time, from other threads; no call waits for that.
    """

    def assignment(self) -> Assignment:
        """The current assignment of this member."""

    def settled(self, epoch: int) -> None:
        """Acknowledge the assignment of `epoch`: everything else is committed or dropped. The next
        owners may be waiting for this."""

    def writer(self, epoch: int, *, size: int = 0) -> Writer[Batch]:
        """The writer of this member for the assignment of `epoch`; opening it aborts what its
        earlier writers left open. Once that assignment is lost, `transact` returns ABORTED and
        nothing of it becomes visible. `size`: as of `Log.writer`. Raises FencedError when another
        process has taken this member's identity."""

    def lag(self, topic_partitions: Collection[TopicPartition]) -> Lag | None:
        """How far the whole group has read, as measured since the last call; None without a
        response. Starts a new request, without blocking."""

    def peers(self) -> bool:
        """Whether other processes run the query, even if they have none of its tasks."""

    def close(self) -> None:
        """Leave the group; the caller has committed or dropped its tasks before. Idempotent."""


class Log(Protocol[Batch]):
    """Topics and committed positions. Reads see committed records only."""

    def create_topic(self, topic: Topic) -> None:
        """Raises ConflictError when the name is taken."""

    def create_topics(self, topics: Sequence[Topic]) -> list[Topic | MillstreamError]:
        """Create several in one request. For each, in their order: the topic as it was created, or
        the error that `create_topic` raises for it; one that fails does not hold back the others.
        """

    def delete_topic(self, name: str) -> None:
        """Delete a topic, its records and all committed positions on it; no error when absent."""

    def configure_topic(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic; None goes back to the default. Raises StatementError for a
        topic that does not exist, and for what the log does not accept."""

    def usage(self, names: Collection[str]) -> Mapping[str, TopicUsage]:
        """What those of these topics hold that exist."""

    def topic(self, name: str) -> Topic | None:
        """Describe one topic."""

    def topics(self) -> tuple[Topic, ...]:
        """All topics, by name."""

    def describe(self, names: Collection[str]) -> Mapping[str, Topic]:
        """Those of these topics that exist, as they are now, in one request. Without their
        settings."""

    def seen(self, names: Collection[str]) -> Mapping[str, Topic | None]:
        """Topics as of some seconds ago, more for many (40 for 1,000), None for one that does not
        exist. Never blocks, so unknown topics are left out. Without their settings."""

    def read(self, topic: str, partition: int, offset: int, max_records: int) -> Fetched[Batch]:
        """Committed records from `offset` on, ascending. Raises StatementError for an unknown
        topic, CorruptionError (code E-GAP) when `offset` lies before the first retained record."""

    def reader(self, *, alone: bool = False) -> Reader[Batch]:
        """A new reader, which the caller closes. Readers may share what is fetched; one that is
        `alone` does not, for a caller that reads much once, such as a changelog to restore."""

    def start_offset(self, topic: str, partition: int) -> int:
        """The first retained offset."""

    def end_offset(self, topic: str, partition: int) -> int:
        """The offset after the last readable record."""

    def end_offsets(
        self, topic_partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The ends of many partitions at once, as they are now; unavailable ones are left out."""

    def written_end(self, topic: str, partition: int) -> int:
        """The offset after the last record of all, including those of open transactions: a reader
        that has reached it has read everything that was committed by now."""

    def written_ends(
        self, topic_partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """`written_end` of many partitions at once, all of them. They include records that another
        process has committed and that cannot be read yet; `end_offsets` may lag behind them."""

    def truncate(self, topic: str, partition: int, before: int) -> None:
        """Delete records with an offset below `before` (consumed repartition records)."""

    def positions(
        self, group: str, topic_partitions: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, int]:
        """The committed positions of a group, of `topic_partitions` alone where they are given.
        Waits for transactions that may still move them."""

    def vacant(self, group: str) -> bool:
        """Whether a group has no members, on a log that is shared; what its last members have moved
        is then stable."""

    def forget_group(self, group: str) -> None:
        """Drop a group's positions (its query was terminated)."""

    def writer(self, identity: str, *, size: int = 0) -> Writer[Batch]:
        """Open the writer of `identity`, fencing earlier ones. `size`: the approximate bytes of its
        largest transaction, where writing it takes long."""

    def send(self, appended: Sequence[Appended[Batch]]) -> None:
        """Append records outside of transactions and without the identity of a writer, where no
        fencing is needed. They are durable and readable when this returns, and never block a
        reader. If it raises, some of them may be written, possibly later."""

    @property
    def marker_offsets(self) -> int:
        """How many offsets the end of each transaction takes on a partition: 1 on Kafka, else 0."""

    @property
    def commits_together(self) -> bool:
        """Whether `transact_all` costs about as much as the transaction of one writer."""

    def transact_all(self, participants: Sequence[Participant[Batch]]) -> list[Result]:
        """Carry out the transactions of several writers, together where the log can; a result for
        each. One that fails does not hold back the others (`log/rounds.py`)."""

    def join(self, group: str, partitions: int) -> Member[Batch]:
        """Join a group and share the tasks of a query, numbered below `partitions`, with its other
        members. The caller closes the member. Without other members, it holds all tasks from the
        start, under the writer identity of the group's name."""

    def close(self) -> None:
        """Release everything; idempotent."""


class WatchedLog(Log[Batch], Protocol[Batch]):
    """What an engine needs of its log beyond `Log`."""

    @property
    def private(self) -> bool:
        """Whether only this process reads it, so that all readers are known here."""

    @property
    def poll_interval_ms(self) -> int | None:
        """How often a reader at the ends has to look again, although `on_news` told it nothing;
        None: never."""

    def on_news(self, callback: OnNews) -> Callable[[], None]:
        """Call `callback` after every append and whenever records have been fetched; returns a
        function that unsubscribes."""

    def maintain(self) -> bool:
        """Do the upkeep that is due, between transactions; returns whether anything large was
        done."""
