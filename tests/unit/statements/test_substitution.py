"""`${name}` wherever the dialect allows one, through the statements that define it."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import Database
from millstream.model.errors import MillstreamError

SOURCE = (
    "CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, FORMAT='JSON');"
    "INSERT INTO s VALUES ('a', 1);"
)


def last(db: Database, sql: str) -> tuple[Any, ...]:
    return list(db.execute(SOURCE + sql))[-1]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("DEFINE x = 'it''s'; SELECT '${x}' FROM s;", "it's"),
        ("DEFINE x = '''kept'''; SELECT ${x} FROM s;", "kept"),
        ("DEFINE x = 'K'; SELECT `${x}` FROM s;", "a"),
        ("DEFINE x = 'k'; SELECT ${X} FROM s;", "a"),
        ("DEFINE x = '41'; SELECT v + ${x} FROM s;", 42),
        ("DEFINE x = '-1'; SELECT v -${x} FROM s;", 2),
        ("DEFINE x = '2.5e3'; SELECT ${x} FROM s;", 2500.0),
        ("DEFINE x = 'true'; SELECT v FROM s WHERE ${x};", 1),
        ("DEFINE x = '1'; SELECT v FROM s LIMIT ${x};", 1),
        ("DEFINE x = 's'; SELECT v FROM ${x};", 1),
        ("SELECT '${unknown}' FROM s;", "${unknown}"),
        ("DEFINE x = 'y'; SELECT '$${x}' FROM s;", "${x}"),
        ("DEFINE x = 'y'; DEFINE z = '${x}!'; UNDEFINE x; SELECT '${z}${x}' FROM s;", "y!${x}"),
        ("DEFINE t = 'none'; ASSERT NOT EXISTS TOPIC ${t};", "Topic none does not exist"),
        (
            "DEFINE p = 'auto.offset.reset'; DEFINE v = 'latest'; SET '${p}' = '${v}';",
            "Successfully changed local property 'auto.offset.reset' to 'latest'.",
        ),
        (
            "DEFINE t = 'KAFKA_TOPIC'; DEFINE n = '2'; "
            "CREATE STREAM ${n}x (v INT) WITH (${t} = 'x', PARTITIONS = ${n}, FORMAT = 'JSON');",
            None,
        ),
        (
            "DEFINE t = 'KAFKA_TOPIC'; DEFINE n = '2'; "
            "CREATE STREAM x${n}_y (v INT) "
            "WITH (${t} = 'x', PARTITIONS = ${n}, VALUE_FORMAT = 'JSON');",
            "Stream created",
        ),
    ],
)  # fmt: skip
def test_where_a_variable_may_stand(db: Database, sql: str, expected: Any) -> None:
    if expected is None:
        with pytest.raises(MillstreamError):
            last(db, sql)
    else:
        assert last(db, sql)[0] == expected


@pytest.mark.parametrize(
    "sql",
    [
        "DEFINE x = 'SELECT'; ${x} v FROM s;",
        "DEFINE x = 'v + 1'; SELECT ${x} FROM s;",
        "DEFINE x = '10 SECONDS'; SELECT k, COUNT(*) FROM s WINDOW TUMBLING (SIZE ${x}) "
        "GROUP BY k EMIT CHANGES LIMIT 1;",
        "SELECT ${unknown} FROM s;",
    ],
)
def test_where_it_may_not(db: Database, sql: str) -> None:
    with pytest.raises(MillstreamError):
        last(db, sql)


def test_substitution_can_be_switched_off(db: Database) -> None:
    off = "SET 'ksql.variable.substitution.enable' = 'false';"
    assert last(db, f"DEFINE x = 'v'; {off} SELECT '${{x}}' FROM s;") == ("${x}",)
    db.execute("SET 'ksql.variable.substitution.enable' = 'true';")
    assert list(db.execute("SELECT '${x}' FROM s;")) == [("v",)]
    rows = list(db.execute(f"{off} SELECT '${{x}}' FROM s;"))
    assert rows == [("${x}",)], "also where the text defines nothing"
