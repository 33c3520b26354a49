"""Feeds return the requested records of a partition, and report the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from millstream.history.bounded import READ_BYTES, SplitBuffer
from millstream.history.reading import ReadChunk, before, read_through
from millstream.history.splits import Split
from millstream.log.log import Fetched
from millstream.model.batch import raw_batch


def records(*offsets: int) -> pa.Table:
    batch = raw_batch([(None, b"v", offset) for offset in offsets])
    return batch.set_column(0, batch.schema.field(0), pa.array(offsets, pa.int64()))


def offsets(batch: pa.Table) -> list[int]:
    found: list[int] = batch["offset"].to_pylist()
    return found


def pieces(*given: tuple[tuple[int, ...], int]) -> Iterator[ReadChunk]:
    for numbers, following in given:
        yield records(*numbers), following


def test_a_feed_joins_and_cuts_pieces() -> None:
    feed = SplitBuffer(pieces(((0, 1, 2), 3), ((3, 4), 5)))
    batch, following, end = feed.read(0, 4)
    assert (offsets(batch), following, end) == ([0, 1, 2, 3], 4, False)
    batch, following, end = feed.read(4, 4)
    assert (offsets(batch), following, end) == ([4], 5, True)


def test_a_feed_cuts_pieces_of_many_bytes() -> None:
    wide = raw_batch([(None, b"v" * (READ_BYTES * 2 // 7), offset) for offset in range(10)])
    wide = wide.set_column(0, wide.schema.field(0), pa.array(range(10), pa.int64()))
    feed = SplitBuffer(iter([(wide.slice(0, 5), 5), (wide.slice(5), 10)]))
    at, end, given = 0, False, list[list[int]]()
    while not end:
        batch, at, end = feed.read(at, 10)
        given.append(offsets(batch))
        assert batch.nbytes <= READ_BYTES
    assert given == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def test_records_that_were_held_back_are_given_again() -> None:
    feed = SplitBuffer(pieces(((0, 1, 2), 3), ((3, 4), 5)))
    feed.read(0, 10)
    batch, following, end = feed.read(1, 10)
    assert (offsets(batch), following, end) == ([1, 2, 3, 4], 5, True)


def test_offsets_without_records_are_passed_over() -> None:
    feed = SplitBuffer(pieces(((0, 1), 7), ((), 9)))
    batch, following, end = feed.read(0, 10)
    assert (offsets(batch), following, end) == ([0, 1], 9, True)
    batch, following, end = feed.read(9, 10)
    assert (offsets(batch), following, end) == ([], 9, True)


def test_a_feed_without_pieces_is_at_its_end() -> None:
    assert SplitBuffer(pieces()).read(0, 10)[1:] == (0, True)


def test_reading_stops_by_position() -> None:
    def read(topic: str, partition: int, offset: int, count: int) -> Fetched[Any]:
        # As after a transaction: a marker at offset 2, and records behind the split.
        batch = records(0, 1) if offset == 0 else records(3, 4)
        following = 2 if offset == 0 else 5
        return Fetched(topic, partition, batch, batch.num_rows, following, False)

    found = list(read_through(read, Split("t", 0, 0, 3)))
    assert [(offsets(batch), following) for batch, following in found] == [([0, 1], 2), ([], 3)]


def test_records_behind_the_end_are_left_out() -> None:
    assert offsets(before(records(1, 2, 5), 5)) == [1, 2]
