"""Functions in Python, called from SQL."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import millstream
from millstream import ConflictError, Database, History, Rows, StatementError, udaf, udf, udtf

WITH = "WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON')"
STREAM = f"CREATE STREAM s (k STRING KEY, v INT, t STRING) {WITH};"


def rows(db: Database, sql: str) -> list[list[Any]]:
    result = db.execute(sql)
    assert isinstance(result, Rows | History)
    return [list(row) for row in result]


def fill(db: Database, *values: tuple[str, int | None, str | None]) -> None:
    for k, v, t in values:
        shown = ["NULL" if item is None else repr(item) for item in (k, v, t)]
        db.execute(f"INSERT INTO s VALUES ({', '.join(shown)});")
    db.wait()


def halved(value: int) -> int:
    if value % 2:
        raise ValueError("odd")
    return value // 2


def test_a_failing_row_is_null_and_reported(db: Database) -> None:
    db.register(udf("HALF", "INTEGER -> INTEGER", halved))
    db.execute(STREAM)
    db.execute("CREATE STREAM o AS SELECT k, HALF(v) AS h FROM s;")
    fill(db, ("a", 8, None), ("b", 3, None), ("c", None, None))
    assert rows(db, "SELECT k, h FROM o;") == [["a", 4], ["b", None], ["c", None]]
    assert db.processing_log().num_rows == 1


@pytest.mark.parametrize(
    "query",
    [
        "CREATE TABLE o AS SELECT NTH(v) AS k, COUNT(*) AS n FROM s GROUP BY NTH(v);",
        "CREATE TABLE o AS SELECT NTH(v) AS k, COUNT(*) AS n FROM s WHERE t IS NULL "
        "GROUP BY NTH(v) HAVING COUNT(*) < 5;",
        "CREATE STREAM o AS SELECT NTH(v) AS k, t FROM s PARTITION BY NTH(v);",
        "CREATE STREAM o AS SELECT k, t, NTH(v) AS n FROM s;",
        "CREATE STREAM o AS SELECT k, t FROM s WHERE NTH(v) IS NOT NULL;",
        "CREATE STREAM o AS SELECT k, COALESCE(NTH(v), 1) + 1 AS n FROM s;",
    ],
)
def test_what_is_not_deterministic_is_called_once_for_each_row(db: Database, query: str) -> None:
    calls: list[int | None] = []

    def every_second(value: int | None) -> int | None:
        calls.append(value)
        return value if len(calls) % 2 == 0 else None

    db.register(udf("NTH", "INTEGER -> INTEGER", every_second, deterministic=False))
    db.execute(STREAM)
    db.execute(query)
    fill(db, *((name, number, None) for number, name in enumerate("abcdef")))
    assert sorted(filter(None, calls)) == [1, 2, 3, 4, 5] and len(calls) == 6


@pytest.mark.parametrize("arrow", [False, True])
def test_a_row_that_fails_what_is_not_deterministic_harms_itself_alone(
    db: Database, arrow: bool
) -> None:
    def each(values: pa.Array) -> pa.Array:
        return pa.array([None if v is None else halved(v) for v in values.to_pylist()], pa.int32())

    function = each if arrow else halved
    db.register(udf("HALF", "INTEGER -> INTEGER", function, arrow=arrow, deterministic=False))
    db.execute(STREAM)
    db.execute("CREATE STREAM o AS SELECT k, HALF(v) AS h FROM s;")
    fill(db, ("a", 8, None), ("b", 3, None), ("c", None, None), ("d", 6, None))
    assert rows(db, "SELECT k, h FROM o;") == [["a", 4], ["b", None], ["c", None], ["d", 3]]
    fill(db, ("e", 5, None))
    assert rows(db, "SELECT k, h FROM o;")[-1] == ["e", None]


def test_overloads_are_deterministic_each_by_itself(db: Database) -> None:
    db.register(
        udf("HALF", "INTEGER -> INTEGER", halved),
        udf("HALF", "STRING -> STRING", lambda text: text[1:], deterministic=False),
    )
    db.execute(STREAM)
    db.execute("CREATE STREAM o AS SELECT k, HALF(v) AS h, HALF(t) AS r FROM s;")
    fill(db, ("a", 3, "xy"))
    assert rows(db, "SELECT h, r FROM o;") == [[None, "y"]]
    assert db.processing_log().num_rows == 1


def test_functions_of_arrays_by_decorator(db: Database) -> None:
    @udf("TWICE", "INTEGER -> BIGINT", arrow=True)
    def twice(values: pa.Array) -> pa.Array:
        """Two times a number."""
        return pc.multiply(values, 2)

    db.execute(STREAM)
    db.register(twice, udf("ROWS", "-> BIGINT", lambda n: pa.array([7] * n), arrow=True))
    db.execute("CREATE STREAM o AS SELECT k, TWICE(v) AS d, ROWS() AS r FROM s;")
    fill(db, ("a", 8, None), ("b", None, None))
    assert rows(db, "SELECT d, r FROM o;") == [[16, 7], [None, 7]]
    assert ["Overview", "Two times a number."] in rows(db, "DESCRIBE FUNCTION TWICE;")


def test_an_array_of_the_wrong_length_or_type_harms_its_column_alone(db: Database) -> None:
    db.register(
        udf("SHORT", "INTEGER -> INTEGER", lambda values: pa.array([]), arrow=True),
        udf("TEXT", "INTEGER -> INTEGER", lambda value: "no number"),
    )
    db.execute(STREAM)
    db.execute("CREATE STREAM o AS SELECT k, SHORT(v) AS a, TEXT(v) AS b, v FROM s;")
    fill(db, ("a", 8, None))
    assert rows(db, "SELECT a, b, v FROM o;") == [[None, None, 8]]
    assert db.processing_log().num_rows == 2


def test_overloads_and_nulls(db: Database) -> None:
    db.register(
        udf("KIND", "INTEGER -> STRING", lambda v: "int", nulls=True),
        udf("KIND", "STRING -> STRING", lambda v: "text" if v else "no text", nulls=True),
        udf("ANSWER", "-> BIGINT", lambda: 42),
    )
    db.execute(STREAM)
    db.execute("CREATE STREAM o AS SELECT k, KIND(v) AS a, KIND(t) AS b, ANSWER() AS c FROM s;")
    fill(db, ("a", 1, None))
    assert rows(db, "SELECT a, b, c FROM o;") == [["int", "no text", 42]]


def test_nested_values_are_lists_and_dicts(db: Database) -> None:
    def swapped(row: dict[str, Any], names: dict[str, int]) -> dict[str, Any]:
        return {"A": sum(names.values()), "B": [row["B"], *names]}

    signature = "STRUCT<A INTEGER, B STRING>, MAP<STRING, INTEGER>"
    db.register(udf("SWAP", f"{signature} -> STRUCT<A INTEGER, B ARRAY<STRING>>", swapped))
    db.execute(STREAM)
    db.execute(
        "CREATE STREAM o AS SELECT k, SWAP(STRUCT(A := v, B := t), MAP('x' := v)) AS r FROM s;"
    )
    fill(db, ("a", 5, "y"))
    assert rows(db, "SELECT r->A, r->B FROM o;") == [[5, ["y", "x"]]]


def test_table_functions_give_rows(db: Database) -> None:
    db.register(udtf("LETTERS", "STRING -> STRING", lambda text: iter(text)))
    db.execute(STREAM)
    db.execute("CREATE STREAM o AS SELECT k, LETTERS(t) AS l FROM s;")
    fill(db, ("a", 1, "xy"), ("b", 1, None), ("c", 1, "z"))
    assert rows(db, "SELECT k, l FROM o;") == [["a", "x"], ["a", "y"], ["c", "z"]]


@udtf("COUNTDOWN", "INTEGER -> INTEGER", arrow=True)
def countdown(starts: pa.Array) -> pa.Array:
    """The numbers from one down to 1."""
    return pa.array([list(range(start or 0, 0, -1)) for start in starts.to_pylist()])


@udaf("LONGEST", "STRING -> STRING", initial=str)
def longest(state: str, text: str | None) -> str:
    """The longest text."""
    return max(state, text or "", key=len)


def test_decorators_make_table_functions_and_aggregates(db: Database) -> None:
    db.register(countdown, longest)
    db.execute(STREAM)
    db.execute("CREATE STREAM o AS SELECT k, COUNTDOWN(v) AS n FROM s;")
    db.execute("CREATE TABLE p AS SELECT k, LONGEST(t) AS l FROM s GROUP BY k;")
    fill(db, ("a", 2, "x"), ("b", None, "y"), ("a", 1, "xyz"))
    assert rows(db, "SELECT k, n FROM o;") == [["a", 2], ["a", 1], ["a", 1]]
    assert sorted(rows(db, "SELECT k, l FROM p;")) == [["a", "xyz"], ["b", "y"]]
    found = str(db.execute("DESCRIBE FUNCTION longest;"))
    assert "The longest text." in found


SPREAD = udaf(
    "SPREAD",
    "INTEGER, LITERAL INTEGER -> INTEGER",
    initial=lambda least: [],
    add=lambda seen, v: seen if v is None else [*seen, v],
    result=lambda seen: max(seen) - min(seen) if seen else None,
    state="ARRAY<INTEGER>",
)


def test_aggregates_keep_a_state_of_their_own(db: Database) -> None:
    db.register(SPREAD)
    db.execute(STREAM)
    db.execute("CREATE TABLE o AS SELECT k, SPREAD(v, 1) AS d FROM s GROUP BY k;")
    fill(db, ("a", 3, None), ("a", None, None), ("b", None, None))
    fill(db, ("a", 10, None))
    assert sorted(rows(db, "SELECT k, d FROM o;")) == [["a", 7], ["b", None]]


def test_aggregates_without_remove_are_refused_on_tables(db: Database) -> None:
    db.register(SPREAD)
    db.execute(STREAM.replace("STREAM s", "TABLE s").replace("KEY", "PRIMARY KEY", 1))
    with pytest.raises(StatementError, match="cannot be applied to a table"):
        db.execute("CREATE TABLE o AS SELECT t, SPREAD(v, 1) AS d FROM s GROUP BY t;")


def test_aggregates_of_users_are_refused_in_sessions(db: Database) -> None:
    db.register(SPREAD)
    db.execute(STREAM)
    with pytest.raises(StatementError, match="SPREAD cannot be used with SESSION windows"):
        db.execute(
            "CREATE TABLE o AS SELECT k, SPREAD(v, 1) AS d FROM s "
            "WINDOW SESSION (5 SECONDS) GROUP BY k;"
        )


def test_show_functions_lists_them(db: Database) -> None:
    db.register(udf("HALF", "INTEGER -> INTEGER", halved, description="Half of a number."))
    assert ["HALF", "USER"] in rows(db, "SHOW FUNCTIONS;")
    assert ["Overview", "Half of a number."] in rows(db, "DESCRIBE FUNCTION HALF;")


def test_names_and_signatures_are_checked(db: Database) -> None:
    with pytest.raises(ConflictError, match="there is a function ABS already"):
        db.register(udf("ABS", "INTEGER -> INTEGER", abs))
    for signature in ("INTEGER", "NUMBER -> INTEGER", "T -> T", "INTEGER -> DECIMAL"):
        with pytest.raises(StatementError, match="cannot be used"):
            udf("F", signature, abs)


def test_a_file_opens_with_the_functions_its_queries_call(tmp_path: Any) -> None:
    path, half = str(tmp_path / "f.db"), udf("HALF", "INTEGER -> INTEGER", halved)
    earliest = {"auto.offset.reset": "earliest"}
    with millstream.connect(path, properties=earliest, functions=[half]) as db:
        db.execute(STREAM)
        db.execute("CREATE STREAM o AS SELECT k, HALF(v) AS h FROM s;")
    with millstream.connect(path, properties=earliest, functions=[half]) as db:
        fill(db, ("a", 8, None))
        assert rows(db, "SELECT k, h FROM o;") == [["a", 4]]
