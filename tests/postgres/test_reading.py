"""How statements of PostgreSQL's clients are read: names, casts, parameters, commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import millstream
from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Source
from millstream_server.postgres import commands as c
from millstream_server.postgres.casts import without_casts
from millstream_server.postgres.parameter_types import parameter_types
from millstream_server.postgres.refusals import PgError
from millstream_server.postgres.session import _read
from millstream_server.postgres.settings import DEFAULTS, changed, milliseconds
from millstream_server.postgres.spelling import Spelling
from millstream_server.postgres.statements import parts_of

NAMES = Spelling(frozenset({"ORDERS", "ID", "Mixed", "small", "BOTH", "both", "STRASSE"}))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        *(("ORDERS", "orders"), ("Mixed", "Mixed"), ("small", "small"), ("BOTH", "BOTH")),
        *(("KSQL_COL_0", "ksql_col_0"), ("STRAßE", "STRAßE"), ("ÄB", "äb"), ("a b", "a b")),
    ],
)
def test_names_as_clients_see_them(name: str, shown: str) -> None:
    assert NAMES.shown(name) == shown


@pytest.mark.parametrize("name", sorted(NAMES.names))
def test_what_is_shown_means_the_same_between_quotes(name: str) -> None:
    assert NAMES.meant(NAMES.shown(name)) == name
    assert NAMES.meant(name) == name


@given(st.sets(st.text("aAbBß_", min_size=1, max_size=3), max_size=8))
def test_no_two_names_are_shown_alike(names: set[str]) -> None:
    spelling = Spelling(frozenset(names))
    assert len({spelling.shown(name) for name in names}) == len(names)
    assert all(spelling.meant(spelling.shown(name)) == name for name in names)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('SELECT "id" FROM "orders"', 'SELECT "ID" FROM "ORDERS"'),
        ('SELECT "id" AS "other" FROM "Mixed"', 'SELECT "ID" AS "other" FROM "Mixed"'),
        ("SELECT id FROM public.orders", "SELECT id FROM        orders"),
        ('SELECT * FROM "shop"."public"."orders"', 'SELECT * FROM                 "ORDERS"'),
        ("SELECT public.orders.id FROM orders", "SELECT        orders.id FROM orders"),
        ("SELECT 'public.id' -- \"id\"", "SELECT 'public.id' -- \"id\""),
        ("SELECT public FROM `orders`", "SELECT public FROM `orders`"),
        ('SELECT "both", "BOTH" FROM "both"', 'SELECT "both", "BOTH" FROM "both"'),
        ('SELECT "i""d" FROM "un', 'SELECT "i""d" FROM "un'),
    ],
)  # fmt: skip
def test_names_between_quotes(text: str, read: str) -> None:
    assert NAMES.in_dialect(text, "shop") == read


@given(st.text(st.sampled_from("ab\"'`.- public/*\n;"), max_size=30))
def test_other_text_keeps_its_places(text: str) -> None:
    assert len(NAMES.in_dialect(text, "shop")) == len(text)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("SELECT a::int", "SELECT CAST(a AS INT)"),
        ("SELECT t.a::double precision + 1", "SELECT CAST(t.a AS DOUBLE) + 1"),
        ("f(x, (1))::numeric(10, 2)::text", "CAST(CAST(f(x, (1)) AS DECIMAL(10,2)) AS STRING)"),
        ("SELECT (a::int + b)::varchar(9)", "SELECT CAST((CAST(a AS INT) + b) AS STRING)"),
        ("'2024'::timestamp without time zone AND", "CAST('2024' AS TIMESTAMP) AND"),
        ("a IN ('1'::int, f (2)::text)", "a IN (CAST('1' AS INT), CAST(f (2) AS STRING))"),
        ("WHERE id = $1::bigint", "WHERE id = $1"),
        ("SELECT 'a::b', a::uuid[]", "SELECT 'a::b', CAST(a AS ARRAY<STRING>)"),
        ("SELECT a::point", "SELECT a::point"),
        ("SELECT :: a::", "SELECT :: a::"),
    ],
)  # fmt: skip
def test_casts(text: str, read: str) -> None:
    assert without_casts(text) == read


@given(st.text(st.sampled_from("a1():.,:: 't\"[int]-"), max_size=40))
def test_casts_of_any_text_end(text: str) -> None:
    assert isinstance(without_casts(text), str)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    with millstream.connect() as database:
        database.execute(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, name STRING, paid DECIMAL(4, 2),"
            " seen TIMESTAMP) WITH (kafka_topic='t', format='JSON', partitions=1);"
            "CREATE STREAM s (id INT KEY, ok BOOLEAN)"
            " WITH (kafka_topic='s', format='JSON', partitions=1);"
        )
        return database.engine.catalog


INT4, INT8, TEXT, BOOL, NUMERIC, TIMESTAMP = 23, 20, 25, 16, 1700, 1114


@pytest.mark.parametrize(
    ("text", "given_types", "types"),
    [
        ("SELECT * FROM t WHERE id = $1", (), (INT8,)),
        ("SELECT * FROM t WHERE id = $1", (INT4,), (INT4,)),
        ("SELECT * FROM t WHERE id = $1", (0,), (INT8,)),
        ("SELECT * FROM s WHERE id = $1", (), (INT4,)),
        ("SELECT * FROM t WHERE $1 = t.paid AND seen >= $2", (), (NUMERIC, TIMESTAMP)),
        ("SELECT * FROM t WHERE name LIKE $2 LIMIT $1", (), (INT8, TEXT)),
        ("SELECT * FROM t WHERE id IN ($1, $2) OR name NOT IN ($3)", (), (INT8, INT8, TEXT)),
        ("SELECT * FROM t WHERE seen BETWEEN $1 AND $2", (), (TIMESTAMP, TIMESTAMP)),
        ("SELECT * FROM t WHERE UCASE(name) = $1 AND ROWTIME > $2", (), (TEXT, INT8)),
        ('SELECT * FROM "t" WHERE "id" = $1::text', (), (TEXT,)),
        ("SELECT * FROM t JOIN s ON TRUE WHERE id = $1", (), (TEXT,)),
        ("INSERT INTO t (name, id) VALUES ($1, $2)", (), (TEXT, INT8)),
        ("INSERT INTO s VALUES ($1, $2), (2, $3)", (), (INT4, BOOL, BOOL)),
        ("INSERT INTO t VALUES (ABS($1), $2)", (), (TEXT, TEXT)),
        ("SELECT '$1', $$ FROM t", (), ()),
        ("SELECT $3 FROM nope", (), (TEXT, TEXT, TEXT)),
    ],
)  # fmt: skip
def test_types_of_parameters(
    text: str, given_types: tuple[int, ...], types: tuple[int, ...], catalog: Catalog
) -> None:
    sources: list[Source] = list(catalog.sources.values())
    assert parameter_types(text, given_types, sources, Spelling.of(sources)) == types


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("begin", c.Begin()),
        ("START TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY", c.Begin()),
        ("commit work;", c.End(True)),
        ("END", c.End(True)),
        ("ROLLBACK", c.End(False)),
        ("rollback to savepoint a", c.Savepoint("ROLLBACK")),
        ("SAVEPOINT a", c.Savepoint("SAVEPOINT")),
        ("SET extra_float_digits = 3", c.SetSetting("extra_float_digits", "3")),
        ("set session datestyle to 'ISO', mdy", c.SetSetting("datestyle", "ISO, mdy")),
        ("SET TIME ZONE 'UTC'", c.SetSetting("timezone", "UTC")),
        ("SET NAMES 'utf8'", c.SetSetting("client_encoding", "utf8")),
        ("SET a.b TO DEFAULT", c.SetSetting("a.b", None)),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", c.Ignored("SET")),
        ("SET 'auto.offset.reset' = 'earliest'", None),
        ("RESET ALL", c.ResetAll("RESET")),
        ("RESET statement_timeout", c.SetSetting("statement_timeout", None)),
        ("DISCARD ALL", c.ResetAll("DISCARD ALL")),
        ("SHOW transaction isolation level", c.ShowSetting("transaction_isolation")),
        ("SHOW ALL", c.ShowSetting("all")),
        ("SHOW STREAMS", None),
        ("SHOW ALL TOPICS", None),
        ("DEALLOCATE ALL", c.Deallocate(None)),
        ('DEALLOCATE "A"', c.Deallocate("A")),
        ("DECLARE a NO SCROLL CURSOR WITH HOLD FOR SELECT 1", c.Declare("a", "SELECT 1")),
        ('FETCH FORWARD 10 FROM "a b"', c.Fetch("a b", 10)),
        ("fetch all in a", c.Fetch("a", c.ALL)),
        ("FETCH a", c.Fetch("a", 1)),
        ("MOVE 5 FROM a", c.Fetch("a", 5, move=True)),
        ("CLOSE ALL", c.CloseCursor(None)),
        ("CLOSE a", c.CloseCursor("a")),
        ("COPY (SELECT 1) TO STDOUT", c.CopyOut("SELECT 1")),
        ("COPY public.t TO STDOUT", c.CopyOut("SELECT * FROM public.t")),
        ("UNLISTEN *", c.Ignored("UNLISTEN")),
        ("/* BEGIN */ SELECT 1", None),
        ("CREATE STREAM s AS SELECT * FROM t", None),
        ("", None),
    ],
)
def test_commands(text: str, command: c.Command | None) -> None:
    assert c.command_of(text) == command


@pytest.mark.parametrize(
    "text",
    [
        *("DECLARE a SCROLL CURSOR FOR SELECT 1", "FETCH BACKWARD 1 FROM a", "FETCH LAST FROM a"),
        *(
            "COPY t FROM STDIN (FORMAT parquet)",
            "SET ROLE admin",
            "FETCH -1 FROM a",
        ),
        *("SET SESSION AUTHORIZATION admin", "DECLARE a CURSOR FOR", "COPY TO STDOUT"),
    ],
)
def test_commands_that_cannot_be_done(text: str) -> None:
    with pytest.raises(PgError) as refused:
        c.command_of(text)
    assert refused.value.hint or refused.value.code == "0A000"


WORDS = (
    "SET",
    "SHOW",
    "FETCH",
    "COPY",
    "BEGIN",
    "TO",
    "FROM",
    "ALL",
    "=",
    "(",
    ")",
    ";",
    "'a'",
    "1",
)


@given(st.lists(st.sampled_from(WORDS)))
def test_any_words_are_a_command_or_none(words: list[str]) -> None:
    text = " ".join(words)
    try:
        _read(text)
    except PgError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a; b;", ["a", " b"]),
        (";;", []),
        ("-- c\n/* d */;", []),
        ("SELECT ';' /* ; */; x", ["SELECT ';' /* ; */", " x"]),
        ("SELECT 'open", ["SELECT 'open"]),
    ],
)
def test_statements_of_a_text(text: str, parts: list[str]) -> None:
    assert parts_of(text) == parts


def test_settings() -> None:
    assert changed("timezone", "Europe/Berlin", strict=False) == ("timezone", "UTC")
    assert changed("client_encoding", "utf-8") == ("client_encoding", "UTF8")
    assert changed("nope", "1") is None
    assert changed("application_name", None) == ("application_name", "")
    for name, value in (
        ("client_encoding", "LATIN1"),
        ("server_version", "9"),
        ("timezone", "CET"),
    ):
        with pytest.raises(PgError, match=DEFAULTS[name].replace(".", r"\.")):
            changed(name, value)
    assert [milliseconds(text) for text in ("0", "250", "5s", "2 min")] == [0, 250, 5_000, 120_000]
