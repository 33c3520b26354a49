"""A group coordinator in memory, driven by the simulation: it decides which members join or are
removed, how tasks are assigned, and when a member learns of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Generic, Protocol

from millstream.log.fenced_rounds import fenced_round
from millstream.log.log import (
    Appended,
    Assignment,
    Batch,
    Lag,
    Outcome,
    Participant,
    Result,
    TopicPartition,
    Writer,
)
from millstream.model.errors import FencedError, UnavailableError


class GroupLog(Protocol[Batch]):
    """What a member needs of the log that it writes to."""

    def writer(self, identity: str, admitted: Callable[[], bool]) -> Writer[Batch]:
        """A writer that fences older ones of its identity, and fails when it is not `admitted`."""

    def lag(self, group: str, topic_partitions: Collection[TopicPartition]) -> Lag | None:
        """See `Member.lag`."""

    def commit(
        self, participants: Sequence[Participant[Batch]], accepted: Callable[[], bool]
    ) -> list[Result]:
        """One transaction for all; RefusedCredentialError for each if it is not `accepted`."""

    def pause(self, name: str) -> None:
        """Others may run here."""


class Instances(Generic[Batch]):
    """The members of the group of a service: one for each process, for all its queries. Every
    change of the group is a new generation, and brokers refuse positions with an older one."""

    def __init__(self) -> None:
        self.generation = 1
        self.known: dict[object, int] = {}
        """The generation of which each process has learned."""
        self.views: dict[object, list[SimulatedMember[Batch]]] = {}

    def changed(self) -> None:
        """The group has changed."""
        self.generation += 1

    def hear(self, process: object) -> None:
        """A process learns of the decisions about all its queries."""
        for view in self.views.get(process, ()):
            view.follow()
        self.known[process] = self.generation

    def throw_out(self, process: object) -> None:
        """End the session of a process."""
        for view in self.views.get(process, ()):
            view.coordinator.throw_out(view)


class Coordinator(Generic[Batch]):
    """Assigns the tasks of one query as a broker does: a revoked task goes to another member only
    after its owner has released it or was removed."""

    def __init__(
        self,
        rnd: Random,
        joined: Callable[[SimulatedMember[Batch]], None],
        instances: Instances[Batch] | None = None,
        process: Callable[[], object] = object,
    ) -> None:
        """`joined` is called with every new member. `instances`: those of the service, where it has
        several queries; `process`: the one that joins now."""
        self.instances: Instances[Batch] = instances or Instances()
        self.process = process
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
        process = self.process()
        member = SimulatedMember(self, log, group, self._names, partitions, process)
        self.members.append(member)
        self.instances.views.setdefault(process, []).append(member)
        self.instances.changed()
        self._joined(member)
        return member

    def rebalance(self) -> None:
        """Assign the tasks without an owner, and move some of the rest."""
        if not self.members:
            return
        before = dict(self.owners), dict(self.leaving)
        for partition in range(max(member.partitions for member in self.members)):
            target = self.rnd.choice(self.members)
            owner = self.owners.get(partition)
            if owner is None:
                self.owners[partition] = target
            elif target is not owner and partition not in self.leaving:
                self.leaving[partition] = target
        if (self.owners, self.leaving) != before:
            self.instances.changed()

    def throw_out(self, member: SimulatedMember[Batch]) -> None:
        """End a member's session: its tasks have no owner now, whether it has noticed or not."""
        if member in self.members:
            self.members.remove(member)
            self.instances.changed()
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
                self.instances.changed()


class SimulatedMember(Generic[Batch]):
    """`Member` of a `Coordinator`; it learns of changes when `hear` is called."""

    def __init__(
        self,
        coordinator: Coordinator[Batch],
        log: GroupLog[Batch],
        group: str,
        number: int,
        partitions: int,
        process: object,
    ) -> None:
        self.group = group
        self.identity = f"{group}.{number}"
        self.partitions = partitions
        self.process = process
        self.coordinator = coordinator
        self.closed = False
        self._log = log
        self._assignment = Assignment(0, frozenset())

    @property
    def in_group(self) -> bool:
        """Whether the coordinator counts it among the members."""
        return self in self.coordinator.members

    def hear(self) -> None:
        """Take over the coordinator's decisions; a removed member joins again."""
        self.coordinator.instances.hear(self.process)

    def follow(self) -> None:
        """Take over those about this query."""
        epoch = self._assignment.epoch + 1
        if not self.in_group:
            self.coordinator.members.append(self)
            self.coordinator.instances.changed()
            self._assignment = Assignment(epoch, frozenset(), lost=epoch)
        elif self.coordinator.owned(self) != self._assignment.partitions or epoch == 1:
            owned = self.coordinator.owned(self)
            self._assignment = Assignment(epoch, owned, self._assignment.lost)

    def give_up(self) -> None:
        """Release what was revoked, although it is not settled: it took too long."""
        owned = self.coordinator.owned(self)
        if self.in_group and owned != self._assignment.partitions:
            epoch = self._assignment.epoch + 1
            self._assignment = Assignment(epoch, owned, lost=epoch)
            self.coordinator.let_go(self, owned)

    def assignment(self) -> Assignment:
        """See `Member`."""
        return self._assignment

    def settled(self, epoch: int) -> None:
        """See `Member`."""
        if epoch == self._assignment.epoch and self.in_group:
            self.coordinator.let_go(self, self._assignment.partitions)

    def holds(self, epoch: int) -> bool:
        """Whether the assignment of `epoch` has not been lost, as far as the process knows."""
        return not self.closed and self._assignment.lost <= epoch

    def writer(self, epoch: int, *, size: int = 0) -> Writer[Batch]:
        """See `Member`."""

        def admitted() -> bool:
            return self.in_group and self.holds(epoch)

        return MemberWriter(self, epoch, self._log.writer(self.identity, admitted), self._log)

    def ask(self, refused: int | None) -> int | None:
        """The credential with which the process may commit now: the generation that it knows. One
        that is still in the group learns of the next generation after a refusal."""
        instances = self.coordinator.instances
        self._log.pause("ask")
        if refused is not None and self.in_group:
            instances.hear(self.process)
        credential = instances.known.get(self.process)
        self._log.pause("asked")
        return None if credential == refused else credential

    def lag(self, topic_partitions: Collection[TopicPartition]) -> Lag | None:
        """See `Member`."""
        return self._log.lag(self.group, topic_partitions)

    def peers(self) -> bool:
        """See `Member`."""
        return any(member.process is not self.process for member in self.coordinator.members)

    def close(self) -> None:
        """See `Member`."""
        if not self.closed:
            self.closed = True
            self.coordinator.instances.views[self.process].remove(self)
        self.coordinator.throw_out(self)


class MemberWriter(Generic[Batch]):
    """`Writer` of a member. No other member has its name, so being fenced only means that others
    took it for dead: it may open another writer."""

    def __init__(
        self,
        member: SimulatedMember[Batch],
        epoch: int,
        writer: Writer[Batch],
        log: GroupLog[Batch],
    ) -> None:
        self.member = member
        self.writer = writer
        self._epoch = epoch
        self._log = log

    def append(self, appended: Sequence[Appended[Batch]]) -> None:
        """See `Writer`."""
        try:
            self.writer.append(appended)
        except FencedError as error:
            raise UnavailableError(str(error)) from error

    def send(self, appended: Sequence[Appended[Batch]]) -> None:
        """See `Writer`."""
        self.writer.send(appended)

    def transact(
        self,
        group: str,
        appended: Sequence[Appended[Batch]],
        positions: Mapping[TopicPartition, int],
    ) -> Outcome:
        """See `Writer`."""
        (result,) = round_of_members(
            self._log, [(self, Participant(self, group, appended, positions))]
        )
        if isinstance(result, Exception):
            raise result
        return result

    def entry(self, participant: Participant[Batch]) -> Participant[Batch] | None:
        """What it contributes to a transaction; None when the assignment was lost."""
        if not self.member.holds(self._epoch):
            return None
        return Participant(
            self.writer, participant.group, participant.appended, participant.positions
        )

    def close(self) -> None:
        """See `Writer`."""
        self.writer.close()


Shares = Sequence[tuple[MemberWriter[Batch], Participant[Batch]]]


def round_of_members(log: GroupLog[Batch], shares: Shares[Batch]) -> list[Result]:
    """A commit round of queries of one process; see `fenced_round`."""
    member = shares[0][0].member
    instances = member.coordinator.instances

    def entry_of(
        writer: MemberWriter[Batch], participant: Participant[Batch]
    ) -> Callable[[], Participant[Batch] | None]:
        return lambda: writer.entry(participant)

    def commit(entries: Sequence[Participant[Batch]], credential: int) -> list[Result]:
        return log.commit(entries, lambda: credential == instances.generation)

    results = fenced_round([entry_of(*share) for share in shares], member.ask, commit)
    return [Outcome.ABORTED if isinstance(one, FencedError) else one for one in results]
