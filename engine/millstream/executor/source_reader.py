"""Decodes what was fetched of a source, together with the other queries that read it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from millstream.executor.decode_cache import DecodeCache, Part
from millstream.executor.decoded_partition import DecodedBatch, rows_between
from millstream.executor.exchange_read import OFFSET, constant
from millstream.formats.codec import DecodeSpec, decode
from millstream.log.log import Fetched
from millstream.model.batch import DIFF, HEADERS, MOMENT, PART, ROWTIME
from millstream.model.problem import Problem

_BOOKKEEPING = (PART, OFFSET, ROWTIME, DIFF, HEADERS, MOMENT)
_COLUMN = "="
"""How the names of the source's columns begin in a batch: no bookkeeping column begins so."""


class Rows(NamedTuple):
    """The rows of several partitions one after another. Those of each end before `ends`."""

    table: pa.Table
    ends: Sequence[int]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Sharing:
    """What the queries of an instance share for decoding: the cache, and the ids of the topics by
    name, which tell a topic from an earlier one of the same name. Topics without an id are not
    shared."""

    cache: DecodeCache
    topic_ids: Mapping[str, str]


class SourceReader:
    """One input of one query. What it returns does not depend on what other queries read."""

    def __init__(
        self, topic: str, spec: DecodeSpec, sharing: Sharing | None = None, partitions: int = 0
    ) -> None:
        """`partitions`: how many it will read, as far as is known before any is opened. Queries
        that start together share from the first record on."""
        self._topic = topic
        self._spec = spec
        self._cache: DecodeCache | None = None
        self._expected = range(partitions)
        self._opened: set[int] = set()
        if sharing is not None and sharing.topic_ids.get(topic):
            self._cache = sharing.cache
            self._group = sharing.cache.join(
                f"{topic}\0{sharing.topic_ids[topic]}",
                replace(spec, columns=()),
                self,
                frozenset(name for _, name in spec.columns),
            )
            for partition in range(partitions):
                self._cache.open(self._group, self, partition)

    def open(self, partition: int) -> None:
        """Note that a partition will be read."""
        if self._cache is not None:
            self._opened.add(partition)
            self._cache.open(self._group, self, partition)

    def passed(self, consumed: Mapping[tuple[str, int], int]) -> None:
        """Note up to where partitions are consumed."""
        if self._cache is not None:
            for (topic, partition), position in consumed.items():
                if topic == self._topic:
                    self._cache.passed(self._group, self, partition, position)

    def forget(self) -> None:
        """Note that the open partitions are not read any more."""
        self._opened.clear()
        if self._cache is not None:
            self._cache.forget(self._group, self, self._expected)

    def close(self) -> None:
        """Leave the other readers; idempotent."""
        if self._cache is not None:
            self._cache.leave(self._group, self)

    def read(self, con: duckdb.DuckDBPyConnection, fetched: Sequence[Fetched[pa.Table]]) -> Rows:
        """Decode batches, in the order of their partitions."""
        full = [item for item in fetched if item.count]
        cache = self._cache
        if cache is not None and self._expected:
            # Some of those that were expected may be read by other instances.
            self._expected = range(0)
            cache.forget(self._group, self, self._opened)
        if cache is None or not cache.shared(self._group, self, [one.partition for one in full]):
            return self._alone(con, fetched)
        by_partition = {item.partition: item for item in full}
        parts = [Part(item.partition, _first(item), item.next_offset) for item in full]
        records: dict[int, pa.Table] = {}

        def decoded(claimed: Sequence[Part], names: Collection[str]) -> Sequence[DecodedBatch]:
            for part in claimed:
                if part.partition not in records:
                    records[part.partition] = by_partition[part.partition].records()
            return self._batches(con, claimed, names, records)

        found = cache.read(self._group, self, parts, decoded)
        if not _complete(full, found):
            # Not the same records at the same offsets: the topic was replaced meanwhile.
            return self._alone(con, fetched)
        return self._joined(fetched, dict(zip(by_partition, found, strict=True)))

    def _alone(self, con: duckdb.DuckDBPyConnection, fetched: Sequence[Fetched[pa.Table]]) -> Rows:
        raw = pa.concat_tables([_labelled(item.records(), item.partition) for item in fetched])
        found = decode(con, raw, self._spec, self._topic, PART)
        ends = _ends(found.table, [item.partition for item in fetched])
        return Rows(found.table, ends, found.problems)

    def _batches(
        self,
        con: duckdb.DuckDBPyConnection,
        parts: Sequence[Part],
        names: Collection[str],
        records: Mapping[int, pa.Table],
    ) -> Sequence[DecodedBatch]:
        """Decode parts of the records, by partition and offset."""
        parts = list(parts)
        raw = [
            _labelled(rows_between(records[p.partition], "offset", (p.first, p.stop)), p.partition)
            for p in parts
        ]
        spec = replace(self._spec, columns=tuple((_COLUMN + name, name) for name in sorted(names)))
        found = decode(con, pa.concat_tables(raw), spec, self._topic, PART)
        partitions = sorted({part.partition for part in parts})
        ends = _ends(found.table, partitions)
        tables = {
            partition: found.table.slice(begin, end - begin)
            for partition, begin, end in zip(partitions, (0, *ends), ends, strict=False)
        }
        return [
            DecodedBatch(
                part.first,
                part.stop,
                rows_between(tables[part.partition], OFFSET, (part.first, part.stop)),
                tuple(
                    problem
                    for problem in found.problems
                    if problem.partition == part.partition
                    and part.first <= problem.offset < part.stop
                ),
                frozenset(names),
            )
            for part in parts
        ]

    def _joined(
        self, fetched: Sequence[Fetched[pa.Table]], found: Mapping[int, Sequence[DecodedBatch]]
    ) -> Rows:
        """The rows of all batches, with the columns of this reader."""
        batches = [batch for item in fetched for batch in found.get(item.partition, ())]
        present = batches[0].table.column_names
        bookkeeping = [name for name in _BOOKKEEPING if name in present]
        own = [_COLUMN + name for _, name in self._spec.columns] + bookkeeping
        table = pa.concat_tables([batch.table.select(own) for batch in batches])
        table = table.rename_columns([out for out, _ in self._spec.columns] + bookkeeping)
        ends, end = [], 0
        for item in fetched:
            end += sum(batch.table.num_rows for batch in found.get(item.partition, ()))
            ends.append(end)
        return Rows(table, ends, tuple(problem for batch in batches for problem in batch.problems))


def _complete(
    fetched: Sequence[Fetched[pa.Table]], found: Sequence[Sequence[DecodedBatch]]
) -> bool:
    """Whether each record is there once."""
    counts = [sum(batch.records for batch in batches) for batches in found]
    return counts == [item.count for item in fetched]


def _first(fetched: Fetched[pa.Table]) -> int:
    """The offset of the first record."""
    if fetched.later is not None:
        return fetched.next_offset - fetched.count
    found: int = fetched.batch["offset"][0].as_py()
    return found


def _labelled(records: pa.Table, partition: int) -> pa.Table:
    return records.append_column(PART, constant(partition, records.num_rows))


def _ends(table: pa.Table, partitions: Sequence[int]) -> Sequence[int]:
    """Where the rows of each partition end."""
    found: Sequence[int] = np.searchsorted(
        table[PART].to_numpy(), partitions, side="right"
    ).tolist()
    return found
