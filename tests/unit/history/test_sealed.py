"""Sealed segments hold what the log held, are written once, and go when their topic goes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millstream
from millstream.history import sealed
from millstream.history.sealed import seal
from millstream.history.splits import Split
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import CorruptionError


def log_with(*times: int) -> EmbeddedLog:
    log = EmbeddedLog.open(":memory:")
    log.create_topic(Topic("t", 1))
    extend(log, *times)
    return log


def extend(log: EmbeddedLog, *times: int) -> None:
    batch = raw_batch(
        [(b"k", str(time).encode(), time) for time in times],
        [[{"key": "h", "value": b"1"}] if time % 2 else None for time in times],
    )
    log.writer("w").append([Appended("t", 0, batch, len(times))])


def contents(source: sealed.FromSegments, split: Split) -> pa.Table:
    return pa.concat_tables([records for records, _ in source.pieces(split)])


def test_segments_hold_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed, "SEGMENT_RECORDS", 2)
    log = log_with(5, 7, 6, 9, 8)
    split = Split("t", 0, 0, 5)
    source = seal(log, [split], tmp_path)
    assert len(source.segments["t", 0]) == 3
    assert contents(source, split).equals(log.read("t", 0, 0, 10).batch)
    part = Split("t", 0, 1, 4)
    assert contents(source, part).equals(log.read("t", 0, 1, 3).batch)
    log.close()


def test_segments_of_a_log_with_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction has left out records at the start, within and at the end of sealed segments, and
    all of one of them."""
    monkeypatch.setattr(sealed, "SEGMENT_RECORDS", 4)
    monkeypatch.setattr(sealed, "PIECE_RECORDS", 2)
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.ms": "1"}
    log = EmbeddedLog.open(":memory:", tail_bytes=0, compacting=False)
    log.create_topic(Topic("t", 1, config=config))
    for time, key in enumerate("abaaaaaaaacdeafa"):
        batch = raw_batch([(key.encode(), b"v", time)])
        log.send([Appended("t", 0, batch, 1)])
    log.compact()
    left = [1, 10, 11, 12, 13, 14, 15]
    source = seal(log, [Split("t", 0, 0, 16)], tmp_path)
    assert len(source.segments["t", 0]) == 4
    for start in range(16):
        for end in range(start + 1, 17):
            pieces = list(source.pieces(Split("t", 0, start, end)))
            found = pa.concat_tables([records for records, _ in pieces])["offset"].to_pylist()
            assert found == [offset for offset in left if start <= offset < end]
            assert pieces[-1][1] == end
    log.close()


def test_what_is_sealed_is_not_written_again(tmp_path: Path) -> None:
    log = log_with(1, 2)
    first = seal(log, [Split("t", 0, 0, 2)], tmp_path).segments["t", 0]
    extend(log, 3)
    second = seal(log, [Split("t", 0, 0, 3)], tmp_path).segments["t", 0]
    assert second[:1] == first
    assert (second[1].first, second[1].end) == (2, 3)
    log.close()


def test_footers_have_the_largest_time(tmp_path: Path) -> None:
    log = log_with(5, 9, 7)
    (segment,) = seal(log, [Split("t", 0, 0, 3)], tmp_path).segments["t", 0]
    column = pq.read_metadata(segment.path).row_group(0).column(1)
    assert (column.path_in_schema, column.statistics.max) == ("timestamp", 9)
    log.close()


def test_segments_of_topics_and_records_that_are_gone_are_removed(tmp_path: Path) -> None:
    log = log_with(1, 2)
    seal(log, [Split("t", 0, 0, 2)], tmp_path)
    log.truncate("t", 0, 2)
    extend(log, 3)
    seal(log, [Split("t", 0, 2, 3)], tmp_path)
    assert [path.stem[:20] for path in tmp_path.rglob("*.parquet")] == [f"{2:020}"]
    log.delete_topic("t")
    log.create_topic(Topic("t", 1))
    seal(log, [Split("t", 0, 0, 0)], tmp_path)
    assert not list(tmp_path.rglob("*.parquet"))
    log.close()


def test_missing_records_are_an_error(tmp_path: Path) -> None:
    log = log_with(1, 2)
    source = seal(log, [Split("t", 0, 0, 2)], tmp_path)
    with pytest.raises(CorruptionError, match="are in no sealed segment"):
        contents(source, Split("t", 0, 0, 3))
    log.close()


def test_a_database_that_is_made_anew_does_not_find_the_segments_of_the_one_before(
    tmp_path: Path,
) -> None:
    path = tmp_path / "shop.db"
    for text in ("old", "new"):
        for file in tmp_path.glob("shop.db*"):
            if file.is_file():
                file.unlink()
        with millstream.connect(str(path)) as db:
            db.execute(
                "CREATE STREAM s (t STRING) WITH (kafka_topic='s', value_format='JSON',"
                f" partitions=1); INSERT INTO s VALUES ('{text}');"
            )
            folder = db.seal()
            assert db.seal() == folder
    (segment,) = Path(folder).rglob("*.parquet")
    assert b"new" in pq.read_table(segment)["value"][0].as_py()
