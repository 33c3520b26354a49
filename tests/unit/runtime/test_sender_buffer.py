"""Reading a partition on which several senders write: nothing is lost, nothing out of order, and
little is kept, whatever a slow sender does."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from millstream.log.log import Fetched, TopicPartition
from millstream.model.event_time import END
from millstream.runtime.sender_buffer import LabelledRecord, SenderBuffer
from tests.draws import draws

PLACE = ("rep", 0)
BYTES = 10
Record = tuple[int, frozenset[int], int]
"""Offset, senders, time."""
JOINT: frozenset[int] = frozenset()


class OwnLabels:
    def records(self, batch: Sequence[Record]) -> list[LabelledRecord[Sequence[Record]]]:
        return [LabelledRecord(item[0], item[1], BYTES, (item,)) for item in batch]

    def join(self, batches: Sequence[Sequence[Record]]) -> Sequence[Record]:
        return tuple(item for batch in batches for item in batch)


@dataclass
class OnePartition:
    """A log of one partition, with offsets that hold nothing. Sometimes it brings nothing yet."""

    rnd: Random
    records: list[Record]
    reads: list[int] = field(default_factory=list)

    def begin(self, together: Collection[TopicPartition] = ()) -> None:
        return

    def read(
        self, topic: str, partition: int, offset: int, max_records: int, before: int | None = None
    ) -> Fetched[Sequence[Record]]:
        self.reads.append(offset)
        if self.rnd.random() < 0.2:
            return Fetched(topic, partition, (), 0, offset, False, awaited=True)
        rest = [item for item in self.records if item[0] >= offset]
        found = tuple(rest[:max_records])
        end = len(found) == len(rest)
        following = self.end if end else found[-1][0] + 1
        return Fetched(topic, partition, found, len(found), following, end)

    def ready(self, positions: Mapping[TopicPartition, int]) -> int:
        return 0

    def close(self) -> None:
        return

    @property
    def end(self) -> int:
        return self.records[-1][0] + 3 if self.records else 0


@dataclass
class Consumer:
    """Consumes records by time, as a task does: none that a sender may still bring an earlier one
    before."""

    senders: int
    position: int = 0
    consumed: dict[int, int] = field(default_factory=dict)
    order: list[tuple[int, int]] = field(default_factory=list)
    """The offsets and senders consumed; sender -1 for all."""

    def run(self, fetched: Fetched[Sequence[Record]], log: OnePartition) -> None:
        ends = fetched.senders
        assert ends is not None
        if ends.joint:
            self.order += [(offset, -1) for offset, *_ in fetched.batch]
            self.position = fetched.next_offset
            return
        queues = {sender: self._presented(fetched, sender, log) for sender in range(self.senders)}
        ended = ends.complete or (ends.barrier and fetched.count > 0)
        limit = min(
            (
                queue[-1][2] if queue else self._last(sender, log)
                for sender, queue in queues.items()
                if sender in ends.limits or not ended
            ),
            default=END,
        )
        held = [fetched.next_offset]
        for sender, queue in queues.items():
            for offset, _, time in queue:
                if time > limit:
                    held.append(offset)
                    break
                self.order.append((offset, sender))
                self.consumed[sender] = offset + 1
        self.position = min(held)

    def _presented(
        self, fetched: Fetched[Sequence[Record]], sender: int, log: OnePartition
    ) -> list[Record]:
        """What it is given of a sender, which is what comes next of it."""
        assert fetched.senders is not None
        limit = fetched.senders.limits.get(sender, END)
        start = max(self.position, self.consumed.get(sender, 0))
        given = [r for r in fetched.batch if sender in r[1] and start <= r[0] < limit]
        wanted = [r for r in log.records if sender in r[1] and start <= r[0]]
        assert given == wanted[: len(given)], "not in order, or not without gaps"
        return given

    def _last(self, sender: int, log: OnePartition) -> int:
        start = max(self.position, self.consumed.get(sender, 0))
        return max((r[2] for r in log.records if sender in r[1] and r[0] < start), default=-1)

    @property
    def ahead(self) -> dict[int, int]:
        return {s: at for s, at in self.consumed.items() if at > self.position}


def made(rnd: Random, senders: int) -> list[Record]:
    """Records of instances that hold the tasks in turn, each at its own pace; sometimes of one that
    holds all of them."""
    times = dict.fromkeys(range(senders), 0)
    records: list[Record] = []
    offset = 0
    for _ in range(rnd.randint(1, 6)):
        if rnd.random() < 0.3:
            top = max(times.values())
            times = dict.fromkeys(times, top + 1)
            records += [(offset + n, JOINT, top) for n in range(rnd.randint(0, 3))]
            offset += 3
        owners = [rnd.randrange(3) for _ in range(senders)]
        paces = [rnd.choice((1, 5, 40)) for _ in range(3)]
        for _ in range(rnd.randint(0, 25)):
            owner = rnd.randrange(3)
            own = [s for s in range(senders) if owners[s] == owner and rnd.random() < 0.7]
            if own:
                time = max(times[s] for s in own) + paces[owner]
                times |= dict.fromkeys(own, time)
                records.append((offset, frozenset(own), time))
            offset += rnd.choice((1, 1, 2))
    return records


@pytest.mark.parametrize("seed", range(draws(400)))
def test_each_sender_is_read_once_in_its_order_and_little_is_kept(seed: int) -> None:
    rnd = Random(seed)
    senders = rnd.randint(2, 5)
    log = OnePartition(rnd, made(rnd, senders))
    quota, budget = rnd.choice((1, 3, 10)), rnd.choice((1, 35, 100))
    buffer: SenderBuffer[Sequence[Record]] = SenderBuffer(OwnLabels(), senders)
    consumer = Consumer(senders)
    for _ in range(3000):
        fetched = buffer.read(log, PLACE, consumer.position, quota, budget)
        # One read, or the budget, and a record for each sender that lacks one.
        assert buffer.size <= max(quota * BYTES, budget + BYTES) + senders * BYTES
        if fetched.awaited:
            continue
        consumer.run(fetched, log)
        buffer.consumed(consumer.position, consumer.ahead)
        if rnd.random() < 0.02:
            buffer.forget()
        if consumer.position >= log.end:
            break
    else:
        raise AssertionError("comes to no end")
    wanted = {(at, s) for at, own, _ in log.records for s in own or {-1}}
    assert len(consumer.order) == len(wanted) and set(consumer.order) == wanted
    joint = [at for at, sender in consumer.order if sender == -1]
    for first in joint:
        index = consumer.order.index((first, -1))
        assert all(at < first for at, _ in consumer.order[:index])


def test_what_all_consume_at_once_is_read_once() -> None:
    log = OnePartition(Random(0), [(at, frozenset({at % 2}), at) for at in range(40)])
    log.rnd = type("Never", (Random,), {"random": lambda _self: 1.0})()
    buffer: SenderBuffer[Sequence[Record]] = SenderBuffer(OwnLabels(), 2)
    position = 0
    while position < 40:
        fetched = buffer.read(log, PLACE, position, 8, 1)
        position = fetched.next_offset
        buffer.consumed(position, {})
    assert log.reads == [0, 8, 16, 24, 32]
