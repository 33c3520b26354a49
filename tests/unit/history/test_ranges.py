"""The meaning of a range: offsets to read between, bounds of event time, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from millstream.history.ranges import AHEAD, GONE, Bounds, Extent, Ranged, extent
from millstream.history.reading import ReadChunk, Source
from millstream.history.splits import Split
from millstream.history.within import COMPACTED, Timed, Within
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import StatementError
from millstream_parser.history import AsOf, OffsetRange, Range, TimeRange

NOW = 1_000
TOPIC = Topic("t", 2)


@pytest.fixture
def log() -> Iterator[EmbeddedLog]:
    log = EmbeddedLog.open(":memory:")
    log.create_topic(TOPIC)
    writer = log.writer("w")
    for partition, count in ((0, 5), (1, 3)):
        batch = raw_batch([(b"k", b"{}", 100 * n) for n in range(count)])
        writer.append([Appended("t", partition, batch, count)])
    writer.close()
    yield log
    log.close()


def meaning(log: EmbeddedLog, ranged: Range | None, first: int | None = None) -> Extent:
    return extent(Ranged("S", TOPIC, ranged), log, NOW, lambda _: first)


def offsets(found: Extent) -> list[tuple[int, int]]:
    return [(split.start, split.end) for split in found.splits.values()]


MEANINGS: list[tuple[Range | None, list[tuple[int, int]], Bounds]] = [
    (None, [(0, 5), (0, 3)], Bounds()),
    (AsOf(200), [(0, 5), (0, 3)], Bounds(end=201)),
    (AsOf("1970-01-01T00:00:01"), [(0, 5), (0, 3)], Bounds(end=1001)),
    (TimeRange(100, 300), [(0, 5), (0, 3)], Bounds(100, 300)),
    (OffsetRange((1,), (3,)), [(1, 4), (1, 3)], Bounds()),
    (OffsetRange((1, 0), (3, 0)), [(1, 4), (0, 1)], Bounds()),
    (OffsetRange((9,), (9,)), [(9, 9), (9, 9)], Bounds()),
]


@pytest.mark.parametrize(("ranged", "expected", "bounds"), MEANINGS)
def test_meaning(
    log: EmbeddedLog, ranged: Range | None, expected: list[tuple[int, int]], bounds: Bounds
) -> None:
    found = meaning(log, ranged)
    assert (offsets(found), found.bounds) == (expected, bounds)


REFUSED: list[tuple[Range, str, str]] = [
    (AsOf(NOW + 1), AHEAD, "beyond now"),
    (TimeRange(1, NOW + 2), AHEAD, "beyond now"),
    (TimeRange(2, 2), "E-STATEMENT", "ends before it begins"),
    (OffsetRange((3,), (2,)), "E-STATEMENT", "ends before it begins"),
    (OffsetRange((1, 2, 3), (5,)), "E-STATEMENT", "3 offsets, but topic t has 2 partitions"),
    (AsOf("soon"), "E-STATEMENT", "Failed to parse timestamp 'soon'"),
]


@pytest.mark.parametrize(("ranged", "code", "message"), REFUSED)
def test_refused(log: EmbeddedLog, ranged: Range, code: str, message: str) -> None:
    with pytest.raises(StatementError, match=message) as caught:
        meaning(log, ranged)
    assert caught.value.code == code


GONE_RANGES: list[tuple[Range, int | None, bool]] = [
    (AsOf(300), 200, True),
    (TimeRange(100, 300), 200, True),
    (TimeRange(200, 300), 200, False),
    (TimeRange(200, 300), None, True),
    (OffsetRange((1, 0), (3, 1)), None, True),
    (OffsetRange((2, 0), (3, 1)), None, False),
]


@pytest.mark.parametrize(("ranged", "first", "gone"), GONE_RANGES)
def test_what_retention_took(
    log: EmbeddedLog, ranged: Range, first: int | None, gone: bool
) -> None:
    log.truncate("t", 0, 2)
    if not gone:
        meaning(log, ranged, first)
        return
    with pytest.raises(
        StatementError, match="before the first record that is still there"
    ) as caught:
        meaning(log, ranged, first)
    assert caught.value.code == GONE and "retention.ms" in caught.value.hint


class Given(Source):
    """Records at some offsets, the time of each ten times its offset."""

    def __init__(self, *pieces: tuple[list[int], int]) -> None:
        self._pieces = pieces

    def pieces(self, split: Split) -> Iterator[ReadChunk]:
        for found, following in self._pieces:
            raw = raw_batch([(b"k", b"v", 10 * offset) for offset in found])
            yield raw.set_column(0, raw.schema.field(0), pa.array(found)), following


def left(timed: Timed, *pieces: tuple[list[int], int]) -> list[int]:
    source = Within(Given(*pieces), {"t": timed})
    found = source.pieces(Split("t", 0, 0, 9))
    return [offset for records, _ in found for offset in records["offset"].to_pylist()]


def test_records_within_bounds() -> None:
    assert left(Timed(Bounds(20, 50)), ([0, 1, 2, 3], 4), ([4, 5], 6)) == [2, 3, 4]


def test_a_compacted_topic_is_refused_only_where_something_may_be_missing() -> None:
    until = Timed(Bounds(end=50), compacted=True)
    assert left(until, ([0, 1, 2, 3, 4, 5, 6, 7, 8], 9)) == [0, 1, 2, 3, 4]
    assert left(until, ([0, 3, 4], 9)) == [0, 3, 4]
    with pytest.raises(StatementError) as caught:
        left(until, ([0, 3], 4), ([4, 6], 9))
    assert caught.value.code == COMPACTED
    with pytest.raises(StatementError):
        left(Timed(Bounds(), compacted=True, cut=True), ([0, 3], 4))
