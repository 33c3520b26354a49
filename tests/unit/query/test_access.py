"""Which WHERE clauses of pull queries on tables are look-ups, and which rows they give.

The rule (reference sql-statements §12, RUNNER.md 11.8 and the messages of ksqlDB's
`QueryFilterNode`): the clause becomes alternatives of conditions that hold together, IN as several
equalities, BETWEEN as two comparisons, NOT moved inwards. An alternative is a look-up when it
compares *each* key column with a constant by `=` and *no key column twice*, be it the same
comparison. One alternative alone may be one range of a single STRING or BYTES key without windows,
where range scans are allowed. Everything else scans the table. A look-up in a windowed table takes
at most one lower and one upper limit for each window bound, or `=` alone; a scan filters by
anything.

`Case` builds clauses from alternatives, so that what each is follows from how it was made.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import millstream
from millstream import Database, History, Rows, StatementError

SCANS = "ksql.query.pull.table.scan.enabled"
RANGES = "ksql.query.pull.range.scan.enabled"
SCRIPT = """
CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE one AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
CREATE TABLE number AS SELECT v, COUNT(*) AS n FROM s GROUP BY v;
CREATE TABLE raw AS SELECT TO_BYTES(k, 'utf8') AS b, COUNT(*) AS n FROM s
  GROUP BY TO_BYTES(k, 'utf8');
CREATE TABLE two WITH (KEY_FORMAT='JSON') AS SELECT k, v, COUNT(*) AS n FROM s GROUP BY k, v;
CREATE TABLE win AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY k;
"""
RECORDS = [("a", 1, 0), ("a", 1, 1000), ("b", 2, 1000), ("b", 1, 5000), ("c", 3, 5000)]
TWICE = "A comparison condition on the key column cannot be combined with other comparisons"
SCAN = "Query requires table scan to be enabled."
MISSING = "WHERE clause missing key column for disjunct: "
SEVERAL = "Multi-column sources must specify every key in the WHERE clause."


@pytest.fixture(scope="module")
def shop() -> Iterator[Database]:
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as database:
        database.execute(SCRIPT)
        for key, value, time in RECORDS:
            row = f"({time}, '{key}', {value})"
            database.execute(f"INSERT INTO s (ROWTIME, k, v) VALUES {row};")
        database.wait()
        yield database


def ask(db: Database, sql: str, *, scans: bool, ranges: bool = True) -> list[tuple[object, ...]]:
    db.execute(f"SET '{SCANS}'='{scans}'; SET '{RANGES}'='{ranges}';")
    result = db.execute(sql)
    assert isinstance(result, Rows | History)
    return sorted(result, key=repr)


@pytest.mark.parametrize(
    ("table", "where", "message"),
    [
        ("one", "k = 'a'", None),
        ("one", "'a' = k", None),
        ("one", "k = 'a' AND k = 'b'", TWICE),
        ("one", "k = 'a' AND k = 'a'", TWICE),
        ("one", "k = 'a' AND 'a' = k", TWICE),
        ("one", "k IN ('a', 'b')", None),
        ("one", "k IN ('a', 'a')", None),
        ("one", "k IN ('a') AND k = 'a'", TWICE),
        ("one", "k = 'a' AND k IN ('a', 'b')", TWICE),
        ("one", "k IN ('a', 'b') AND k IN ('b', 'c')", TWICE),
        ("one", "k = 'a' OR k = 'a'", None),
        ("one", "k = 'a' OR k = 'b' OR k IN ('c', 'd')", None),
        ("one", "(k = 'a' OR k = 'b') AND n > 1", None),
        ("one", "(k = 'a' OR n > 1) AND k = 'b'", TWICE),
        ("one", "k = 'a' OR n > 1", f"{MISSING}(N > 1)"),
        ("one", "k = 'a' OR (k = 'b' AND k = 'c')", TWICE),
        ("one", "n > 1 AND n < 3", f"{MISSING}((N > 1) AND (N < 3))"),
        ("one", "k <> 'a'", "Bound on key columns '[`K` STRING KEY]' must currently be '='. "),
        ("one", "k = 'a' AND k <> 'b'", "must currently be '='. "),
        ("one", "k > 'a'", None),
        ("one", "k > 'a' AND n = 1", None),
        ("one", "k > 'a' AND k < 'c'", TWICE),
        ("one", "k >= 'a' AND k >= 'a'", TWICE),
        ("one", "k BETWEEN 'a' AND 'b'", TWICE),
        ("one", "k > 'a' AND k = 'b'", TWICE),
        ("one", "k > 'a' OR k < 'a'", SCAN),
        ("one", "k > 'a' OR k = 'a'", SCAN),
        ("one", "k LIKE 'a%'", f"{MISSING}(K LIKE 'a%')"),
        ("one", "k LIKE 'a%' AND k = 'a'", None),
        ("one", "k IS NULL", f"{MISSING}(K IS NULL)"),
        ("one", "NOT k = 'a'", f"{MISSING}(NOT (K = 'a'))"),
        ("one", "NOT (NOT (k = 'a'))", None),
        ("one", "NOT (NOT k = 'a' OR n < 0)", None),
        ("one", "NOT (NOT k = 'a' AND NOT k = 'b')", None),
        ("one", "NOT (NOT k = 'a' OR NOT k = 'b')", TWICE),
        ("one", "k NOT IN ('a', 'b')", f"{MISSING}((NOT (K = 'a')) AND (NOT (K = 'b')))"),
        ("one", "UCASE(k) = 'A'", "A comparison must directly reference a key column."),
        ("one", "k = CAST(n AS STRING)", "between a key column and a resolvable expression."),
        ("number", "v = 1", None),
        ("number", "v = 1 AND v = 1", TWICE),
        ("number", "v > 1", SCAN),
        ("number", "v > 1 AND v < 3", TWICE),
        ("raw", "b = TO_BYTES('a', 'utf8')", None),
        ("raw", "b > TO_BYTES('a', 'utf8')", None),
        ("raw", "b > TO_BYTES('a', 'utf8') AND b < TO_BYTES('c', 'utf8')", TWICE),
        ("two", "k = 'a' AND v = 1", None),
        ("two", "k = 'a'", SEVERAL),
        ("two", "k = 'a' AND k = 'b'", TWICE),
        ("two", "k = 'a' AND v = 1 AND v = 1", TWICE),
        ("two", "k IN ('a', 'b') AND v IN (1, 2)", None),
        ("two", "(k = 'a' AND v = 1) OR (k = 'b' AND v = 2)", None),
        ("two", "(k = 'a' AND v = 1) OR k = 'b'", SEVERAL),
        ("two", "k = 'a' AND v > 1", SCAN),
        ("two", "k < 'a'", SEVERAL),
        ("two", "k = 'a' AND v BETWEEN 1 AND 2", TWICE),
        ("win", "k = 'a'", None),
        ("win", "k > 'a'", SCAN),
        ("win", "windowstart > 1", f"{MISSING}(WINDOWSTART > 1)"),
        ("win", "k = 'a' AND k = 'a' AND windowstart > 1 AND windowstart > 1", TWICE),
        ("win", "k = 'a' AND windowstart > 1 AND windowstart > 2", "Duplicate WINDOWSTART bounds"),
    ],
)  # fmt: skip
def test_without_scans(shop: Database, table: str, where: str, message: str | None) -> None:
    sql = f"SELECT * FROM {table} WHERE {where};"
    if message is None:
        assert ask(shop, sql, scans=False) == ask(shop, sql, scans=True)
        return
    with pytest.raises(StatementError) as caught:
        ask(shop, sql, scans=False)
    assert message in caught.value.message


@pytest.mark.parametrize("table", ["one", "number", "raw", "two", "win"])
def test_without_scans_all_rows_are_not_given(shop: Database, table: str) -> None:
    with pytest.raises(StatementError, match="Missing WHERE clause"):
        ask(shop, f"SELECT * FROM {table};", scans=False)
    assert ask(shop, f"SELECT * FROM {table};", scans=True)


def test_ranges_are_scans_where_they_are_not_allowed(shop: Database) -> None:
    sql = "SELECT * FROM one WHERE k >= 'b';"
    assert ask(shop, sql, scans=True, ranges=False) == [("b", 2), ("c", 1)]
    with pytest.raises(StatementError, match=SCAN):
        ask(shop, sql, scans=False, ranges=False)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ("{w} > 1 AND {w} >= 2", "Duplicate {w} bounds on: GREATER_THAN: [({w} > 1), ({w} >= 2)]"),
        ("{w} > 1 AND 2 < {w}", "Duplicate {w} bounds on: GREATER_THAN: [({w} > 1), (2 < {w})]"),
        ("{w} < 9 AND {w} <= 9", "Duplicate {w} bounds on: LESS_THAN: [({w} < 9), ({w} <= 9)]"),
        ("9 > {w} AND {w} < 9", "Duplicate {w} bounds on: LESS_THAN: [(9 > {w}), ({w} < 9)]"),
        ("{w} = 1 AND {w} = 1", "Duplicate {w} bounds on: EQUAL: [({w} = 1), ({w} = 1)]"),
        ("{w} = 1 AND {w} < 2", "`({w} = 1)` cannot be combined with other {w} bounds"),
        ("{w} >= 1 AND {w} = 2", "`({w} = 2)` cannot be combined with other {w} bounds"),
        ("{w} BETWEEN 1 AND 2 AND {w} > 0", "Duplicate {w} bounds on: GREATER_THAN"),
        ("{w} <> 1", "Unsupported {w} bounds: NOT_EQUAL"),
        ("{w} > 1 AND {w} < 9", None),
        ("{w} BETWEEN 1 AND 2", None),
        ("{w} IN (1, 2)", None),
        ("({w} = 1 OR {w} > 2)", None),
        ("WINDOWSTART > 1 AND WINDOWEND > 1", None),
        ("WINDOWSTART < 9 AND WINDOWEND < 9", None),
        ("WINDOWSTART = 0 AND WINDOWEND > 0", None),
        ("{w} > 1 AND {w} + 1 > 1", None),
        ("{w} > 1 AND {w} > n", None),
    ],
)
@pytest.mark.parametrize("bound", ["WINDOWSTART", "WINDOWEND"])
@pytest.mark.parametrize("scans", [True, False], ids=["scans", "no scans"])
def test_bounds(shop: Database, scans: bool, bound: str, bounds: str, message: str | None) -> None:
    for keys in ("k = 'a'", "k IN ('a', 'b')"):
        where = f"{bounds.format(w=bound)} AND {keys}"
        if message is None:
            ask(shop, f"SELECT * FROM win WHERE {where};", scans=scans)
            continue
        with pytest.raises(StatementError) as caught:
            ask(shop, f"SELECT * FROM win WHERE {where};", scans=scans)
        assert message.format(w=bound) in caught.value.message
    ask(shop, f"SELECT * FROM win WHERE {bounds.format(w=bound)};", scans=True)


class Case:
    """A clause over the table `two` by alternatives, each of conditions (column, sign, value)
    that hold together."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.alternatives = [
            [self.condition() for _ in range(self.random.choice((1, 2, 2, 2, 3, 4)))]
            for _ in range(self.random.choice((1, 1, 2, 3)))
        ]

    def condition(self) -> tuple[str, str, object]:
        column = self.random.choice("kkvvn")
        sign = self.random.choice(("=", "=", "=", "=", "<", ">=") if column != "n" else "<>=")
        value = self.random.choice("abc") if column == "k" else self.random.randint(1, 3)
        return column, sign, value

    def text(self) -> str:
        parts = [" AND ".join(map(self.one, listed)) for listed in self.alternatives]
        text = " OR ".join(f"({part})" for part in parts)
        return f"NOT (NOT ({text}))" if self.random.random() < 0.2 else text

    def one(self, condition: tuple[str, str, object]) -> str:
        column, sign, value = condition
        mirrored = {"=": "=", "<": ">", ">": "<", ">=": "<="}[sign]
        forms = [f"{column} {sign} {value!r}", f"{value!r} {mirrored} {column}"]
        if sign == "=":
            forms += [f"{column} IN ({value!r})", f"{column} IN ({value!r}, {value!r})"]
        return self.random.choice(forms)

    def looks_up(self) -> bool:
        for conditions in self.alternatives:
            compared = sorted(column for column, _, _ in conditions if column != "n")
            if compared != ["k", "v"] or any(o != "=" for c, o, _ in conditions if c != "n"):
                return False
        return True

    def rows(self) -> list[tuple[object, ...]]:
        counts: dict[tuple[str, int], int] = {}
        for key, value, _ in RECORDS:
            counts[key, value] = counts.get((key, value), 0) + 1
        rows = [{"k": k, "v": v, "n": n} for (k, v), n in counts.items()]
        return sorted(
            (tuple(row.values()) for row in rows if any(
                all(HOLDS[o](row[c], value) for c, o, value in conditions)
                for conditions in self.alternatives
            )),
            key=repr,
        )  # fmt: skip


HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<": operator.lt, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@pytest.mark.parametrize("part", range(4))
def test_clauses_made_at_random(shop: Database, part: int) -> None:
    seen = set()
    for seed in range(part * 100, part * 100 + 100):
        case = Case(seed)
        sql = f"SELECT * FROM two WHERE {case.text()};"
        assert ask(shop, sql, scans=True) == case.rows(), sql
        seen.add(case.looks_up())
        if case.looks_up():
            assert ask(shop, sql, scans=False) == case.rows(), sql
            continue
        with pytest.raises(StatementError):
            ask(shop, sql, scans=False)
    assert seen == {True, False}
