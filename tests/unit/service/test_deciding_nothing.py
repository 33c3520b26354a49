"""What decides nothing, as DuckDB's optimizer finds, fails nevertheless: in programs that compute
nothing else which would."""

from __future__ import annotations

import pytest

from millstream import Database
from tests.unit.service.test_bad_input import problems, rows

CHOSEN = "CASE WHEN 1 / a = 1 THEN {} ELSE {} END"
TEXT, NUMBER = CHOSEN.format("'x'", "'y'"), CHOSEN.format(3, 4)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (f"{TEXT} <> 'z'", True),
        (f"{TEXT} IS NULL", False),
        (f"{TEXT} IN ('p', 'q')", False),
        (f"{TEXT} LIKE '%'", True),
        (f"{TEXT} IS DISTINCT FROM 'z'", True),
        (f"{NUMBER} < 5", True),
        (f"{NUMBER} BETWEEN 1 AND 5", True),
        (f"{NUMBER} < 5 AND k > 0", True),
        (f"CASE WHEN {NUMBER} < 5 THEN 7 ELSE 8 END", 7),
        (f"COALESCE({NUMBER} < 5, FALSE)", True),
    ],
)
def test_a_condition_that_decides_nothing_fails(
    db: Database, expression: str, value: object
) -> None:
    db.execute(
        "CREATE STREAM s (k INT KEY, a INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, FORMAT='JSON');"
        f"CREATE STREAM o AS SELECT k, {expression} AS v FROM s;"
        "INSERT INTO s VALUES (1, 1); INSERT INTO s VALUES (2, 0);"
    )
    db.wait()
    expected = [(1, value), (2, None)]
    assert rows(db, "SELECT * FROM o;") == expected
    assert rows(db, f"SELECT k, {expression} AS v FROM s;") == expected
    queries = [str(row["query"]) for row in problems(db, "EXPRESSION")]
    assert queries[0] == "CSAS_O_1" and len(queries) == 2  # and the one over history
