"""A log in one DuckDB file (or in memory): no broker, no service.

One process opens the file; any number of its threads may use the log. Topics are tables of records
(tables.py); a transaction of the log is a transaction of DuckDB.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa

from millstream.log import tables
from millstream.log.ahead import AheadReader
from millstream.log.arrival import Arrivals, after_openings, with_arrivals
from millstream.log.checks import (
    check_epoch,
    check_partition,
    closed,
)
from millstream.log.commit_mark import CommitMark
from millstream.log.contents import Contents
from millstream.log.creating import create_together, raise_first
from millstream.log.duckfile import STATE, is_shared, open_file, opening_error
from millstream.log.embedded_reads import EmbeddedReads
from millstream.log.embedded_usage import EmbeddedUsage
from millstream.log.embedded_writer import EmbeddedWriter, Part
from millstream.log.log import (
    Appended,
    Fetched,
    Member,
    Outcome,
    Participant,
    Reader,
    Result,
    Topic,
    TopicPartition,
    configured,
    describe_one_by_one,
    ends_one_by_one,
    of_places,
)
from millstream.log.logfile import InDoubtError, LogFile, Writing
from millstream.log.membership import SoleMember
from millstream.log.policy import check_settings, policy_of
from millstream.log.rounds import in_halves, one_by_one
from millstream.log.snapshot import LogSnapshot, taken
from millstream.log.starts import Starts
from millstream.log.stored import Stored, records_given
from millstream.log.torn import open_mended
from millstream.log.upkeep import Upkeep
from millstream.log.usage import TopicUsage
from millstream.log.watchers import News, OnNews, Watchers, changed, grown
from millstream.model.clock import now_ms
from millstream.model.errors import MillstreamError

TAIL_BYTES = 32 << 20


class EmbeddedLog:
    """`Log` of Arrow tables over one DuckDB instance; see `open`."""

    def __init__(
        self, file: LogFile, tail_bytes: int, clock: Callable[[], int], *, compacting: bool
    ) -> None:
        self._file = file
        self._contents = Contents(tail_bytes)
        self._lock = threading.RLock()
        self._starts = Starts()
        self._watchers = Watchers()
        self._closed = False
        self._reads = EmbeddedReads(file, self._contents, self._stored)
        with self._file.cursor() as cursor:
            tables.prepare(cursor, file.path)
            self._contents.load(cursor)
            self._epochs = tables.load_epochs(cursor)
            self._arrivals = after_openings(tables.load_openings(cursor))
            unknown = tables.unknown_tables(cursor, self._contents.topics.values())
        self._mark = CommitMark(
            file.path, records_given(self._contents.topics.values()), new=file.new
        )
        self._usage = EmbeddedUsage()
        self._upkeep = Upkeep(self, file, self._contents, self._lock, self._change, clock)
        self._upkeep.begin(unknown, in_background=compacting)
        self._retention = self._upkeep.retention

    @staticmethod
    def open(
        path: str | Path,
        *,
        threads: int = 1,
        memory_limit: str | None = None,
        temp_directory: str | None = None,
        tail_bytes: int = TAIL_BYTES,
        clock: Callable[[], int] = now_ms,
        compacting: bool = True,
    ) -> EmbeddedLog:
        """Open or create the log at `path`; ":memory:" makes one that lives with this object.

        `threads` and `memory_limit` ("2GB") are those of the DuckDB instance, which the state
        shares; `tail_bytes` bounds the newest records kept in memory for readers at its end.
        `compacting`: whether topics are compacted and the file is shrunk in the background, and not
        only by `compact` and `shrink`. Raises UnavailableError (E-LOG-LOCKED) while another process
        has the file open, ConflictError (E-LOG-OPEN) when this one has, CorruptionError for a file
        that is not a log.
        """
        new = not Path(path).exists()
        connection = open_mended(
            str(path), lambda: open_file(str(path), threads, memory_limit, temp_directory)
        )
        file = LogFile(str(path), connection, new=new)
        try:
            return EmbeddedLog(file, tail_bytes, clock, compacting=compacting)
        except duckdb.Error as error:
            file.close_unchanged()
            raise opening_error(str(path), error) from error
        except MillstreamError:
            file.close_unchanged()
            raise

    # The DuckDB instance, which the state shares

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The instance's first connection. Take `.cursor()` of it; never run SQL on it itself."""
        return self._file.connection

    @property
    def path(self) -> str:
        """The file, or ":memory:"."""
        return self._file.path

    def attach_state(self, path: str | Path, name: str = STATE) -> None:
        """Attach the database that holds the state (":memory:" for a temporary one).

        Only before `lock`. Raises UnavailableError or CorruptionError as `open` does.
        """
        try:
            self._file.attach(str(path), name)
        except duckdb.Error as error:
            raise opening_error(str(path), error) from error

    def detach_state(self, name: str = STATE) -> None:
        """Take back `attach_state`; only before `lock`. Raises duckdb.Error when there is none."""
        self._file.detach(name)

    def lock(self) -> None:
        """Close the instance to the file system, the network and changes of its settings.

        From here on no SQL run on it, whatever its text, can read or write another file.
        """
        self._file.lock()

    @contextmanager
    def _change(self) -> Iterator[Writing]:
        """A transaction of the file, under the lock; see `LogFile.change`."""
        with self._file.change() as (cursor, rows):
            self._starts.write(cursor, self._contents.topics.values())
            yield cursor, rows
        self._starts.written()

    # Topics

    def create_topic(self, topic: Topic) -> None:
        """See `Log`."""
        raise_first(self.create_topics([topic]))

    def create_topics(self, topics: Sequence[Topic]) -> list[Topic | MillstreamError]:
        """See `Log`."""
        with self._lock:
            results = create_together(topics, self.topic, self._insert_topics)
        for topic in (result for result in results if isinstance(result, Topic)):
            self._watchers.call(changed(topic.name))
        return results

    def _insert_topics(self, topics: Sequence[Topic]) -> Sequence[Topic]:
        with self._change() as (cursor, _):
            stored = [tables.insert_topic(cursor, topic) for topic in topics]
        self._contents.topics.update((each.topic.name, each) for each in stored)
        return [each.topic for each in stored]

    def delete_topic(self, name: str) -> None:
        """See `Log`."""
        with self._lock:
            self._require_open()
            stored = self._contents.topics.get(name)
            if stored is None:
                return
            self._mark.add(-sum(stored.ends))
            with self._change() as (cursor, _):
                tables.drop_topic(cursor, stored)
            self._contents.forget_topic(name)
            self._reads.forget(name, stored.topic.partitions)
        self._watchers.call(changed(name))

    def configure_topic(self, name: str, changes: Mapping[str, str | None]) -> None:
        """See `Log`."""
        check_settings(changes)
        with self._lock:
            before = self._stored(name, 0)
            topic = configured(before.topic, changes)
            after = replace(before, topic=topic, policy=policy_of(topic.config))
            with self._change() as (cursor, _):
                tables.update_topic(cursor, after)
            self._contents.topics[name] = after
            self._retention.look()

    def usage(self, names: Collection[str]) -> Mapping[str, TopicUsage]:
        """See `Log`."""
        self._require_open()
        return self._usage.of(self._file, self._contents, names)

    def topic(self, name: str) -> Topic | None:
        """See `Log`."""
        self._require_open()
        stored = self._contents.topics.get(name)
        return stored.topic if stored else None

    def topics(self) -> tuple[Topic, ...]:
        """See `Log`."""
        with self._lock:
            self._require_open()
            return self._contents.listed()

    def describe(self, names: Collection[str]) -> Mapping[str, Topic]:
        """See `Log`."""
        return describe_one_by_one(self, names)

    def seen(self, names: Collection[str]) -> Mapping[str, Topic | None]:
        """See `Log`."""
        return {name: self.topic(name) for name in names}

    # Reading

    def _stored(self, name: str, partition: int) -> Stored:
        self._require_open()
        # Looked up once: without the lock, the topic may be deleted at any time.
        stored = self._contents.topics.get(name)
        check_partition(name, partition, stored.topic if stored else None)
        assert stored is not None
        return stored

    def read(self, topic: str, partition: int, offset: int, max_records: int) -> Fetched[pa.Table]:
        """See `Log`. Recent records are read from memory, without a copy."""
        return self._reads.read(topic, partition, offset, max_records)

    def read_later(
        self, topic: str, partition: int, offset: int, max_records: int
    ) -> Fetched[pa.Table]:
        """As `read`, but records that are not in memory are left to be read by the caller, if their
        size can be estimated from earlier reads: queries may have decoded them for each other. It
        waits for no write."""
        return self._reads.read_later(topic, partition, offset, max_records)

    def reader(self, *, alone: bool = False) -> Reader[pa.Table]:
        """See `Log`."""
        return AheadReader(self, self.read if alone else self.read_later)

    def start_offset(self, topic: str, partition: int) -> int:
        """See `Log`."""
        return self._stored(topic, partition).starts[partition]

    def end_offset(self, topic: str, partition: int) -> int:
        """See `Log`."""
        return self._stored(topic, partition).ends[partition]

    def end_offsets(
        self, topic_partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """See `Log`; all of them as of one moment."""
        with self._contents.lock:
            return ends_one_by_one(self, topic_partitions)

    def written_end(self, topic: str, partition: int) -> int:
        """See `Log`; everything written is committed."""
        return self.end_offset(topic, partition)

    def written_ends(
        self, topic_partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """See `Log`."""
        return {place: self.written_end(*place) for place in topic_partitions}

    def truncate(self, topic: str, partition: int, before: int) -> None:
        """See `Log`. `maintain` frees the space, a segment at a time. The next transaction of the
        file makes it durable: a crash before that is one before the truncation, because nothing has
        been written since."""
        with self._lock:
            stored = self._stored(topic, partition)
            start = min(before, stored.ends[partition])
            if start <= stored.starts[partition]:
                return
            self._contents.truncated(stored, partition, start)
            self._starts.moved[stored.id, partition] = start
            self._retention.untidy.add(topic)

    # Positions and writers

    def positions(
        self, group: str, topic_partitions: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, int]:
        """See `Log`."""
        with self._lock:
            self._require_open()
            return of_places(self._contents.positions.get(group, {}), topic_partitions)

    def vacant(self, group: str) -> bool:
        """See `Log`; a group of one process has no members."""
        return True

    def forget_group(self, group: str) -> None:
        """See `Log`."""
        with self._lock:
            if not self.positions(group):
                return
            with self._change() as (cursor, _):
                cursor.execute("DELETE FROM log.positions WHERE grp = ?", [group])
            del self._contents.positions[group]

    def join(self, group: str, partitions: int) -> Member[pa.Table]:
        """See `Log`; no other process can open the file."""
        return SoleMember(self, group, partitions)

    def writer(self, identity: str, *, size: int = 0) -> EmbeddedWriter:
        """See `Log`. Raises UnavailableError when the outcome of an earlier transaction is still
        in doubt and the file does not answer; the log must then be closed and opened again."""
        with self._lock:
            self._require_open()
            if self._file.doubt:
                self._settle()
            # Not written: the file is open in one process, and its writers end with it.
            epoch = self._epochs[identity] = self._epochs.get(identity, 0) + 1
            return EmbeddedWriter(self._write, identity, epoch)

    def send(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """See `Log`."""
        self._write((Part("", 0, appended),))

    def _settle(self) -> None:
        """Load what the instance shows of an in-doubt transaction."""
        self._file.settle()
        with self._file.cursor() as cursor:
            self._contents.load(cursor)
            self._arrivals = after_openings(tables.load_openings(cursor))
        self._mark.set(records_given(self._contents.topics.values()))
        self._contents.truncate_again(self._starts.moved)
        # What was in doubt may turn out to be there.
        topics = frozenset(self._contents.topics)
        self._retention.untidy.update(topics)
        self._watchers.call(News(topics, topics))

    poll_interval_ms = None
    """See `WatchedLog`: no other process can append."""

    def on_news(self, callback: OnNews) -> Callable[[], None]:
        """See `WatchedLog`."""
        return self._watchers.add(callback)

    # Upkeep

    def maintain(self) -> bool:
        """Drop records that are too old or truncated; take a checkpoint of the log and its attached
        state where the write-ahead log is large.

        Call it where no transaction on the log is open (the commit barrier); returns whether a
        checkpoint was taken. Raises nothing: what cannot be done now is done the next time.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return not self._closed and self._upkeep.run()
        finally:
            self._lock.release()

    def compact(self) -> int:
        """Compact what is due now, instead of in the background; returns how many segments were
        compacted. Only for a log that is opened with `compacting` false."""
        return self._upkeep.compaction.run()

    def shrink(self) -> int:
        """The same for shrinking the file; returns how many tables were moved."""
        return self._upkeep.shrinking.run()

    def snapshot(self) -> AbstractContextManager[LogSnapshot]:
        """All that the log holds, as of one moment, while it goes on. No checkpoint is taken
        meanwhile."""
        self._require_open()
        return taken(self._file, self._lock, self._contents, self._epochs)

    def close(self) -> None:
        """See `Log`. The state attached to the instance is closed with it."""
        self._upkeep.close()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._watchers = Watchers()
            if self._starts.moved:
                with suppress(MillstreamError), self._change():
                    pass
            self._file.close()
            self._mark.close()

    def _require_open(self) -> None:
        if self._closed:
            raise closed(f"log '{self._file.path}'")

    # Writing

    marker_offsets = 0
    """See `Log`."""
    private = True
    """See `WatchedLog`."""

    commits_together = True
    """See `Log`."""

    def transact_all(self, participants: Sequence[Participant[pa.Table]]) -> list[Result]:
        """See `Log`: one transaction of the file."""
        if any(not isinstance(each.writer, EmbeddedWriter) for each in participants):
            return one_by_one(participants)
        return in_halves(participants, self._attempt, is_shared)

    def _attempt(self, participants: Sequence[Participant[pa.Table]]) -> Outcome:
        try:
            self._write(
                [
                    each.writer.part(each.group, each.appended, each.positions)
                    for each in participants
                    if isinstance(each.writer, EmbeddedWriter)
                ]
            )
        except InDoubtError:
            return Outcome.UNKNOWN
        return Outcome.COMMITTED

    def _write(self, parts: Sequence[Part]) -> None:
        """One transaction of the file, for an `EmbeddedWriter` or several."""
        with self._lock:
            self._require_open()
            for part in parts:
                check_epoch(part.identity, part.epoch, self._epochs.get(part.identity, 0))
                for topic, partition in part.positions:
                    check_partition(topic, partition, self.topic(topic))
            following = self._arrivals.following
            numbered: list[Appended[pa.Table]] = []
            for part in parts:
                more, following = with_arrivals(part.appended, following)
                numbered += more
            insertions = self._contents.plan(numbered)
            moves: dict[str, Mapping[TopicPartition, int]] = {}
            for part in parts:
                if part.positions:
                    moves[part.group] = {**moves.get(part.group, {}), **part.positions}
            if not insertions and not moves:
                return
            with self._change() as (cursor, rows):
                if insertions and not self._arrivals.begun:
                    tables.count_opening(cursor)
                for insertion in insertions:
                    tables.insert_records(cursor, rows, insertion)
                tables.move_positions(cursor, moves, self._contents.positions)
            if insertions:
                self._arrivals = Arrivals(following, begun=True)
                self._mark.add(sum(insertion.rows.num_rows for insertion in insertions))
            self._contents.publish(insertions)
            self._retention.untidy.update(
                insertion.after.topic.name for insertion in insertions if insertion.opened
            )
            self._contents.move(moves)
            if self._upkeep.due:
                # `maintain` was not called, or it found a transaction open.
                self.maintain()
        if insertions:
            self._watchers.call(grown(insertion.after.topic.name for insertion in insertions))
