"""The state that a restoration keeps for each query and each changelog partition that it
follows."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Generic

from millstream.log.log import Batch, Fetched, Log, Reader, TopicPartition
from millstream.model.errors import CorruptionError
from millstream.runtime.changelogs import check_position, skip_truncated
from millstream.runtime.ports import Replica
from millstream.runtime.retry_state import RetryState
from millstream.runtime.spec import RuntimeSettings
from millstream.runtime.task_ownership import TaskOwnership
from millstream.runtime.tasks import TaskId

_FIRST_RECORD_BYTES = 1 << 15
"""The assumed size of a changelog record before one was read."""


@dataclass(frozen=True, slots=True)
class FollowSpec(Generic[Batch]):
    """A sub-topology with state: where its state goes, and the changelog that it comes from."""

    subtopology: int
    replica: Replica[Batch]
    changelog: str
    partitions: int


class Role(Enum):
    """Why a changelog is followed: to be processed here soon, or to be ready if it ever must."""

    STARTING = "STARTING"
    STANDBY = "STANDBY"


class Moved(Enum):
    """The result of an attempt to advance."""

    ON = "ON"
    NOT = "NOT"
    AWAITING = "AWAITING"
    """Records exist but are not fetched yet."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one changelog partition is replayed. `target`: the position at which it is ready
    (starting), or the last known end of the changelog (standby). `rate`: records per second since
    it began."""

    query_id: str
    task: TaskId
    role: Role
    position: int
    target: int
    rate: float

    @property
    def lag(self) -> int:
        """Records left to replay."""
        return max(0, self.target - self.position)


class Follower(Generic[Batch]):
    """One changelog partition that is replayed into the state."""

    def __init__(
        self,
        spec: FollowSpec[Batch],
        partition: int,
        log: Log[Batch],
        end: int,
        role: Role,
        now: int,
    ) -> None:
        """Opens the state; raises CorruptionError if it is ahead of the changelog. `end`: where the
        changelog ends, including open transactions."""
        self.spec = spec
        self.task = TaskId(spec.subtopology, partition)
        self.topic_partition: TopicPartition = (spec.changelog, partition)
        self.position = spec.replica.open(partition)
        self.target = end
        check_position(self.task, spec.changelog, self.position, self.target)
        if self.position < end:
            self._skip(log)
        self.role = role
        self.at_end = False
        """Whether the last read found nothing more."""
        self._first = self.position
        self._began = now
        self._record_bytes = _FIRST_RECORD_BYTES

    def assign(self, role: Role, log: Log[Batch], now: int) -> None:
        """Follow it for this reason from now on. It is ready when it has replayed what the
        changelog holds now, including open transactions."""
        if role is Role.STARTING and self.role is not role:
            self.target = log.written_end(*self.topic_partition)
            self.at_end = False
            self._first, self._began = self.position, now
        self.role = role

    def _skip(self, log: Log[Batch]) -> bool:
        """Start anew if the changelog no longer has the records that the state lacks; returns
        whether it did."""
        before = self.position
        self.position = skip_truncated(
            log, self.spec.replica, self.spec.changelog, self.task.partition, before
        )
        return self.position != before

    def advance(self, log: Log[Batch], reader: Reader[Batch], settings: RuntimeSettings) -> Moved:
        """Replay the next records and make them durable in the state."""
        quota = max(1, min(settings.restore_records, settings.restore_bytes // self._record_bytes))
        reader.begin()
        try:
            fetched = reader.read(*self.topic_partition, self.position, quota)
        except CorruptionError:
            # Its owner may truncate behind its last snapshot only now.
            if self._skip(log):
                return Moved.ON
            raise
        return Moved.AWAITING if fetched.awaited else self._apply(fetched)

    def _apply(self, fetched: Fetched[Batch]) -> Moved:
        self.at_end = fetched.end
        if fetched.next_offset == self.position:
            return Moved.NOT
        self.spec.replica.restore(self.task.partition, fetched)
        self.spec.replica.commit({self.task.partition: fetched.next_offset})
        self.position = fetched.next_offset
        if fetched.count:
            self._record_bytes = max(1, fetched.bytes // fetched.count)
        return Moved.ON

    def near(self, tolerance: int) -> bool:
        """Whether the task that processes it would have almost nothing to replay."""
        return self.at_end or self.position >= self.target - tolerance

    def progress(self, query_id: str, now: int) -> Progress:
        """See `Progress`."""
        seconds = (now - self._began) / 1000
        rate = (self.position - self._first) / seconds if seconds > 0 else 0.0
        return Progress(query_id, self.task, self.role, self.position, self.target, rate)


@dataclass(slots=True)
class Followed(Generic[Batch]):
    """One query. Other threads may change its inputs (`starting`, `standby`, `ownership`) at any
    time; everything else belongs to the stepping thread."""

    query_id: str
    specs: tuple[FollowSpec[Batch], ...]
    starting: frozenset[int] = frozenset()
    """Assigned to a query runner that has not received them yet."""
    standby: frozenset[int] = frozenset()
    ownership: TaskOwnership = field(default_factory=TaskOwnership)
    failed: bool = False
    """Requests are granted as the state is: the query runner then meets the error and reports it.
    """
    followers: dict[TaskId, Follower[Batch]] = field(default_factory=dict)
    retry_state: RetryState = field(default_factory=RetryState)
    restored: int = 0
    """The number of records replayed by all its followers."""
    left: dict[int, int] = field(default_factory=dict)
    """Since when a partition is unused here; partitions without state are left out."""
    kept: dict[int, int] = field(default_factory=dict)
    """How far the state of unused partitions is on the changelogs, as far as it was read. Replaced,
    never changed."""
    cleared: frozenset[int] = frozenset()
    """The partitions that were unused so long that their state is removed."""

    @property
    def wanted(self) -> frozenset[int]:
        """The partitions to follow."""
        return (
            frozenset()
            if self.failed
            else (self.starting | self.standby) - self.ownership.processing
        )

    def open(
        self, partitions: frozenset[int], starting: frozenset[int], log: Log[Batch], now: int
    ) -> None:
        """Begin to follow the changelogs of these partitions, the `starting` ones for
        processing."""
        pairs = ((spec, p) for p in sorted(partitions) for spec in self.specs)
        found = [(spec, p) for spec, p in pairs if p < spec.partitions]
        ends = log.written_ends([(spec.changelog, p) for spec, p in found])
        for spec, p in found:
            role = Role.STARTING if p in starting else Role.STANDBY
            follower = Follower(spec, p, log, ends[spec.changelog, p], role, now)
            self.followers[follower.task] = follower

    def assign(self, starting: frozenset[int], log: Log[Batch], now: int) -> None:
        """Follow these for processing, the others as standbys."""
        for follower in self.followers.values():
            role = Role.STARTING if follower.task.partition in starting else Role.STANDBY
            follower.assign(role, log, now)

    def has_state(self, partition: int) -> bool:
        """Whether there is anything to follow for a partition."""
        return any(partition < spec.partitions for spec in self.specs)

    def grant(self, partitions: frozenset[int]) -> bool:
        """Give the query runner those of them that are not followed; returns whether there are
        any."""
        free = partitions - self.ownership.following
        self.ownership = self.ownership.taken(free)
        self.starting -= free
        self.forget_kept(free)
        return bool(free)

    def note_left(self, now: int) -> None:
        """Find the partitions that are unused here."""
        ownership = self.ownership
        used = self.starting | self.standby | ownership.processing | ownership.following
        unused = frozenset(filter(self.has_state, range(self.partitions))) - used
        self.cleared &= unused
        self.left = {p: self.left.get(p, now) for p in sorted(unused - self.cleared)}

    def forget_kept(self, partitions: frozenset[int]) -> None:
        """Their state is used, or removed."""
        self.kept = {p: at for p, at in self.kept.items() if p not in partitions}

    def stored_position(self, partition: int) -> int:
        """How far the state of a partition is on the changelogs, together."""
        return sum(
            spec.replica.position(partition) for spec in self.specs if partition < spec.partitions
        )

    @property
    def partitions(self) -> int:
        """How many of its partitions have state."""
        return max((spec.partitions for spec in self.specs), default=0)

    def clear(self, partition: int) -> None:
        """Remove the state of an unused partition."""
        for spec in self.specs:
            if partition < spec.partitions and spec.replica.open(partition):
                spec.replica.clear(partition, 0)

    def drop(self, partitions: frozenset[int]) -> None:
        """Stop following them; their state stays as it is."""
        for task in [task for task in self.followers if task.partition in partitions]:
            del self.followers[task]

    def ready(self, tolerance: int) -> frozenset[int]:
        """The followed partitions of which every sub-topology's state is nearly up to date."""
        late = {f.task.partition for f in self.followers.values() if not f.near(tolerance)}
        return self.ownership.following - late

    def discard(self) -> None:
        """Discard everything that is not in the store."""
        self.followers.clear()
        for spec in self.specs:
            spec.replica.discard()

    def close(self) -> None:
        """Release the state."""
        self.followers.clear()
        for spec in self.specs:
            spec.replica.close()
