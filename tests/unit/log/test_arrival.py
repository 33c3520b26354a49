"""The order of arrival: which number each record gets, and that none is given twice."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from millstream.log.arrival import with_arrivals
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Topic
from millstream.model.batch import ARRIVAL, RAW_SCHEMA, raw_batch

VERSION_1 = """
CREATE SCHEMA log;
CREATE TABLE log.about (version INTEGER, next_topic INTEGER);
CREATE TABLE log.topics (
    id INTEGER, name VARCHAR, partitions INTEGER, replicas INTEGER, config MAP(VARCHAR, VARCHAR));
CREATE TABLE log.segments (topic INTEGER, number INTEGER, first BIGINT[], headers BOOLEAN);
CREATE TABLE log.starts (topic INTEGER, part INTEGER, first BIGINT);
CREATE TABLE log.positions (grp VARCHAR, topic VARCHAR, part INTEGER, position BIGINT);
CREATE TABLE log.writers (identity VARCHAR, epoch BIGINT);
INSERT INTO log.about VALUES (1, 2);
INSERT INTO log.topics VALUES (1, 'old', 1, 1, map([]::VARCHAR[], []::VARCHAR[]));
INSERT INTO log.segments VALUES (1, 0, [0], FALSE);
CREATE TABLE log.records_1_0 (part INTEGER, off BIGINT, ts BIGINT, key BLOB, value BLOB);
INSERT INTO log.records_1_0 VALUES (0, 0, 5, 'k'::BLOB, 'v'::BLOB);
"""


def batch(*times: int) -> pa.Table:
    return raw_batch([(b"k", b"v", time) for time in times])


def appended(*times: int, topic: str = "t", partition: int = 0) -> Appended[pa.Table]:
    return Appended(topic, partition, batch(*times), len(times))


def arrivals(log: EmbeddedLog, topic: str = "t") -> list[int]:
    records = log.read(topic, 0, 0, 1 << 30).batch
    return [int(number) for number in records[ARRIVAL].to_pylist()]


@pytest.mark.parametrize(
    ("given", "expected", "following"),
    [
        ([(3, 1, 2)], [[10, 11, 12]], 13),
        ([(3, 1), (2,)], [[11, 11], [10]], 13),
        ([(1, 5), (1, 2)], [[10, 12], [10, 11]], 14),
        ([(), (7,)], [[], [10]], 11),
        ([], [], 10),
    ],
)
def test_records_of_one_append_are_numbered_by_their_times(
    given: list[tuple[int, ...]], expected: list[list[int]], following: int
) -> None:
    numbered, after = with_arrivals([appended(*times) for times in given], 10)
    assert [item.batch[ARRIVAL].to_pylist() for item in numbered] == expected
    assert after == following


def test_records_keep_the_number_that_they_have() -> None:
    caused = batch(1, 2).append_column(ARRIVAL, pa.array([3, 3], pa.int64()))
    numbered, after = with_arrivals([Appended("t", 0, caused, 2), appended(9)], 10)
    assert [item.batch[ARRIVAL].to_pylist() for item in numbered] == [[3, 3], [10]]
    assert after == 11


@pytest.mark.parametrize("tail_bytes", [0, 1 << 20])
def test_numbers_rise_over_appends_and_openings(tmp_path: Path, tail_bytes: int) -> None:
    path = tmp_path / "a.log"
    for _ in range(3):
        log = EmbeddedLog.open(path, tail_bytes=tail_bytes)
        if log.topic("t") is None:
            log.create_topic(Topic("t", 1))
        writer = log.writer("w")
        writer.append([appended(5)])
        writer.append([appended(4, 3, 2, 1, 0)])
        log.close()
    log = EmbeddedLog.open(path, tail_bytes=tail_bytes)
    found = arrivals(log)
    log.close()
    assert len(found) == 18
    assert found == sorted(set(found))


def test_a_topic_that_is_dropped_does_not_take_numbers_back(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log = EmbeddedLog.open(path)
    log.create_topic(Topic("t", 1))
    log.writer("w").append([appended(1)])
    (before,) = arrivals(log)
    log.delete_topic("t")
    log.close()
    log = EmbeddedLog.open(path)
    log.create_topic(Topic("t", 1))
    log.writer("w").append([appended(1)])
    (after,) = arrivals(log)
    log.close()
    assert after > before


def test_topics_of_version_1_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with duckdb.connect(path) as file:
        file.execute(VERSION_1)
    for _ in range(2):
        log = EmbeddedLog.open(path, tail_bytes=0)
        old = log.topic("old")
        assert old is not None
        assert not old.numbered
        log.writer("w").append([appended(7, topic="old")])
        records = log.read("old", 0, 0, 9).batch
        assert records.schema == RAW_SCHEMA
        if log.topic("t") is None:
            log.create_topic(Topic("t", 1))
        log.writer("w").append([appended(7)])
        log.close()
    assert records["timestamp"].to_pylist() == [5, 7, 7]
    log = EmbeddedLog.open(path)
    new = log.topic("t")
    assert new is not None
    assert new.numbered
    assert len(arrivals(log)) == 2
    log.close()
