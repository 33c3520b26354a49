"""What a restoration keeps for each query and each changelog partition that it follows."""

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
"""What a changelog record is taken to weigh before one was seen."""


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
    """What became of an attempt to go on."""

    ON = "ON"
    NOT = "NOT"
    AWAITING = "AWAITING"
    """What is there has not come yet."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one changelog partition is replayed. `target`: where to be ready (starting) or where
    the changelog ended when last asked (standby). `rate`: records per second since it began."""

    query_id: str
    task: TaskId
    role: Role
    position: int
    target: int
    rate: float

    @property
    def lag(self) -> int:
        """Records to go."""
        return max(0, self.target - self.position)


class Follower(Generic[Batch]):
    """One changelog partition on its way into the state."""

    def __init__(self, spec: FollowSpec[Batch], partition: int, log: Log[Batch], now: int) -> None:
        """Opens the state; CorruptionError if it has seen more than the changelog holds."""
        self.spec = spec
        self.task = TaskId(spec.subtopology, partition)
        self.topic_partition: TopicPartition = (spec.changelog, partition)
        self.position = spec.replica.open(partition)
        self.target = log.written_end(*self.topic_partition)
        check_position(self.task, spec.changelog, self.position, self.target)
        self._skip(log)
        self.role = Role.STANDBY
        self.at_end = False
        """Whether nothing more was readable when it was last looked."""
        self._first = self.position
        self._began = now
        self._record_bytes = _FIRST_RECORD_BYTES

    def assign(self, role: Role, log: Log[Batch], now: int) -> None:
        """Follow it for this reason from now on. To be ready is to have seen what the changelog
        holds now, that of open transactions included."""
        if role is Role.STARTING and self.role is not role:
            self.target = log.written_end(*self.topic_partition)
            self.at_end = False
            self._first, self._began = self.position, now
        self.role = role

    def _skip(self, log: Log[Batch]) -> bool:
        """Start anew if what the state lacks is gone from the changelog; whether it was."""
        before = self.position
        self.position = skip_truncated(
            log, self.spec.replica, self.spec.changelog, self.task.partition, before
        )
        return self.position != before

    def advance(self, log: Log[Batch], reader: Reader[Batch], settings: RuntimeSettings) -> Moved:
        """Make the next records durable in the state."""
        quota = max(1, min(settings.restore_records, settings.restore_bytes // self._record_bytes))
        reader.begin()
        try:
            fetched = reader.read(*self.topic_partition, self.position, quota)
        except CorruptionError:
            # Its owner may only now have come to truncating behind its last snapshot.
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
        """Whether who processes it would have next to nothing to replay."""
        return self.at_end or self.position >= self.target - tolerance

    def progress(self, query_id: str, now: int) -> Progress:
        """See `Progress`."""
        seconds = (now - self._began) / 1000
        rate = (self.position - self._first) / seconds if seconds > 0 else 0.0
        return Progress(query_id, self.task, self.role, self.position, self.target, rate)


@dataclass(slots=True)
class Followed(Generic[Batch]):
    """One query. What it is told (`starting`, `standby`, `ownership`) may be changed by others
    between any two moments; the rest belongs to who steps."""

    query_id: str
    specs: tuple[FollowSpec[Batch], ...]
    starting: frozenset[int] = frozenset()
    """Claimed by an execution that has not got them yet."""
    standby: frozenset[int] = frozenset()
    ownership: TaskOwnership = field(default_factory=TaskOwnership)
    failed: bool = False
    """What it asks for is granted as it stands: its execution is to meet the error and tell it."""
    followers: dict[TaskId, Follower[Batch]] = field(default_factory=dict)
    retry_state: RetryState = field(default_factory=RetryState)
    restored: int = 0
    """How far all its followers together have moved."""
    left: dict[int, int] = field(default_factory=dict)
    """Since when nobody here has had any use for a partition; those without state are not in it."""
    cleared: frozenset[int] = frozenset()
    """The partitions that were left so long that their state is gone."""

    @property
    def wanted(self) -> frozenset[int]:
        """The partitions to follow."""
        return (
            frozenset()
            if self.failed
            else (self.starting | self.standby) - self.ownership.processing
        )

    def open(self, partition: int, log: Log[Batch], now: int) -> None:
        """Begin to follow the changelogs of a partition."""
        for spec in self.specs:
            if partition < spec.partitions:
                follower = Follower(spec, partition, log, now)
                self.followers[follower.task] = follower

    def assign(self, starting: frozenset[int], log: Log[Batch], now: int) -> None:
        """Follow these to be processed, the others as standbys."""
        for follower in self.followers.values():
            role = Role.STARTING if follower.task.partition in starting else Role.STANDBY
            follower.assign(role, log, now)

    def has_state(self, partition: int) -> bool:
        """Whether there is anything to follow for a partition."""
        return any(partition < spec.partitions for spec in self.specs)

    def grant(self, partitions: frozenset[int]) -> bool:
        """Let an execution have those of them that nobody follows; whether there are any."""
        free = partitions - self.ownership.following
        self.ownership = self.ownership.taken(free)
        self.starting -= free
        return bool(free)

    def note_left(self, now: int) -> None:
        """Look which partitions nobody here has any use for."""
        ownership = self.ownership
        used = self.starting | self.standby | ownership.processing | ownership.following
        unused = frozenset(filter(self.has_state, range(self.partitions))) - used
        self.cleared &= unused
        self.left = {p: self.left.get(p, now) for p in sorted(unused - self.cleared)}

    @property
    def partitions(self) -> int:
        """How many of its partitions have state."""
        return max((spec.partitions for spec in self.specs), default=0)

    def clear(self, partition: int) -> None:
        """Remove the state of a partition that was left."""
        for spec in self.specs:
            if partition < spec.partitions and spec.replica.open(partition):
                spec.replica.clear(partition, 0)

    def drop(self, partitions: frozenset[int]) -> None:
        """Follow them no more; their state stays as it is."""
        for task in [task for task in self.followers if task.partition in partitions]:
            del self.followers[task]

    def ready(self, tolerance: int) -> frozenset[int]:
        """The followed partitions of which every sub-topology's state is nearly up to date."""
        late = {f.task.partition for f in self.followers.values() if not f.near(tolerance)}
        return self.ownership.following - late

    def discard(self) -> None:
        """Forget everything that is not in the store."""
        self.followers.clear()
        for spec in self.specs:
            spec.replica.discard()

    def close(self) -> None:
        """Release the state."""
        self.followers.clear()
        for spec in self.specs:
            spec.replica.close()
