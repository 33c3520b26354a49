"""Small sub-topologies in plain Python behind the Executor port, and the shapes made of them.

Input records are (key, payload) with unique payloads. State is a dictionary for each partition;
a `Disk` is what survives a crash of its host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from millstream.log.log import Appended, Fetched
from millstream.runtime.ports import RunResult, Snapshots
from millstream.topology.split import channel_per_sender

Rows = tuple[Any, ...]
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
    `channels`: each task has its own channel on `target`."""

    inputs: tuple[str, ...]
    target: str
    count: bool = False
    rekey: bool = False
    coalesce: bool = False
    changelog: str | None = None
    channels: bool = False


class PureExecutor:
    """Runs a Job. Now and then it consumes only a part of what it is handed."""

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
        consumed: dict[tuple[str, int], int] = {}
        kept = 0
        for partition, key, payload in self._taken(inputs, consumed):
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
            to += (partition + 1) * self.partitions if self.job.channels and not together else 0
            outputs.setdefault((self.job.target, to), []).append(row)
        made = tuple(appended(topic_partition, rows) for topic_partition, rows in outputs.items())
        return RunResult(made, consumed, kept=kept)

    def _taken(
        self, inputs: Sequence[Fetched[Rows]], consumed: dict[tuple[str, int], int]
    ) -> Iterator[tuple[int, int, Any]]:
        for fetched in inputs:
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

    def topics(self, partitions: int) -> dict[str, int]:
        """All topics and their partitions."""
        names = [*self.sources, *(job.changelog for job in self.jobs if job.changelog)]
        each = channel_per_sender(partitions)
        targets = {job.target: partitions * (each if job.channels else 1) for job in self.jobs}
        return dict.fromkeys(names, partitions) | targets


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
