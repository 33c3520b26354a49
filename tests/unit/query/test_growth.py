"""Pull queries beyond the dialect whose texts grow: the same values, and an early end."""

from __future__ import annotations

import duckdb
import pytest

from millstream.model.errors import StatementError
from millstream.query.extended import Written, extended_sql, sources_of

ROW = "SELECT 'ab' AS a, 'cb' AS b, NULL::VARCHAR AS n, 7 AS i"


def rows(text: str) -> list[tuple[object, ...]]:
    return duckdb.sql(extended_sql(Written(text), lambda *_: ROW)).fetchall()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("a || b || i", "abcb7"),
        ("a || n", None),
        ("concat(a, n, b)", "abcb"),
        ("concat_ws('-', a, n, b)", "ab-cb"),
        ("replace(a, 'b', a || a)", "aabab"),
        ("replace(a, n, 'x')", None),
        ("regexp_replace(a || b, 'b', 'x')", "axcb"),
        ("regexp_replace(a || b, 'b', 'x', 'g')", "axcx"),
        ("upper(a || concat(b, b))", "ABCBCB"),
    ],
)
def test_values(expression: str, value: object) -> None:
    assert rows(f"SELECT {expression} FROM t") == [(value,)]
    assert rows(f"SELECT {expression}, count(*) FROM t GROUP BY {expression}") == [(value, 1)]


def test_columns_keep_their_names() -> None:
    text = extended_sql(Written("SELECT a || b, a || b AS c FROM t"), lambda *_: ROW)
    assert duckdb.sql(text).columns == ["a || b", "c"]


@pytest.mark.parametrize("grown", ["v || v", "concat(v, v)", "replace(v, 'a', v)"])
def test_growth_ends_early(grown: str) -> None:
    steps = [f"x{n + 1} AS (SELECT {grown} AS v FROM x{n})" for n in range(40)]
    text = f"WITH x0 AS (SELECT a || a AS v FROM t), {', '.join(steps)} SELECT v FROM x40"
    with pytest.raises(duckdb.ConversionException, match="makes at most"):
        rows(text)


def test_long_chains_and_deep_nesting() -> None:
    (row,) = rows("SELECT " + " || ".join(["a"] * 3_000) + " FROM t")
    assert row == ("ab" * 3_000,)
    with pytest.raises(StatementError):
        rows("SELECT " + "REPLACE(" * 2_000 + "a" + ", 'a', 'b')" * 2_000 + " FROM t")


def test_sources_are_those_that_are_read() -> None:
    text = 'WITH x AS (SELECT * FROM a) SELECT * FROM x, "b" JOIN c USING (i) WHERE EXISTS (FROM d)'
    assert set(sources_of(Written(text))) == {"A", "b", "C", "D"}
