"""Foreign key joins whose steps run at any pace: which record of which partition each sub-topology
takes next is drawn, so that responses overtake each other as they do between processes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.executor.executor import DuckDBExecutor
from millstream.formats.partition import partition_of
from millstream.functions.catalogue import builtin_catalogue
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.state.store import Store
from millstream.testing.drawn import fetched
from tests.draws import draws
from tests.properties.pipeline import encoded, topology_of

SOURCES = """
CREATE TABLE a (k INT PRIMARY KEY, f INT, x INT) WITH (KAFKA_TOPIC = 'a', FORMAT = 'JSON');
CREATE TABLE b (k INT PRIMARY KEY, y INT) WITH (KAFKA_TOPIC = 'b', FORMAT = 'JSON');
"""
SQL = """CREATE TABLE o WITH (KAFKA_TOPIC = 'o', FORMAT = 'JSON')
    AS SELECT a.k AS k, f, x, y FROM a {} JOIN b ON a.f = b.k;"""
WIDTHS = {"a": 1, "b": 3, "o": 1}
EMPTY = raw_batch([])


def place_of(key: int) -> int:
    """Where the right row of a key lies."""
    raw = pa.array([json.dumps(key).encode()], pa.binary())
    (part,) = partition_of(raw, WIDTHS["b"]).tolist()
    return int(part)


class Race:
    """The three executors of a join, with nothing between them but lists of records."""

    def __init__(self, kind: str) -> None:
        topology = topology_of(SOURCES, SQL.format(kind), WIDTHS)
        self.store = Store.open(":memory:")
        self.subs = topology.subtopologies
        widths = {**WIDTHS, **{one.name: one.partitions for one in topology.internal_topics}}
        self.topics: dict[tuple[str, int], list[pa.Table]] = {
            (topic, part): [] for topic, count in widths.items() for part in range(count)
        }
        self.read: dict[tuple[str, int], int] = {}
        self.executors = []
        for sub in self.subs:
            executor = DuckDBExecutor(
                self.store,
                "Q",
                sub,
                builtin_catalogue(),
                output_partitions=widths[str(sub.output)],
            )
            for part in range(sub.partitions):
                executor.open(part)
            self.executors.append(executor)

    def append(self, outputs: Any) -> None:
        for item in outputs:
            for row in range(item.count):
                self.topics[item.topic, item.partition].append(item.batch.slice(row, 1))

    def send(self, topic: str, key: int, value: Mapping[str, Any] | None) -> None:
        batch = raw_batch([(json.dumps(key).encode(), encoded(value), 0)])
        self.append([Appended(topic, place_of(key) if topic == "b" else 0, batch, 1)])

    def waiting(self) -> list[tuple[int, tuple[str, int]]]:
        """The sub-topology and partition of each topic that has more to read."""
        return [
            (index, (item.topic, part))
            for index, sub in enumerate(self.subs)
            for item in sub.inputs
            for part in range(sub.partitions)
            if self.read.get((item.topic, part), 0) < len(self.topics[item.topic, part])
        ]

    def take(self, index: int, place: tuple[str, int]) -> None:
        """One record of one partition."""
        at = self.read.get(place, 0)
        given = []
        for part in range(self.subs[index].partitions):
            for item in self.subs[index].inputs:
                chosen = (item.topic, part) == place
                batch = self.topics[place][at] if chosen else EMPTY
                start = self.read.get((item.topic, part), 0)
                given.append(fetched(item.topic, part, batch, start=start))
        self.append(self.executors[index].run(given).outputs)
        self.read[place] = at + 1

    def drain(self, choices: Iterator[int]) -> None:
        """Process everything; each choice selects the next waiting record."""
        while waiting := self.waiting():
            self.take(*waiting[next(choices, 0) % len(waiting)])

    def shown(self) -> dict[int, list[Any]]:
        found: dict[int, list[Any]] = {}
        for batch in self.topics["o", 0]:
            (row,) = batch.to_pylist()
            value = None if row["value"] is None else json.loads(row["value"])
            found.setdefault(int(row["key"]), []).append(value)
        return found

    def close(self) -> None:
        for executor in self.executors:
            executor.close()
        self.store.close()


changes = st.lists(
    st.tuples(st.just("a"), st.just(0), st.sampled_from((0, 1, 2, 3, None)))
    | st.tuples(st.just("b"), st.integers(0, 1), st.sampled_from((None, 7, 8))),
    min_size=5,
    max_size=10,
)


@pytest.mark.parametrize("kind", ["", "LEFT"])
@settings(max_examples=draws(5), database=None)
@given(changes=changes, choices=st.lists(st.integers(0, 11), min_size=10, max_size=30))
def test_no_stale_row_is_shown_however_answers_overtake_each_other(
    kind: str, changes: list[tuple[str, int, int | None]], choices: list[int]
) -> None:
    race = Race(kind)
    left: dict[int, Any] = {}
    right: dict[int, Any] = {key: {"Y": -key} for key in range(3)}
    try:
        for key, row in right.items():
            race.send("b", key, row)
        race.drain(iter(()))
        for number, (topic, key, value) in enumerate(changes):
            row = None
            if topic == "a" and value is not None:
                row = {"F": None if value == 3 else value, "X": number}
            elif value is not None:
                row = {"Y": value}
            race.send(topic, key, row)
            (left if topic == "a" else right)[key] = row
        race.drain(iter(choices))
        found = race.shown()
    finally:
        race.close()
    assert {key for key in left if joined(kind, left[key], right)} <= set(found)
    for key, rows in found.items():
        versions = [row["X"] for row in rows if row is not None]
        assert versions == sorted(versions)
        assert rows[-1] == joined(kind, left.get(key), right)


def joined(kind: str, row: Any, right: Mapping[int, Any]) -> Any:
    other = right.get(row["F"]) if row else None
    if row is None or (other is None and kind == ""):
        return None
    return {**row, "Y": other["Y"] if other else None}


def test_an_answer_to_a_row_that_has_moved_on_is_ignored() -> None:
    race = Race("")
    try:
        for key in (0, 1):
            race.send("b", key, {"Y": key})
        race.send("a", 0, {"F": 0, "X": 1})
        race.drain(iter(()))
        race.send("a", 0, {"F": 1, "X": 2})
        race.take(0, ("a", 0))
        leaves, enters = (place_of(key) for key in (0, 1))
        assert leaves != enters
        subscription = str(race.subs[0].output)
        race.take(1, (subscription, enters))
        race.send("b", 0, {"Y": 9})
        race.take(1, ("b", leaves))
        race.drain(iter(()))
        found = race.shown()
    finally:
        race.close()
    assert found == {0: [{"F": 0, "X": 1, "Y": 0}, {"F": 1, "X": 2, "Y": 1}]}
