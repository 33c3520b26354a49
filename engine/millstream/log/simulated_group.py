"""A group coordinator in memory, driven by the simulation: it decides which members join or are
removed, how tasks are assigned, and when a member learns of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Generic, Protocol

from millstream.log.log import Appended, Assignment, Batch, Lag, Outcome, TopicPartition, Writer
from millstream.model.errors import FencedError, UnavailableError


class GroupLog(Protocol[Batch]):
    """What a member needs of the log that it writes to."""

    def writer(self, identity: str, admitted: Callable[[], bool]) -> Writer[Batch]:
        """A writer that fences older ones of its identity, and fails when it is not `admitted`."""

    def lag(self, group: str, topic_partitions: Collection[TopicPartition]) -> Lag | None:
        """See `Member.lag`."""


class Coordinator(Generic[Batch]):
    """Assigns the tasks of one group as a broker does: a revoked task goes to another member only
    after its owner has released it or was removed."""

    def __init__(self, rnd: Random, joined: Callable[[SimulatedMember[Batch]], None]) -> None:
        """`joined` is called with every new member."""
        self.rnd = rnd
        self.members: list[SimulatedMember[Batch]] = []
        self.owners: dict[int, SimulatedMember[Batch]] = {}
        self.leaving: dict[int, SimulatedMember[Batch]] = {}
        """Tasks that their owner has yet to release, and their next owners."""
        self._joined = joined
        self._names = 0

    def join(self, log: GroupLog[Batch], group: str, partitions: int) -> SimulatedMember[Batch]:
        """A new member, which holds nothing yet."""
        self._names += 1
        member = SimulatedMember(self, log, group, self._names, partitions)
        self.members.append(member)
        self._joined(member)
        return member

    def rebalance(self) -> None:
        """Assign the tasks without an owner, and move some of the rest."""
        if not self.members:
            return
        for partition in range(max(member.partitions for member in self.members)):
            target = self.rnd.choice(self.members)
            owner = self.owners.get(partition)
            if owner is None:
                self.owners[partition] = target
            elif target is not owner and partition not in self.leaving:
                self.leaving[partition] = target

    def throw_out(self, member: SimulatedMember[Batch]) -> None:
        """End a member's session: its tasks have no owner now, whether it has noticed or not."""
        if member in self.members:
            self.members.remove(member)
        for partition in [p for p, owner in self.owners.items() if owner is member]:
            del self.owners[partition]
            self.leaving.pop(partition, None)
        for partition in [p for p, target in self.leaving.items() if target is member]:
            del self.leaving[partition]

    def owned(self, member: SimulatedMember[Batch]) -> frozenset[int]:
        """What a member may hold."""
        own = (p for p, owner in self.owners.items() if owner is member)
        return frozenset(p for p in own if p not in self.leaving)

    def let_go(self, member: SimulatedMember[Batch], held: frozenset[int]) -> None:
        """Note that a member holds no more than `held`."""
        for partition, target in list(self.leaving.items()):
            if self.owners.get(partition) is member and partition not in held:
                self.owners[partition] = target
                del self.leaving[partition]


class SimulatedMember(Generic[Batch]):
    """`Member` of a `Coordinator`; it learns of changes when `hear` is called."""

    def __init__(
        self,
        coordinator: Coordinator[Batch],
        log: GroupLog[Batch],
        group: str,
        number: int,
        partitions: int,
    ) -> None:
        self.group = group
        self.identity = f"{group}.{number}"
        self.partitions = partitions
        self._coordinator = coordinator
        self._log = log
        self._assignment = Assignment(0, frozenset())

    @property
    def in_group(self) -> bool:
        """Whether the coordinator counts it among the members."""
        return self in self._coordinator.members

    def hear(self) -> None:
        """Take over the coordinator's decisions; a removed member joins again."""
        epoch = self._assignment.epoch + 1
        if not self.in_group:
            self._coordinator.members.append(self)
            self._assignment = Assignment(epoch, frozenset(), lost=epoch)
        elif self._coordinator.owned(self) != self._assignment.partitions or epoch == 1:
            owned = self._coordinator.owned(self)
            self._assignment = Assignment(epoch, owned, self._assignment.lost)

    def assignment(self) -> Assignment:
        """See `Member`."""
        return self._assignment

    def settled(self, epoch: int) -> None:
        """See `Member`."""
        if epoch == self._assignment.epoch and self.in_group:
            self._coordinator.let_go(self, self._assignment.partitions)

    def writer(self, epoch: int, *, size: int = 0) -> Writer[Batch]:
        """See `Member`."""

        def admitted() -> bool:
            return self.in_group and self._assignment.lost <= epoch

        return MemberWriter(self._log.writer(self.identity, admitted))

    def lag(self, topic_partitions: Collection[TopicPartition]) -> Lag | None:
        """See `Member`."""
        return self._log.lag(self.group, topic_partitions)

    def close(self) -> None:
        """See `Member`."""
        self._coordinator.throw_out(self)


class MemberWriter(Generic[Batch]):
    """`Writer` of a member. No other member has its name, so being fenced only means that others
    took it for dead: it may open another writer."""

    def __init__(self, writer: Writer[Batch]) -> None:
        self._writer = writer

    def append(self, appended: Sequence[Appended[Batch]]) -> None:
        """See `Writer`."""
        try:
            self._writer.append(appended)
        except FencedError as error:
            raise UnavailableError(str(error)) from error

    def send(self, appended: Sequence[Appended[Batch]]) -> None:
        """See `Writer`."""
        self._writer.send(appended)

    def transact(
        self,
        group: str,
        appended: Sequence[Appended[Batch]],
        positions: Mapping[TopicPartition, int],
    ) -> Outcome:
        """See `Writer`."""
        try:
            return self._writer.transact(group, appended, positions)
        except FencedError:
            return Outcome.ABORTED

    def close(self) -> None:
        """See `Writer`."""
        self._writer.close()
