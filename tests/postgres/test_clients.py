"""What published clients do with a server: psycopg, SQLAlchemy, asyncpg, psql."""

from __future__ import annotations

import asyncio
import datetime
import os
import re
import shutil
import subprocess
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from psycopg.rows import dict_row

from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from tests.patience import until
from tests.postgres.conftest import Shop

ANN = {
    "id": 1,
    "name": "Ann",
    "tags": ["a", "b c", None],
    "paid": Decimal("3.50"),
    "counts": {"x": 1},
    "home": {"CITY": "Ulm", "ZIP": 89073},
    "seen": datetime.datetime(2024, 1, 2, 3, 4, 5, 678000),
    "born": datetime.date(2024, 1, 2),
    "up": datetime.time(3, 4, 5),
    "raw": b"\x00\x01\xff",
    "height": 1.5,
    "ok": True,
    "n": 7,
}
SUMS = [(1, 2), (2, 1)]
PSQL = shutil.which("psql")


@pytest.mark.parametrize("binary", [False, True])
def test_every_type(shop: Shop, binary: bool) -> None:
    with shop.connect() as connection, connection.cursor(binary=binary, row_factory=dict_row) as at:
        assert at.execute("SELECT * FROM known WHERE id = %s", (1,)).fetchall() == [ANN]
        assert at.execute("SELECT name, n FROM known WHERE id = 2").fetchone() == {
            "name": "Bob",
            "n": None,
        }


@pytest.mark.parametrize(
    ("sql", "values", "found"),
    [
        ("SELECT name FROM known WHERE id = %s", (1,), [("Ann",)]),
        ("SELECT name FROM known WHERE id = %s", ("2",), [("Bob",)]),
        ("SELECT id FROM known WHERE name = %s", ("Ann",), [(1,)]),
        ("SELECT id FROM known WHERE name = %s", ("Ann' OR 'a' = 'a",), []),
        ("SELECT id FROM known WHERE paid > %s", (Decimal("3.4"),), [(1,)]),
        ("SELECT id FROM known WHERE height = %s", (1.5,), [(1,)]),
        ("SELECT id FROM known WHERE born = %s", (datetime.date(2024, 1, 2),), [(1,)]),
        ("SELECT id FROM known WHERE seen < %s", (datetime.datetime(2025, 1, 1),), [(1,)]),
        ("SELECT id FROM known WHERE id IN (%s, %s)", (1, 9), [(1,)]),
        ("SELECT name::text FROM public.known WHERE id = %s::bigint", (1,), [("Ann",)]),
        ('SELECT "name" FROM "public"."known" WHERE "id" = %s', (1,), [("Ann",)]),
        ('SELECT "NAME" AS "Who" FROM "KNOWN" WHERE id = 1', (), [("Ann",)]),
        ("SELECT person, SUM(cnt) FROM hourly WHERE cnt < 3 GROUP BY person ORDER BY 1", (), SUMS),
        ("SELECT 1 + 1, current_database(), NULL", (), [(2, "millstream", None)]),
    ],
)  # fmt: skip
def test_pull_queries(shop: Shop, sql: str, values: tuple[Any, ...], found: list[Any]) -> None:
    with shop.connect() as connection:
        assert connection.execute(sql, values).fetchall() == found


def test_names_of_columns_are_in_lower_case_unless_quoted(shop: Shop) -> None:
    with shop.connect() as connection:
        found = connection.execute(
            'SELECT id, name AS label, n AS "Number" FROM known WHERE id = 1'
        )
        assert [column.name for column in found.description or ()] == ["id", "label", "Number"]


def test_a_push_query_gives_rows_as_they_come_and_ends_with_its_reader(shop: Shop) -> None:
    with shop.connect() as connection:
        rows = connection.cursor().stream("SELECT id FROM orders WHERE id > 50 EMIT CHANGES")
        shop.feed("INSERT INTO orders VALUES (51, 1, 1.0);")
        assert next(rows) == (51,)
        shop.feed("INSERT INTO orders VALUES (52, 1, 1.0);")
        assert next(rows) == (52,)
        assert len(shop.engine.push_queries.streams) == 1
        rows.close()
    until(lambda: not shop.engine.push_queries.streams)


def test_a_deletion_has_its_key_and_nothing_else(shop: Shop) -> None:
    with shop.connect() as connection:
        rows = connection.cursor().stream("SELECT id, name FROM known WHERE id > 5 EMIT CHANGES")
        shop.feed("INSERT INTO people (id, name) VALUES (7, 'Eve');")
        assert next(rows) == (7, "Eve")
        _delete(shop)
        assert next(rows) == (7, None)
        rows.close()


def _delete(shop: Shop) -> None:
    """A record without a value: the dialect has no statement for it."""
    rows = raw_batch([((7).to_bytes(8), None, 1)])
    shop.engine.log.writer("feeder").append([Appended("people", 0, rows, 1, 8)])
    shop.engine.drain()


def test_a_cancelled_query_ends_and_the_session_goes_on(shop: Shop) -> None:
    with shop.connect() as connection:
        rows = connection.cursor().stream("SELECT id FROM orders EMIT CHANGES")
        assert next(rows) == (1,)
        threading.Timer(0.0, connection.cancel_safe).start()
        with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
            list(rows)
        assert connection.execute("SELECT 1").fetchone() == (1,)
    until(lambda: not shop.engine.push_queries.streams)


def test_a_statement_has_a_timeout(shop: Shop) -> None:
    with shop.connect() as connection:
        connection.execute("SET statement_timeout = '20ms'")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            list(connection.cursor().stream("SELECT id FROM orders EMIT CHANGES"))
        connection.execute("SET statement_timeout = 0")
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="no duration"):
            connection.execute("SET statement_timeout = 'soon'")


def test_cursors_fetch_in_parts(shop: Shop) -> None:
    with shop.connect(autocommit=False) as connection:
        with connection.cursor("mine") as at:
            at.itersize = 2
            at.execute("SELECT id FROM orders WHERE id < 4 EMIT CHANGES LIMIT 3")
            assert [at.fetchmany(2), at.fetchone(), at.fetchone()] == [[(1,), (2,)], (3,), None]
        with connection.cursor("again") as at:
            at.execute("SELECT id FROM known")
            assert sorted(at) == [(1,), (2,)]
        with connection.cursor("left") as at:
            at.execute("SELECT id FROM orders EMIT CHANGES")
            assert at.fetchone() == (1,)
        connection.commit()
    until(lambda: not shop.engine.push_queries.streams)


def test_transactions_as_clients_expect_them(shop: Shop) -> None:
    with shop.connect(autocommit=False) as connection:
        status = connection.info
        connection.execute("SELECT 1")
        assert status.transaction_status.name == "INTRANS"
        with pytest.raises(psycopg.errors.SyntaxErrorOrAccessRuleViolation, match="NOPE"):
            connection.execute("SELECT nope FROM known")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert status.transaction_status.name == "IDLE"
        told: list[str] = []
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        connection.execute("INSERT INTO orders VALUES (60, 3, 1.0)")
        connection.rollback()
        assert "no ROLLBACK undoes" in told[-1]


def test_pipelines_and_prepared_statements(shop: Shop) -> None:
    with shop.connect() as connection:
        with connection.pipeline():
            found = [
                connection.execute("SELECT name FROM known WHERE id = %s", (n,), prepare=True)
                for n in (1, 2, 1)
            ]
        assert [each.fetchone() for each in found] == [("Ann",), ("Bob",), ("Ann",)]
        with pytest.raises(psycopg.errors.SyntaxErrorOrAccessRuleViolation), connection.pipeline():
            bad = connection.execute("SELECT nope FROM known")
            after = connection.execute("SELECT 1")
            bad.fetchone()
        assert after is not None


def test_statements_of_all_kinds_with_their_tags(shop: Shop) -> None:
    with shop.connect() as connection:
        tags = [
            connection.execute(sql).statusmessage
            for sql in (
                "CREATE STREAM made (a INT) WITH (kafka_topic='made', format='JSON', partitions=1)",
                "INSERT INTO made VALUES (1)",
                "SHOW STREAMS",
                "DESCRIBE known",
                "EXPLAIN SELECT * FROM orders EMIT CHANGES",
                "DROP STREAM made",
                "SET 'auto.offset.reset' = 'latest'",
                "SET application_name TO x",
                "SELECT id FROM known",
                "",
            )
        ]
    assert tags == [
        *("CREATE STREAM", "INSERT 0 1", "SHOW", "DESCRIBE", "EXPLAIN", "DROP STREAM", "SET"),
        *("SET", "SELECT 2", None),
    ]  # fmt: skip


def test_properties_of_the_dialect_hold_for_the_session(shop: Shop) -> None:
    with shop.connect() as connection:
        connection.execute("SET 'auto.offset.reset' = 'latest'")
        rows = connection.cursor().stream("SELECT id FROM orders EMIT CHANGES")
        until_subscribed = threading.Thread(target=_insert_until_read, args=(shop,))
        until_subscribed.start()
        assert next(rows) > (1_000,)
        rows.close()
        until_subscribed.join()
    options = f"{shop.url} options='-c auto.offset.reset=latest'"
    with psycopg.connect(options, autocommit=True) as connection:
        assert connection.execute("SHOW server_version").fetchone() == ("15.0",)


def _insert_until_read(shop: Shop) -> None:
    until(lambda: len(shop.engine.push_queries.streams) > 0)
    shop.feed("INSERT INTO orders VALUES (1001, 1, 1.0);")


def test_copy_out(shop: Shop) -> None:
    copied = "COPY (SELECT id, name, tags FROM known) TO STDOUT"
    with shop.connect() as connection, connection.cursor().copy(copied) as copy:
        assert sorted(copy.rows()) == [("1", "Ann", '{a,"b c",NULL}'), ("2", "Bob", None)]


def test_sqlalchemy_reflects_and_queries(shop: Shop) -> None:
    engine = sa.create_engine(f"postgresql+psycopg://bob@127.0.0.1:{shop.door.postgres}/shop")
    with engine.connect() as connection:
        seen = sa.inspect(connection)
        assert {"known", "people", "hourly"} <= set(seen.get_table_names())
        assert "orders" in seen.get_view_names()
        assert seen.has_table("known")
        assert not seen.has_table("nope")
        kinds = {column["name"]: str(column["type"]) for column in seen.get_columns("known")}
        assert kinds["paid"] == "NUMERIC(10, 2)"
        assert kinds["tags"] == "ARRAY"
        assert seen.get_pk_constraint("known")["constrained_columns"] == ["id"]
        keys = seen.get_pk_constraint("hourly")["constrained_columns"]
        assert keys == ["person", "windowstart", "windowend"]
        assert seen.get_foreign_keys("known") == seen.get_indexes("known") == []
        known = sa.Table("known", sa.MetaData(), autoload_with=connection)
        chosen = sa.select(known.c.id, known.c.name).where(known.c.id.in_([1, 2]))
        assert connection.execute(chosen.order_by(known.c.id.desc()).limit(1)).all() == [(2, "Bob")]
        counted = sa.select(sa.func.count()).select_from(known)
        assert connection.execute(counted).scalar() == 2
    engine.dispose()


def test_asyncpg_asks_for_the_types_of_parameters(shop: Shop) -> None:
    async def talk() -> list[Any]:
        port = shop.door.postgres
        at = await asyncpg.connect(host="127.0.0.1", port=port, user="bob", database="shop")
        found: list[Any] = [
            dict(await at.fetchrow("SELECT name, paid, seen FROM known WHERE id = $1", 1)),
            await at.fetchval("SELECT id FROM known WHERE name LIKE $1 LIMIT $2", "A%", 5),
            await at.execute("INSERT INTO orders (id, amount) VALUES ($1, $2)", 70, 1.5),
            await at.fetchval("SELECT id FROM known WHERE born BETWEEN $1 AND $2",
                              datetime.date(2024, 1, 1), datetime.date(2024, 2, 1)),
        ]  # fmt: skip
        async with at.transaction():
            cursor = await at.cursor("SELECT id FROM orders EMIT CHANGES")
            found.append([row["id"] for row in await cursor.fetch(3)])
        await at.reset()
        await at.close()
        return found

    found = asyncio.run(talk())
    assert found[0] == {name: ANN[name] for name in ("name", "paid", "seen")}
    assert found[1:] == [1, "INSERT 0 1", 1, [1, 2, 3]]


def psql(shop: Shop, *commands: str) -> str:
    """What psql prints."""
    assert PSQL is not None
    arguments = [word for command in commands for word in ("-c", command)]
    done = subprocess.run(
        [PSQL, "-X", shop.url.replace("bob", "bob connect_timeout=60"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PAGER": "cat"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(PSQL is None, reason="psql is not installed (Debian: postgresql-client)")
@pytest.mark.parametrize(
    ("commands", "shown"),
    [
        (["\\d known"], ["paid   | numeric(10,2)", '"known_pkey" PRIMARY KEY, btree (id)']),
        (["\\d+ hourly"], ["windowstart", '"hourly_pkey"']),
        (["\\dt"], ["public | known  | table | bob"]),
        (["\\dv", "\\di", "\\ds", "\\dm"], ["public | orders", "known_pkey"]),
        (["\\l", "\\dn", "\\du", "\\df", "\\z", "\\dT", "\\db", "\\dx"], ["millstream | bob"]),
        (["\\conninfo", "SELECT version()"], ["PostgreSQL 15.0 (Millstream)"]),
        (["SELECT id, name FROM known WHERE id = 1"], [" 1 | Ann"]),
        (["COPY (SELECT id, name FROM known WHERE id = 1) TO STDOUT"], ["1\tAnn\n"]),
    ],
)
def test_psql(shop: Shop, commands: list[str], shown: list[str]) -> None:
    printed = psql(shop, *commands)
    for text in shown:
        assert text in printed


@pytest.mark.skipif(PSQL is None, reason="psql is not installed (Debian: postgresql-client)")
def test_psql_shows_a_push_query_row_by_row(shop: Shop) -> None:
    count = "\\set FETCH_COUNT 1"
    printed = psql(shop, count, "SELECT id FROM orders WHERE id < 4 EMIT CHANGES LIMIT 3")
    assert "(3 rows)" in printed or printed.count("\n") >= 3


def test_the_page_of_the_documentation(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "postgres.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(code.replace("port=5432", f"port={shop.door.postgres}"), {})
    assert capsys.readouterr().out == "('/start', 1)\n"
