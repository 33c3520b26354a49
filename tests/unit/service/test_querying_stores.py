"""Pull queries on the stores of processors: SELECT … FROM stream.store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import millstream
from millstream import (
    Database,
    KeyValueStore,
    MillstreamError,
    Processor,
    ProcessorContext,
    Record,
    col,
)
from tests.draws import draws
from tests.unit.service.test_store_kinds import BASE, DOINGS, LIFE, SQL, Model, at, opened


def rows(db: Database, text: str, *parameters: Any) -> list[Any]:
    return db.execute(text, list(parameters) or None).fetchall()  # type: ignore[union-attr]


@settings(max_examples=draws(40), deadline=None)
@given(DOINGS)
def test_a_query_shows_what_the_processor_would_see(
    doings: list[tuple[int, str, str, int, int]],
) -> None:
    model = Model()
    with opened() as db:
        db.execute(SQL)
        for time, k, what, a, b in doings:
            db.insert("doings", [{"k": k, "what": what, "a": a, "b": b, "ROWTIME": BASE + time}])
            model.now = max(model.now, time)
            if what != "see":
                model.do(k, what, a, b)
        db.wait()
        found = {
            store: sorted(rows(db, f"SELECT * FROM out.{store}"), key=str)
            for store in ("timed", "windows", "sessions", "versions", "lists")
        }
    first = model.now - LIFE
    living = {k: v for k, v in model.timed.items() if v[1] >= first}
    assert found["timed"] == sorted((k, at(t), v) for k, (v, t) in living.items())
    assert found["windows"] == sorted(
        ((k, at(t), v) for (k, t), v in model.windows.items() if t >= first), key=str
    )
    assert found["sessions"] == sorted(
        ((k, at(s), at(e), v) for (k, e, s), v in model.sessions.items() if e >= first), key=str
    )
    assert found["versions"] == sorted(
        (
            (k, at(t), v)
            for (k, t), v in model.versions.items()
            if not any(k == other and t < later < first for other, later in model.versions)
        ),
        key=str,
    )
    assert found["lists"] == sorted(((k, each) for k, each in model.lists.items()), key=str)


class Counting(Processor):
    """A count for each word, whatever the partition."""

    output = "word STRING KEY, n BIGINT"

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.counts = context.store("Counts", KeyValueStore("STRING", "BIGINT"))
        self.last = context.store("last", KeyValueStore("STRING", "STRUCT<n BIGINT>"))

    def process(self, record: Record) -> None:
        n = self.counts.get(record.value["WORD"], 0) + 1
        self.counts.put(record.value["WORD"], n)
        self.last.put("all", {"N": n})
        self.context.forward(record.value["WORD"], {"N": n})


WORDS = """
CREATE STREAM said (who STRING KEY, word STRING)
  WITH (kafka_topic='said', partitions=3, value_format='JSON');
CREATE STREAM counted AS SELECT * FROM PROCESS(said, 'Counting') WHERE n > 1;
"""


@pytest.fixture
def counted(tmp_path: Path) -> Any:
    with millstream.connect(
        tmp_path / "a.db",
        functions=[millstream.processor(Counting)],
        properties={"auto.offset.reset": "earliest"},
    ) as db:
        db.execute(WORDS)
        db.insert("said", [("ann", "a"), ("ann", "b"), ("bob", "a"), ("bob", "a"), ("cid", "b")])
        db.wait()
        yield db


def test_tasks_have_stores_of_their_own_and_a_query_reads_all(counted: Database) -> None:
    assert sum(n for _, n in rows(counted, "SELECT key, value FROM counted.counts")) == 5
    (found,) = rows(counted, "SELECT SUM(value) FROM counted.counts")
    assert found == (5,)
    assert sum(n for (n,) in rows(counted, "SELECT value FROM counted.counts WHERE key = 'a'")) == 3
    assert (
        sum(
            n for (n,) in rows(counted, "SELECT c.value FROM counted.counts c WHERE c.key = ?", "b")
        )
        == 2
    )
    assert rows(counted, "SELECT counts.key FROM counted.counts WHERE value > 5") == []


def test_the_query_may_be_named_by_its_id(counted: Database) -> None:
    (query,) = counted.engine.catalog.queries
    assert rows(counted, f"SELECT key FROM {query}.counts ORDER BY key LIMIT 1") == [("a",)]
    counted.execute("INSERT INTO counted SELECT * FROM PROCESS(said, 'Counting');")
    (other,) = (name for name in counted.engine.catalog.queries if name != query)
    counted.wait()
    assert rows(counted, f"SELECT COUNT(*) FROM {other}.last")[0][0] >= 1


def test_structs_and_joins_with_tables(counted: Database) -> None:
    assert {n for (n,) in rows(counted, "SELECT value->n FROM counted.last")} <= {1, 2, 3}
    counted.execute(
        "CREATE TABLE words (word STRING PRIMARY KEY, sense STRING)"
        " WITH (kafka_topic='words', partitions=1, value_format='JSON');"
        "CREATE TABLE senses AS SELECT * FROM words;"
    )
    counted.insert("words", [("a", "alpha")])
    counted.wait()
    found = rows(
        counted,
        "SELECT s.sense, SUM(c.value) FROM counted.counts c JOIN senses s ON s.word = c.key"
        " GROUP BY s.sense",
    )
    assert found == [("alpha", 3)]


def test_it_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    functions = [millstream.processor(Counting)]
    with millstream.connect(
        path, functions=functions, properties={"auto.offset.reset": "earliest"}
    ) as db:
        db.execute(WORDS)
        db.insert("said", [("ann", "a")])
        db.wait()
    with millstream.connect(path, functions=functions) as db:
        assert rows(db, "SELECT * FROM counted.counts") == [("a", 1)]
        plan = db.execute("EXPLAIN SELECT * FROM counted.counts").fetchall()  # type: ignore[union-attr]
    assert any("keeps COUNTED.COUNTS" in str(line) for line in plan)


def test_a_chain_of_a_store(counted: Database) -> None:
    store = counted.table("counted.counts")
    found = store.where(col("key") == "a").fetchall()
    assert sum(n for _, n in found) == 3
    assert store.arrow()["VALUE"].to_pylist() == [n for _, n in store.fetchall()]
    with pytest.raises(MillstreamError, match="read by pull queries"):
        store.filter(col("value") > 1).to("more")
    with pytest.raises(MillstreamError, match="no store LOST"):
        counted.table("counted.lost")
    with pytest.raises(MillstreamError, match="does not exist"):
        counted.table("nobody.lost")


REFUSED = {
    "SELECT * FROM counted.nothing;": "COUNTED has no store NOTHING",
    "SELECT * FROM said.counts;": "SAID.COUNTS does not exist",
    "SELECT * FROM nobody.counts;": "NOBODY.COUNTS does not exist",
    "SELECT wrong FROM counted.counts;": "WRONG",
    "SELECT * FROM counted.counts EMIT CHANGES;": "read by pull queries",
    "CREATE TABLE t AS SELECT * FROM counted.counts;": "read by pull queries",
    "SELECT * FROM counted.counts AS OF TIMESTAMP '2026-01-01';": "which has no history",
    "INSERT INTO counted.counts VALUES ('a', 1);": "'.'",
    "DROP STREAM counted.counts;": "'.'",
    "SELECT * FROM counted.counts.more;": "can be queried, not counted.counts.more",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_asked_is_refused(text: str, counted: Database) -> None:
    with pytest.raises(MillstreamError) as raised:
        counted.execute(text)
    assert REFUSED[text] in str(raised.value)


def test_times_are_shown_as_timestamps() -> None:
    with opened() as db:
        db.execute(SQL)
        db.insert("doings", [{"k": "x", "what": "put", "a": 5, "b": 7, "ROWTIME": BASE}])
        db.wait()
        assert rows(db, "SELECT window_start, window_end FROM out.sessions") == [(at(5), at(7))]
        assert rows(db, "SELECT ROWTIME FROM out.timed") == [(BASE + 5,)]


def test_the_first_rows_are_always_the_same_ones() -> None:
    with opened() as db:
        db.execute(SQL)
        for a in (9, 5, 7):
            db.insert("doings", [{"k": "x", "what": "put", "a": a, "b": a, "ROWTIME": BASE}])
        db.wait()
        found = rows(db, "SELECT window_start FROM out.windows LIMIT 2")
    assert found == [(at(5),), (at(7),)]
