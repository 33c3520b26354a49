"""Integers wrap in all positions, also where DuckDB would rather not compute them.

DuckDB moves constants from one side of a comparison to the other and out of sums, and then no
overflow is visible.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest

from millstream import Database, History, Rows
from millstream.log.log import Appended
from millstream.model.batch import raw_batch

SOURCE = """
CREATE STREAM s (k STRING KEY, i {kind})
  WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');
"""
BITS = {"INT": 32, "BIGINT": 64}
OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    ">=": operator.ge,
}


def wrapped(value: int, bits: int) -> int:
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def send(db: Database, kind: str) -> None:
    """A stream with the numbers of a type."""
    db.execute(SOURCE.format(kind=kind))
    fill(db, kind)


def fill(db: Database, kind: str) -> None:
    values = [(b"k", b'{"I":%d}' % value, at) for at, value in enumerate(numbers(kind))]
    db.engine.writer.append([Appended("s", 0, raw_batch(values), len(values))])


def rows(db: Database, sql: str) -> list[tuple[object, ...]]:
    found = db.execute(sql)
    assert isinstance(found, Rows | History)
    return list(found)


def numbers(kind: str) -> list[int]:
    half = 2 ** (BITS[kind] - 1)
    return [half - 1, half - 3, half // 2, 65536, 3, 0, -3, -65536, 1 - half, -half]


@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize("sign", OPERATORS)
@pytest.mark.parametrize("compared", COMPARISONS)
def test_comparisons_with_constants(db: Database, kind: str, sign: str, compared: str) -> None:
    """Each alone in its query: where something else raises, all of a batch is computed exactly."""
    send(db, kind)
    bits = BITS[kind]
    for constant, bound in [(2 ** (bits - 1) - 1, 2), (65536, 0), (-3, -7)]:
        for left in (False, True):
            made = f"{constant} {sign} i" if left else f"i {sign} {constant}"
            found = rows(db, f"SELECT i FROM s WHERE {made} {compared} {bound};")
            pairs = [(constant, i) if left else (i, constant) for i in numbers(kind)]
            assert found == [
                (value,)
                for value, pair in zip(numbers(kind), pairs, strict=True)
                if COMPARISONS[compared](wrapped(OPERATORS[sign](*pair), bits), bound)
            ], made


@pytest.mark.parametrize("kind", BITS)
def test_minus(db: Database, kind: str) -> None:
    send(db, kind)
    assert rows(db, "SELECT i FROM s WHERE -i > 3;") == [
        (value,) for value in numbers(kind) if wrapped(-value, BITS[kind]) > 3
    ]


@pytest.mark.parametrize("kind", BITS)
def test_sums(db: Database, kind: str) -> None:
    db.execute(SOURCE.format(kind=kind))
    db.execute("CREATE TABLE o AS SELECT k, SUM(i + 5) AS up FROM s GROUP BY k;")
    fill(db, kind)
    db.wait()
    each = [wrapped(value + 5, BITS[kind]) for value in numbers(kind)]
    assert rows(db, "SELECT up FROM o;") == [(wrapped(sum(each), BITS[kind]),)]
