"""A database whose queries are processed in epochs holds what the live engine would have made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream.catalog.catalog import QueryKind, QueryRecord
from millstream.history.local import run_local
from millstream.history.reading import FromLog
from millstream.history.splits import Run
from millstream.history.task import Produced
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.errors import MillstreamError, StatementError, UnavailableError
from millstream.model.settings import EngineSettings
from millstream.pipeline.pipeline import Pipeline, in_order, open_pipeline
from millstream.query.session import Session
from millstream.service.database import Database
from millstream.service.engine import Engine
from millstream.service.execution import open_engine
from tests.unit.conftest import EARLIEST, ORDERS
from tests.unit.queries.test_backfilling import PEOPLE, QUERIES, fill, rows

COUNTS = QUERIES["rows that move"].format("")
LATEST = "CREATE TABLE large AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer;"
DOUBTFUL = "SET 'ksql.fail.on.deserialization.error' = 'true';"


def script(folder: Path, *statements: str) -> str:
    path = folder / "pipeline.sql"
    path.write_text("".join(statements))
    return str(path)


def opened(folder: Path, *statements: str) -> Pipeline:
    """A pipeline in this process, which raises the errors that it would report."""

    def raised(query_id: str, error: MillstreamError) -> None:
        raise error

    return open_pipeline(
        str(folder / "shop.db"), script(folder, *statements), raised, properties=EARLIEST
    )


def processed(folder: Path, first: int, end: int, *statements: str) -> None:
    """Fill more in, and let epochs process it."""
    with opened(folder, ORDERS, PEOPLE, *statements) as pipeline:
        fill(Database(pipeline.engine, Session(EARLIEST)), first, end)
        while list(pipeline.epoch()):
            pass


def live(folder: Path, first: int, end: int) -> None:
    """The same by the engine, which also processes them together."""
    engine = open_engine(str(folder / "shop.db"), EngineSettings(), lambda: 0)
    with Database(engine, Session(EARLIEST)) as db:
        fill(db, first, end)
        db.wait()
        assert not [status.error for status in db.engine.statuses() if status.error]


def found(folder: Path, query: str) -> Any:
    with millstream.connect(str(folder / "shop.db")) as db:
        return rows(db, query)


@pytest.mark.parametrize("query", QUERIES)
def test_engine_and_pipeline_take_over_from_each_other(query: str, tmp_path: Path) -> None:
    sql = QUERIES[query].format("")
    alone, turns = tmp_path / "alone", tmp_path / "turns"
    alone.mkdir()
    turns.mkdir()
    processed(turns, 0, 20, sql)
    processed(turns, 20, 30, sql)
    live(turns, 30, 40)
    processed(turns, 40, 48, sql)
    opened(alone, ORDERS, PEOPLE, sql).close()
    for first, end in ((0, 20), (20, 30), (30, 40), (40, 48)):
        live(alone, first, end)
    assert found(turns, query=QUERIES[query]) == found(alone, query=QUERIES[query])


def test_an_epoch_goes_down_the_stream(tmp_path: Path) -> None:
    chain = (
        "CREATE STREAM dear AS SELECT * FROM orders WHERE amount > 2;"
        "CREATE STREAM rest AS SELECT * FROM orders WHERE amount <= 2;"
        "INSERT INTO dear SELECT * FROM rest;"
        "CREATE TABLE o AS SELECT item, COUNT(*) AS n FROM dear GROUP BY item;"
    )
    with opened(tmp_path, ORDERS, PEOPLE, chain) as pipeline:
        fill(Database(pipeline.engine, Session(EARLIEST)), 0, 6)
        kinds = [advance.query_id.split("_")[0] for advance in pipeline.epoch()]
        assert kinds == ["CSAS", "CSAS", "INSERTQUERY", "CTAS"]
        assert not list(pipeline.epoch())
    with millstream.connect(str(tmp_path / "shop.db")) as db:
        db.wait()
        assert sorted(db.execute("SELECT item, n FROM o;")) == [("i0", 2), ("i1", 2), ("i2", 2)]


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    kind = "CREATE TYPE place AS STRUCT<x INT>;"
    insert = "INSERT INTO p SELECT customer, amount * 3 AS twice FROM orders;"
    projection = QUERIES["projection"].format("").replace("STREAM o ", "STREAM p ")
    with opened(tmp_path, ORDERS, kind, projection, insert) as first:
        catalog = first.engine.catalog
    with opened(tmp_path, ORDERS, kind, projection.lower(), insert, PEOPLE) as second:
        assert second.engine.catalog.queries == catalog.queries
        assert "PEOPLE" in second.engine.catalog.sources


def test_a_query_that_is_defined_anew_or_dropped(tmp_path: Path) -> None:
    first = "CREATE STREAM o AS SELECT customer, amount AS a FROM orders;"
    with opened(tmp_path, ORDERS, PEOPLE, first) as pipeline:
        db = Database(pipeline.engine, Session(EARLIEST))
        fill(db, 0, 3)
        (done,) = pipeline.epoch()
        db.execute(first.replace("STREAM", "OR REPLACE STREAM").replace("a FROM", "a, item FROM"))
        db.execute("CREATE TABLE p AS SELECT item, COUNT(*) AS n FROM o GROUP BY item;")
        fill(db, 3, 6)
        again, after = pipeline.epoch()
        assert (again.query_id, again.read, after.written) == (done.query_id, 3, 3)
        db.execute(f"TERMINATE {after.query_id};")
        fill(db, 6, 9)
        assert [done.query_id for done in pipeline.epoch()] == [again.query_id]
        assert not list(pipeline.epoch())


REFUSED = {
    ORDERS.replace("DOUBLE", "BIGINT"): "already exists",
    "INSERT INTO orders VALUES ('a', 'b', 1);": "cannot hold this statement",
    f"{ORDERS}CREATE TABLE o AS SELECT itm, COUNT(*) FROM orders GROUP BY itm;": "ITM",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_scripts_that_are_refused(sql: str, tmp_path: Path) -> None:
    opened(tmp_path, ORDERS).close()
    with pytest.raises(MillstreamError, match=REFUSED[sql]):
        opened(tmp_path, sql)


def test_a_statement_that_fails_is_shown(tmp_path: Path) -> None:
    with pytest.raises(StatementError) as caught:
        opened(tmp_path, ORDERS, "CREATE STREAM o AS\n  SELCT * FROM orders;")
    assert caught.value.detail.splitlines()[-1] == "  ^^^^^"


def test_a_query_that_fails_harms_only_itself(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []
    statements = (ORDERS, COUNTS, DOUBTFUL, COUNTS.replace("TABLE o", "TABLE p"))
    pipeline = open_pipeline(
        str(tmp_path / "shop.db"),
        script(tmp_path, *statements),
        lambda query_id, error: told.append((query_id, error.message)),
        properties=EARLIEST,
    )
    with closing(pipeline):
        db = Database(pipeline.engine, Session(EARLIEST))
        db.execute("CREATE STREAM raw (k STRING KEY, v STRING) WITH (KAFKA_TOPIC='orders',"
                   " VALUE_FORMAT='KAFKA'); INSERT INTO raw VALUES ('c', 'no JSON');")  # fmt: skip
        (done,) = pipeline.epoch()
        assert (done.query_id, done.read, done.problems) == ("CTAS_O_1", 1, 1)
        assert [query_id for query_id, _ in told] == ["CTAS_P_2"]
        assert pipeline.stopped == {"CTAS_P_2"}
        fill_orders = "INSERT INTO orders VALUES ('a', 'b', 1);"
        db.execute(fill_orders)
        assert [done.query_id for done in pipeline.epoch()] == ["CTAS_O_1"]
        assert len(told) == 1


def test_a_query_that_needs_too_much_memory_is_not_tried_again(tmp_path: Path) -> None:
    told: list[MillstreamError] = []
    pipeline = open_pipeline(
        str(tmp_path / "shop.db"),
        script(tmp_path, ORDERS, f"\n{LATEST}"),
        lambda _, error: told.append(error),
        settings=EngineSettings(history_memory_limit="16MB"),
        properties=EARLIEST,
    )
    with closing(pipeline):
        send(pipeline.engine, 30_000)
        assert not list(pipeline.epoch()) and not list(pipeline.epoch())
        assert pipeline.stopped == {"CTAS_LARGE_1"} and not pipeline.waiting
    (error,) = told
    assert error.code == "E-HISTORY-MEMORY"
    assert "line 2, column 1: CREATE TABLE large" in error.detail


def send(engine: Engine, count: int) -> None:
    """Orders whose keys are long, each another one."""
    value = b'{"ITEM":"x","AMOUNT":1}'
    batch = raw_batch([(b"%0600d" % number, value, number) for number in range(count)])
    engine.log.writer("producer").append([Appended("orders", 0, batch, count)])


def test_a_query_that_has_to_wait_is_tried_again(tmp_path: Path) -> None:
    answers = [False, True]

    def sometimes(run: Run) -> Iterator[Produced]:
        if not answers.pop(0):
            raise UnavailableError("The cluster does not answer")
        return run_local(run, FromLog(pipeline.engine.log), pipeline.engine.functions)

    told: list[str] = []
    opened(tmp_path, ORDERS, PEOPLE, COUNTS).close()
    engine = open_engine(str(tmp_path / "shop.db"), EngineSettings(), lambda: 0)
    with Pipeline(engine, sometimes, lambda query_id, _: told.append(query_id)) as pipeline:
        fill(Database(engine, Session(EARLIEST)), 0, 6)
        assert not list(pipeline.epoch())
        assert pipeline.waiting == set(told) == {"CTAS_O_3"}
        assert [done.read for done in pipeline.epoch()] == [6]
        assert not pipeline.waiting


def record(name: str, sources: str, sink: str) -> QueryRecord:
    return QueryRecord(name, "", QueryKind.INSERT, tuple(sources), sink)


@pytest.mark.parametrize(
    ("queries", "order"),
    [
        ((record("1", "a", "b"), record("2", "b", "c")), "12"),
        ((record("1", "b", "c"), record("2", "a", "b")), "21"),
        ((record("1", "a", "b"), record("2", "b", "a"), record("3", "b", "c")), "213"),
    ],
)
def test_writers_run_before_readers(queries: tuple[QueryRecord, ...], order: str) -> None:
    assert "".join(query.id for query in in_order(queries)) == order
