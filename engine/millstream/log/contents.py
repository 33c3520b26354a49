"""The in-memory contents of an embedded log."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

import duckdb
import pyarrow as pa

from millstream.log import tables
from millstream.log.checks import check_partition
from millstream.log.log import Appended, Topic, TopicPartition
from millstream.log.stored import Insertion, Stored, plan_insertion
from millstream.log.tail import TailCache


class Contents:
    """The topics with their bounds, the positions of groups, and the newest records. Updated after
    the file, under the log's lock. Readers need only `lock`, so they do not wait for a write."""

    def __init__(self, tail_bytes: int) -> None:
        self.lock = threading.Lock()
        """Held while records are added to the memory, and only then."""
        self._tail_bytes = tail_bytes
        self.topics: dict[str, Stored] = {}
        self.positions: dict[str, dict[TopicPartition, int]] = {}
        self.tail = TailCache(tail_bytes)
        self.dropped = True
        """Whether tables may have been dropped since `Shrinking` looked for their space."""

    def load(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Load the contents of the file."""
        topics, positions = tables.load_topics(cursor), tables.load_positions(cursor)
        with self.lock:
            self.topics, self.positions = topics, positions
            self.tail = TailCache(self._tail_bytes)

    def listed(self) -> tuple[Topic, ...]:
        """The topics, by name."""
        return tuple(self.topics[name].topic for name in sorted(self.topics))

    def recent(self, topic: str, partition: int, first: int, stop: int) -> pa.Table | None:
        """The records in [first, stop), if all of them are still in memory."""
        with self.lock:
            return self.tail.find((topic, partition), first, stop) if stop > first else None

    def plan(self, appended: Sequence[Appended[pa.Table]]) -> list[Insertion]:
        """The next offsets of records; raises StatementError for a topic or partition that does not
        exist."""
        by_topic: dict[str, list[Appended[pa.Table]]] = {}
        for append in appended:
            stored = self.topics.get(append.topic)
            check_partition(append.topic, append.partition, stored.topic if stored else None)
            if append.batch.num_rows:
                by_topic.setdefault(append.topic, []).append(append)
        return [plan_insertion(self.topics[name], appends) for name, appends in by_topic.items()]

    def truncated(self, stored: Stored, partition: int, start: int) -> None:
        """Note that the records of a partition before `start` are deleted."""
        starts = list(stored.starts)
        starts[partition] = start
        self.topics[stored.topic.name] = replace(stored, starts=tuple(starts))

    def truncate_again(self, starts: Mapping[tuple[int, int], int]) -> None:
        """Truncate partitions, by the ids of their topics, after `load`: the file lacks it."""
        for stored in tuple(self.topics.values()):
            for partition, known in enumerate(stored.starts):
                start = starts.get((stored.id, partition), 0)
                if start > known:
                    self.truncated(self.topics[stored.topic.name], partition, start)

    def forget_topic(self, name: str) -> None:
        """Remove a topic and every position on it."""
        with self.lock:
            del self.topics[name]
            self.tail.forget(name)
        self.dropped = True
        self.positions = {
            group: {at: position for at, position in positions.items() if at[0] != name}
            for group, positions in self.positions.items()
        }

    def publish(self, insertions: Sequence[Insertion]) -> None:
        """Note that records have been added, all at once for readers."""
        with self.lock:
            for insertion in insertions:
                name = insertion.after.topic.name
                self.topics[name] = insertion.after
                for partition, first, records in insertion.placed:
                    self.tail.add((name, partition), first, records)

    def read_by_all(self) -> dict[TopicPartition, int]:
        """Up to which offset each partition was read by all groups that read it."""
        read: dict[TopicPartition, int] = {}
        for positions in self.positions.values():
            for at, position in positions.items():
                read[at] = min(read.get(at, position), position)
        return read

    def move(self, moves: Mapping[str, Mapping[TopicPartition, int]]) -> None:
        """Note that positions of groups have moved."""
        for group, positions in moves.items():
            self.positions[group] = {**self.positions.get(group, {}), **positions}
