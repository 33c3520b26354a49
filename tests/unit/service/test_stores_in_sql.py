"""`store.sql`: a SELECT over a store as it is now."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream
from millstream import Database, EngineSettings, KeyValueStore, Processor, ProcessorContext, Record
from millstream.runtime.spec import QueryState
from tests.draws import draws

SQL = """
CREATE STREAM numbers (id STRING KEY, n INT)
  WITH (kafka_topic='numbers', partitions=1, value_format='JSON');
CREATE STREAM out AS SELECT * FROM PROCESS(numbers, 'Asking');
"""


class Asking(Processor):
    """Keeps the last number of each key, -1 deletes it; and tells what SQL says of all."""

    output = "id STRING KEY, listed STRING"
    query = "SELECT string_agg(key || value, ' ' ORDER BY key) FROM store WHERE value > ?"

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.last = context.store("last", KeyValueStore("STRING", "INT"))

    def process(self, record: Record) -> None:
        n = record.value["N"]
        self.last.put(record.key, None if n < 0 else n)
        ((listed,),) = self.last.sql(self.query, [0])
        self.context.forward(record.key, {"LISTED": listed})


def opened(processor: type[Processor], *, batch: int = 1_000, path: str = ":memory:") -> Database:
    db = millstream.connect(
        path,
        functions=[millstream.processor(processor, name="Asking")],
        settings=EngineSettings(max_batch_records=batch),
        properties={"auto.offset.reset": "earliest"},
    )
    if not db.engine.catalog.sources:
        db.execute(SQL)
    return db


@settings(max_examples=draws(25), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([-1, 0, 1, 2])), max_size=15),
    st.integers(1, 4),
)
def test_it_sees_what_is_stored_and_what_this_run_has_changed(
    numbers: list[tuple[str, int]], batch: int
) -> None:
    last: dict[str, int] = {}
    expected: list[tuple[str, str | None]] = []
    for key, n in numbers:
        last[key] = n
        expected.append(
            (key, " ".join(f"{k}{v}" for k, v in sorted(last.items()) if v > 0) or None)
        )
    with opened(Asking, batch=batch) as db:
        db.execute("PAUSE ALL;")
        db.insert("numbers", numbers) if numbers else None
        db.execute("RESUME ALL;")
        db.wait()
        assert list(db.execute("SELECT * FROM out")) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM stored_elsewhere", "does not exist"),
        ("SELECT CAST(key AS INT) FROM store", "Could not convert"),
        ("SELECT 1); DROP TABLE store; --", "Table with name store does not exist"),
        ("SELECT * FROM read_text('{file}')", "disabled"),
        ("SELECT * FROM here", "does not exist"),
    ],
)
def test_sql_that_fails_stops_the_query_and_harms_nothing(
    query: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "secret.txt"
    file.write_text("secret")

    class Wrong(Asking):
        def process(self, record: Record) -> None:
            self.last.put(record.key, record.value["N"])
            here = pa.table({"key": ["of the caller"]})
            self.last.sql(query.replace("{file}", str(file)))
            assert here.num_rows == 1

    with opened(Wrong) as db:
        db.insert("numbers", [("a", 1)])
        db.wait()
        (status,) = db.engine.statuses()
        assert status.state is QueryState.ERROR and message in str(status.error)


def test_sql_that_fails_can_be_handled_and_the_run_goes_on() -> None:
    class Handling(Asking):
        def process(self, record: Record) -> None:
            with pytest.raises(ValueError, match="syntax error"):
                self.last.sql("SELEC 1")
            super().process(record)

    with opened(Handling) as db:
        db.insert("numbers", [("a", 1), ("b", 2)])
        db.wait()
        assert list(db.execute("SELECT * FROM out")) == [("a", "a1"), ("b", "a1 b2")]  # type: ignore[arg-type]


def test_values_are_those_of_get(tmp_path: Path) -> None:
    class Nested(Processor):
        output = "id STRING KEY, same BOOLEAN"

        def init(self, context: ProcessorContext) -> None:
            self.context = context
            kind = "STRUCT<a ARRAY<INT>, t TIMESTAMP, m MAP<STRING, INT>>"
            self.kept = context.store("kept", KeyValueStore("STRING", kind))

        def process(self, record: Record) -> None:
            moment = dt.datetime(2026, 1, 1, 12)
            self.kept.put(record.key, {"A": [1, record.value["N"]], "T": moment, "M": {"x": 1}})
            found = dict(self.kept.sql("SELECT key, value FROM store"))
            same = all(found[key] == value for key, value in self.kept.range())
            self.context.forward(record.key, {"SAME": same and len(found) > 0})

    path = str(tmp_path / "n.db")
    for n in range(2):
        with opened(Nested, path=path) as db:
            db.insert("numbers", [(f"k{n}", n)])
            db.wait()
            found = list(db.execute("SELECT same FROM out"))  # type: ignore[arg-type]
    assert found == [(True,), (True,)]
