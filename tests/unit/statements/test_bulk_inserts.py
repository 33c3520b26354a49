"""`Database.insert`: the kinds of data that it takes, and the errors about data."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from millstream import Database, History, MillstreamError, Rows
from millstream.statements import bulk_inserts

STREAM = (
    "CREATE STREAM s (k STRING KEY, i INT, d DOUBLE, m DECIMAL(6, 2), ts TIMESTAMP, dt DATE, "
    "raw BYTES, a ARRAY<STRING>, o MAP<STRING, INT>, st STRUCT<x INT, y STRING>) "
    "WITH (KAFKA_TOPIC='s', PARTITIONS=2, VALUE_FORMAT='JSON');"
)
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, v INT) "
    "WITH (KAFKA_TOPIC='t', PARTITIONS=2, VALUE_FORMAT='JSON');"
)
MOMENT = datetime.datetime(2020, 1, 2, 3, 4, 5, 678000)
ROWS: list[dict[str, Any]] = [
    {
        "k": "a",
        "i": 1,
        "d": 1.5,
        "m": Decimal("1.50"),
        "ts": MOMENT,
        "dt": datetime.date(2020, 1, 2),
        "raw": b"hi",
        "a": ["x", None],
        "st": {"x": 1, "y": "z"},
    },
    dict.fromkeys(("k", "i", "d", "m", "ts", "dt", "raw", "a", "st")),
    {
        "k": "c",
        "i": -3,
        "d": 0.0,
        "m": Decimal("-2.25"),
        "ts": MOMENT,
        "dt": datetime.date(1960, 1, 2),
        "raw": b"",
        "a": [],
        "st": {"x": 5, "y": "é"},
    },
]


def found(db: Database, columns: str = "*", source: str = "s") -> list[tuple[Any, ...]]:
    result = db.execute(f"SELECT {columns} FROM {source};")
    assert isinstance(result, Rows | History)
    return sorted(result, key=repr)


def refused(db: Database, data: Any, target: str = "s", **options: Any) -> str:
    """How data is refused; nothing of it is inserted."""
    before = found(db)
    with pytest.raises(MillstreamError) as caught:
        db.insert(target, data, **options)
    assert caught.value.code != MillstreamError.code
    assert found(db) == before
    return str(caught.value)


@pytest.fixture
def s(db: Database) -> Database:
    db.execute(STREAM)
    return db


def table() -> pa.Table:
    return pa.Table.from_pylist(ROWS)


KINDS = {
    "dicts": lambda: ROWS,
    "iterator of dicts": lambda: iter(ROWS),
    "pyarrow.Table": table,
    "pyarrow.Table in chunks": lambda: pa.concat_tables([table().slice(0, 1), table().slice(1)]),
    "slice": lambda: pa.concat_tables([table(), table()]).combine_chunks().slice(3),
    "pyarrow.RecordBatch": lambda: table().to_batches()[0],
    "pyarrow.RecordBatchReader": lambda: table().to_reader(),
    "polars.DataFrame": lambda: pl.from_arrow(table()),
    "pandas.DataFrame": lambda: table().to_pandas().astype({"i": "Int64"}),
    "pandas with Arrow": lambda: table().to_pandas(types_mapper=pd.ArrowDtype),
    "DuckDB": lambda: duckdb.from_arrow(table()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data_gives_the_same_rows(s: Database, kind: str) -> None:
    assert s.insert("s", KINDS[kind]()) == 3
    names = "k, i, d, m, ts, dt, raw, a, st"
    expected = [
        tuple({"X": v["x"], "Y": v["y"]} if isinstance(v, dict) else v for v in row.values())
        for row in ROWS
    ]
    assert found(s, names) == sorted(expected, key=repr)


def test_tuples_are_in_the_order_of_the_columns(s: Database) -> None:
    s.execute(
        "CREATE STREAM two (k INT KEY, v STRING) "
        "WITH (KAFKA_TOPIC='two', PARTITIONS=1, FORMAT='JSON');"
    )
    assert s.insert("two", [(1, "a"), [2, "b"]]) == 2
    assert s.insert("two", ((str(n), n) for n in range(2)), columns=["v", "k"]) == 2
    assert found(s, "k, v", "two") == [(0, "0"), (1, "1"), (1, "a"), (2, "b")]


def test_columns_choose_those_of_named_data(s: Database) -> None:
    frame = pd.DataFrame({"k": ["a"], "i": [1], "comment": ["ignored"]}, index=["odd"])
    assert s.insert("s", frame, columns=["i", "k"]) == 1
    assert s.insert("s", [{"k": "b", "comment": 1}], columns=["k", "i"]) == 1
    assert found(s, "k, i") == [("a", 1), ("b", None)]
    assert "no 'z' in the data" in refused(s, frame, columns=["z"])
    assert "COMMENT` does not exist" in refused(s, frame)
    assert "columns=['k']" in refused(s, frame, columns="k")


def test_names_match_exactly_or_in_upper_case(db: Database) -> None:
    db.execute(
        "CREATE STREAM `low` (`a` INT, a INT) "
        "WITH (KAFKA_TOPIC='low', PARTITIONS=1, VALUE_FORMAT='JSON');"
    )
    db.execute(
        "CREATE STREAM low (b INT) WITH (KAFKA_TOPIC='up', PARTITIONS=1, VALUE_FORMAT='JSON');"
    )
    db.insert("low", [{"a": 1, "A": 2}])
    db.insert("LOW", [{"b": 3}])
    assert found(db, "*", "`low`") == [(1, 2)]
    assert found(db, "*", "low") == [(3,)]


def test_missing_values_of_pandas_are_null(s: Database) -> None:
    frame = pd.DataFrame(
        {
            "k": ["a", np.nan],
            "i": pd.array([1, None], "Int64"),
            "d": [np.nan, 1.5],
            "ts": pd.to_datetime(["2020-01-01", None]),
            "dt": [datetime.date(2020, 1, 1), None],
            "o": [{"x": 1}, None],
        }
    )
    s.insert("s", frame)
    s.insert("s", [{"k": pd.NA, "ts": pd.NaT, "i": 7}])
    assert found(s, "k, i, d, ts, dt, o") == sorted(
        [
            ("a", 1, None, datetime.datetime(2020, 1, 1), datetime.date(2020, 1, 1), [("x", 1)]),
            (None, None, 1.5, None, None, None),
            (None, 7, None, None, None, None),
        ],
        key=repr,
    )


def test_encodings_of_texts_and_numbers(s: Database) -> None:
    texts = pa.array(["a", None, "b"])
    for array in (
        texts.dictionary_encode(),
        texts.cast(pa.large_string()),
        texts.cast(pa.string_view()),
        pa.chunked_array([texts.dictionary_encode(), pa.array(["z"]).dictionary_encode()]),
    ):
        s.insert("s", pa.table({"k": array}))
    s.insert("s", pl.DataFrame({"k": ["c"]}, schema={"k": pl.Categorical}))
    for kind in (pa.int8(), pa.uint64(), pa.int64()):
        s.insert("s", pa.table({"i": pa.array([5], kind)}))
    s.insert("s", [{"i": np.int16(5)}, {"d": np.float32(0.5)}, {"a": np.array(["q"])}])
    assert [k for (k,) in found(s, "k") if k is not None] == [*"aaaa", *"bbbb", "c", "z"]
    assert [i for (i,) in found(s, "i") if i is not None] == [5] * 4


def test_maps_of_arrow(s: Database) -> None:
    maps = pa.array(
        [[("x", 0)], None, [], [("a", 1), ("b", None)]], pa.map_(pa.string(), pa.int8())
    )
    s.insert("s", pa.table({"o": maps}).slice(1))
    assert found(s, "o") == [(None,), ([("a", 1), ("b", None)],), ([],)]


def test_rowtime_is_the_time_of_the_record(s: Database) -> None:
    zone = datetime.timezone(datetime.timedelta(hours=1))
    times = [1234, "1970-01-01T00:00:02", datetime.datetime(1970, 1, 1, 1, 0, 3, tzinfo=zone), None]
    s.insert("s", [{"rowtime": time, "i": n} for n, time in enumerate(times)])
    s.insert("s", pl.DataFrame({"ROWTIME": [datetime.datetime(1970, 1, 1, 0, 0, 4)], "i": [5]}))
    by_number = dict(found(s, "i, ROWTIME"))
    assert by_number[3] > 1_700_000_000_000
    assert [by_number[n] for n in (0, 1, 2, 5)] == [1234, 2000, 3000, 4000]


def test_tables_take_rows_with_keys(db: Database) -> None:
    db.execute(TABLE)
    db.execute("CREATE TABLE q AS SELECT * FROM t;")
    assert db.insert("t", [(1, 1), (2, 2), (1, None)]) == 3
    for rows in ([(3, 3), (None, 4)], [{"v": 1}]):
        with pytest.raises(MillstreamError) as caught:
            db.insert("t", rows)
        assert f"row {len(rows)} " in str(caught.value) and "primary key" in str(caught.value)
    assert found(db, "*", "q") == [(1, None), (2, 2)]


ERRORS = [
    ([{"i": 1}, {"i": "one"}], "row 2 ", "INTEGER for field `I` but got STRING(one)"),
    ([{"i": 2**31}], "row 1 ", "BIGINT(2147483648)"),
    ([{"i": 2**64}], "row 1 ", "NUMBER(18446744073709551616)"),
    ([{"i": 1.0}], "row 1 ", "DOUBLE(1.0)"),
    (pd.DataFrame({"i": [None, 1.0]}), "row 2 ", "astype('Int64')"),
    ([{"d": float("inf")}], "row 1 ", "NaN or of infinity"),
    ([{"m": Decimal("1.555")}], "row 1 ", "DECIMAL(6, 2) for field `M` but got DECIMAL(1.555)"),
    ([{"m": Decimal("NaN")}], "row 1 ", "NaN"),
    (pa.table({"m": [Decimal("1.50"), Decimal("99999.99")]}), "row 2 ", "99999.99"),
    ([{"dt": MOMENT}], "row 1 ", "DATE for field `DT` but got TIMESTAMP"),
    ([{"ts": "soon"}], "row 1 ", "TIMESTAMP for field `TS` but got STRING(soon)"),
    ([{"a": "x"}], "row 1 ", "ARRAY<STRING> for field `A` but got STRING(x)"),
    ([{"o": {"x": "y"}}], "row 1 ", "MAP<STRING, INTEGER> for field `O`"),
    ([{"o": {None: 1}}], "row 1 ", "key of a map"),
    ([{"st": {"x": "y"}}], "row 1 ", "for field `ST`"),
    ([{"k": {"x": 1}}], "row 1 ", "STRING for field `K`"),
    (pa.table({"k": [{"x": 1}]}), "row 1 ", "STRING for field `K`"),
    ([{"k": b"x"}], "row 1 ", "BYTES(b'x')"),
    ([{"k": object}], "row 1 ", "no type of SQL"),
    ([{"k": "\ud800"}], "row 1 ", "surrogate"),
    ([{"k": "x" * 1000 + "y", "i": "x" * 1000}], "row 1 ", "xxx…)"),
    (pa.table({"i": pa.array([1], pa.duration("s"))}), "row 1 ", "duration"),
    ([{"rowtime": 1}, {"rowtime": -1}], "row 2 ", "must not be negative"),
    ([{"rowtime": 2**62 + 1}], "row 1 ", "must not be later"),
    ([{"i": 1}, {"k": b"x"}, {"i": "x"}], "row 2 ", "`K`"),
    ([{"i": 1}, {"i": "x"}, {"k": b"x"}], "row 2 ", "`I`"),
    ([{"i": "x"}, {"rowtime": -1}], "row 1 ", "`I`"),
    ([{"rowtime": -1}, {"i": "x"}], "row 1 ", "ROWTIME"),
    ([{"i": 1}, (2,)], "row 2", "all of them dicts"),
    ([("a",)], "row 1", "1 values for 10 columns"),
    ([5], "row 1", "type int"),
    ([{"i": 1, "I": 2}], "", "twice"),
    ([{5: 1}], "", "Names are texts"),
    (pd.DataFrame([[1, 2]], columns=["i", "i"]), "", "two columns"),
    (pd.Series([1]), "", "type Series"),
    ("abc", "", "type str"),
    (None, "", "type NoneType"),
    ({"k": ["a"]}, "", "[row]"),
    ([{"ROWOFFSET": 1}], "", "The log assigns it"),
]


@pytest.mark.parametrize(("data", "row", "reason"), ERRORS, ids=lambda each: str(each)[:40])
def test_errors_name_the_row_the_column_and_the_value(
    s: Database, data: Any, row: str, reason: str
) -> None:
    told = refused(s, data)
    assert row in told and reason in told


def test_the_first_bad_row_is_found_in_any_batch(
    s: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_inserts, "BATCH_ROWS", 7)
    numbers: list[Any] = list(range(100))
    assert s.insert("s", [{"i": n} for n in numbers]) == 100
    for bad in (0, 6, 7, 50, 99):
        data = [{"i": "x" if n >= bad else n} for n in numbers]
        assert f"row {bad + 1} " in refused(s, data)
    assert [i for (i,) in found(s, "i")] == sorted(numbers, key=lambda n: repr((n,)))


def test_a_record_that_cannot_be_written_names_its_row(db: Database) -> None:
    db.execute(
        "CREATE STREAM s (k INT KEY, a ARRAY<INT>) "
        "WITH (KAFKA_TOPIC='s', PARTITIONS=1, KEY_FORMAT='KAFKA', VALUE_FORMAT='PROTOBUF_NOSR');"
    )
    assert "Row 2 cannot be written to S" in refused(db, [(1, [1]), (2, [1, None]), (3, ["x"])])


def test_no_rows(s: Database) -> None:
    for nothing in ([], iter([]), table().slice(0, 0), pd.DataFrame({"k": []}), pd.DataFrame()):
        assert s.insert("s", nothing) == 0
    assert s.insert("s", [], columns=["k"]) == 0
    assert "NOPE" in refused(s, pd.DataFrame({"nope": []}))


def test_rows_without_any_column(s: Database) -> None:
    assert "rows without columns" in refused(s, [{}, {}])


def test_what_takes_no_rows(shop: Database) -> None:
    def told(target: str, rows: Any) -> str:
        with pytest.raises(MillstreamError) as caught:
            shop.insert(target, rows)
        return str(caught.value)

    assert "unknown stream/table: `nothing`" in told("nothing", [(1,)])
    assert "Did you mean" in told("order", [(1,)])
    assert "computes its rows" in told("spending", [("a", 1, 1.0)])
    shop.execute(
        "CREATE STREAM heads (k STRING KEY, h BYTES HEADER('a')) "
        "WITH (KAFKA_TOPIC='heads', PARTITIONS=1, VALUE_FORMAT='JSON');"
    )
    assert "HEADER columns: H" in told("heads", [{"k": "a", "h": b"x"}])
    assert shop.insert("heads", [("a",)]) == 1
    shop.execute("SET 'ksql.insert.into.values.enabled' = 'false';")
    assert "disabled" in told("orders", [("x", "y", 1)])


def test_a_closed_database_takes_no_rows(s: Database) -> None:
    s.close()
    for insert in (
        lambda: s.insert("s", [{"i": 1}]),
        lambda: s.executemany("INSERT INTO s (i) VALUES (?)", [(1,)]),
    ):
        with pytest.raises(MillstreamError, match="database is closed"):
            insert()


def test_rows_reach_the_queries(shop: Database) -> None:
    shop.insert("orders", pl.DataFrame({"customer": ["ann", "dan"], "amount": [1, 5]}))
    assert found(shop, "customer, n, total", "spending") == [
        ("ann", 3, 5.0),
        ("bob", 1, 3.0),
        ("cleo", 1, 10.0),
        ("dan", 1, 5.0),
    ]
