"""Small sub-topologies in plain Python behind the Executor port, and the shapes made of them.

Input records are (key, payload) with unique payloads. State is a dictionary for each partition;
a `Disk` is what survives a crash of its host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from millstream.log.log import Appended, Fetched, SenderEnds
from millstream.model.event_time import END
from millstream.runtime.ports import RunResult, Snapshots
from millstream.runtime.sender_buffer import LabelledRecord
from millstream.topology.split import channel_per_sender

Rows = tuple[Any, ...]
FIRST_MARK = -2
"""The key of the first watermark in the state; the others are below it."""
PIECE = 2
"""Keys in a piece of a snapshot."""


@dataclass(slots=True)
class Disk:
    """What an executor has made durable: (changelog position, rows) for each partition."""

    saved: dict[int, tuple[int, dict[int, int]]] = field(default_factory=dict)

    def copy(self) -> Disk:
        return Disk({p: (at, dict(rows)) for p, (at, rows) in self.saved.items()})


@dataclass(frozen=True, slots=True)
class Job:
    """What one sub-topology does. `count` numbers the records of each key and keeps the number as
    state; without it records pass through. `target` is partitioned by key if `rekey`, else the task
    writes to its own partition. `coalesce` keeps the last output of a key until the commit.
    `channels`: each task has its own channel on `target`; `labelled`: its records say which tasks
    have sent them."""

    inputs: tuple[str, ...]
    target: str
    count: bool = False
    rekey: bool = False
    coalesce: bool = False
    changelog: str | None = None
    channels: bool = False
    labelled: bool = False


class PureLabels:
    """Records of labelled topics are (senders, rows); each row is (sender, key, payload)."""

    def records(self, batch: Rows) -> list[LabelledRecord[Rows]]:
        return [
            LabelledRecord(record[0], frozenset(record[1]), 10 * len(record[2]), (record,))
            for record in batch
        ]

    def join(self, batches: Sequence[Rows]) -> Rows:
        return tuple(record for batch in batches for record in batch)


PURE_LABELS = PureLabels()


class PureExecutor:
    """Runs a Job. Now and then it consumes only a part of what it is handed.

    It merges the rows of labelled records by their payloads, which ascend: it holds back a row
    while a sender that is not at its end may bring a smaller one. What it has consumed of a sender
    behind the position is part of its state, under negative keys.
    """

    def __init__(self, job: Job, partitions: int, disk: Disk, rnd: Random, hold: float) -> None:
        self.job = job
        self.partitions = partitions
        self.disk = disk
        self.rnd = rnd
        self.hold = hold
        self.state: dict[int, dict[int, int]] = {}
        self.changes: dict[int, dict[int, int]] = {}
        self.coalesced: dict[int, dict[int, Any]] = {}
        self.logged: dict[int, int] = {}
        self.to_write: dict[int, list[int]] = {}
        self.last = Snapshots()

    def position(self, partition: int) -> int:
        position, _ = self.disk.saved.get(partition, (0, {}))
        return position

    def open(self, partition: int) -> int:
        position, rows = self.disk.saved.get(partition, (0, {}))
        self.state[partition] = dict(rows)
        self.changes[partition] = {}
        self.coalesced[partition] = {}
        self.logged[partition] = 0
        return position

    def clear(self, partition: int, position: int) -> None:
        self.state[partition] = {}
        self.disk.saved[partition] = (position, {})

    def restore(self, partition: int, fetched: Fetched[Rows]) -> None:
        for _offset, key, value in fetched.batch:
            self.state[partition][key] = value

    def run(
        self, inputs: Sequence[Fetched[Rows]], *, together: bool = False, closing: bool = False
    ) -> RunResult[Rows]:
        outputs: dict[tuple[str, int], list[Any]] = {}
        labelled: dict[int, list[Any]] = {}
        ahead: dict[tuple[str, int], dict[int, int]] = {}
        consumed: dict[tuple[str, int], int] = {}
        kept = 0
        for partition, key, payload in self._taken(inputs, consumed, ahead):
            row: tuple[Any, Any] = (key, payload)
            if self.job.count:
                number = self.state[partition].get(key, 0) + 1
                self.state[partition][key] = self.changes[partition][key] = number
                row = (key, (number, payload))
            if self.job.coalesce:
                self.coalesced[partition][key] = row[1]
                kept += 1
                continue
            to = key % self.partitions if self.job.rekey else partition
            if self.job.labelled:
                sender = None if together else partition
                labelled.setdefault(to, []).append((sender, *row))
                continue
            to += (partition + 1) * self.partitions if self.job.channels and not together else 0
            outputs.setdefault((self.job.target, to), []).append(row)
        made = [appended(topic_partition, rows) for topic_partition, rows in outputs.items()]
        made += [self._labelled(to, rows) for to, rows in labelled.items()]
        return RunResult(tuple(made), consumed, kept=kept, ahead=ahead)

    def _labelled(self, partition: int, rows: list[Any]) -> Appended[Rows]:
        """One record for the rows of all senders."""
        senders = tuple(sorted({sender for sender, *_ in rows if sender is not None}))
        record = (senders, tuple(rows))
        return Appended(self.job.target, partition, (record,), 1, 10 * len(rows))

    def _taken(
        self,
        inputs: Sequence[Fetched[Rows]],
        consumed: dict[tuple[str, int], int],
        ahead: dict[tuple[str, int], dict[int, int]],
    ) -> Iterator[tuple[int, int, Any]]:
        for fetched in inputs:
            if fetched.senders is not None:
                yield from self._merged(fetched, fetched.senders, consumed, ahead)
                continue
            rows = fetched.batch
            topic_partition = (fetched.topic, fetched.partition)
            if rows and self.rnd.random() < self.hold:
                rows = rows[: self.rnd.randint(0, len(rows) - 1)]
                if not rows:
                    continue
                consumed[topic_partition] = rows[-1][0] + 1
            else:
                consumed[topic_partition] = fetched.next_offset
            for _offset, key, payload in rows:
                yield fetched.partition % self.partitions, key, payload

    def _merged(
        self,
        fetched: Fetched[Rows],
        ends: SenderEnds,
        consumed: dict[tuple[str, int], int],
        ahead: dict[tuple[str, int], dict[int, int]],
    ) -> Iterator[tuple[int, int, Any]]:
        partition, place = fetched.partition, (fetched.topic, fetched.partition)
        marks, carried = self._marks(partition)
        queues = self._queues(fetched, ends, marks, carried)
        last = {sender: (queue[-1][0] if queue else carried) for sender, queue in queues.items()}
        open_ = {
            sender: last[sender]
            for sender in queues
            if sender in ends.limits or _until(ends, sender) != END
        }
        taken: list[Any] = []
        limit = min(open_.values(), default=END)
        for sender, queue in queues.items():
            count = sum(row[0] <= limit for row in queue)
            if queue and self.rnd.random() < self.hold:
                count = self.rnd.randint(0, count)
            taken += [(row[0], sender, *row[1:]) for row in queue[:count]]
            queues[sender] = queue[count:]
        taken.sort(key=lambda row: row[:1])
        held = [queue[0][1] for queue in queues.values() if queue]
        consumed[place] = position = min([fetched.next_offset, *held])
        for _m, sender, offset, _index, _key, _payload in taken:
            marks[sender] = max(marks.get(sender, (0, 0)), (offset + 1, 0))
        for sender, queue in queues.items():
            if queue:
                marks[sender] = queue[0][1:3]
        self._mark(partition, marks, position, max([carried, *(row[0] for row in taken)]))
        ahead[place] = {
            sender: offset
            for sender, (offset, _) in marks.items()
            if sender is not None and offset > position
        }
        for _m, _sender, _offset, _index, key, payload in taken:
            yield partition % self.partitions, key, payload

    def _queues(
        self,
        fetched: Fetched[Rows],
        ends: SenderEnds,
        marks: Mapping[int | None, tuple[int, int]],
        carried: int,
    ) -> dict[int | None, list[Any]]:
        """By sender: (m, offset, index in the record, key, payload)."""
        queues: dict[int | None, list[Any]] = {None: []}
        queues |= {sender: [] for sender in range(self.partitions)}
        for offset, _senders, rows in fetched.batch:
            indexes: Counter[int | None] = Counter()
            for sender, key, payload in rows:
                index, indexes[sender] = indexes[sender], indexes[sender] + 1
                if (offset, index) < marks.get(sender, (0, 0)):
                    continue
                if sender is not None and offset >= ends.limits.get(sender, END):
                    continue
                queue = queues[sender]
                m = max(payload, queue[-1][0] if queue else carried)
                queue.append((m, offset, index, key, payload))
        return queues

    def _marks(self, partition: int) -> tuple[dict[int | None, tuple[int, int]], int]:
        """What the state says of each sender, and the largest payload so far."""
        state = self.state[partition]
        marks: dict[int | None, tuple[int, int]] = {}
        for number in range(self.partitions + 1):
            if (stored := state.get(FIRST_MARK - number)) is not None:
                marks[number - 1 if number else None] = divmod(stored, 1 << 20)
        return marks, state.get(-1, -1)

    def _mark(
        self,
        partition: int,
        marks: Mapping[int | None, tuple[int, int]],
        position: int,
        top: int,
    ) -> None:
        rows = {-1: top} if top >= 0 else {}
        if FIRST_MARK in self.state[partition]:
            # Its offset may be that of a record that was handed over, and come again.
            rows[FIRST_MARK] = 0
        for sender, (offset, done) in marks.items():
            if (offset, done) > (position, 0):
                number = 0 if sender is None else sender + 1
                rows[FIRST_MARK - number] = (offset << 20) + done
        for key, value in rows.items():
            if self.state[partition].get(key) != value:
                self.state[partition][key] = self.changes[partition][key] = value

    def hand_back(
        self, topic: str, partition: int, first: int, records: Sequence[Appended[Rows]]
    ) -> Sequence[Appended[Rows]]:
        partition %= self.partitions
        offset, done = divmod(self.state[partition].get(FIRST_MARK, 0), 1 << 20)
        if offset != first or FIRST_MARK not in self.state[partition]:
            return records
        self.state[partition][FIRST_MARK] = self.changes[partition][FIRST_MARK] = 0
        (senders, rows), *others = records[0].batch
        kept = rows[done:]
        whole = replace(records[0], batch=((senders, kept), *others), bytes=10 * len(kept))
        return (whole, *records[1:])

    def flush(self) -> tuple[Appended[Rows], ...]:
        flushed = [
            appended((self.job.target, partition), list(rows.items()))
            for partition, rows in self.coalesced.items()
            if rows
        ]
        if self.job.changelog is not None:
            flushed += [
                appended((self.job.changelog, partition), list(rows.items()))
                for partition, rows in self.changes.items()
                if rows
            ]
            flushed += self._snapshot_pieces(self.job.changelog)
        for rows in (*self.coalesced.values(), *self.changes.values()):
            rows.clear()
        return tuple(flushed)

    def _snapshot_pieces(self, topic: str) -> list[Appended[Rows]]:
        """Snapshots of two keys a piece, begun when the changelog is thrice as long as them."""
        begun, complete, pieces = set(), set(), []
        for partition, rows in self.state.items():
            self.logged[partition] += len(self.changes[partition])
            if partition not in self.to_write and self.logged[partition] > 3 * len(rows):
                self.to_write[partition] = sorted(rows)
                self.logged[partition] = 0
                begun.add(partition)
            if partition in self.to_write:
                keys = self.to_write[partition]
                self.to_write[partition] = keys[PIECE:]
                piece = [(key, rows[key]) for key in keys[:PIECE]]
                if piece:
                    pieces.append(appended((topic, partition), piece))
                if not self.to_write[partition]:
                    complete.add(partition)
                    del self.to_write[partition]
        self.last = Snapshots(frozenset(begun), frozenset(complete))
        return pieces

    def snapshots(self) -> Snapshots:
        return self.last

    def commit(self, changelog_positions: Mapping[int, int]) -> None:
        self.disk.saved |= {
            partition: (position, dict(self.state[partition]))
            for partition, position in changelog_positions.items()
        }

    def discard(self) -> None:
        self.state.clear()
        self.changes.clear()
        self.coalesced.clear()
        self.to_write.clear()
        self.last = Snapshots()

    def close(self) -> None:
        self.discard()


def appended(topic_partition: tuple[str, int], rows: list[Any]) -> Appended[Rows]:
    """Rows for one partition."""
    return Appended(topic_partition[0], topic_partition[1], tuple(rows), len(rows), 10 * len(rows))


@dataclass(frozen=True, slots=True)
class Shape:
    """A query of the simulation: its sub-topologies, and which topics are the user's input."""

    name: str
    jobs: tuple[Job, ...]
    sources: tuple[str, ...]
    by_key: bool
    """Whether the input is partitioned by key."""

    @property
    def repartitions(self) -> frozenset[str]:
        return frozenset(job.target for job in self.jobs if job.rekey)

    @property
    def streams(self) -> frozenset[str]:
        """The topics with rows of streams; counts are rows of tables."""
        return frozenset(job.target for job in self.jobs if not job.count)

    def channels(self, job: Job, partitions: int) -> dict[str, int]:
        """The topics with channels that a job reads, and their number of channels."""
        with_channels = {other.target for other in self.jobs if other.channels}
        return dict.fromkeys(with_channels.intersection(job.inputs), channel_per_sender(partitions))

    def senders(self, job: Job, partitions: int) -> dict[str, int]:
        """The topics with labelled records that a job reads, and how many tasks send them."""
        labelled = {other.target for other in self.jobs if other.labelled}
        return dict.fromkeys(labelled.intersection(job.inputs), partitions)

    def topics(self, partitions: int) -> dict[str, int]:
        """All topics and their partitions."""
        names = [*self.sources, *(job.changelog for job in self.jobs if job.changelog)]
        each = channel_per_sender(partitions)
        targets = {job.target: partitions * (each if job.channels else 1) for job in self.jobs}
        return dict.fromkeys(names, partitions) | targets


def _until(ends: SenderEnds, sender: int | None) -> int:
    if sender is None:
        return ends.together
    return ends.here if sender in ends.local else ends.elsewhere


COUNT = Job(("rep",), "out", count=True, changelog="changelog")
SHAPES = (
    Shape("rekeyed", (Job(("in",), "rep", rekey=True), COUNT), ("in",), by_key=False),
    Shape(
        "two inputs",
        (Job(("in", "other"), "out", count=True, changelog="changelog"),),
        ("in", "other"),
        by_key=True,
    ),
    Shape(
        "in lanes", (Job(("in",), "rep", rekey=True, channels=True), COUNT), ("in",), by_key=False
    ),
    Shape(
        "labelled", (Job(("in",), "rep", rekey=True, labelled=True), COUNT), ("in",), by_key=False
    ),
    Shape("stateless", (Job(("in",), "out"),), ("in",), by_key=False),
    Shape(
        "coalesced",
        (
            Job(("in",), "rep", rekey=True),
            Job(("rep",), "out", count=True, coalesce=True, changelog="changelog"),
        ),
        ("in",),
        by_key=False,
    ),
)
