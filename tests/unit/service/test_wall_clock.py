"""Schedules by the clock of the wall, with a clock that tests move."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream import KeyValueStore, Processor, ProcessorContext, Record
from millstream.testing import TopologyTestDriver

SQL = """
CREATE STREAM readings (device STRING KEY, v INT)
  WITH (kafka_topic='readings', partitions=1, value_format='JSON');
CREATE STREAM silent AS SELECT * FROM PROCESS(readings, 'Silence');
"""
SECOND = dt.timedelta(seconds=1)


class Silence(Processor):
    """A row for each device that has said nothing for three seconds of the wall's clock."""

    output = "device STRING KEY, looks INT"

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.looks = context.store("looks", KeyValueStore("STRING", "INT"))
        context.schedule(SECOND, millstream.WALL_CLOCK, self.look)

    def process(self, record: Record) -> None:
        self.looks.put(record.key, 0)

    def look(self, time: dt.datetime) -> None:
        for device, looks in self.looks.range():
            if looks == 2:
                self.context.forward(device, {"LOOKS": looks + 1})
                self.looks.delete(device)
            else:
                self.looks.put(device, looks + 1)


def commits(driven: TopologyTestDriver) -> int:
    """How often the query was committed."""
    (status,) = driven._engine.statuses()
    return status.metrics.commits


def driver(*classes: type[Processor], sql: str = SQL, **properties: str) -> TopologyTestDriver:
    functions = [millstream.processor(each) for each in classes or (Silence,)]
    return TopologyTestDriver(sql, functions=functions, properties=properties)


def test_it_is_called_without_a_record() -> None:
    with driver() as driven:
        driven.advance_wall_clock(SECOND)
        driven.pipe("readings", {"DEVICE": "a", "V": 1})
        for _ in range(2):
            driven.advance_wall_clock(SECOND)
            assert driven.read("silent") == []
        driven.advance_wall_clock(SECOND)
        (row,) = driven.read("silent")
        assert (row.key, row.value) == ("a", {"LOOKS": 3})
        driven.advance_wall_clock(10 * SECOND)
        assert driven.read("silent") == []


def test_several_intervals_at_once_are_one_call() -> None:
    with driver() as driven:
        driven.pipe("readings", {"DEVICE": "a", "V": 1})
        driven.advance_wall_clock(dt.timedelta(hours=1))
        assert driven.read("silent") == []
        driven.advance_wall_clock(SECOND)
        driven.advance_wall_clock(SECOND)
        assert [row.key for row in driven.read("silent")] == ["a"]


def test_rows_have_the_time_of_the_clock() -> None:
    with driver() as driven:
        driven.pipe("readings", {"DEVICE": "a", "V": 1}, timestamp=5)
        before = driven.now_ms
        for _ in range(3):
            driven.advance_wall_clock(SECOND)
        (row,) = driven.read("silent")
        assert row.timestamp == before + 3_000


class Failing(Silence):
    def look(self, time: dt.datetime) -> None:
        super().look(time)
        raise LookupError("at night")


def test_one_that_fails_stops_the_query_with_its_traceback() -> None:
    with driver(Failing, sql=SQL.replace("'Silence'", "'Failing'")) as driven:
        driven.pipe("readings", {"DEVICE": "a", "V": 1})
        with pytest.raises(millstream.MillstreamError) as raised:
            driven.advance_wall_clock(SECOND)
    assert "LookupError: at night" in str(raised.value)
    assert "No record is the cause" in str(raised.value)


def test_one_that_fails_is_undone_if_the_query_is_set_to_go_on() -> None:
    sql = "SET 'processing.exception.handler' = 'continue';" + SQL.replace("'Silence'", "'Failing'")
    with driver(Failing, sql=sql) as driven:
        driven.pipe("readings", {"DEVICE": "a", "V": 1})
        for _ in range(5):
            driven.advance_wall_clock(SECOND)
        assert driven.read("silent") == []
        log = driven.processing_log()
    assert len(log) == 5
    assert all("LookupError: at night" in each["message"] for each in log)
    assert {each["offset"] for each in log} == {-1}


class Unopened(Silence):
    opened = 0

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        Unopened.opened += 1
        if Unopened.opened > 1:
            raise LookupError("not again")


def test_an_init_that_fails_without_a_record_is_told() -> None:
    Unopened.opened = 0
    with pytest.raises(millstream.MillstreamError) as raised:
        driver(Unopened, sql=SQL.replace("'Silence'", "'Unopened'")).advance_wall_clock(SECOND)
    assert "Processor UNOPENED.init raised LookupError: not again" in str(raised.value)


def test_a_paused_query_is_not_called() -> None:
    with driver() as driven:
        driven.pipe("readings", {"DEVICE": "a", "V": 1})
        driven._run("PAUSE ALL;")
        for _ in range(5):
            driven.advance_wall_clock(SECOND)
        driven._run("RESUME ALL;")
        assert driven.read("silent") == []
        for _ in range(3):
            driven.advance_wall_clock(SECOND)
        assert [row.key for row in driven.read("silent")] == ["a"]


def test_idle_calls_commit_nothing() -> None:
    class Idle(Counting):
        def look(self, time: dt.datetime) -> None:
            self.n.get("n")

    sql = SQL.replace("'Silence'", "'Idle'")
    with TopologyTestDriver(sql, functions=[millstream.processor(Idle)]) as driven:
        driven.pipe("readings", {"DEVICE": "a", "V": 1})
        before = commits(driven)
        for _ in range(5):
            driven.advance_wall_clock(SECOND)
        assert commits(driven) == before


class Counting(Processor):
    """How often it was called, for each partition."""

    output = "n INT"

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.n = context.store("n", KeyValueStore("STRING", "INT"))
        context.schedule(SECOND, millstream.WALL_CLOCK, self.look)

    def process(self, record: Record) -> None:
        self.n.put("records", self.n.get("records", 0) + 1)

    def look(self, time: dt.datetime) -> None:
        self.n.put("n", self.n.get("n", 0) + 1)
        self.context.forward(None, {"N": self.n.get("n")})


def test_each_task_is_called_and_the_rows_can_move_on() -> None:
    sql = SQL.replace("partitions=1", "partitions=3").replace("'Silence'", "'Counting'")
    sql += "CREATE TABLE counted AS SELECT n, COUNT(*) AS times FROM silent GROUP BY n;"
    with driver(Counting, sql=sql) as driven:
        for _ in range(2):
            driven.advance_wall_clock(SECOND)
        found = {row.key: row.value["TIMES"] for row in driven.read("counted")}
    assert found == {1: 3, 2: 3}


def test_in_a_database_the_clock_is_the_real_one(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    quick = dt.timedelta(milliseconds=1)

    class Quick(Counting):
        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            context.schedule(quick, millstream.WALL_CLOCK, self.look)

    def rows() -> list[Any]:
        with millstream.connect(path, functions=[millstream.processor(Quick)]) as db:
            if db.engine.catalog.find("SILENT") is None:
                db.execute(SQL.replace("'Silence'", "'Quick'"))
            stream = db.execute("SELECT n FROM silent EMIT CHANGES LIMIT 3;")
            return [row[0] for row in stream]  # type: ignore[union-attr]

    first, second = rows(), rows()
    assert first == list(range(first[0], first[0] + 3))
    assert second == list(range(second[0], second[0] + 3))
    assert second[0] > first[-1], "what was counted is state"
