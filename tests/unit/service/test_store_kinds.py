"""Stores with times, windows, sessions, versions and lists, against plain dictionaries."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream
from millstream import (
    Database,
    EngineSettings,
    ListStore,
    Processor,
    ProcessorContext,
    Record,
    SessionStore,
    StatementError,
    TimestampedKeyValueStore,
    VersionedStore,
    WindowStore,
)
from millstream.processors.times import as_ms, as_time
from tests.draws import draws

BASE = 1_700_000_000_000
LIFE = 20
SQL = """
CREATE STREAM doings (k STRING KEY, what STRING, a INT, b INT)
  WITH (kafka_topic='doings', partitions=1, value_format='JSON');
CREATE STREAM out AS SELECT * FROM PROCESS(doings, 'Doing');
"""
WHAT = ("put", "delete", "see")


def at(tick: int) -> dt.datetime:
    return as_time(BASE + tick)


def tick(time: dt.datetime) -> int:
    return as_ms(time) - BASE


class Doing(Processor):
    """Does to each store what the record says, and tells what is in them."""

    output = "k STRING KEY, seen STRING"

    def init(self, context: ProcessorContext) -> None:
        life = dt.timedelta(milliseconds=LIFE)
        self.context = context
        self.timed = context.store("timed", TimestampedKeyValueStore("STRING", "INT", life))
        self.windows = context.store("windows", WindowStore("STRING", "INT", life))
        self.sessions = context.store("sessions", SessionStore("STRING", "INT", life))
        self.versions = context.store("versions", VersionedStore("STRING", "INT", life))
        self.lists = context.store("lists", ListStore("STRING", "INT"))

    def process(self, record: Record) -> None:
        key, a, b = record.key, record.value["A"], record.value["B"]
        match record.value["WHAT"]:
            case "put":
                self.timed.put(key, a, at(a))
                self.windows.put(key, b, at(a))
                self.sessions.put(key, at(min(a, b)), at(max(a, b)), a)
                self.versions.put(key, b, at(a))
                self.lists.append(key, a, b)
            case "delete":
                self.timed.delete(key)
                self.windows.delete(key, at(a))
                self.sessions.delete(key, at(min(a, b)), at(max(a, b)))
                self.versions.delete(key, at(a))
                self.lists.delete(key)
            case _:
                self.context.forward(key, {"SEEN": json.dumps(self.see(key, a, b))})

    def see(self, key: str, a: int, b: int) -> list[Any]:
        found = self.timed.get(key)
        version = self.versions.get(key, at(a))
        latest = self.versions.get(key)
        return [
            None if found is None else [found[0], tick(found[1])],
            [[k, v, tick(t)] for k, v, t in self.timed.range()],
            self.windows.get(key, at(a)),
            [[tick(t), v] for t, v in self.windows.fetch(key, at(min(a, b)), at(max(a, b)))],
            [[k, tick(t), v] for k, t, v in self.windows.all()],
            self.sessions.get(key, at(min(a, b)), at(max(a, b))),
            [[tick(s), tick(e), v] for s, e, v in self.sessions.find(key, at(a), at(b))],
            None if version is None else [version[0], tick(version[1])],
            None if latest is None else [latest[0], tick(latest[1])],
            [[tick(t), v] for t, v in self.versions.fetch(key, at(min(a, b)), at(max(a, b)))],
            self.lists.get(key),
            [[k, each] for k, each in self.lists.range()],
        ]


class Model:
    """The same with dictionaries and without expiry but that of what is read."""

    def __init__(self) -> None:
        self.now = 0
        self.timed: dict[str, tuple[int, int]] = {}
        self.windows: dict[tuple[str, int], int] = {}
        self.sessions: dict[tuple[str, int, int], int] = {}
        self.versions: dict[tuple[str, int], int | None] = {}
        self.lists: dict[str, list[int]] = {}

    def do(self, key: str, what: str, a: int, b: int) -> None:
        first = self.now - LIFE
        session = (key, max(a, b), min(a, b))
        if what == "put":
            self.timed[key] = (a, a)
            if a >= first:
                self.windows[key, a] = b
                self.versions[key, a] = b
            if session[1] >= first:
                self.sessions[session] = a
            self.lists[key] = [*self.lists.get(key, []), a, b]
        else:
            self.timed.pop(key, None)
            self.windows.pop((key, a), None)
            self.sessions.pop(session, None)
            if a >= first:
                self.versions[key, a] = None
            self.lists.pop(key, None)

    def version(self, key: str, a: int) -> list[int] | None:
        known = sorted(t for k, t in self.versions if k == key and t <= a)
        value = self.versions[key, known[-1]] if known else None
        return None if value is None else [value, known[-1]]

    def see(self, key: str, a: int, b: int) -> list[Any]:
        first, low, high = self.now - LIFE, min(a, b), max(a, b)
        timed = {k: v for k, v in self.timed.items() if v[1] >= first}
        windows = {k: v for k, v in sorted(self.windows.items()) if k[1] >= first}
        sessions = {k: v for k, v in sorted(self.sessions.items()) if k[1] >= first}
        return [
            list(timed[key]) if key in timed else None,
            [[k, v, t] for k, (v, t) in sorted(timed.items())],
            windows.get((key, a)),
            [[t, v] for (k, t), v in windows.items() if k == key and low <= t <= high],
            [[k, t, v] for (k, t), v in windows.items()],
            sessions.get((key, high, low)),
            [[s, e, v] for (k, e, s), v in sessions.items() if k == key and e >= a and s <= b],
            self.version(key, a) if a >= first else None,
            self.version(key, 1_000),
            [
                [t, v]
                for (k, t), v in sorted(self.versions.items())
                if k == key and max(low, first) <= t <= high
            ],
            self.lists.get(key, []),
            [[k, each] for k, each in sorted(self.lists.items())],
        ]


TICKS = st.integers(0, 60)
DOINGS = st.lists(
    st.tuples(TICKS, st.sampled_from("xy"), st.sampled_from(WHAT), TICKS, TICKS),
    min_size=1,
    max_size=30,
)


def opened(path: str = ":memory:", batch: int = 1_000) -> Database:
    return millstream.connect(
        path,
        functions=[millstream.processor(Doing)],
        settings=EngineSettings(max_batch_records=batch),
        properties={"auto.offset.reset": "earliest"},
    )


@settings(max_examples=draws(60), deadline=None)
@given(DOINGS, st.integers(1, 6))
def test_they_hold_what_dictionaries_hold_whatever_the_batches(
    doings: list[tuple[int, str, str, int, int]], batch: int
) -> None:
    with opened(batch=batch) as db:
        db.execute(SQL + "PAUSE ALL;")
        rows = [
            {"k": k, "what": what, "a": a, "b": b, "ROWTIME": BASE + time}
            for time, k, what, a, b in doings
        ]
        db.insert("doings", rows)
        db.execute("RESUME ALL;")
        db.wait()
        found = [json.loads(row[1]) for row in db.execute("SELECT * FROM out")]  # type: ignore[union-attr]
    model, expected = Model(), []
    for time, key, what, a, b in doings:
        model.now = max(model.now, time)
        if what == "see":
            expected.append(model.see(key, a, b))
        else:
            model.do(key, what, a, b)
    assert found == expected


def test_they_are_there_when_the_database_is_opened_again(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with opened(path) as db:
        db.execute(SQL)
        db.insert(
            "doings", [("x", "put", 5, 7), ("x", "put", 9, 3)], columns=["k", "what", "a", "b"]
        )
        db.wait()
    with opened(path) as db:
        db.insert("doings", [("x", "see", 3, 9)], columns=["k", "what", "a", "b"])
        db.wait()
        (seen,) = [json.loads(row[1]) for row in db.execute("SELECT * FROM out")]  # type: ignore[union-attr]
    assert seen[-1] == [["x", [5, 7, 9, 3]]]


class Expiring(Processor):
    """A window for each record."""

    output = "k STRING KEY, n BIGINT"

    def init(self, context: ProcessorContext) -> None:
        life = dt.timedelta(milliseconds=LIFE)
        self.windows = context.store("windows", WindowStore("STRING", "INT", life))
        self.versions = context.store("versions", VersionedStore("STRING", "INT", life))
        self.timed = context.store("timed", TimestampedKeyValueStore("STRING", "INT", life))

    def process(self, record: Record) -> None:
        self.windows.put(record.key, 1, record.timestamp)
        self.versions.put("same", 1, record.timestamp)
        self.timed.put(record.key, 1, record.timestamp)


def test_what_has_expired_is_removed() -> None:
    with opened(batch=10) as db:
        db.register(millstream.processor(Expiring))
        db.execute(SQL.replace("'Doing'", "'Expiring'"))
        for start in range(0, 400, 10):
            db.insert(
                "doings",
                [{"k": f"k{n}", "what": "", "ROWTIME": BASE + n} for n in range(start, start + 10)],
            )
            db.wait()
        cursor = db.engine.store.cursor()
        tables = cursor.sql(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE table_name LIKE '%_store_%'"
        ).fetchall()
        counts = {
            table: cursor.sql(
                f'SELECT count(*) FROM {db.engine.store.database}."{schema}"."{table}"'
            ).fetchall()[0][0]
            for schema, table in tables
        }
        cursor.close()
    assert len(counts) == 3
    for table, count in counts.items():
        assert 0 < count <= LIFE + LIFE // 4 + 20, table


MISUSES: dict[str, tuple[Callable[[ProcessorContext], Any], str]] = {
    "a time with a zone": (
        lambda c: c.store("w", WindowStore("STRING", "INT", dt.timedelta(1))).put(
            "a", 1, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        ),
        "has a time zone",
    ),
    "no time": (
        lambda c: c.store("w", WindowStore("STRING", "INT", dt.timedelta(1))).put("a", 1, 5),  # type: ignore[arg-type]
        "a time is a datetime, not 5",
    ),
    "before 1970": (
        lambda c: c.store("v", VersionedStore("STRING", "INT", dt.timedelta(1))).put(
            "a", 1, dt.datetime(1969, 1, 1)
        ),
        "is before 1970",
    ),
    "a session that ends first": (
        lambda c: c.store("s", SessionStore("STRING", "INT", dt.timedelta(1))).put(
            "a", at(5), at(4), 1
        ),
        "cannot end at",
    ),
    "a key of another type": (
        lambda c: c.store("w", WindowStore("STRING", "INT", dt.timedelta(1))).get(True, at(1)),
        "does not take this key",
    ),
    "no key": (
        lambda c: c.store("w", WindowStore("STRING", "INT", dt.timedelta(1))).put(None, 1, at(1)),
        "has no key None",
    ),
    "a value of another type": (
        lambda c: c.store("l", ListStore("STRING", "INT")).append("a", "b"),
        "does not take this value",
    ),
    "no retention": (
        lambda c: c.store("w", WindowStore("STRING", "INT", dt.timedelta(0))),
        "a retention takes a millisecond or more",
    ),
    "a retention in ms": (
        lambda c: c.store("w", WindowStore("STRING", "INT", 5)),  # type: ignore[arg-type]
        "a retention is a timedelta, not 5",
    ),
    "keys that cannot be": (
        lambda c: c.store("l", ListStore("DOUBLE", "INT")),
        "A store cannot have keys of type DOUBLE",
    ),
}


@pytest.mark.parametrize("case", MISUSES)
def test_misuse_is_refused_in_words(case: str) -> None:
    misuse, words = MISUSES[case]

    class Wrong(Processor):
        output = "k STRING KEY"

        def init(self, context: ProcessorContext) -> None:
            misuse(context)

    with pytest.raises(StatementError) as raised:
        millstream.processor(Wrong)
    assert words in str(raised.value)
