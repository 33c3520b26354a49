"""What clients ask about the database, against what PostgreSQL 15 says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import psycopg
import pytest

from millstream_server.postgres.introspection import Introspection
from millstream_server.postgres.relations import Row
from tests.postgres.conftest import Shop

KNOWN = (
    "id bigint, name text, tags text[], paid numeric(10,2), counts json, home json,"
    " seen timestamp without time zone, born date, up time without time zone, raw bytea,"
    " height double precision, ok boolean, n integer"
)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        # What was computed by PostgreSQL 15.18.
        ("SELECT format_type(23, -1), format_type(1700, 655366)", ("integer", "numeric(10,2)")),
        ("SELECT 'int4'::regtype::oid, 'text[]'::regtype::oid, 23::regtype", (23, 1009, "integer")),
        ("SELECT quote_ident('a'), quote_ident('A b'), quote_literal('it''s')",
         ("a", '"A b"', "'it''s'")),
        ("SELECT array_length(ARRAY[1, 2], 1), string_to_array('a,b', ',')", (2, ["a", "b"])),
        ("SELECT 1 = ANY(ARRAY[1, 2]), 'A' ~* 'a', 'a' !~ 'b', 'b' = ANY('{a,b}')", (True,) * 4),
        ("SELECT 5 / 2, -7 / 2, 7 % 3, 'a' || 'b', '{1,2}'::int[]", (2, -3, 1, "ab", [1, 2])),
        ("SELECT coalesce(NULL, 1), CASE WHEN TRUE THEN 'a' END, NULL::text", (1, "a", None)),
        ("SELECT (timestamp '2024-01-02' - timestamp '2024-01-01')::text", ("1 day",)),
        ("SELECT to_regclass('nope'), pg_encoding_to_char(6)", (None, "UTF8")),
        ("SELECT sum(x) FROM generate_series(1, 3) x", (6,)),
        ("VALUES (1, 'a')", (1, "a")),
        ("SELECT s[i] FROM generate_series(2, 2) AS i, string_to_array('a,b', ',') s", ("b",)),
        ("SELECT current_setting('server_version_num')::int / 100", (1500,)),
        ("SELECT array_to_string(ARRAY['a', 'b'], E'\\n')", ("a\nb",)),
        # What depends on this database.
        ("SELECT current_user, current_schema()", ("bob", "public")),
        ("SELECT oid::regclass::text FROM pg_class WHERE oid = 'known'::regclass", ("known",)),
        ("SELECT relkind FROM pg_class WHERE oid = 'public.orders'::regclass", ("v",)),
        ("SELECT pg_get_constraintdef(oid, true) FROM pg_constraint WHERE conname = 'hourly_pkey'",
         ("PRIMARY KEY (person, windowstart, windowend)",)),
        ("SELECT pg_get_indexdef('known_pkey'::regclass, 1, true)", ("id",)),
        ("SELECT count(*) FROM pg_trigger, pg_policy", (0,)),
        ("SELECT count(*) FROM information_schema.columns WHERE data_type = 'nope'", (0,)),
        ("SELECT numeric_precision, numeric_scale FROM information_schema.columns"
         " WHERE table_name = 'known' AND column_name = 'paid'", (10, 2)),
        ("SELECT (keys).n FROM (SELECT information_schema._pg_expandarray(indkey) AS keys"
         " FROM pg_index WHERE indrelid = 'known'::regclass) x", (1,)),
    ],
)  # fmt: skip
def test_one_row(shop: Shop, sql: str, found: tuple[Any, ...]) -> None:
    with shop.connect() as connection:
        assert connection.execute(sql).fetchone() == found


def test_the_columns_of_a_table(shop: Shop) -> None:
    sql = (
        "SELECT a.attname || ' ' || pg_catalog.format_type(a.atttypid, a.atttypmod)"
        " FROM pg_catalog.pg_attribute a WHERE a.attrelid = 'known'::pg_catalog.regclass"
        " AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    )
    with shop.connect() as connection:
        assert ", ".join(text for (text,) in connection.execute(sql)) == KNOWN


def test_names_of_the_results(shop: Shop) -> None:
    sql = "SELECT version(), 1 + 1, 'a'::text, current_schema, count(*), CASE WHEN TRUE THEN 1 END"
    with shop.connect() as connection:
        names = [column.name for column in connection.execute(sql).description or ()]
    assert names == ["version", "?column?", "text", "current_schema", "count", "case"]


def test_parameters(shop: Shop) -> None:
    sql = "SELECT relname FROM pg_class WHERE relname = %s AND relnatts > %s"
    with shop.connect() as connection:
        assert connection.execute(sql, ("known", 3)).fetchall() == [("known",)]
        assert connection.execute(sql, ("known' OR '1' = '1", 3)).fetchall() == []
        assert connection.execute("SELECT %s::int + 1, %s", (1, None)).fetchone() == (2, None)


def test_the_catalog_is_that_of_the_moment(shop: Shop) -> None:
    listing = "SELECT count(*) FROM pg_class WHERE relname = 'brief'"
    with shop.connect() as connection:
        assert connection.execute(listing).fetchone() == (0,)
        shop.feed(
            "CREATE STREAM brief (a INT) WITH (kafka_topic='b', format='JSON', partitions=1);"
        )
        assert connection.execute(listing).fetchone() == (1,)
        oid = connection.execute("SELECT 'brief'::regclass::oid").fetchone()
        shop.feed("DROP STREAM brief;")
        assert connection.execute(listing).fetchone() == (0,)
        shop.feed(
            "CREATE STREAM brief (a INT) WITH (kafka_topic='b', format='JSON', partitions=1);"
        )
        assert connection.execute("SELECT 'brief'::regclass::oid").fetchone() == oid
        shop.feed("DROP STREAM brief;")


def test_an_interrupted_description_is_made_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill, failed = Introspection._fill, list[str]()

    def failing(self: Introspection, name: str, rows: Sequence[Row]) -> None:
        if name == "pg_database" and not failed:
            failed.append(name)
            raise duckdb.InterruptException("INTERRUPT")
        fill(self, name, rows)

    monkeypatch.setattr(Introspection, "_fill", failing)
    with shop.connect() as connection:
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("SELECT datname FROM pg_database")
        assert connection.execute("SELECT datname FROM pg_database").fetchall() == [("millstream",)]


def test_what_is_not_there_is_told(shop: Shop) -> None:
    with shop.connect() as connection:
        for sql, told in (
            ("SELECT pg_reload_conf()", "pg_reload_conf"),
            ("SELECT * FROM pg_catalog.pg_nope", "pg_catalog.pg_nope"),
            ("SELECT * FROM pg_class c, known k", "streams and tables"),
            ("SELECT relname FROM pg_class WHERE", "cannot be read"),
        ):
            with pytest.raises(psycopg.Error, match=told):
                connection.execute(sql)
