"""Random operations: every log shows what a trivial model says it shows (or the same error)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from millstream.log.batches import TABLES
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Log, Outcome, Topic
from millstream.log.simulated import SimulatedLog
from millstream.model.errors import CorruptionError, FencedError, MillstreamError, StatementError
from tests.draws import draws
from tests.unit.log.suite import numbers_of_table, table_of

NAMES = st.sampled_from(["a", "b"])
PARTITIONS = st.integers(0, 2)
RECORDS = st.lists(st.integers(0, 99), max_size=6)
APPENDS = st.lists(st.tuples(NAMES, PARTITIONS, RECORDS), max_size=4)
POSITIONS = st.dictionaries(st.tuples(NAMES, PARTITIONS), st.integers(0, 30), max_size=3)
IDENTITIES = st.sampled_from(["w", "v"])
GROUPS = st.sampled_from(["g", "h"])


class Model:
    """Lists and dictionaries. `None` in a list is a truncated record."""

    def __init__(self) -> None:
        self.topics: dict[str, list[list[int | None]]] = {}
        self.positions: dict[str, dict[tuple[str, int], int]] = {}
        self.epochs: dict[str, int] = {}

    def known(self, name: str, partition: int) -> bool:
        return name in self.topics and partition < len(self.topics[name])

    def start(self, name: str, partition: int) -> int:
        return sum(record is None for record in self.topics[name][partition])


class Logs(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "x.log"
        self.model = Model()
        self.logs: list[Log[Any]] = [
            EmbeddedLog.open(self.path),
            EmbeddedLog.open(":memory:", tail_bytes=0),
            SimulatedLog(TABLES),
        ]
        self.writers: dict[tuple[str, int], list[Any]] = {}

    def teardown(self) -> None:
        for log in self.logs:
            log.close()
        self.folder.cleanup()

    def each(self, expected: Any, call: Any, over: list[Any] | None = None) -> None:
        for target in self.logs if over is None else over:
            try:
                shown = call(target)
            except MillstreamError as error:
                shown = type(error)
            assert shown == expected, f"{type(target).__name__}: {shown!r}, not {expected!r}"

    @initialize()
    def first_writers(self) -> None:
        for identity in ("w", "v"):
            self.open_writer(identity)

    @rule(name=NAMES, partitions=st.integers(1, 3))
    def create(self, name: str, partitions: int) -> None:
        if name in self.model.topics:
            return
        self.model.topics[name] = [[] for _ in range(partitions)]
        self.each(None, lambda log: log.create_topic(Topic(name, partitions)))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.model.topics.pop(name, None)
        for positions in self.model.positions.values():
            for at in [at for at in positions if at[0] == name]:
                del positions[at]
        self.each(None, lambda log: log.delete_topic(name))

    @rule(identity=IDENTITIES)
    def open_writer(self, identity: str) -> None:
        epoch = self.model.epochs.get(identity, 0) + 1
        self.model.epochs[identity] = epoch
        self.writers[identity, epoch] = [log.writer(identity) for log in self.logs]

    @rule(
        identity=IDENTITIES,
        old=st.booleans(),
        group=GROUPS,
        appends=APPENDS,
        positions=POSITIONS,
        transact=st.booleans(),
    )
    def write(
        self,
        identity: str,
        old: bool,
        group: str,
        appends: list[tuple[str, int, list[int]]],
        positions: dict[tuple[str, int], int],
        transact: bool,
    ) -> None:
        newest = self.model.epochs[identity]
        epoch = newest - 1 if old and (identity, newest - 1) in self.writers else newest
        moves = positions if transact else {}
        topic_partitions = [(name, partition) for name, partition, _ in appends] + list(moves)
        known = all(self.model.known(*topic_partition) for topic_partition in topic_partitions)
        expected: Any = Outcome.COMMITTED if transact else None
        if epoch != newest and known:
            expected = FencedError
        elif not known:
            # Which of two reasons to refuse is named first is up to the log.
            expected = FencedError if epoch != newest else StatementError
        else:
            for name, partition, records in appends:
                self.model.topics[name][partition].extend(records)
            if moves:
                self.model.positions.setdefault(group, {}).update(moves)
        batches = [
            Appended(name, p, table_of(records), len(records)) for name, p, records in appends
        ]

        def call(writer: Any) -> Any:
            try:
                if transact:
                    return writer.transact(group, batches, moves)
                return writer.append(batches)
            except (StatementError, FencedError):
                return expected if not known or epoch != newest else "refused for no reason"

        self.each(expected, call, self.writers[identity, epoch])

    @rule(name=NAMES, partition=PARTITIONS, before=st.integers(0, 12))
    def truncate(self, name: str, partition: int, before: int) -> None:
        if not self.model.known(name, partition):
            return self.each(StatementError, lambda log: log.truncate(name, partition, before))
        records = self.model.topics[name][partition]
        for i in range(min(before, len(records))):
            records[i] = None
        return self.each(None, lambda log: log.truncate(name, partition, before))

    @rule(group=GROUPS)
    def forget(self, group: str) -> None:
        self.model.positions.pop(group, None)
        self.each(None, lambda log: log.forget_group(group))

    @rule()
    def reopen(self) -> None:
        """Close and open the file: nothing is gone but the writers."""
        self.logs[0].close()
        self.logs[0] = EmbeddedLog.open(self.path)
        self.writers.clear()
        for identity in list(self.model.epochs):
            self.open_writer(identity)

    @rule(name=NAMES, partition=PARTITIONS, offset=st.integers(0, 14), count=st.integers(0, 5))
    def read(self, name: str, partition: int, offset: int, count: int) -> None:
        def shown(log: Log[Any]) -> Any:
            fetched = log.read(name, partition, offset, count)
            assert fetched.batch["offset"].to_pylist() == list(range(offset, fetched.next_offset))
            return numbers_of_table(fetched.batch), fetched.next_offset, fetched.end

        if not self.model.known(name, partition):
            return self.each(StatementError, shown)
        records = self.model.topics[name][partition]
        start = self.model.start(name, partition)
        self.each(start, lambda log: log.start_offset(name, partition))
        self.each(len(records), lambda log: log.end_offset(name, partition))
        if not start <= offset <= len(records):
            return self.each(CorruptionError, shown)
        taken = records[offset : offset + count]
        stop = offset + len(taken)
        return self.each((taken, stop, stop == len(records)), shown)

    @rule(group=GROUPS)
    def positions(self, group: str) -> None:
        expected = self.model.positions.get(group, {})
        self.each(expected, lambda log: log.positions(group))


TestLogs = Logs.TestCase
TestLogs.settings = settings(max_examples=draws(15), stateful_step_count=30)
