"""Pull queries beyond the dialect: what they can do, and everything they must not reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream import Database, History, MillstreamError, Rows


def ask(db: Database, sql: str) -> list[tuple[object, ...]]:
    result = db.execute(sql)
    assert isinstance(result, Rows | History)
    return list(result)


ANSWERS: list[tuple[str, list[tuple[object, ...]]]] = [
    (
        "SELECT h.city, SUM(s.total) AS spent FROM spending s JOIN homes h ON s.customer = h.name "
        "GROUP BY h.city HAVING SUM(s.total) > 0 ORDER BY spent DESC",
        [("London", 4.0), ("Leeds", 3.0)],
    ),
    ("SELECT COUNT(*) FROM orders o JOIN homes h ON o.customer = h.name", [(4,)]),
    (
        "WITH rich AS (SELECT * FROM spending WHERE total > 2), "
        "one AS (SELECT * FROM rich ORDER BY total LIMIT 1) SELECT customer FROM one",
        [("bob",)],
    ),
    ("WITH spending AS (SELECT n FROM spending) SELECT SUM(n) FROM spending", [(4,)]),
    (
        "SELECT customer FROM spending WHERE total = (SELECT MAX(total) FROM spending)",
        [("ann",)],
    ),
    (
        "SELECT name FROM homes h WHERE NOT EXISTS "
        "(SELECT 1 FROM orders o WHERE o.customer = h.name AND o.item = 'tea')",
        [("bob",)],
    ),
    ("SELECT DISTINCT city FROM homes ORDER BY 1", [("Leeds",), ("London",)]),
    (
        "SELECT customer, ROW_NUMBER() OVER (ORDER BY total DESC NULLS LAST) AS place "
        "FROM spending ORDER BY place LIMIT 1",
        [("ann", 1)],
    ),
    ("SELECT name FROM homes UNION SELECT 'zoe' ORDER BY 1 DESC LIMIT 1", [("zoe",)]),
    ("SELECT UPPER(city) || '!' FROM homes WHERE name = 'bob' GROUP BY city", [("LEEDS!",)]),
    ("SELECT CASE WHEN n > 1 THEN 'many' ELSE 'one' END AS c, COUNT(*) FROM spending GROUP BY 1 "
     "ORDER BY 1", [("many", 1), ("one", 2)]),
    ("SELECT SUM(n) FILTER (WHERE customer <> 'ann') FROM hourly GROUP BY ()", [(2,)]),
    ("SELECT x FROM (SELECT n AS x FROM spending) q WHERE x BETWEEN 2 AND 3", [(2,)]),
    ("SELECT MAX(ROWTIME) FROM spending GROUP BY ALL", [(3700000,)]),
    ("SELECT SUM(s.`N`) AS `a``b\"c`, MAX('`') FROM `SPENDING` s JOIN homes h"
     " ON s.`CUSTOMER` = h.\"NAME\"", [(4, "`")]),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "expected"), ANSWERS, ids=range(len(ANSWERS)))
def test_answers(db: Database, sql: str, expected: list[tuple[object, ...]]) -> None:
    assert ask(db, sql + ";") == expected


ESCAPES = [
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_blob('{file}') GROUP BY ALL",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM read_json_auto('{file}')",
    "SELECT * FROM '{file}'",
    'SELECT * FROM "{file}"',
    "SELECT * FROM sniff_csv('{file}')",
    "SELECT * FROM glob('/*')",
    "SELECT customer FROM spending UNION SELECT content FROM read_text('{file}')",
    "SELECT (SELECT content FROM read_text('{file}')) FROM spending",
    "WITH x AS (SELECT * FROM read_text('{file}')) SELECT * FROM x",
    "SELECT DISTINCT getenv('HOME') FROM spending",
    "SELECT DISTINCT 'HOME'.getenv() FROM spending",
    "SELECT DISTINCT main.getenv('HOME') FROM spending",
    "SELECT * REPLACE (getenv('HOME') AS customer) FROM spending GROUP BY ALL",
    "SELECT customer FROM spending GROUP BY ALL HAVING getenv('HOME') IS NOT NULL",
    "SELECT customer FROM spending GROUP BY ALL ORDER BY getenv('HOME')",
    "SELECT DISTINCT current_setting('access_mode') FROM spending",
    "SELECT DISTINCT getvariable('x') FROM spending",
    "SELECT DISTINCT ms_anything(customer) FROM spending",
    "SELECT * FROM duckdb_settings()",
    "SELECT DISTINCT * FROM duckdb_tables",
    "SELECT DISTINCT * FROM sqlite_master",
    "SELECT DISTINCT * FROM pg_catalog.pg_tables",
    "SELECT DISTINCT * FROM information_schema.tables",
    'SELECT DISTINCT * FROM millstream_state.main."$positions"',
    "WITH duckdb_tables AS (SELECT * FROM duckdb_tables) SELECT * FROM duckdb_tables",
    "SELECT * FROM (WITH duckdb_tables AS (SELECT 1) SELECT * FROM duckdb_tables) a, duckdb_tables",
    "WITH a AS (SELECT * FROM sqlite_master), sqlite_master AS (SELECT 1) SELECT * FROM a",
    "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r) SELECT * FROM r",
    "SELECT * FROM pragma_version()",
    "SELECT * FROM pragma_table_info('spending')",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('spending')",
    "SELECT * FROM range(1000000000)",
    "SELECT * FROM generate_series(1, 1000000000)",
    "SELECT * FROM repeat('x', 1000000000)",
    "SELECT DISTINCT repeat('x', 1000000000) FROM spending",
    "SELECT DISTINCT * FROM (DESCRIBE spending)",
    "SELECT DISTINCT * FROM (SHOW TABLES)",
    "SELECT DISTINCT * FROM (SUMMARIZE spending)",
    "SELECT DISTINCT * FROM (PIVOT spending ON customer USING SUM(n))",
    "SELECT DISTINCT COLUMNS('.*') FROM spending",
    "SELECT DISTINCT $1 FROM spending",
    "SELECT DISTINCT ? FROM spending",
    "SELECT DISTINCT * FROM spending USING SAMPLE 1",
    "SELECT DISTINCT * FROM spending FOR UPDATE",
    "SELECT DISTINCT nextval('s') FROM spending",
    "SELECT DISTINCT txid_current() FROM spending",
    "SELECT DISTINCT * INTO other FROM spending",
    "SELECT * FROM sqlite_scan('{file}', 'x')",
    "SELECT * FROM postgres_scan('', '', '')",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SELECT * FROM python_map_function()",
]
STATEMENTS = [
    "COPY spending TO '{file}'",
    "COPY (SELECT 1) TO '{file}'",
    "ATTACH '{file}' AS x",
    "DETACH state",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET threads = 9",
    "SET memory_limit = '1TB'",
    "RESET threads",
    "CREATE TABLE x AS SELECT 1",
    "CREATE MACRO f(x) AS 1",
    "CREATE SECRET (TYPE s3)",
    "DROP SCHEMA main CASCADE",
    "DELETE FROM spending",
    "UPDATE spending SET n = 1",
    "EXPORT DATABASE '{file}'",
    "IMPORT DATABASE '{file}'",
    "CHECKPOINT",
    "VACUUM",
    "BEGIN",
    "EXECUTE x",
    "PREPARE x AS SELECT 1",
    "FROM spending",
    "VALUES (1)",
    "SUMMARIZE spending",
    "EXPLAIN ANALYZE SELECT 1",
]


@pytest.mark.parametrize("sql", ESCAPES + STATEMENTS)
def test_no_way_out(db: Database, tmp_path: Path, sql: str) -> None:
    file = tmp_path / "secret"
    file.write_text("a\nsecret\n")
    before = ask(db, "SHOW ALL TOPICS;")
    with pytest.raises(MillstreamError) as caught:
        db.execute(sql.replace("{file}", str(file)) + ";")
    assert caught.value.code != MillstreamError.code, "a refusal, not an accident"
    assert "Error" not in caught.value.detail or "Syntax" in caught.value.message
    assert file.read_text() == "a\nsecret\n"
    assert ask(db, "SHOW ALL TOPICS;") == before
    assert len(ask(db, "SELECT * FROM spending;")) == 3


def test_comments_and_semicolons_hide_nothing(db: Database) -> None:
    for sql in (
        "SELECT DISTINCT n /* ; */ FROM spending -- ; DROP TABLE spending\n;",
        "SELECT DISTINCT ';' AS n FROM spending;",
    ):
        assert ask(db, sql)
    with pytest.raises(MillstreamError):
        db.execute("SELECT DISTINCT 1 FROM spending; ATTACH 'x';")


def test_no_file_can_be_reached_even_by_duckdb_itself(db: Database, tmp_path: Path) -> None:
    import duckdb

    (tmp_path / "secret").write_text("x\n")
    cursor = db.engine.store.cursor()
    for sql in (
        f"SELECT * FROM read_text('{tmp_path}/secret')",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        f"ATTACH '{tmp_path}/other.db'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ):
        with pytest.raises(duckdb.Error):
            cursor.sql(sql)
            cursor.fetchall()
    cursor.close()


def test_errors_of_the_query_are_the_authors(db: Database) -> None:
    for sql in (
        "SELECT DISTINCT nothing FROM spending;",
        "SELECT customer, SUM(n) FROM spending GROUP BY n;",
        "SELECT DISTINCT * FROM nothing;",
        "SELECT DISTINCT * FROM people;",
    ):
        with pytest.raises(MillstreamError) as caught:
            db.execute(sql)
        assert caught.value.code == "E-STATEMENT"
