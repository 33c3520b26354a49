"""Reading a partition that is taken to end at an offset, also where offsets are missing."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from millstream.log.batches import TABLES
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Log, Reader, Topic
from millstream.log.simulated import SimulatedLog
from millstream.model.batch import raw_batch


def fill(log: Log[pa.Table]) -> None:
    """Transactions of one to four records, with markers behind them where the log has any."""
    log.create_topic(Topic("t", 1))
    writer = log.writer("w")
    for number in range(8):
        rows = [(b"k", str(10 * number + row).encode(), number) for row in range(number % 4 + 1)]
        writer.transact("", [Appended("t", 0, raw_batch(rows), len(rows))], {})
    writer.close()


def embedded() -> EmbeddedLog:
    return EmbeddedLog.open(":memory:")


def simulated() -> SimulatedLog[pa.Table]:
    return SimulatedLog(TABLES, markers=True)


@pytest.fixture(params=[embedded, simulated], ids=["embedded", "simulated"])
def log(request: pytest.FixtureRequest) -> Iterator[Log[pa.Table]]:
    made = request.param()
    fill(made)
    yield made
    made.close()


def read_all(reader: Reader[pa.Table], before: int, size: int) -> list[int]:
    offsets: list[int] = []
    at = 0
    while True:
        found = reader.read("t", 0, at, size, before)
        assert found.count <= size
        assert at <= found.next_offset <= before
        offsets += found.batch["offset"].to_pylist()
        if found.end:
            assert found.next_offset == before
            return offsets
        assert found.next_offset > at
        at = found.next_offset


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 10_000])
def test_exactly_the_records_before_the_offset_are_read(log: Log[pa.Table], size: int) -> None:
    end = log.end_offset("t", 0)
    known = log.read("t", 0, 0, 1000).batch["offset"].to_pylist()
    for before in range(1, end + 1):
        expected = [offset for offset in known if offset < before]
        assert read_all(log.reader(), before, size) == expected


def test_at_the_offset_and_behind_it_there_is_nothing(log: Log[pa.Table]) -> None:
    reader = log.reader()
    for at in (5, 7):
        found = reader.read("t", 0, at, 10, 5)
        assert (found.count, found.batch.num_rows, found.next_offset, found.end) == (0, 0, at, True)
