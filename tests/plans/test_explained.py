"""EXPLAIN (PROGRAM) prints the program that the running executors hold, for every golden query."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import millstream
from millstream import Database, Rows, Stream
from millstream.executor.executor import DuckDBExecutor
from millstream.executor.sql_script import PREAMBLE, show_program
from millstream.log.log import Appended, Topic
from millstream.model.batch import HEADER_TYPE, raw_batch
from millstream.operators.compile import compile_subtopology
from millstream.plan.define import create_source
from millstream.state.tables import create_text
from millstream.statements.explain import explained_query
from millstream_parser import parse, print_statement, statements
from tests.plans.test_golden import FOLDER, PARTITIONS, sections
from tests.unit.service.test_processors import Silence

GOLDEN = sorted(FOLDER.glob("*.txt"))
SETTINGS = [
    {
        "cache.max.bytes.buffering": cache,
        "processing.guarantee": guarantee,
        "millstream.input.order": order,
    }
    for cache, guarantee, order in itertools.product(
        ("0", "1000000"), ("at_least_once", "exactly_once_v2"), ("time", "arrival")
    )
]
QUERIES = statements.CreateAs | statements.InsertInto | statements.SelectStatement


@pytest.fixture(params=SETTINGS, ids=lambda given: "-".join(given.values()))
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    functions = [millstream.processor(Silence)]
    with millstream.connect(properties=request.param, functions=functions) as database:
        yield database


def prepared(db: Database, path: Path) -> statements.Statement:
    """Execute all of a golden file but its last query, over empty topics; that query."""
    *before, last = parse(sections(path.read_text())[0])
    for statement in before:
        if isinstance(statement, statements.CreateSource):
            topic = create_source(statement, db.engine.catalog, {}).topic
            db.engine.log.create_topic(Topic(topic, PARTITIONS, 1, {}))
        db.execute(print_statement(statement))
    assert isinstance(last, QUERIES)
    return last


def held(db: Database, query_id: str) -> list[str]:
    """The programs in the executors of a running query."""
    executors = db.engine.runtime.executors(query_id)
    assert executors and all(isinstance(executor, DuckDBExecutor) for executor in executors)
    return [
        show_program(
            executor.active.program, executor._sub, db.engine.functions, exact=executor.active.exact
        )
        for executor in executors
        if isinstance(executor, DuckDBExecutor)
    ]


def explained(db: Database, what: str) -> list[str]:
    """The programs that EXPLAIN prints, without the lines above them."""
    found = db.execute(f"EXPLAIN (PROGRAM) {what}")
    assert isinstance(found, Rows)
    ((stage, text),) = found
    assert stage == "PROGRAM" and text.startswith(f"{PREAMBLE}\n\n-- sub-topology 0 (")
    pieces = text.split("-- sub-topology ")[1:]
    return [piece.partition("\n")[2].rstrip() for piece in pieces]


def begun(db: Database, statement: statements.Statement) -> str:
    """Start a query; its id."""
    before = set(db.engine.catalog.queries)
    result = db.execute(print_statement(statement))
    if isinstance(result, Stream):
        return result.query_id
    (query_id,) = set(db.engine.catalog.queries) - before
    return query_id


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_explain_prints_what_runs(db: Database, path: Path) -> None:
    statement = prepared(db, path)
    given = explained(db, print_statement(statement))
    query_id = begun(db, statement)
    programs = held(db, query_id)
    assert given == programs
    assert explained(db, f"{query_id};") == programs
    # The statement's own settings have gone with it; those of the session are others now.
    cache = "0" if db.session.property("cache.max.bytes.buffering") != "0" else "1000000"
    db.execute(f"SET 'cache.max.bytes.buffering' = '{cache}';")
    assert explained(db, f"{query_id};") == programs


def test_a_cache_makes_another_program() -> None:
    found = []
    for settings in SETTINGS[:1] + SETTINGS[-1:]:
        with millstream.connect(properties=settings) as db:
            statement = prepared(db, FOLDER / "group_by_value.txt")
            found.append(explained(db, print_statement(statement)))
    assert found[0] != found[1]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_state_is_the_same_in_every_program(db: Database, path: Path) -> None:
    """Replicas, upgrades and pull queries read the state tables of a query whatever it runs."""
    statement = prepared(db, path)
    query_id = begun(db, statement)
    query = explained_query(query_id, db.engine.push_queries)
    assert query is not None
    for sub in query.topology.subtopologies:
        tables = {
            tuple(
                create_text("s", table)
                for table in compile_subtopology(
                    sub, db.engine.functions, headers=headers, cached=cached, moments=moments
                ).tables
            )
            for headers, cached, moments in itertools.product((False, True), repeat=3)
        }
        assert len(tables) == 1


WITH = "WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', PARTITIONS=1)"


def test_the_program_that_headers_and_failing_rows_have_made_run(db: Database) -> None:
    db.execute(f"CREATE STREAM s (v STRING, h BYTES HEADER('h')) {WITH};")
    db.execute("CREATE STREAM o AS SELECT CAST(v AS INT) AS n, h FROM s;")
    (query_id,) = db.engine.catalog.queries

    def line() -> str:
        found = db.execute(f"EXPLAIN (PROGRAM) {query_id};")
        assert isinstance(found, Rows)
        assert explained(db, f"{query_id};") == held(db, query_id)
        (first,) = re.findall("^-- sub-topology 0 .*$", found.fetchall()[0][1], re.MULTILINE)
        return str(first)

    assert "headers" not in line() and "exact" not in line()
    batch = raw_batch([(None, b'{"V":"1"}', 1), (None, b'{"V":"x"}', 2)])
    headers = pa.array([[("h", b"a")]] * 2, HEADER_TYPE)
    batch = batch.set_column(4, batch.schema.field(4), headers)
    db.engine.log.writer("w").append([Appended("t", 0, batch, 2, 20)])
    db.wait()
    assert "with headers" in line() and "exact, after a row that failed" in line()


def test_a_push_query_that_several_share_is_explained_to_each(db: Database) -> None:
    db.execute("SET 'ksql.query.push.v2.enabled' = 'true';")
    db.execute(f"CREATE STREAM s (k STRING KEY, v INT) {WITH};")
    db.execute("CREATE STREAM o AS SELECT k, v + 1 AS v FROM s;")
    sql = "SELECT v FROM o WHERE v > 2 EMIT CHANGES;"
    given = explained(db, sql)
    first, second = db.execute(sql), db.execute(sql)
    assert isinstance(first, Stream) and isinstance(second, Stream)
    (tail,) = db.engine.push_queries.running.values()
    programs = held(db, tail.query_id)
    assert given == programs
    for stream in (first, second):
        assert explained(db, f"{stream.query_id};") == programs
        stages = db.execute(f"EXPLAIN {stream.query_id};")
        assert isinstance(stages, Rows)
        found = dict(stages.fetchall())
        assert list(found) == ["QUERY", "STATEMENT", "PLAN", "TOPOLOGY", "PROGRAM"]
        assert found["STATEMENT"].startswith("SELECT V") and "IS NOT NULL" in found["PLAN"]
    first.close()
    second.close()
