"""Joins of tables under the runtime against an oracle that takes one record at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.formats.partition import partition_of
from tests.draws import draws
from tests.properties.pipeline import Pipeline, encoded

SOURCES = """
CREATE TABLE a (k INT PRIMARY KEY, f INT, x INT) WITH (KAFKA_TOPIC = 'a', FORMAT = 'JSON');
CREATE TABLE b (k INT PRIMARY KEY, y INT) WITH (KAFKA_TOPIC = 'b', FORMAT = 'JSON');
CREATE TABLE c (k INT PRIMARY KEY, z INT) WITH (KAFKA_TOPIC = 'c', FORMAT = 'JSON');
"""
FIELDS = {"a": ("F", "X"), "b": ("Y",), "c": ("Z",)}
INTO = "CREATE TABLE o WITH (KAFKA_TOPIC = 'o', FORMAT = 'JSON') AS SELECT"
Row = dict[str, Any] | None
Record = tuple[str, int, tuple[int | None, int] | None, int]
"""Table, key, values (None: a deletion), event time."""


Change = tuple[int, Row, Row, int]
"""Key, row before and after, time."""
Kept = dict[int, tuple[dict[str, Any], int]]


@dataclass(slots=True)
class Table:
    """The rows of a topic."""

    name: str
    rows: Kept = field(default_factory=dict)

    @property
    def fields(self) -> tuple[str, ...]:
        return FIELDS[self.name]

    def changes(self, record: Record) -> Iterator[Change]:
        table, key, values, time = record
        if table != self.name:
            return
        before, _ = self.rows.pop(key, (None, 0))
        if values is not None:
            self.rows[key] = (
                dict(zip(self.fields, values[-len(self.fields) :], strict=True)),
                time,
            )
        after, _ = self.rows.get(key, (None, 0))
        if before or after:
            yield key, before, after, time


@dataclass(slots=True)
class Keyed:
    """Two tables joined by their keys."""

    kind: str
    left: Any
    right: Any
    rows: Kept = field(default_factory=dict)

    @property
    def fields(self) -> tuple[str, ...]:
        return (*self.left.fields, *self.right.fields)

    def changes(self, record: Record) -> Iterator[Change]:
        for side, other in ((self.left, self.right), (self.right, self.left)):
            for key, *rows, time in side.changes(record):
                theirs, at = other.rows.get(key, (None, 0))
                pairs = [(row, theirs) if side is self.left else (theirs, row) for row in rows]
                before, after = (self._joined(*pair) for pair in pairs)
                self.rows.pop(key, None)
                if after is not None:
                    self.rows[key] = (after, max(time, at))
                if any(rows) and (before or after):
                    yield key, before, after, max(time, at)

    def _joined(self, left: Row, right: Row) -> Row:
        if left is None and (right is None or self.kind in ("", "LEFT")):
            return None
        if right is None and self.kind in ("", "RIGHT"):
            return None
        return dict.fromkeys(self.fields) | (left or {}) | (right or {})


@dataclass(slots=True)
class Foreign:
    """A table with the rows of another that its column F names."""

    kind: str
    left: Table
    right: Table
    rows: Kept = field(default_factory=dict)
    fields = ("F", "X", "Y")

    def changes(self, record: Record) -> Iterator[Change]:
        """Deletions of left rows also where no row is shown, at the time of the right row if that
        is later."""
        for key, before, after, time in self.left.changes(record):
            asking = before if after is None else after
            yield from self._renewed(key, time, asking, gone=after is None)
        for changed, _, _, time in self.right.changes(record):
            for key in sorted(self.left.rows, key=str):
                row, at = self.left.rows[key]
                if row["F"] == changed:
                    yield from self._renewed(key, max(time, at), row)

    def _renewed(self, key: int, time: int, asking: Row, *, gone: bool = False) -> Iterator[Change]:
        before, _ = self.rows.pop(key, (None, 0))
        left, _ = self.left.rows.get(key, (None, 0))
        right, at = self.right.rows.get(asking["F"], (None, 0)) if asking else (None, 0)
        if left is not None and (right is not None or self.kind == "LEFT"):
            self.rows[key] = (left | {"Y": right["Y"] if right else None}, max(time, at))
        after, _ = self.rows.get(key, (None, 0))
        if before or after or gone:
            yield key, before, after, max(time, at)


KEYED = {
    "inner": ("", None),
    "left": ("LEFT", None),
    "right": ("RIGHT", None),
    "full": ("FULL", None),
    "inner, left": ("", "LEFT"),
    "left, full": ("LEFT", "FULL"),
    "right, inner": ("RIGHT", ""),
}


def keyed_sql(first: str, second: str | None) -> str:
    key = "ROWKEY" if "FULL" in (first, second) else "b.k" if first == "RIGHT" else "a.k"
    on = "b.k" if first == "RIGHT" else "a.k"
    tail = f" {second} JOIN c ON {on} = c.k" if second is not None else ""
    more = ", z" if second is not None else ""
    return f"{INTO} {key} AS k, f, x, y{more} FROM a {first} JOIN b ON a.k = b.k{tail};"


def oracle(first: Keyed | Foreign, second: str | None) -> Keyed | Foreign:
    return first if second is None else Keyed(second, first, Table("c"))


def in_order(records: Sequence[Record], newest: dict[str, int]) -> Iterator[Record]:
    """As a task takes them: by the newest time so far of their table, then by table."""
    placed = []
    for offset, record in enumerate(records):
        newest[record[0]] = max(newest.get(record[0], 0), record[3])
        placed.append((newest[record[0]], record[0], offset, record))
    return (record for *_, record in sorted(placed, key=lambda item: item[:3]))


def sent(query: Pipeline, records: Sequence[Record], partitions: dict[str, int]) -> None:
    for table, key, values, time in records:
        fields, raw = FIELDS[table], json.dumps(key).encode()
        row = values and dict(zip(fields, values[-len(fields) :], strict=True))
        (place,) = partition_of(pa.array([raw], pa.binary()), partitions[table]).tolist()
        query.send(table, place, [(raw, encoded(row), time)])


def told(partitions: list[list[dict[str, Any]]]) -> dict[int, list[tuple[Row, int]]]:
    """The records of each key, in order."""
    found: dict[int, list[tuple[Row, int]]] = {}
    for rows in partitions:
        for row in rows:
            value = None if row["value"] is None else json.loads(row["value"])
            found.setdefault(int(row["key"]), []).append((value, row["timestamp"]))
    return found


def by_key(changes: Iterable[Change]) -> dict[int, list[tuple[Row, int]]]:
    found: dict[int, list[tuple[Row, int]]] = {}
    for key, _, row, time in changes:
        found.setdefault(key, []).append((row, time))
    return found


records = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 2),
        st.none() | st.tuples(st.none() | st.integers(0, 2), st.integers(0, 5)),
        st.integers(0, 30),
    ),
    max_size=24,
)
cuts = st.lists(st.tuples(st.integers(1, 12), st.booleans()), max_size=5)
"""So many records at once, and whether the state is lost behind them."""
quick = settings(max_examples=draws(6), database=None)


def pieces(
    records: Sequence[Record], cuts: Sequence[tuple[int, bool]]
) -> Iterator[tuple[Sequence[Record], bool]]:
    begin = 0
    for count, restart in cuts:
        yield records[begin : begin + count], restart
        begin += count
    yield records[begin:], False


@pytest.mark.parametrize("name", KEYED)
@quick
@given(records=records, cuts=cuts)
def test_tables_are_joined_record_by_record(
    name: str, records: list[Record], cuts: list[tuple[int, bool]]
) -> None:
    used = "ab" if KEYED[name][1] is None else "abc"
    records = [record for record in records if record[0] in used]
    query = Pipeline(SOURCES, keyed_sql(*KEYED[name]), {**dict.fromkeys(used, 1), "o": 1})
    truth = oracle(Keyed(KEYED[name][0], Table("a"), Table("b")), KEYED[name][1])
    newest: dict[str, int] = {}
    expected: list[Change] = []
    try:
        for piece, restart in pieces(records, cuts):
            sent(query, piece, dict.fromkeys(used, 1))
            if restart:
                query.step()
                query.stop()
                query.start()
            query.settle()
            for record in in_order(piece, newest):
                expected += truth.changes(record)
        assert told(query.finish()) == by_key(expected)
    finally:
        query.stop()


FOREIGN = {
    "inner": ("", None),
    "left": ("LEFT", None),
    "inner, left": ("", "LEFT"),
    "left, inner": ("LEFT", ""),
}
WIDTHS = {"a": 2, "b": 3, "c": 2, "o": 2}


def foreign_sql(first: str, second: str | None) -> str:
    tail = f" {second} JOIN c ON a.k = c.k" if second is not None else ""
    more = ", z" if second is not None else ""
    return f"{INTO} a.k AS k, f, x, y{more} FROM a {first} JOIN b ON a.f = b.k{tail};"


@pytest.mark.parametrize("name", FOREIGN)
@quick
@given(records=records.map(lambda found: found[:10]), restart=st.integers(0, 10))
def test_a_foreign_key_is_followed_record_by_record(
    name: str, records: list[Record], restart: int
) -> None:
    first, second = FOREIGN[name]
    query = Pipeline(SOURCES, foreign_sql(first, second), WIDTHS)
    truth = oracle(Foreign(first, Table("a"), Table("b")), second)
    expected: list[Change] = []
    try:
        for number, record in enumerate(records):
            if record[0] == "c" and second is None:
                continue
            if number == restart:
                query.stop()
                query.start()
            sent(query, [record], WIDTHS)
            query.settle()
            expected += truth.changes(record)
        assert told(query.finish()) == by_key(expected)
    finally:
        query.stop()


@pytest.mark.parametrize("name", FOREIGN)
@quick
@given(records=records, cuts=cuts, steps=st.integers(0, 4))
def test_whatever_overtakes_what_the_last_row_of_each_key_is_right(
    name: str, records: list[Record], cuts: list[tuple[int, bool]], steps: int
) -> None:
    """And each row before it is one that some version of the left row had."""
    first, second = FOREIGN[name]
    records = [record for record in records if record[0] != "c" or second is not None]
    query = Pipeline(SOURCES, foreign_sql(first, second), WIDTHS)
    truth = oracle(Foreign(first, Table("a"), Table("b")), second)
    try:
        for piece, restart in pieces(records, cuts):
            sent(query, piece, WIDTHS)
            for _ in range(steps):
                query.step()
            if restart:
                query.stop()
                query.start()
        found = told(query.finish())
    finally:
        query.stop()
    for record in records:
        list(truth.changes(record))
    last = {key: rows[-1][0] for key, rows in found.items() if rows[-1][0] is not None}
    assert last == {key: row for key, (row, _) in truth.rows.items()}
    for key, rows in found.items():
        versions = [r[2] for r in records if r[0] == "a" and r[1] == key and r[2] is not None]
        places = [versions_of(versions, row) for row, _ in rows if row is not None]
        assert all(places)
        assert in_sequence(places)


def versions_of(versions: Sequence[tuple[int | None, int]], row: dict[str, Any]) -> list[int]:
    return [at for at, values in enumerate(versions) if values == (row["F"], row["X"])]


def in_sequence(places: Sequence[Sequence[int]]) -> bool:
    """Whether one position from each can be selected in ascending order."""
    reached = 0
    for choices in places:
        following = [at for at in choices if at >= reached]
        if not following:
            return False
        reached = min(following)
    return True
