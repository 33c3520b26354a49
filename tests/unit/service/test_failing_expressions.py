"""Expressions that fail beside non-deterministic ones, or ones without a column."""

from __future__ import annotations

import millstream

STREAM = (
    "CREATE STREAM s (k STRING KEY, v STRING, n INT)"
    " WITH (kafka_topic='s', value_format='JSON', partitions=1);"
)


def _rows(select: str, where: str = "") -> list[tuple[object, ...]]:
    with millstream.connect(":memory:") as db:
        db.execute(STREAM)
        db.execute(f"CREATE STREAM o AS SELECT k, {select} FROM s{where};")
        db.execute("INSERT INTO s VALUES ('a', '1', 1); INSERT INTO s VALUES ('b', 'x', 0);")
        db.wait()
        return [tuple(row)[1:] for row in db.execute("SELECT * FROM o;")]


def test_a_failing_column_beside_random_values() -> None:
    assert _rows("CAST(v AS INT) AS i, LEN(UUID()) AS l") == [(1, 36), (None, 36)]


def test_a_random_value_inside_what_fails() -> None:
    assert _rows("CAST(UUID() AS INT) AS i") == [(None,), (None,)]
    assert _rows("TRANSFORM(ARRAY[n], x => 4 / n + CAST(RANDOM() AS INT) * 0) AS t") == [
        ([4],),
        (None,),
    ]


def test_a_random_value_in_a_condition_that_fails() -> None:
    assert _rows("n", " WHERE RANDOM() < 2 AND 4 / n = 4") == [(1,)]


def test_constants_that_fail() -> None:
    assert (
        _rows("-(3/0) AS a, -CAST('x' AS INT) AS b, REGEXP_EXTRACT('(', v) AS c")
        == [(None, None, None)] * 2
    )
