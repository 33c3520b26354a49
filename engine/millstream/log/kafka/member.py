"""A query's part in the membership of this process on Kafka: its tasks, and its writers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from millstream.log.kafka.instance_member import InstanceMember
from millstream.log.kafka.lag import LagOf
from millstream.log.kafka.member_writer import LargeWriter, PooledWriter
from millstream.log.kafka.plain_producers import PlainProducers
from millstream.log.kafka.producer_pool import ProducerPool
from millstream.log.kafka.transactions import Entry, Transactions
from millstream.log.log import Appended, Assignment, Lag
from millstream.log.log import TopicPartition as Place


@dataclass(frozen=True, slots=True)
class MemberContext:
    """What the members of all queries share. `open_transactions` opens a producer of its own for
    transactions of the given size, by an identity; `outsider`: see `WriterContext`."""

    instance: InstanceMember
    namespace: str
    pool: ProducerPool
    plain: PlainProducers
    open_transactions: Callable[[str, int], Transactions]
    outsider: Callable[[str], object]


class KafkaMember:
    """`Member` of one query. The process is the member of the brokers, for all its queries."""

    def __init__(self, group: str, tasks: int, context: MemberContext, lag: LagOf) -> None:
        """Raises UnavailableError while the query runs in this process already."""
        self._group = group
        self._context = context
        self._lag = lag
        self._closed = False
        context.instance.join(group, tasks)

    def assignment(self) -> Assignment:
        """The current assignment of this member; raises FencedError when another process has its
        name."""
        return self._context.instance.assignment(self._group)

    def settled(self, epoch: int) -> None:
        """Acknowledge the assignment of `epoch`: nothing else is held any more."""
        self._context.instance.settled(self._group, epoch)

    def writer(self, epoch: int, *, size: int = 0) -> LargeWriter | PooledWriter:
        """The writer for the assignment of `epoch`."""
        self.assignment()
        context = self._context
        if size:
            return LargeWriter(self, epoch, context.open_transactions(self._group, size))
        return PooledWriter(self, epoch, context.pool, context.plain)

    def lag(self, topic_partitions: Collection[Place]) -> Lag | None:
        """How far the whole group has read, if that was measured since the last call."""
        return self._lag.told(topic_partitions)

    def peers(self) -> bool:
        """See `Member`."""
        return self._context.instance.peers(self._group)

    def close(self) -> None:
        """Give up the tasks; idempotent. The process stays a member for its other queries."""
        if not self._closed:
            self._closed = True
            self._lag.close()
            self._context.instance.leave(self._group)

    @property
    def instance(self) -> InstanceMember:
        """The membership of this process."""
        return self._context.instance

    @property
    def group(self) -> str:
        """The group of the query, in which its positions are."""
        return self._group

    def holds(self, epoch: int) -> bool:
        """Whether the assignment of `epoch` has not been lost. Raises FencedError as `assignment`
        does."""
        return not self._closed and self.assignment().lost <= epoch

    def entry(
        self, appended: Sequence[Appended[pa.Table]], positions: Mapping[Place, int]
    ) -> Entry:
        """What the query contributes to a transaction. Its group has no members, so anyone can move
        its positions: only the credential of the transaction shows who may."""
        if not positions:
            return Entry(appended)
        credential = self._context.outsider(self._context.namespace + self._group)
        return Entry(appended, self._group, positions, credential)
