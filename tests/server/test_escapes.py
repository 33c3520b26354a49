"""Statements that try to get out of the language, and ones that try to use up the machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import millstream
from millstream.model.errors import MillstreamError
from millstream.query.results import History, Rows
from millstream.query.session import Bounds
from millstream.state.store import Store

PROBES = Path(__file__).with_name("escapes.txt").read_text(encoding="utf-8").splitlines()
CANARY = "canary of the file"
DEADLINE_MS = 1_000
ROWS, BYTES = 100_000, 16 << 20
GROWTH_MIB = 700
SETUP = """
SET 'ksql.persistence.default.format.value' = 'JSON';
CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', partitions=1);
CREATE TABLE t AS SELECT id, LATEST_BY_OFFSET(v) AS v FROM s GROUP BY id EMIT CHANGES;
"""


@pytest.fixture(scope="module")
def database() -> Iterator[millstream.Database]:
    """As a server has it: no local files, bounds on answers."""
    with millstream.connect() as found:
        found.execute(SETUP)
        for number in range(50):
            found.execute(f"INSERT INTO s VALUES ({number}, 'abc{number}');")
        found.wait()
        found.session.local = False
        found.session.bounds = Bounds(ROWS, BYTES, DEADLINE_MS)
        yield found


def test_there_are_enough_probes() -> None:
    assert len(PROBES) >= 60


@pytest.mark.parametrize("probe", PROBES)
def test_no_statement_gets_out(probe: str, database: millstream.Database, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text(f"id,v\n1,{CANARY}\n")
    with pytest.raises(MillstreamError) as caught:
        list(database.each(probe.replace("{file}", str(file))))
    assert CANARY not in str(caught.value)
    assert file.read_text() == f"id,v\n1,{CANARY}\n"
    assert len(database.execute("SELECT * FROM t;").arrow()) == 50


def test_state_of_a_service_on_kafka_is_locked_too() -> None:
    store = Store.open(":memory:")
    cursor = store.cursor()
    for text in (
        "SELECT * FROM read_text('/etc/hostname')",
        "ATTACH '/tmp/x.db' AS x",
        "SET memory_limit = '1TB'",
        "SET enable_external_access = true",
        "LOAD httpfs",
    ):
        with pytest.raises(duckdb.Error):
            cursor.execute(text).fetchall()
    store.close()


BOMBS = [
    "SELECT LPAD('x', 1000000000, 'ab') AS a FROM t WHERE id = 1;",
    "SELECT LEN(RPAD('x', 2000000000, 'ab')) AS a FROM t;",
    "SELECT LEN(LPAD(TO_BYTES('x','utf8'), 1000000000, TO_BYTES('ab','utf8'))) AS a FROM t;",
    "SELECT ARRAY_LENGTH(GENERATE_SERIES(1, 2000000000)) AS a FROM t;",
    "SELECT ARRAY_LENGTH(GENERATE_SERIES(1, 9000000000000, 3)) AS a FROM t;",
    "SELECT REDUCE(GENERATE_SERIES(1,40), 'a', (s,x) => CONCAT(s,s)) AS a FROM t WHERE id = 1;",
    "SELECT REDUCE(GENERATE_SERIES(1,9), 'aa', (s,x) => REPLACE(s,'a',s)) AS a FROM t WHERE id=1;",
    "SELECT REGEXP_REPLACE(LPAD('x', 9000, 'a'), 'a', LPAD('y', 9000, 'z')) AS a FROM t;",
    "SELECT REGEXP_EXTRACT('(x+x+)+y', LPAD('x',9000,'x'), 1) AS a FROM t;",
    "SELECT REGEXP_EXTRACT('(?=(x+x+)+y)z', LPAD('x',9000,'x')) AS a FROM t;",
    "SELECT REGEXP_SPLIT_TO_ARRAY(LPAD('x',9000,'x'), '(x+x+)+y') AS a FROM t;",
    "SELECT count(*) FROM t a, t b, t c, t d, t e, t f;",
    "SELECT count(*) FROM s a, s b, s c, s d, s e, s f;",
    "SELECT count(*) FROM t BETWEEN OFFSETS 0 AND 49 a, s b, s c, s d, s e, s f;",
    "SELECT string_agg(a.v, ',') FROM t a, t b, t c, t d, t e;",
    "SELECT a.v FROM t a CROSS JOIN t b CROSS JOIN t c CROSS JOIN t d CROSS JOIN t e;",
    "WITH a AS (SELECT v||v||v||v AS v FROM t), b AS (SELECT v||v||v||v AS v FROM a), "
    + ", ".join(f"{chr(c)} AS (SELECT v||v||v||v AS v FROM {chr(c - 1)})" for c in range(99, 115))
    + " SELECT v FROM r;",
    "SELECT " + "REPLACE(" * 60 + "v" + ", 'a', 'b')" * 60 + " AS a FROM t;",
    "SELECT " + "ARRAY_CONCAT(ARRAY[1], " * 40 + "ARRAY[1]" + ")" * 40 + " AS a FROM t;",
    "SELECT " + "TRANSFORM(" * 30 + "ARRAY[v]" + ", x => x || x)" * 30 + " AS a FROM t;",
]


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / (1 << 20)


@pytest.mark.parametrize("bomb", BOMBS, ids=map(str, range(len(BOMBS))))
def test_bombs_end_in_time_and_leave_memory(bomb: str, database: millstream.Database) -> None:
    before, start = resident_mib(), time.process_time()
    try:
        answer = database.execute(bomb)
        assert isinstance(answer, Rows | History)
        table = answer.arrow()
        assert table.nbytes <= BYTES and table.num_rows <= ROWS
    except MillstreamError as error:
        assert error.code in ("E-TIMEOUT", "E-RESULT-LIMIT", "E-SQL-LIMIT", "E-STATEMENT")
        if error.code == "E-STATEMENT":
            assert "The pull query" in error.message, error
    assert resident_mib() - before < GROWTH_MIB
    # Of the processor, as the machine may have other things to do.
    assert time.process_time() - start < DEADLINE_MS / 1000 + 3


def test_answers_are_no_larger_than_allowed(database: millstream.Database) -> None:
    bounds = database.session.bounds
    try:
        for limit in (Bounds(rows=49), Bounds(bytes=9)):
            database.session.bounds = limit
            for text in (
                "SELECT * FROM t;",
                "SELECT * FROM s;",
                "SELECT * FROM t ORDER BY (SELECT 1);",
                "SELECT * FROM t BETWEEN OFFSETS 0 AND 99;",
                "SELECT * FROM s ORDER BY (SELECT 1);",
            ):
                with pytest.raises(MillstreamError) as caught:
                    database.execute(text).arrow()
                assert caught.value.code == "E-RESULT-LIMIT"
        database.session.bounds = Bounds(rows=50)
        assert len(database.execute("SELECT * FROM t;").arrow()) == 50
        assert len(database.execute("SELECT * FROM s LIMIT 3;").arrow()) == 3
    finally:
        database.session.bounds = bounds
