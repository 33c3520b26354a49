"""Processors in queries: their rows, their state over restarts, and what goes wrong."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream
from millstream import Database, EngineSettings, KeyValueStore, Processor, Record
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.runtime.spec import QueryState
from tests.draws import draws

MINUTE = dt.timedelta(minutes=1)
BASE = 1_700_000_000_000
STREAM = """
CREATE STREAM readings (device STRING KEY, v INT)
  WITH (kafka_topic='readings', partitions=2, value_format='JSON');
"""
SILENT = """
CREATE STREAM silent AS SELECT device, seen, n FROM PROCESS(readings, 'Silence') EMIT CHANGES;
"""


class Silence(Processor):
    """A row for each device that has sent nothing for ten minutes, with its number of readings."""

    output = "device STRING KEY, seen TIMESTAMP, n BIGINT"

    def init(self, context: millstream.ProcessorContext) -> None:
        self.context = context
        self.last = context.store("last", KeyValueStore("STRING", "TIMESTAMP"))
        self.count = context.store("count", KeyValueStore("STRING", "BIGINT"))
        context.schedule(MINUTE, millstream.STREAM_TIME, self.look)

    def process(self, record: Record) -> None:
        self.last.put(record.key, record.timestamp)
        self.count.put(record.key, self.count.get(record.key, 0) + 1)

    def look(self, time: dt.datetime) -> None:
        for device, seen in self.last.range():
            if time - seen >= 10 * MINUTE:
                self.context.forward(device, {"SEEN": seen, "N": self.count.get(device)})
                self.last.delete(device)


def opened(path: str = ":memory:", *classes: type[Processor], batch: int = 1_000) -> Database:
    return millstream.connect(
        path,
        functions=[millstream.processor(each) for each in classes or (Silence,)],
        settings=EngineSettings(max_batch_records=batch),
        properties={
            "auto.offset.reset": "earliest",
            "processing.guarantee": "exactly_once_v2",
        },
    )


def insert(db: Database, readings: list[tuple[str, int]]) -> None:
    for device, minute in readings:
        db.execute(
            "INSERT INTO readings (ROWTIME, device, v) VALUES (?, ?, 0);",
            (BASE + minute * 60_000, device),
        )


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    result = db.execute(sql)
    return list(result)  # type: ignore[arg-type]


def states(db: Database) -> dict[str, tuple[QueryState, str]]:
    return {s.query_id.split("_")[1]: (s.state, s.error) for s in db.engine.statuses()}


READINGS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 60)), min_size=1, max_size=25)


def expected(readings: list[tuple[str, int]]) -> list[tuple[Any, ...]]:
    """The rows of a plain simulation of one partition."""
    last: dict[str, int] = {}
    count: dict[str, int] = {}
    found, now, due = [], -1, 0
    for device, minute in readings:
        last[device] = minute
        count[device] = count.get(device, 0) + 1
        due = minute + 1 if now < 0 else due
        now = max(now, minute)
        if now >= due:
            due = now + 1
            for silent in sorted(d for d, seen in last.items() if now - seen >= 10):
                seen = (
                    dt.datetime(1970, 1, 1)
                    + dt.timedelta(milliseconds=BASE)
                    + last.pop(silent) * MINUTE
                )
                found.append((silent, seen, count[silent]))
    return found


@settings(max_examples=draws(12), deadline=None)
@given(READINGS, st.integers(1, 4), st.integers(0, 25))
def test_rows_whatever_the_batches_and_restarts(
    tmp_path_factory: pytest.TempPathFactory,
    readings: list[tuple[str, int]],
    batch: int,
    cut: int,
) -> None:
    one = STREAM.replace("partitions=2", "partitions=1")
    path = tmp_path_factory.mktemp("processors") / "db"
    with opened(str(path)) as db:
        db.execute(one + SILENT)
        insert(db, readings[:cut])
        db.wait()
    # The state is restored from the changelog.
    for file in path.parent.glob("*state*"):
        file.unlink()
    with opened(str(path), batch=batch) as db:
        insert(db, readings[cut:])
        db.wait()
        assert rows(db, "SELECT * FROM silent;") == expected(readings)


def test_tasks_have_their_own_instances_and_stores() -> None:
    with opened() as db:
        db.execute(STREAM + SILENT)
        insert(db, [(device, minute) for minute in (0, 30) for device in "abcdefgh"])
        db.wait()
        found = rows(db, "SELECT device, n FROM silent;")
        # In each of the two partitions, the first device at minute 30 tells of all others.
        assert len(found) == 6 and {n for _, n in found} == {1}


def test_the_output_is_a_stream_like_any_other() -> None:
    with opened() as db:
        db.execute(
            STREAM
            + """
            CREATE TABLE names (device STRING PRIMARY KEY, name STRING)
              WITH (kafka_topic='names', partitions=2, value_format='JSON');
            CREATE TABLE per AS SELECT n, COUNT(*) AS silences FROM PROCESS(readings, 'Silence')
              WHERE device <> 'x' GROUP BY n EMIT CHANGES;
            CREATE STREAM named AS SELECT p.device AS device, names.name, p.n AS n, p.ROWTIME AS t
              FROM PROCESS(readings, 'Silence') p JOIN names ON p.device = names.device;
            INSERT INTO names VALUES ('a', 'Anna'); INSERT INTO names VALUES ('b', 'Ben');
            """
        )
        db.wait()
        insert(db, [("a", 0), ("a", 1), ("b", 0), ("x", 0), ("a", 60), ("b", 60), ("x", 60)])
        insert(db, [("a", 90), ("b", 90), ("x", 90)])
        db.wait()
        named = rows(db, "SELECT device, name, n FROM named;")
        per = dict(rows(db, "SELECT * FROM per;"))
        assert {name for _, name, _ in named} <= {"Anna", "Ben"}
        assert sum(per.values()) == len(named) >= 2


def test_what_init_reads_is_what_was_stored(tmp_path: Path) -> None:
    class Total(Processor):
        output = "n BIGINT"

        def init(self, context: millstream.ProcessorContext) -> None:
            self.context = context
            self.store = context.store("total", KeyValueStore("STRING", "BIGINT"))
            self.total = self.store.get("all", 0)

        def process(self, record: Record) -> None:
            self.total += record.value["V"]
            self.store.put("all", self.total)
            self.context.forward(None, {"N": self.total})

    sql = STREAM.replace("partitions=2", "partitions=1")
    sql += "CREATE STREAM totals AS SELECT n FROM PROCESS(readings, 'Total');"
    path = str(tmp_path / "db")
    for turn in range(3):
        with opened(path, Total) as db:
            if turn == 0:
                db.execute(sql)
            db.execute("INSERT INTO readings (device, v) VALUES ('a', 5);")
            db.wait()
    with opened(path, Total) as db:
        assert rows(db, "SELECT n FROM totals;") == [(5,), (10,), (15,)]


class Picky(Processor):
    """Does with each record what its value says."""

    output = "device STRING KEY, v INT"

    def init(self, context: millstream.ProcessorContext) -> None:
        self.context = context
        self.seen = context.store("seen", KeyValueStore("STRING", "INT"))

    def process(self, record: Record) -> None:
        v = record.value["V"]
        self.seen.put(record.key, v)
        if v in WRONG:
            WRONG[v][0](self)
        self.context.forward(record.key, {"V": v})


WRONG: dict[int, tuple[Callable[[Any], Any], str]] = {
    2: (lambda self: 1 / 0, "ZeroDivisionError: division by zero"),
    3: (lambda self: self.context.forward("a", {"X": 1}), "no value column 'X'; it has: V"),
    4: (lambda self: self.context.forward(("a", 1), {}), "column K: "),
    5: (lambda self: self.seen.put("a", "x"), "INTEGER takes a int"),
    6: (lambda self: self.context.schedule(MINUTE, millstream.STREAM_TIME, print), "only init"),
    7: (lambda self: [].pop(), "IndexError: pop from empty list"),
    9: (lambda self: sys.exit("enough"), "SystemExit: enough"),
    8: (lambda self: self.process(Record("a", {"V": 8}, 0, 0)), "RecursionError"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_processor_that_fails_stops_its_query_alone(wrong: int, tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    with opened(path, Picky) as db:
        db.execute(
            STREAM + "CREATE STREAM picked AS SELECT * FROM PROCESS(readings, 'Picky');"
            "CREATE STREAM copied AS SELECT * FROM readings;"
        )
        for v in (1, wrong, 10):
            db.execute("INSERT INTO readings (device, v) VALUES ('a', ?);", (v,))
        db.wait()
        found = states(db)
        assert found["COPIED"] == (QueryState.RUNNING, "")
        state, error = found["PICKED"]
        assert state is QueryState.ERROR
        words = WRONG[wrong][1].replace("column K", "column DEVICE")
        assert words in error and "Processor PICKY.process raised" in error
        assert "offset 1 of topic readings, partition" in error and 'test_processors.py"' in error
        assert len(rows(db, "SELECT * FROM copied;")) == 3
    # A corrected class goes on with that record, and nothing of the failed run is left.
    with opened(path, type("Picky", (Picky,), {"process": Corrected.process})) as db:
        db.wait()
        assert [v for _, v in rows(db, "SELECT * FROM picked;")] == [1, wrong, 10]


class Corrected(Picky):
    """Forwards what was stored before."""

    def process(self, record: Record) -> None:
        self.context.forward(record.key, {"V": record.value["V"]})
        self.seen.put(record.key, record.value["V"])


@pytest.fixture(name="db")
def _db() -> Iterator[Database]:
    with opened() as db:
        db.execute(
            STREAM + "CREATE TABLE t AS SELECT device, COUNT(*) AS n FROM readings GROUP BY device;"
            "CREATE TABLE w AS SELECT device, COUNT(*) AS n FROM readings"
            " WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY device;"
            "CREATE STREAM ws (device STRING KEY, n BIGINT) WITH (kafka_topic='W',"
            " value_format='JSON', window_type='TUMBLING', window_size='1 HOUR');"
        )
        yield db


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM PROCESS(readings, 'Silenc') EMIT CHANGES;", "There is no processor"),
        ("SELECT * FROM PROCESS(nothing, 'Silence') EMIT CHANGES;", "NOTHING does not exist"),
        ("SELECT * FROM PROCESS(w, 'Silence') EMIT CHANGES;", "whose keys have windows"),
        ("SELECT * FROM PROCESS(ws, 'Silence') EMIT CHANGES;", "whose keys have windows"),
        ("SELECT v FROM PROCESS(readings, 'Silence') EMIT CHANGES;", "'V' cannot be resolved"),
        ("SELECT * FROM PROCESS(readings, 'Silence');", "A query without EMIT cannot call"),
        ("SELECT * FROM PROCESS(t, 'Silence') WHERE n = 1;", "A query without EMIT cannot call"),
        ("SELECT * FROM PROCESS(readings) EMIT CHANGES;", "Expecting ','"),
        ("SELECT * FROM PROCESS(readings, silence) EMIT CHANGES;", "name of the processor"),
    ],
)
def test_statements_that_are_refused(db: Database, sql: str, words: str) -> None:
    with pytest.raises(millstream.MillstreamError) as raised:
        db.execute(sql)
    assert words in str(raised.value)


def test_explain_shows_the_processor(db: Database) -> None:
    text = str(rows(db, f"EXPLAIN {SILENT}"))
    assert "Process SILENCE [Python, row by row]" in text


def test_process_is_still_a_name(db: Database) -> None:
    db.execute("CREATE STREAM process AS SELECT * FROM readings;")
    assert rows(db, "SELECT * FROM process p EMIT CHANGES LIMIT 0;") == []


def test_an_unknown_processor_at_opening(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    with opened(path) as db:
        db.execute(STREAM + SILENT)
    with millstream.connect(path) as db:
        (entry,) = db.processing_log().to_pylist()
        assert "There is no processor 'Silence'" in entry["message"]
    with opened(path) as db:
        db.wait()
        assert states(db) == {"SILENT": (QueryState.RUNNING, "")}


class NoOutput(Processor):
    """Has no columns."""


class TwoColumns(Processor):
    """Has a column twice."""

    output = "a INT, a BIGINT"


class BadStore(Processor):
    """Has a store that none can be."""

    output = "a INT"

    def init(self, context: millstream.ProcessorContext) -> None:
        context.store("s", KeyValueStore("DOUBLE", "INT"))


class BadType(Processor):
    """Has a column of an unknown type."""

    output = "a NUMBER"


class Arguments(Processor):
    """Cannot be made without arguments."""

    output = "a INT"

    def __init__(self, limit: int) -> None:
        self.limit = limit


@pytest.mark.parametrize(
    ("supplier", "words"),
    [
        (NoOutput, "it declares no output"),
        (TwoColumns, "has the column A twice"),
        (BadStore, "cannot have keys of type DOUBLE"),
        (BadType, "Cannot resolve unknown type: NUMBER"),
        (Arguments, "missing 1 required positional argument: 'limit'"),
        (int, "int is no millstream.Processor"),
        (lambda: Silence(), "'<lambda>' cannot be the name"),
    ],
)
def test_processors_that_cannot_be_registered(supplier: Any, words: str) -> None:
    with pytest.raises(millstream.StatementError) as raised:
        millstream.processor(supplier)
    assert words in str(raised.value)


def test_a_supplier_has_arguments_of_its_own() -> None:
    made = millstream.processor(lambda: Silence(), name="quiet")
    with millstream.connect(functions=[made]) as db:
        db.execute(STREAM + SILENT.replace("'Silence'", "'QUIET'"))
        with pytest.raises(millstream.ConflictError, match="a processor QUIET already"):
            db.register(made)


class Once(Processor):
    """Its `init` fails in a task, with records that it could have met."""

    output = "device STRING KEY, v INT"
    fails = False

    def init(self, context: millstream.ProcessorContext) -> None:
        if self.fails:
            raise LookupError("the model is not there")

    def process(self, record: Record) -> None: ...

    def close(self) -> None:
        raise ValueError("cannot be closed")


def test_an_init_that_fails_in_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "db")
    with opened(path, Once) as db:
        db.execute(STREAM + "CREATE STREAM o AS SELECT * FROM PROCESS(readings, 'Once');")
        monkeypatch.setattr(Once, "fails", True)
        insert(db, [("a", 0)])
        db.wait()
        state, error = states(db)["O"]
        assert state is QueryState.ERROR
        assert "Processor ONCE.init raised LookupError: the model is not there" in error
        assert "offset 0 of topic readings" in error and 'test_processors.py"' in error
    monkeypatch.setattr(Once, "fails", False)
    with opened(path, Once) as db:
        db.wait()
        assert states(db)["O"] == (QueryState.RUNNING, "")
    assert "The method close of processor" in caplog.text


def test_dates_that_python_does_not_have_are_text() -> None:
    class Dated(Processor):
        output = "text STRING"

        def init(self, context: millstream.ProcessorContext) -> None:
            self.context = context

        def process(self, record: Record) -> None:
            self.context.forward(None, {"TEXT": str(record.value["D"])})

    with opened(":memory:", Dated) as db:
        db.execute(
            "CREATE STREAM s (d DATE) WITH (kafka_topic='s', partitions=1, value_format='JSON');"
            "CREATE STREAM o AS SELECT * FROM PROCESS(s, 'Dated');"
        )
        writer = db.engine.log.writer("test")
        batch = raw_batch([(None, b'{"D":%d}' % days, BASE) for days in (0, 3_000_000)])
        writer.append([Appended("s", 0, batch, 2, batch.nbytes)])
        db.wait()
        assert states(db)["O"] == (QueryState.RUNNING, "")
        assert rows(db, "SELECT text FROM o;") == [("1970-01-01",), ("+10183-09-21",)]
