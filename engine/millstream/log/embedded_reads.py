"""Reads records of an embedded log, from memory or from its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import duckdb
import pyarrow as pa

from millstream.log import table_reads
from millstream.log.checks import check_offset
from millstream.log.contents import Contents
from millstream.log.duckfile import reading_error
from millstream.log.log import Fetched, TopicPartition
from millstream.log.logfile import LogFile
from millstream.log.stored import Stored
from millstream.model.batch import NO_NUMBERED_RECORDS, NO_RECORDS


class EmbeddedReads:
    """For any number of threads; none waits for a write."""

    def __init__(
        self, file: LogFile, contents: Contents, stored: Callable[[str, int], Stored]
    ) -> None:
        """`stored`: the topic of a partition, checked."""
        self._file = file
        self._contents = contents
        self._stored = stored
        self._record_bytes: dict[TopicPartition, int] = {}
        """The average size of the records that were last read from the tables."""

    def forget(self, topic: str, partitions: int) -> None:
        """Forget a topic that was deleted."""
        for partition in range(partitions):
            self._record_bytes.pop((topic, partition), None)

    def read(self, topic: str, partition: int, offset: int, max_records: int) -> Fetched[pa.Table]:
        """See `Log`. Recent records are read from memory, without a copy."""
        fetched = self.read_later(topic, partition, offset, max_records)
        if fetched.later is None:
            return fetched
        batch = fetched.later()
        return replace(fetched, batch=batch, bytes=batch.nbytes, later=None)

    def read_later(
        self, topic: str, partition: int, offset: int, max_records: int
    ) -> Fetched[pa.Table]:
        """As `read`, but records that are not in memory are left to be read by the caller, if their
        size can be estimated from earlier reads: queries may have decoded them for each other. It
        waits for no write."""
        stored = self._stored(topic, partition)
        end = stored.ends[partition]
        check_offset(topic, partition, offset, stored.starts[partition], end)
        if max_records > 0 and offset < stored.dense_from(partition):
            found = self._read_sparse(stored, partition, offset, max_records)
            if found.count:
                return found
            offset = found.next_offset
        stop = min(offset + max(max_records, 0), end)
        batch = self._contents.recent(topic, partition, offset, stop)
        later, size = None, self._record_bytes.get((topic, partition))
        if batch is None and stop > offset and size is not None:
            later = partial(self._read_tables, stored, partition, offset, stop)
            batch = NO_NUMBERED_RECORDS if stored.topic.numbered else NO_RECORDS
        elif batch is None:
            batch = self._read_tables(stored, partition, offset, stop)
        size_all = batch.nbytes if later is None or size is None else size * (stop - offset)
        return Fetched(
            topic, partition, batch, stop - offset, stop, stop == end, size_all, later=later
        )

    def _read_tables(self, stored: Stored, partition: int, first: int, stop: int) -> pa.Table:
        if stop <= first:
            return NO_NUMBERED_RECORDS if stored.topic.numbered else NO_RECORDS
        found = self._read_segments(stored, partition, first, stop)
        self._record_bytes[stored.topic.name, partition] = found.nbytes // found.num_rows
        return found

    def _read_segments(self, stored: Stored, partition: int, first: int, stop: int) -> pa.Table:
        with self._reading(stored, partition, first, stop), self._file.cursor() as cursor:
            return table_reads.read_records(cursor, stored, partition, first, stop)

    @contextmanager
    def _reading(self, stored: Stored, partition: int, first: int, stop: int) -> Iterator[None]:
        name = stored.topic.name
        try:
            yield
        except duckdb.CatalogException as error:
            # The topic was deleted, or the segment truncated or compacted, since the check.
            check_offset(
                name, partition, first, self._stored(name, partition).starts[partition], stop
            )
            # Another topic has its name now.
            raise reading_error(self._file.path, name, error) from error
        except duckdb.Error as error:
            raise reading_error(self._file.path, name, error) from error

    def _read_sparse(
        self, stored: Stored, partition: int, first: int, most: int
    ) -> Fetched[pa.Table]:
        """Read where compaction has left records out; none if there are none in that range."""
        stop = stored.dense_from(partition)
        with self._reading(stored, partition, first, stop), self._file.cursor() as cursor:
            found, following = table_reads.read_sparse(cursor, stored, partition, first, stop, most)
        at_end = following == stored.ends[partition]
        name, count = stored.topic.name, found.num_rows
        return Fetched(name, partition, found, count, following, at_end, found.nbytes)
