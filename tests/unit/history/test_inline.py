"""Small input is sent with the tasks, large input is sealed; together they contain every record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.history.inline import INLINE_RECORDS, beside, prepared
from millstream.history.reading import FromLog
from millstream.history.splits import Split
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Topic
from millstream.model.batch import raw_batch

MUCH = INLINE_RECORDS + 1


@pytest.fixture
def log() -> Iterator[EmbeddedLog]:
    made = EmbeddedLog.open(":memory:")
    made.create_topic(Topic("t", 1))
    yield made
    made.close()


def append(log: EmbeddedLog, count: int) -> None:
    first = log.end_offset("t", 0)
    batch = raw_batch([(None, b"v", first + n) for n in range(count)])
    log.writer("producer").append([Appended("t", 0, batch, count)])


def read(log: EmbeddedLog, start: int, folder: Path) -> tuple[list[int], bool]:
    """The offsets that a worker gets, and whether all of them travelled."""
    split = Split("t", 0, start, log.end_offset("t", 0))
    source, little = prepared(log, [split], folder)
    return [at for records, _ in source.pieces(split) for at in records["offset"].to_pylist()], (
        little
    )


def test_little_is_read_from_memory(log: EmbeddedLog, tmp_path: Path) -> None:
    append(log, 5)
    assert read(log, 0, tmp_path) == ([0, 1, 2, 3, 4], True)
    assert read(log, 3, tmp_path) == ([3, 4], True)
    assert read(log, 5, tmp_path) == ([], True)
    assert not list(tmp_path.rglob("*.parquet"))


def test_much_is_sealed_and_what_comes_later_is_not(log: EmbeddedLog, tmp_path: Path) -> None:
    append(log, MUCH)
    assert read(log, 0, tmp_path) == (list(range(MUCH)), False)
    append(log, 2)
    assert read(log, 0, tmp_path) == (list(range(MUCH + 2)), True)
    assert read(log, MUCH + 1, tmp_path) == ([MUCH + 1], True)
    assert len(list(tmp_path.rglob("*.parquet"))) == 1


def test_what_was_truncated_is_not_asked_for(log: EmbeddedLog, tmp_path: Path) -> None:
    append(log, MUCH)
    read(log, 0, tmp_path)
    append(log, 3)
    log.truncate("t", 0, MUCH + 1)
    assert read(log, log.start_offset("t", 0), tmp_path) == ([MUCH + 1, MUCH + 2], True)


@pytest.mark.parametrize(
    ("count", "states", "little"), [(5, (), True), (MUCH, (), False), (MUCH, ("t",), True)]
)
def test_workers_that_can_read_the_log_read_large_input(
    log: EmbeddedLog, count: int, states: tuple[str, ...], little: bool
) -> None:
    append(log, count)
    split = Split("t", 0, 0, count)
    source, found = beside(log, [split], FromLog(log), states)
    offsets = [at for records, _ in source.pieces(split) for at in records["offset"].to_pylist()]
    assert offsets == list(range(count))
    assert found == little
