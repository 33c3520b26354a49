"""Records that are not in memory are read from the file only by those that need them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import millstream
from millstream.log import table_reads
from millstream.log.ahead import AHEAD
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import MillstreamError

COUNT = 4 * AHEAD


def records(count: int) -> pa.Table:
    return raw_batch([(None, b'{"A":%d}' % number, number) for number in range(count)])


@pytest.fixture
def log() -> Iterator[EmbeddedLog]:
    """A log that keeps nothing in memory."""
    opened = EmbeddedLog.open(":memory:", tail_bytes=0)
    opened.create_topic(Topic("t", 2))
    rows = records(COUNT)
    for partition in range(2):
        opened.writer("w").append([Appended("t", partition, rows, rows.num_rows)])
    yield opened
    opened.close()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of records read from the tables."""
    found: list[int] = []
    inner = table_reads.read_records

    def counted(*arguments: Any) -> pa.Table:
        rows = inner(*arguments)
        found.append(rows.num_rows)
        return rows

    monkeypatch.setattr(table_reads, "read_records", counted)
    return found


def test_large_reads_are_left_to_those_that_need_them(log: EmbeddedLog, reads: list[int]) -> None:
    reader = log.reader()
    reader.begin()
    # Only a read tells how large the records are.
    first = reader.read("t", 0, 0, AHEAD)
    assert (first.later, first.records().num_rows, reads) == (None, AHEAD, [AHEAD])
    second = reader.read("t", 0, AHEAD, 2 * AHEAD)
    assert reads == [AHEAD]
    assert (second.count, second.next_offset, second.end) == (2 * AHEAD, 3 * AHEAD, False)
    assert second.bytes == pytest.approx(2 * first.bytes, rel=0.05)
    expected = log.read("t", 0, AHEAD, 2 * AHEAD)
    assert expected.later is None
    assert second.records().equals(expected.batch)
    assert reads == [AHEAD, 2 * AHEAD, 2 * AHEAD]


def test_the_size_is_that_of_the_partition(log: EmbeddedLog) -> None:
    reader = log.reader()
    reader.begin()
    reader.read("t", 0, 0, AHEAD)
    assert reader.read("t", 1, 0, AHEAD).later is None


def test_a_reader_that_reads_much_alone_reads_at_once(log: EmbeddedLog) -> None:
    reader = log.reader(alone=True)
    for at in range(0, COUNT, AHEAD):
        assert reader.read("t", 0, at, AHEAD).later is None


def test_small_reads_and_reads_before_an_offset(log: EmbeddedLog) -> None:
    log.read("t", 0, 0, AHEAD)
    reader = log.reader()
    reader.begin()
    small = reader.read("t", 0, 5, 10)
    assert (small.later, small.records()["offset"].to_pylist()) == (None, list(range(5, 15)))
    bounded = reader.read("t", 0, 0, COUNT, AHEAD + 7)
    assert (bounded.count, bounded.next_offset, bounded.end) == (AHEAD + 7, AHEAD + 7, True)
    assert bounded.records().num_rows == AHEAD + 7


def test_what_is_deleted_meanwhile_is_an_error(log: EmbeddedLog) -> None:
    reader = log.reader()
    reader.begin()
    reader.read("t", 0, 0, AHEAD)
    later = reader.read("t", 0, AHEAD, AHEAD)
    log.delete_topic("t")
    with pytest.raises(MillstreamError):
        later.records()
    log.create_topic(Topic("t", 2))
    rows = records(COUNT)
    log.writer("w").append([Appended("t", 0, rows, rows.num_rows)])
    with pytest.raises(MillstreamError):
        later.records()
    assert log.reader().read("t", 0, 0, AHEAD).later is None


def test_queries_read_and_decode_a_topic_once(tmp_path: Path, reads: list[int]) -> None:
    path = str(tmp_path / "m.db")
    settings = millstream.EngineSettings(processing_threads=1)
    with millstream.connect(path, settings=settings) as database:
        database.execute(
            "CREATE STREAM s (A BIGINT)"
            " WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');"
            "SET 'auto.offset.reset' = 'earliest';"
        )
        for number in range(4):
            database.execute(
                f"CREATE STREAM q{number} AS SELECT * FROM s WHERE A % 4 = {number} EMIT CHANGES;"
            )
        database.execute("PAUSE ALL;")
        rows = records(COUNT)
        database.engine.writer.append([Appended("t", 0, rows, rows.num_rows)])
    with millstream.connect(path, settings=settings) as database:
        reads.clear()
        database.execute("RESUME ALL;")
        database.wait()
        assert sum(reads) == COUNT
        ends = [database.engine.log.end_offset(f"Q{number}", 0) for number in range(4)]
        assert ends == [COUNT // 4] * 4
        instance = database.metrics().instance
        assert (instance.decoded, instance.reused) == (COUNT, 3 * COUNT)
        assert instance.decoded_bytes == 0
