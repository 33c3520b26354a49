"""A bounded run produces the live engine's output from the same records: in this process, and by
tasks that only exchange rows with each other, as on Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from millstream.formats.partition import partition_of
from millstream.functions.catalogue import builtin_catalogue
from millstream.history.local import run_local
from millstream.history.reading import FromLog, ReadChunk
from millstream.history.rounds import in_round, run_in_rounds
from millstream.history.splits import Run, Split, everything
from millstream.log.log import Appended
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.problem import Problem
from millstream.model.schema import SourceKind
from millstream.runtime.spec import Guarantee, RuntimeSettings
from millstream.topology.split import LayoutOf, mixed
from tests.properties.pipeline import Pipeline
from tests.spark.final import final, made, records_in

STREAM = (
    "CREATE STREAM s (id STRING KEY, v INT, w STRING) WITH (kafka_topic='a', value_format='JSON');"
)
TABLE = "CREATE TABLE t (id STRING PRIMARY KEY, x INT) WITH (kafka_topic='b', value_format='JSON');"
WHOLE, AT_ONCE = RuntimeSettings(commit_interval_ms=3), Guarantee.AT_LEAST_ONCE
"""The live engine reads all of its input at once, and a sub-topology reads what the one before it
has just sent: under exactly-once, it would read that after the commit, and the rest of its input
before."""
QUERIES = {
    "projection": "CREATE STREAM o AS SELECT id, v + 1 AS v FROM s WHERE v > 2;",
    "count per key": "CREATE TABLE o AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;",
    "rows that move": "CREATE TABLE o AS SELECT w, SUM(v) AS n FROM s GROUP BY w;",
    "windows": "CREATE TABLE o AS SELECT w, COUNT(*) AS n FROM s WINDOW TUMBLING "
    "(SIZE 10 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS) GROUP BY w;",
    "final windows": "CREATE TABLE o AS SELECT w, COUNT(*) AS n FROM s WINDOW TUMBLING "
    "(SIZE 10 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS) GROUP BY w EMIT FINAL;",
    "table join": "CREATE STREAM o AS SELECT s.id, v, x FROM s LEFT JOIN t ON s.id = t.id;",
    "moved join": "CREATE STREAM o AS SELECT s.w, v, x FROM s JOIN t ON s.w = t.id;",
    "joined, then grouped": "CREATE TABLE o AS SELECT x, COUNT(*) AS n FROM s JOIN t "
    "ON s.w = t.id GROUP BY x;",
}


def pipeline(query: str, partitions: int = 3, layout: LayoutOf = mixed) -> Pipeline:
    counts = {"a": partitions, "b": partitions, "o": partitions}
    text = QUERIES[query].replace(" o AS ", " o WITH (kafka_topic='o') AS ", 1)
    made_ = Pipeline(f"{STREAM}{TABLE}", text, counts, WHOLE, AT_ONCE, layout)
    send(made_, range(80), range(24))
    return made_


def send_rest(live: Pipeline) -> None:
    """More records, behind those that a pipeline begins with; the first ones are late."""
    send(live, range(70, 120), range(24, 36))


def send(live: Pipeline, stream: range, table: range) -> None:
    for i in stream:
        key = f"k{i % 7}".encode()
        value = json.dumps({"v": i, "w": f"k{i * 5 % 4}"}).encode()
        at = place(key, live.partitions["a"])
        live.send("a", at, [(key, value, i * 3 - (8 if i % 5 == 4 else 0))])
    for i in table:
        key = f"k{i % 4}".encode()
        value = json.dumps({"x": i % 3}).encode() if i % 5 else None
        live.send("b", place(key, live.partitions["b"]), [(key, value, i * 9)])


def place(key: bytes, partitions: int) -> int:
    return int(partition_of(pa.array([key], pa.binary()), partitions)[0])


def run_of(live: Pipeline, *, cached: bool = False) -> Run:
    return Run(live.topology, everything(live.log, live.topology), live.partitions, cached)


def kind_of(live: Pipeline) -> SourceKind:
    return live.topology.subtopologies[-1].root.kind


def wanted(live: Pipeline) -> Any:
    found = [
        (partition, row["key"], row["value"], row["timestamp"], str(row["headers"] or []))
        for partition, rows in enumerate(live.finish())
        for row in rows
    ]
    return final(found, kind_of(live))


def by_exchange(run: Run, live: Pipeline) -> Iterator[Any]:
    """Tasks that only exchange rows."""
    return run_in_rounds(run, FromLog(live.log), builtin_catalogue(), in_round)


TABLES = [name for name in QUERIES if QUERIES[name].startswith("CREATE TABLE")]


@pytest.mark.parametrize(
    ("query", "cached"), [*((name, False) for name in QUERIES), *((name, True) for name in TABLES)]
)
def test_a_bounded_run_in_this_process(query: str, cached: bool) -> None:
    live = pipeline(query)
    expected = wanted(live)
    outputs = run_local(run_of(live, cached=cached), FromLog(live.log), builtin_catalogue())
    found = made(item for item in outputs if isinstance(item, Appended))
    assert final(found, kind_of(live)) == expected
    assert expected


@pytest.mark.parametrize("query", QUERIES)
def test_tasks_that_only_exchange_rows(query: str) -> None:
    live = pipeline(query)
    expected = wanted(live)
    outputs = by_exchange(run_of(live), live)
    found = made(item for item in outputs if isinstance(item, Appended))
    assert final(found, kind_of(live)) == expected


def test_records_that_are_no_use_are_reported() -> None:
    live = pipeline("rows that move")
    live.send("a", 0, [(b"k", b"{not json", 1)])
    offset = live.log.end_offset("a", 0) - 1
    for outputs in (
        run_local(run_of(live), FromLog(live.log), builtin_catalogue()),
        by_exchange(run_of(live), live),
    ):
        problems = [item for item in outputs if isinstance(item, Problem)]
        assert [(p.kind, p.topic, p.offset) for p in problems] == [("DESERIALIZATION", "a", offset)]


def test_what_stops_a_query_is_raised() -> None:
    live = pipeline("projection")
    live.send("a", 0, [(b"k", b"{not json", 1)])
    run = Run(
        live.topology,
        everything(live.log, live.topology),
        live.partitions,
        fatal=frozenset({"DESERIALIZATION"}),
    )
    with pytest.raises(MillstreamError):
        list(run_local(run, FromLog(live.log), builtin_catalogue()))
    with pytest.raises(MillstreamError):
        list(by_exchange(run, live))


@dataclass(frozen=True)
class BreaksOff:
    """A source that cannot go on reading after some pieces of each partition."""

    source: FromLog
    pieces_before: int

    def pieces(self, split: Split) -> Iterator[ReadChunk]:
        """See `Source`; a piece for each record."""
        for at in range(split.start, min(split.end, split.start + self.pieces_before)):
            yield from self.source.pieces(replace(split, start=at, end=at + 1))
        raise UnavailableError("the broker is away", code="E-AWAY")


@pytest.mark.parametrize("pieces", [0, 3])
@pytest.mark.parametrize("query", ["count per key", "rows that move"])
def test_a_run_whose_records_cannot_be_read_fails(query: str, pieces: int) -> None:
    """It would be an incomplete result without an error."""
    live = pipeline(query)
    source = BreaksOff(FromLog(live.log), pieces)
    with pytest.raises(UnavailableError, match="away") as raised:
        list(run_local(run_of(live), source, builtin_catalogue()))
    assert raised.value.code == "E-AWAY"
    with pytest.raises(UnavailableError, match="away"):
        list(run_in_rounds(run_of(live), source, builtin_catalogue(), in_round))


def test_a_run_reads_its_splits_alone() -> None:
    live = pipeline("projection", 1)
    run = run_of(live)
    (place,) = run.splits
    short = replace(run, splits={place: replace(run.splits[place], start=4, end=9)})
    outputs = run_local(short, FromLog(live.log), builtin_catalogue())
    rows = [row for item in outputs for row in records_in(0, item.batch)]  # type: ignore[union-attr]
    assert [json.loads(row[2] or b"")["V"] for row in rows] == [5, 6, 7, 8, 9]
