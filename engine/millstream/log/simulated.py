"""An in-memory log that fails on purpose, for simulations: no thread, no clock, no I/O.

It behaves as a broker with transactions does: read-committed reads stop before an open transaction,
aborted records and markers leave gaps in the offsets, a newer writer aborts what an older one left
open.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Generic

from millstream.log.batches import Batches
from millstream.log.checks import (
    check_epoch,
    check_new_topic,
    check_offset,
    check_partition,
)
from millstream.log.faults import Fault, SeededFaults, SimulatedCrash, no_effect, no_fault
from millstream.log.fenced_rounds import RefusedCredentialError
from millstream.log.log import (
    Appended,
    Batch,
    DirectReader,
    Fetched,
    Lag,
    Member,
    Outcome,
    Participant,
    Reader,
    Result,
    Topic,
    TopicPartition,
    configured,
    create_one_by_one,
    describe_one_by_one,
    ends_one_by_one,
    of_places,
)
from millstream.log.membership import SoleMember
from millstream.log.rounds import in_halves, one_by_one
from millstream.log.simulated_group import Coordinator, MemberWriter, round_of_members
from millstream.log.simulated_records import Fate, Partition, Transaction, undo
from millstream.log.simulated_writer import Part, SimulatedWriter
from millstream.log.usage import TopicUsage
from millstream.log.watchers import OnNews, Watchers, changed, grown
from millstream.model.errors import MillstreamError, UnavailableError


class SimulatedLog(Generic[Batch]):
    """In-memory `Log` over any batches.

    `effect(name)` is called before and after each durable step ("append", "transact.write",
    "transact.commit", "transact.done", "writer", …) and may raise SimulatedCrash; the log itself
    outlives the crash, as a broker does. `fault(name)` decides the fate of each request. With
    `markers`, the end of each transaction takes an offset, as on Kafka, where an append is a
    transaction too. With a `coordinator`, the members of a group share its tasks.
    """

    def __init__(
        self,
        batches: Batches[Batch],
        *,
        effect: Callable[[str], None] = no_effect,
        fault: Callable[[str], Fault] = no_fault,
        markers: bool = False,
        coordinator: Coordinator[Batch] | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._batches = batches
        self._effect = effect
        self._fault = fault
        self._markers = markers
        self._topics: dict[str, Topic] = {}
        self._topics_made = 0
        self._partitions: dict[TopicPartition, Partition[Batch]] = {}
        self._positions: dict[str, dict[TopicPartition, int]] = {}
        self._epochs: dict[str, int] = {}
        self._open: list[Transaction] = []
        self._watchers = Watchers()

    # Topics

    def create_topic(self, topic: Topic) -> None:
        """See `Log`."""
        self._request("create_topic")
        check_new_topic(topic, self._topics.get(topic.name))
        self._topics_made += 1
        self._topics[topic.name] = replace(
            topic, id=str(self._topics_made), replicas=max(1, topic.replicas)
        )
        for partition in range(topic.partitions):
            self._partitions[topic.name, partition] = Partition()
        self._watchers.call(changed(topic.name))
        self._effect("create_topic")

    def create_topics(self, topics: Sequence[Topic]) -> list[Topic | MillstreamError]:
        """See `Log`."""
        return create_one_by_one(self, topics)

    def delete_topic(self, name: str) -> None:
        """See `Log`."""
        self._request("delete_topic")
        if self._topics.pop(name, None) is None:
            return
        self._partitions = {at: p for at, p in self._partitions.items() if at[0] != name}
        for group, positions in self._positions.items():
            self._positions[group] = {at: p for at, p in positions.items() if at[0] != name}
        self._watchers.call(changed(name))
        self._effect("delete_topic")

    def configure_topic(self, name: str, changes: Mapping[str, str | None]) -> None:
        """See `Log`."""
        self._request("configure_topic")
        found = self._topics.get(name)
        check_partition(name, 0, found)
        assert found is not None
        self._topics[name] = configured(found, changes)
        self._effect("configure_topic")

    def usage(self, names: Collection[str]) -> Mapping[str, TopicUsage]:
        """See `Log`; offsets alone."""
        found = self.describe(names)
        return {
            name: TopicUsage(
                tuple(self.start_offset(name, part) for part in range(topic.partitions)),
                tuple(self.end_offset(name, part) for part in range(topic.partitions)),
            )
            for name, topic in found.items()
        }

    def topic(self, name: str) -> Topic | None:
        """See `Log`."""
        return self._topics.get(name)

    def topics(self) -> tuple[Topic, ...]:
        """See `Log`."""
        return tuple(self._topics[name] for name in sorted(self._topics))

    def describe(self, names: Collection[str]) -> Mapping[str, Topic]:
        """See `Log`."""
        return describe_one_by_one(self, names)

    def seen(self, names: Collection[str]) -> Mapping[str, Topic | None]:
        """See `Log`."""
        return {name: self.topic(name) for name in names}

    # Reading

    def _partition(self, name: str, partition: int) -> Partition[Batch]:
        check_partition(name, partition, self._topics.get(name))
        return self._partitions[name, partition]

    def read(self, topic: str, partition: int, offset: int, max_records: int) -> Fetched[Batch]:
        """See `Log`."""
        self._request("read")
        held = self._partition(topic, partition)
        stable = held.stable()
        check_offset(topic, partition, offset, held.start, held.next)
        found: list[Batch] = []
        count, at = 0, offset
        for piece in held.pieces:
            if piece.next <= at or at >= stable:
                continue
            if count >= max_records:
                break
            if piece.marker or piece.fate is Fate.ABORTED:
                at = piece.next
                continue
            take = min(piece.next - at, max_records - count)
            cut = self._batches.cut(piece.batch, at - piece.first, take)
            found.append(self._batches.topic_partition(cut, at))
            count, at = count + take, at + take
        joined = self._batches.join(found)
        size = self._batches.size(joined)
        return Fetched(topic, partition, joined, count, at, at >= stable, size)

    def reader(self, *, alone: bool = False) -> Reader[Batch]:
        """See `Log`."""
        return DirectReader(self)

    def start_offset(self, topic: str, partition: int) -> int:
        """See `Log`."""
        return self._partition(topic, partition).start

    def end_offset(self, topic: str, partition: int) -> int:
        """See `Log`."""
        return self._partition(topic, partition).stable()

    def end_offsets(
        self, topic_partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """See `Log`."""
        return ends_one_by_one(self, topic_partitions)

    def written_end(self, topic: str, partition: int) -> int:
        """See `Log`."""
        return self._partition(topic, partition).next

    def written_ends(
        self, topic_partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """See `Log`."""
        return {place: self.written_end(*place) for place in topic_partitions}

    def truncate(self, topic: str, partition: int, before: int) -> None:
        """See `Log`."""
        self._request("truncate")
        held = self._partition(topic, partition)
        held.start = max(held.start, min(before, held.stable()))
        held.pieces = [piece for piece in held.pieces if piece.next > held.start]
        self._effect("truncate")

    # Positions and writers

    def positions(
        self, group: str, topic_partitions: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, int]:
        """See `Log`. Raises UnavailableError while an open transaction may still move them."""
        self._request("positions")
        if any(opened.group == group and opened.positions for opened in self._open):
            raise UnavailableError(
                f"The positions of group '{group}' are not stable: a transaction is open.",
                code="E-NOT-STABLE",
            )
        return of_places(self._positions.get(group, {}), topic_partitions)

    def lag(self, group: str, topic_partitions: Collection[TopicPartition]) -> Lag | None:
        """See `Member`; None where a request had no response."""
        if self._fault("lag") is not Fault.NONE:
            return None
        ends = ends_one_by_one(self, topic_partitions)
        return Lag(of_places(self._positions.get(group, {}), topic_partitions), ends)

    def vacant(self, group: str) -> bool:
        """See `Log`."""
        if self._coordinator is not None and self._coordinator.members:
            return False
        self.positions(group)
        return True

    def forget_group(self, group: str) -> None:
        """See `Log`."""
        self._request("forget_group")
        self._positions.pop(group, None)
        self._effect("forget_group")

    def writer(
        self, identity: str, admitted: Callable[[], bool] = lambda: True, *, size: int = 0
    ) -> SimulatedWriter[Batch]:
        """See `Log`. `admitted`: whether the group still accepts positions from the writer."""
        self._request("writer")
        epoch = self._epochs.get(identity, 0) + 1
        self._epochs[identity] = epoch
        for opened in [opened for opened in self._open if opened.identity == identity]:
            self._settle(opened, Fate.ABORTED)
        self._effect("writer")
        return SimulatedWriter(self, identity, epoch, admitted)

    def send(self, appended: Sequence[Appended[Batch]]) -> None:
        """See `Log`."""
        self.write(appended, lambda: None)

    def expire(self, identity: str) -> None:
        """Abort what a writer has left open, as a broker does after the transaction timeout."""
        for opened in [opened for opened in self._open if opened.identity == identity]:
            self._epochs[identity] += 1
            self._settle(opened, Fate.ABORTED)

    def join(self, group: str, partitions: int) -> Member[Batch]:
        """See `Log`."""
        if self._coordinator is not None:
            return self._coordinator.join(self, group, partitions)
        return SoleMember(self, group, partitions)

    poll_interval_ms = None
    """See `WatchedLog`."""

    def on_news(self, callback: OnNews) -> Callable[[], None]:
        """See `WatchedLog`."""
        return self._watchers.add(callback)

    def maintain(self) -> bool:
        """See `WatchedLog`. There is no upkeep."""
        return False

    def close(self) -> None:
        """See `Log`. The records stay: this log stands for a broker."""

    # Writing

    def _request(self, name: str) -> None:
        """Let a request whose outcome is never in doubt fail or pass."""
        if self._fault(name) is not Fault.NONE:
            raise UnavailableError(f"Simulated: {name} was not answered.")

    def epoch(self, identity: str) -> int:
        """The epoch of the newest writer of an identity."""
        return self._epochs.get(identity, 0)

    def write(self, appended: Sequence[Appended[Batch]], check: Callable[[], None]) -> None:
        """Append outside of a transaction, for `SimulatedWriter`. `check` raises if it may not."""
        for append in appended:
            self._partition(append.topic, append.partition)
        self._effect("append")
        fault = self._fault("append")
        if fault is not Fault.REQUEST_LOST:
            check()
            self._add(appended, None)
            if self._markers:
                self._mark({(append.topic, append.partition) for append in appended})
            self._watchers.call(grown(append.topic for append in appended))
            self._effect("append.done")
        if fault is not Fault.NONE:
            raise UnavailableError("Simulated: append was not answered.", code="E-LOG-UNKNOWN")

    @property
    def marker_offsets(self) -> int:
        """See `Log`."""
        return int(self._markers)

    private = False
    """See `WatchedLog`."""

    commits_together = True
    """See `Log`."""

    def transact_all(self, participants: Sequence[Participant[Batch]]) -> list[Result]:
        """See `Log`: one transaction for the members of one process, or for all if none is a
        member's."""
        members = [each.writer for each in participants if isinstance(each.writer, MemberWriter)]
        if not members:
            return self.commit(participants)
        if len(members) < len(participants) or len({each.member.process for each in members}) > 1:
            return one_by_one(participants)
        return round_of_members(self, list(zip(members, participants, strict=True)))

    def commit(
        self,
        participants: Sequence[Participant[Batch]],
        accepted: Callable[[], bool] = lambda: True,
    ) -> list[Result]:
        """One transaction for all, whose writers are of this log. `accepted`: whether the group
        still accepts positions with the credential of the transaction."""

        def attempt(some: Sequence[Participant[Batch]]) -> Outcome:
            parts = [
                each.writer.part(each.group, each.appended, each.positions)
                for each in some
                if isinstance(each.writer, SimulatedWriter)
            ]
            return self.transact(parts, accepted)

        return in_halves(
            participants, attempt, lambda error: isinstance(error, RefusedCredentialError)
        )

    def pause(self, name: str) -> None:
        """A point at which the process may die, or be suspended while others continue."""
        self._effect(name)

    def transact(
        self, parts: Sequence[Part[Batch]], accepted: Callable[[], bool] = lambda: True
    ) -> Outcome:
        """Carry out a transaction of one writer or of several, for `SimulatedWriter`; `accepted` as
        of `commit`. Raises RefusedCredentialError, with nothing written, if it is not."""
        for part in parts:
            records = ((append.topic, append.partition) for append in part.appended)
            for topic, partition in [*part.positions, *records]:
                self._partition(topic, partition)
        self._effect("transact")
        if self._fault("transact.write") is not Fault.NONE:
            return Outcome.ABORTED
        self._check_epochs(parts)
        opened = [Transaction(part.identity, part.group, dict(part.positions)) for part in parts]
        self._open += opened
        for part, transaction in zip(parts, opened, strict=True):
            self._add(part.appended, transaction)
        self._effect("transact.write")
        self._check_epochs(parts)
        # The positions are pending already, so the next owner of a task waits for them.
        if not accepted():
            for transaction in opened:
                self._settle(transaction, Fate.ABORTED)
            raise RefusedCredentialError("Simulated: the group has changed")
        self._effect("transact.positions")
        fault = self._fault("transact.commit")
        if fault is Fault.REQUEST_LOST:
            return Outcome.UNKNOWN
        self._check_epochs(parts)
        for transaction in opened:
            self._settle(transaction, Fate.COMMITTED)
        self._effect("transact.commit")
        if fault is Fault.RESPONSE_LOST:
            return Outcome.UNKNOWN
        return Outcome.COMMITTED

    def _check_epochs(self, parts: Sequence[Part[Batch]]) -> None:
        for part in parts:
            check_epoch(part.identity, part.epoch, self._epochs.get(part.identity, 0))

    def _add(self, appended: Sequence[Appended[Batch]], transaction: Transaction | None) -> None:
        for append in appended:
            if append.count:
                held = self._partitions[append.topic, append.partition]
                held.add(append.batch, append.count, transaction)

    def _mark(self, topic_partitions: Collection[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            self._partitions[topic_partition].mark(self._batches.join([]))

    def _settle(self, transaction: Transaction, fate: Fate) -> None:
        transaction.fate = fate
        self._open.remove(transaction)
        if fate is Fate.COMMITTED:
            group = self._positions.setdefault(transaction.group, {})
            group.update(
                {at: p for at, p in transaction.positions.items() if at in self._partitions}
            )
        topics = set()
        for (topic, partition), held in self._partitions.items():
            if any(piece.transaction is transaction for piece in held.pieces):
                topics.add(topic)
                if self._markers:
                    self._mark({(topic, partition)})
            if fate is Fate.ABORTED and not self._markers:
                undo(held, transaction)
        # Also after an abort: what others wrote behind it can be read now.
        self._watchers.call(grown(topics))


__all__ = ["Fault", "SeededFaults", "SimulatedCrash", "SimulatedLog", "SimulatedWriter"]
