"""What settings switch off for new statements (reference: sql-statements §3, §4 and §8)."""

from __future__ import annotations

import pytest

from millstream.catalog.catalog import Catalog
from millstream.model.errors import StatementError
from millstream.plan.define import create_source
from millstream_parser import parse, statements
from tests.unit.plan.planning import planned

FINAL = (
    "CREATE TABLE o AS SELECT k, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 DAY) GROUP BY k {emit};"
)
LAMBDAS = [
    "CREATE STREAM o AS SELECT k, TRANSFORM(l, x => x + 1) FROM s;",
    "CREATE STREAM o AS SELECT k, v FROM s WHERE ARRAY_LENGTH(FILTER(l, x => x > 1)) > 0;",
    "CREATE STREAM o AS SELECT REDUCE(l, 0, (a, x) => a + x), k FROM s"
    " PARTITION BY REDUCE(l, 0, (a, x) => a + x);",
    "CREATE TABLE o AS SELECT REDUCE(l, 0, (a, x) => a + x), COUNT(*) FROM s"
    " GROUP BY REDUCE(l, 0, (a, x) => a + x);",
    "CREATE TABLE o AS SELECT k, COUNT(*) FROM s GROUP BY k"
    " HAVING REDUCE(COLLECT_LIST(v), 0, (a, x) => a + x) > 1;",
    "SELECT TRANSFORM(l, x => x + 1) FROM s EMIT CHANGES;",
]


@pytest.mark.parametrize("sql", LAMBDAS)
def test_lambdas(sql: str) -> None:
    assert planned(sql, {"ksql.lambdas.enabled": "true"}).sources
    with pytest.raises(StatementError, match="Lambda expressions are currently disabled"):
        planned(sql, {"ksql.lambdas.enabled": "false"})


def test_queries_without_lambdas_need_no_lambdas() -> None:
    assert planned("CREATE STREAM o AS SELECT * FROM s;", {"ksql.lambdas.enabled": "false"})


def test_emit_final() -> None:
    off = {"ksql.suppress.enabled": "False"}
    assert planned(FINAL.format(emit="EMIT FINAL")).sink
    assert planned(FINAL.format(emit="EMIT CHANGES"), off).sink
    with pytest.raises(StatementError, match="Suppression is currently disabled"):
        planned(FINAL.format(emit="EMIT FINAL"), off)


@pytest.mark.parametrize(
    ("column", "allowed"),
    [
        ("h BYTES HEADER('a')", False),
        ("h ARRAY<STRUCT<key STRING, value BYTES>> HEADERS", False),
        ("h BYTES", True),
    ],
)
def test_header_columns(column: str, allowed: bool) -> None:
    sql = f"CREATE STREAM x (v INT, {column}) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON');"
    (statement,) = parse(sql)
    assert isinstance(statement, statements.CreateSource)
    assert create_source(statement, Catalog(), {})
    off = {"ksql.headers.columns.enabled": "false"}
    if allowed:
        assert create_source(statement, Catalog(), off)
        return
    with pytest.raises(StatementError, match="schema with headers columns is disabled"):
        create_source(statement, Catalog(), off)
