from __future__ import annotations

from collections.abc import Iterator

import pytest

from millstream.log.ahead import AHEAD
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import CorruptionError


@pytest.fixture
def log() -> Iterator[EmbeddedLog]:
    with_records = EmbeddedLog.open(":memory:", tail_bytes=0)
    with_records.create_topic(Topic("t", 1))
    append(with_records, 0, 10)
    yield with_records
    with_records.close()


def append(log: EmbeddedLog, first: int, count: int) -> None:
    rows = [(b"k", str(first + number).encode(), number) for number in range(count)]
    log.writer("w").append([Appended("t", 0, raw_batch(rows), count)])


def test_small_reads_follow_one_another_up_to_the_end(log: EmbeddedLog) -> None:
    reader, seen, offset = log.reader(), [], 0
    while True:
        fetched = reader.read("t", 0, offset, 4)
        direct = log.read("t", 0, offset, 4)
        assert fetched.batch.equals(direct.batch)
        assert (fetched.next_offset, fetched.end) == (direct.next_offset, direct.end)
        seen += fetched.batch["value"].to_pylist()
        offset = fetched.next_offset
        if fetched.end:
            break
    assert seen == [str(number).encode() for number in range(10)]
    append(log, 10, 3)
    assert reader.read("t", 0, 10, 2).batch["value"].to_pylist() == [b"10", b"11"]
    assert reader.read("t", 0, 8, 2).batch["value"].to_pylist() == [b"8", b"9"], "back again"
    assert reader.read("t", 0, 0, AHEAD).count == 13


def test_what_was_kept_of_truncated_records_is_not_given(log: EmbeddedLog) -> None:
    reader = log.reader()
    reader.read("t", 0, 0, 2)
    log.truncate("t", 0, 5)
    with pytest.raises(CorruptionError):
        reader.read("t", 0, 2, 2)
    assert reader.read("t", 0, 5, 2).count == 2
    assert reader.ready({("t", 0): 7}) == 3
    reader.close()


def test_the_rest_of_what_was_kept_is_not_given_alone(log: EmbeddedLog) -> None:
    """A run costs much, however few records it reads."""
    append(log, 10, AHEAD)
    reader = log.reader()
    reader.read("t", 0, 0, 2)
    fetched = reader.read("t", 0, AHEAD - 3, 8)
    assert fetched.batch["offset"].to_pylist() == list(range(AHEAD - 3, AHEAD + 5))
    assert not fetched.end
