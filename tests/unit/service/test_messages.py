"""Refusals that show the statement, the format or the position, and never DuckDB's message."""

from __future__ import annotations

import pytest

from millstream import Database, MillstreamError
from millstream.scripts.text import parse_text

NUMBERS = (
    "CREATE STREAM numbers (a INT KEY, b INT, c STRING) "
    "WITH (KAFKA_TOPIC='numbers', PARTITIONS=1, VALUE_FORMAT='{}');"
)


def message(db: Database, sql: str) -> str:
    with pytest.raises(MillstreamError) as caught:
        list(db.execute(sql))
    return str(caught.value)


def test_a_format_that_cannot_carry_the_result_shows_the_query(db: Database) -> None:
    db.execute(NUMBERS.format("JSON"))
    shown = message(
        db,
        "CREATE TABLE pairs WITH (KEY_FORMAT='KAFKA') AS SELECT n.b, c AS text, COUNT(*) AS many "
        "FROM numbers n WHERE ROWTIME > 0 GROUP BY b, c;",
    )
    assert shown.endswith(
        "Statement: CREATE TABLE PAIRS WITH (KEY_FORMAT='KAFKA') AS SELECT\n"
        "  N.B B,\n  N.C TEXT,\n  COUNT(*) MANY\nFROM NUMBERS N\nWHERE (N.ROWTIME > 0)\n"
        "GROUP BY N.B, N.C\nEMIT CHANGES"
    )


@pytest.mark.parametrize("call", ["AVG(b)", "TOPK(b, 2)", "LATEST_BY_OFFSET(b)", "STDDEV_SAMP(b)"])
def test_nested_intermediates_need_a_nesting_format(db: Database, call: str) -> None:
    db.execute(NUMBERS.format("DELIMITED"))
    sql = f"CREATE TABLE t AS SELECT c, {call} AS x FROM numbers GROUP BY c;"
    assert "intermediate type" in message(db, sql)
    db.execute("CREATE TABLE t AS SELECT c, SUM(b) AS x, COUNT(*) AS n FROM numbers GROUP BY c;")


def test_a_server_has_no_statements_of_the_test_tool() -> None:
    for text, word in (("ASSERT VALUES s (a) VALUES (1);", "VALUES"), ("ASSERT TABLE t;", "TABLE")):
        assert len(parse_text(text)) == 1
        with pytest.raises(MillstreamError) as caught:
            parse_text(text, test_statements=False)
        assert f"Syntax error at or near '{word}' at line 1:8" in str(caught.value)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("(1, 1/0, 'x')", "`B` as INTEGER.\nA number is divided by zero"),
        ("(1, CAST('x' AS INT), 'x')", "cannot be converted"),
        ("(1, 2147483647 + 1, 'x')", "out of the range"),
    ],
)
def test_values_that_cannot_be_computed(db: Database, values: str, words: str) -> None:
    db.execute(NUMBERS.format("JSON"))
    shown = message(db, f"INSERT INTO numbers VALUES {values};")
    assert words in shown
    assert "Error:" not in shown


def test_a_pull_query_beyond_the_dialect_fails_in_plain_words(db: Database) -> None:
    db.execute(NUMBERS.format("JSON"))
    shown = message(db, "SELECT a, nothing FROM numbers GROUP BY a;")
    assert "Column 'nothing' cannot be resolved" in shown
    assert "Binder" not in shown


def test_a_pull_query_beyond_the_dialect_has_a_time_limit(db: Database) -> None:
    db.execute(NUMBERS.format("JSON"))
    for number in range(40):
        db.execute(f"INSERT INTO numbers VALUES ({number}, {number}, 'x');")
    db.execute("SET 'millstream.query.pull.timeout.ms' = '20';")
    joins = " ".join(f"JOIN numbers n{i} ON n{i}.b <> n{i - 1}.b" for i in range(1, 7))
    shown = message(db, f"SELECT SUM(n6.b * n5.b) AS s FROM numbers n0 {joins};")
    assert "longer than 20 ms" in shown
    db.execute("UNSET 'millstream.query.pull.timeout.ms';")
    assert db.execute("SELECT COUNT(*) AS n FROM numbers n GROUP BY c;").fetchall() == [(40,)]


def test_a_table_that_a_query_computes_takes_no_rows(shop: Database) -> None:
    shown = message(shop, "INSERT INTO spending VALUES ('zoe', 1, 1.0);")
    assert "CTAS_SPENDING" in shown
