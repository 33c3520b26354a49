"""Decimal arithmetic is exact to the last digit, alone and as the input of aggregates."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from random import Random

import pytest

import millstream
from millstream.operators import arithmetic
from tests.decimals import oracle
from tests.decimals.check import compared, mismatches, shown
from tests.draws import draws

TREES = 500


@pytest.mark.parametrize("seed", range(draws(4)))
def test_random_trees(seed: int) -> None:
    assert list(mismatches(seed, TREES)) == []


def test_a_difference_that_is_shorter_than_what_it_is_made_of() -> None:
    column = oracle.Column("C", (38, 36))
    tree = oracle.Operation("-", column, oracle.Literal("100.0"))
    row = {"C": Fraction(1, 10**36)}
    assert list(compared([column], [row], [tree])) == []
    assert oracle.value_of(tree, row) == Fraction(1, 10**36) - 100


@pytest.mark.parametrize("seed", range(draws(2)))
def test_long_chains(seed: int) -> None:
    """Types of far more than 38 digits."""
    assert list(mismatches(1000 + seed, 100, operators=12)) == []


def test_the_comparison_finds_a_wrong_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounded(text: str, kind: arithmetic.Decimal, result: arithmetic.Decimal) -> str:
        return f"CAST({text} AS DOUBLE)"

    monkeypatch.setattr(arithmetic, "_wide", rounded)
    assert list(mismatches(0, 100))


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1.0/3/3", "DECIMAL(24, 23)", "0.11111111111100000000000"),
        ("0.5/10", "DECIMAL(13, 12)", "0.050000000000"),
        ("0.5/10/10", "DECIMAL(24, 23)", "0.00500000000000000000000"),
        ("1.5/2/2/2", "DECIMAL(35, 34)", "0.1875000000000000000000000000000000"),
        ("100.0/n/n", "DECIMAL(26, 23)", "11.11111111111100000000000"),
        ("d/n/n", "DECIMAL(32, 24)", "1.111111111111100000000000"),
        ("d*d", "DECIMAL(21, 4)", "100.0000"),
        ("9999999999.99 * 9999999999.99", "DECIMAL(25, 4)", "99999999999800000000.0001"),
    ],
)
def test_chains_of_quotients(text: str, kind: str, value: str) -> None:
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
        db.execute(
            "CREATE STREAM s (k INT KEY, n INT, d DECIMAL(10, 2))"
            " WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"
        )
        db.execute("INSERT INTO s VALUES (1, 3, 10.00);")
        db.execute(f"CREATE STREAM o AS SELECT k, {text} AS x FROM s;")
        db.wait()
        assert dict(db.execute("DESCRIBE o;").fetchall())["X"] == kind
        assert db.execute("SELECT x FROM o;").fetchall() == [(Decimal(value),)]


@pytest.mark.parametrize("seed", range(draws(3)))
def test_trees_as_arguments_of_aggregates(seed: int) -> None:
    """SUM, MIN and MAX pass over NULL; COUNT counts non-NULL values. Sums stay in their type."""
    random = Random(seed)
    columns = [oracle.Column("N", "INTEGER"), oracle.Column("D", (9, 4))]
    drawn = (oracle.a_tree(random, columns, 3) for _ in range(60))
    trees = [tree for tree in drawn if isinstance(oracle.kind_of(tree), tuple)][:6]
    rows = [{c.name: _small(random, c.kind) for c in columns} for _ in range(8)]
    calls = [
        f"{f}({oracle.text_of(tree)})" for tree in trees for f in ("SUM", "MIN", "MAX", "COUNT")
    ]
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
        db.execute(
            "CREATE STREAM s (k INT KEY, n INT, d DECIMAL(9, 4))"
            " WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"
        )
        for row in rows:
            given = ", ".join(shown(row[c.name], c.kind) or "NULL" for c in columns)
            db.execute(f"INSERT INTO s VALUES (1, {given});")
        listed = ", ".join(f"{call} AS a{number}" for number, call in enumerate(calls))
        db.execute(f"CREATE TABLE o AS SELECT k, {listed} FROM s GROUP BY k;")
        db.wait()
        ((_, *found),) = db.execute("SELECT * FROM o;").fetchall()
    expected: list[Fraction | int | None] = []
    for tree in trees:
        values = [value for row in rows if (value := oracle.value_of(tree, row)) is not None]
        low, high = min(values, default=None), max(values, default=None)
        expected += [sum(values, Fraction(0)), low, high, len(values)]
    assert [None if value is None else Fraction(value) for value in found] == expected


def _small(random: Random, kind: oracle.Kind) -> oracle.Value:
    if random.random() < 0.15:
        return None
    top = 9 if isinstance(kind, str) else 99_999
    scale = 0 if isinstance(kind, str) else kind[1]
    return Fraction(random.randint(-top, top), 10**scale)
