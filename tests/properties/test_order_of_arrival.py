"""Queries over several topics: in arrival order, records produce the same rows whether they are
read one by one on arrival or all at once, whatever their times are.

Source of the rule: the reference runner of ksqlDB's cases processes each record to the end before
the next one, of any topic, arrives (RUNNER.md 4.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.log.log import Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import StatementError
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.service.execution import execute_script, open_engine
from tests.draws import draws

TOPICS = ("s", "r", "t", "u")
SOURCES = """
CREATE STREAM s (k INT KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE STREAM r (k INT KEY, v INT) WITH (KAFKA_TOPIC='r', VALUE_FORMAT='JSON');
CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
CREATE TABLE u (k INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON');
"""
WITHIN = "WITHIN 2 MILLISECONDS GRACE PERIOD 1 MILLISECOND"
SMALL = st.integers(0, 2)
QUERIES = {
    "stream with table": """
        CREATE STREAM o AS SELECT s.k, s.v a, t.v b FROM s LEFT JOIN t ON s.k=t.k;""",
    "moved stream with table": """
        CREATE STREAM o AS SELECT s.v, s.k a, t.v b FROM s JOIN t ON s.v=t.k;""",
    "two streams": f"""
        CREATE STREAM o AS SELECT ROWKEY, s.v a, r.v b FROM s FULL JOIN r {WITHIN} ON s.k=r.k;""",
    "two moved streams": f"""
        CREATE STREAM o AS SELECT s.v, s.k a FROM s LEFT JOIN r {WITHIN} ON s.v=r.v;""",
    "two tables": """
        CREATE TABLE o AS SELECT ROWKEY, t.v a, u.v b FROM t FULL JOIN u ON t.k=u.k;""",
    "foreign key": """
        CREATE TABLE o AS SELECT t.k, t.v a, u.v b FROM t LEFT JOIN u ON t.v=u.k;""",
    "four inputs": f"""
        CREATE STREAM o AS SELECT s.k, s.v a, r.v b, t.v c, u.v d FROM s
        JOIN r {WITHIN} ON s.k=r.k LEFT JOIN t ON s.k=t.k LEFT JOIN u ON s.k=u.k;""",
    "grouped": """
        CREATE TABLE o AS SELECT t.v, COUNT(*) n FROM t JOIN u ON t.k=u.k GROUP BY t.v;""",
    "windows": """
        CREATE TABLE o AS SELECT s.v, COUNT(*) n FROM s JOIN t ON s.k=t.k WINDOW HOPPING
        (SIZE 4 MILLISECONDS, ADVANCE BY 2 MILLISECONDS, GRACE PERIOD 1 MILLISECOND)
        GROUP BY s.v;""",
    "closed windows": """
        CREATE TABLE o AS SELECT s.v, COUNT(*) n FROM s JOIN t ON s.k=t.k WINDOW TUMBLING
        (SIZE 4 MILLISECONDS, GRACE PERIOD 1 MILLISECOND) GROUP BY s.v EMIT FINAL;""",
    "sessions": """
        CREATE TABLE o AS SELECT s.v, COUNT(*) n FROM s JOIN t ON s.k=t.k WINDOW SESSION
        (2 MILLISECONDS, GRACE PERIOD 1 MILLISECOND) GROUP BY s.v;""",
    "flattened": """
        CREATE STREAM o AS SELECT s.k, EXPLODE(ARRAY[s.v, t.v]) x FROM s JOIN t ON s.k=t.k;""",
}


@dataclass(frozen=True)
class Record:
    """A record of a topic; one of a table may have no value."""

    topic: str
    key: int
    value: int | None
    time: int


def a_record() -> st.SearchStrategy[Record]:
    return st.builds(Record, st.sampled_from(TOPICS), SMALL, st.none() | SMALL, st.integers(0, 9))


@st.composite
def runs_of_times(draw: st.DrawFn) -> list[Record]:
    """Records of several topics at each moment, at moments that mostly run backwards."""
    moments = sorted(draw(st.lists(st.integers(0, 9), min_size=2, max_size=4)), reverse=True)
    if draw(st.booleans()):
        moments = draw(st.permutations(moments))
    return [
        Record(topic, draw(SMALL), draw(st.none() | SMALL), moment)
        for moment in moments
        for topic in draw(st.lists(st.sampled_from(TOPICS), min_size=1, max_size=4))
    ]


def rows_of(query: str, pieces: Sequence[Sequence[Record]]) -> list[Any]:
    """The output when the engine works after each piece, whose records arrive one by one."""
    engine = open_engine(":memory:", EngineSettings(threads=1), lambda: 0)
    try:
        for topic in TOPICS:
            engine.log.create_topic(Topic(topic, 1))
        session = Session({"auto.offset.reset": "earliest", "millstream.input.order": "arrival"})
        list(execute_script(engine, SOURCES + query, session))
        writer = engine.log.writer("test")
        for records in pieces:
            for record in records:
                writer.append([appended(record)])
            engine.drain()
        found = engine.log.read("O", 0, 0, 1 << 20).batch
        assert not [status for status in engine.statuses() if status.error]
        return list(found.select(["timestamp", "key", "value"]).to_pylist())
    finally:
        engine.close()


def appended(record: Record) -> Appended[Any]:
    value = None if record.value is None else b'{"V": %d}' % record.value
    if value is None and record.topic in "sr":
        value = b'{"V": null}'
    rows = raw_batch([(record.key.to_bytes(4, "big"), value, record.time)])
    return Appended(record.topic, 0, rows, 1, 100)


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=draws(15), deadline=None)
@given(
    records=st.lists(a_record(), max_size=14) | runs_of_times(),
    cuts=st.sets(st.integers(1, 13), max_size=3),
)
def test_it_does_not_matter_how_many_records_are_read_at_once(
    name: str, records: list[Record], cuts: set[int]
) -> None:
    one_by_one = rows_of(QUERIES[name], [[record] for record in records])
    edges = [0, *sorted(cut for cut in cuts if cut < len(records)), len(records)]
    pieces = [records[low:high] for low, high in pairwise(edges)]
    assert rows_of(QUERIES[name], pieces) == one_by_one


def test_by_time_the_order_is_that_of_what_has_come() -> None:
    """The order of Kafka Streams: what this property would otherwise hide."""
    records = [Record("s", 1, 7, 5), Record("t", 1, 8, 3)]
    found = {}
    for order in ("time", "arrival"):
        engine = open_engine(":memory:", EngineSettings(threads=1), lambda: 0)
        for topic in TOPICS:
            engine.log.create_topic(Topic(topic, 1))
        session = Session({"auto.offset.reset": "earliest", "millstream.input.order": order})
        list(execute_script(engine, SOURCES + QUERIES["stream with table"], session))
        for record in records:
            engine.log.writer("test").append([appended(record)])
        engine.drain()
        (found[order],) = engine.log.read("O", 0, 0, 9).batch["value"].to_pylist()
        engine.close()
    assert found == {"time": b'{"A":7,"B":8}', "arrival": b'{"A":7,"B":null}'}


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(StatementError, match="time"):
        Session({}).set("millstream.input.order", "age")
