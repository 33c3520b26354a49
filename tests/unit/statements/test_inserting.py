"""INSERT INTO … VALUES and COPY: conversions, refusals, and the partitions of records."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream import Database, Done, History, MillstreamError, Rows

KINDS = (
    "CREATE STREAM kinds (k STRING KEY, i INT, b BIGINT, d DOUBLE, m DECIMAL(6, 2), t BOOLEAN, "
    "ts TIMESTAMP, dt DATE, tm TIME, raw BYTES, a ARRAY<INT>, o MAP<STRING, INT>, "
    "s STRUCT<x INT, y STRING>) WITH (KAFKA_TOPIC='kinds', PARTITIONS=1, VALUE_FORMAT='JSON');"
)


def rows(db: Database, sql: str) -> list[tuple[object, ...]]:
    result = db.execute(sql)
    assert isinstance(result, Rows | History)
    return sorted(result, key=repr)


def refused(db: Database, sql: str) -> MillstreamError:
    with pytest.raises(MillstreamError) as caught:
        db.execute(sql)
    assert caught.value.code != MillstreamError.code
    return caught.value


def test_every_type_comes_back(db: Database) -> None:
    db.execute(KINDS)
    db.execute(
        "INSERT INTO kinds VALUES ('a', 1, 2, 3.5, 4.25, true, '2024-01-02T03:04:05', "
        "'2024-01-02', '03:04:05', 'aGk=', ARRAY[1, 2], MAP('p' := 1), STRUCT(x := 1, y := 'z'));"
    )
    (found,) = rows(db, "SELECT * FROM kinds;")
    assert found[:6] == ("a", 1, 2, 3.5, Decimal("4.25"), True)
    assert str(found[6]).startswith("2024-01-02 03:04:05")
    assert found[7:9] == (datetime.date(2024, 1, 2), datetime.time(3, 4, 5))
    assert found[9:11] == (b"hi", [1, 2])
    assert found[12] == {"X": 1, "Y": "z"} or found[12] == {"x": 1, "y": "z"}


def test_missing_columns_are_null_and_numbers_widen(db: Database) -> None:
    db.execute(KINDS)
    db.execute("INSERT INTO kinds (k, b, d, m) VALUES ('a', 1, 2, 3);")
    db.execute("INSERT INTO kinds (i) VALUES (1 + 2);")
    db.execute("INSERT INTO kinds (k) VALUES (UCASE('low'));")
    found = rows(db, "SELECT k, i, b, d, m FROM kinds;")
    assert found == [
        ("LOW", None, None, None, None),
        ("a", None, 1, 2.0, Decimal("3.00")),
        (None, 3, None, None, None),
    ]


@pytest.mark.parametrize(
    "values",
    [
        "(i) VALUES ('one')",
        "(i) VALUES (true)",
        "(t) VALUES (1)",
        "(i) VALUES (99999999999)",
        "(m) VALUES (123456.78)",
        "(m) VALUES (12345)",
        "(a) VALUES ('x')",
        "(i, i) VALUES (1, 2)",
        "(i) VALUES (1, 2)",
        "VALUES (1)",
        "(nothing) VALUES (1)",
        "(i) VALUES (k)",
        "(i) VALUES (COUNT(*))",
        "(ts) VALUES ('yesterday')",
        "(ROWTIME, i) VALUES (-1, 1)",
        "(i) VALUES (1 / 0)",
    ],
)
def test_refused_values(db: Database, values: str) -> None:
    db.execute(KINDS)
    refused(db, f"INSERT INTO kinds {values};")
    assert rows(db, "SELECT * FROM kinds;") == []


def test_rowtime(db: Database) -> None:
    db.execute(KINDS)
    db.execute("INSERT INTO kinds (ROWTIME, k) VALUES (1234, 'a');")
    db.execute("INSERT INTO kinds (ROWTIME, k) VALUES ('1970-01-01T00:00:02', 'b');")
    db.execute("INSERT INTO kinds (k) VALUES ('c');")
    found = rows(db, "SELECT k, ROWTIME FROM kinds;")
    assert found[:2] == [("a", 1234), ("b", 2000)]
    assert isinstance(found[2][1], int) and found[2][1] > 1_700_000_000_000


def test_tables_need_their_key(db: Database) -> None:
    db.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT) "
        "WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');"
    )
    assert "primary key" in str(refused(db, "INSERT INTO t (v) VALUES (1);"))
    assert "primary key" in str(refused(db, "INSERT INTO t VALUES (NULL, 1);"))
    db.execute("INSERT INTO t VALUES (1, NULL);")


def test_what_cannot_be_inserted_into(shop: Database) -> None:
    refused(shop, "INSERT INTO nothing VALUES (1);")
    shop.execute(
        "CREATE SOURCE STREAM readonly (customer STRING KEY) "
        "WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');"
    )
    refused(shop, "INSERT INTO readonly VALUES ('x');")
    shop.execute("SET 'ksql.insert.into.values.enabled' = 'false';")
    assert "disabled" in str(refused(shop, "INSERT INTO orders VALUES ('x', 'y', 1);"))


@pytest.mark.parametrize(
    ("columns", "named"),
    [("k, h", "H"), ("all_, k", "ALL_"), ("h, k, all_", "H, ALL_"), ("all_, h", "ALL_, H")],
)
def test_all_header_columns_that_are_inserted_into_are_named(
    db: Database, columns: str, named: str
) -> None:
    db.execute(
        "CREATE STREAM heads (k STRING KEY, v INT, h BYTES HEADER('a'), "
        "all_ ARRAY<STRUCT<key STRING, value BYTES>> HEADERS) "
        "WITH (KAFKA_TOPIC='heads', PARTITIONS=1, VALUE_FORMAT='JSON');"
    )
    values = ", ".join("NULL" for _ in columns.split(","))
    told = refused(db, f"INSERT INTO heads ({columns}) VALUES ({values});")
    assert told.message == f"Cannot insert into HEADER columns: {named}"


def test_equal_keys_share_a_partition(db: Database) -> None:
    db.execute(
        "CREATE STREAM s (k INT KEY, v INT) "
        "WITH (KAFKA_TOPIC='s', PARTITIONS=4, VALUE_FORMAT='JSON');"
    )
    for v in range(3):
        for k in range(8):
            db.execute(f"INSERT INTO s VALUES ({k}, {v});")
    db.execute("CREATE STREAM placed AS SELECT k, ROWPARTITION AS p FROM s;")
    db.wait()
    found = rows(db, "SELECT k, p FROM placed;")
    assert len(found) == 24 and len(set(found)) == 8
    assert len({p for _, p in found}) > 1


# COPY


@pytest.fixture
def people(db: Database) -> Database:
    db.execute(
        "CREATE STREAM people (id INT KEY, name STRING, age INT) "
        "WITH (KAFKA_TOPIC='people', PARTITIONS=1, VALUE_FORMAT='JSON');"
    )
    return db


def copied(db: Database, path: Path, options: str = "") -> str:
    result = db.execute(f"COPY people FROM '{path}' {options};")
    assert isinstance(result, Done)
    return result.message


def test_copy_csv_with_broken_rows(people: Database, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("id,name,age\n1,ann,30\n2,bob,old\n3,cleo,40\nfour,dan,50\n5,eve\n")
    message = copied(people, path)
    assert "people.csv" not in message and "could not be read" in message
    assert "line 3" in message and "line 5" in message
    found = rows(people, "SELECT id, name, age FROM people;")
    assert (1, "ann", 30) in found and (3, "cleo", 40) in found
    assert 2 not in [row[0] for row in found]


def test_copy_json_and_parquet(people: Database, tmp_path: Path) -> None:
    lines = tmp_path / "people.jsonl"
    lines.write_text('{"id": 1, "name": "ann"}\n{"id": 2, "age": "x"}\n{"id": 3, "age": 7}\n')
    message = copied(people, lines)
    assert message.startswith("2 rows copied") and "1 rows could not be read" in message
    table = tmp_path / "people.parquet"
    pq.write_table(pa.table({"ID": [8, 9], "Name": ["x", None]}), table)
    assert copied(people, table) == "2 rows copied into PEOPLE"
    found = rows(people, "SELECT id, name, age FROM people;")
    assert found == [(1, "ann", None), (3, None, 7), (8, "x", None), (9, None, None)]


def test_copy_of_several_files(people: Database, tmp_path: Path) -> None:
    for name, text in {
        "b/2.csv": "ID,NAME,AGE\n1,Bob,5\n",
        "a/1.csv": "ID,NAME,AGE\n2,Ann,x\n3,Cleo,7\n",
        "a/1.jsonl": '{"id": 4, "age": 8}\n',
        "a/1.txt": "none of them",
        "a/[x].csv": "ID,NAME,AGE\n5,Eve,9\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    message = copied(people, Path(f"{tmp_path}/**/*.csv"))
    assert message.startswith("3 rows copied into PEOPLE from 3 files; 1 rows could not be read: ")
    assert f"{tmp_path}/a/1.csv, line 2, column AGE" in message
    assert sorted(rows(people, "SELECT id FROM people;")) == [(1,), (3,), (5,)]
    # A name with such signs that is a file is that file.
    assert copied(people, tmp_path / "a/[x].csv") == "1 rows copied into PEOPLE"
    assert copied(people, tmp_path / "a/1.js*") == "1 rows copied into PEOPLE"
    error = refused(people, f"COPY people FROM '{tmp_path}/none*.csv';")
    assert "none*.csv" in str(error)


def test_copy_tells_what_was_copied_before_an_error(people: Database, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("ID,NAME,AGE\n7,Ann,5\n")
    (tmp_path / "2.csv").write_text("ID,COLOUR\n8,red\n")
    error = refused(people, f"COPY people FROM '{tmp_path}/*.csv';")
    assert "COLOUR" in str(error) and "2.csv" in str(error)
    assert "1 rows of the 1 files before it are copied." in str(error)
    assert rows(people, "SELECT id FROM people;") == [(7,)]


def test_copy_options(people: Database, tmp_path: Path) -> None:
    path = tmp_path / "people.txt"
    path.write_text("id,name,age\n1,NA,30\n")
    refused(people, f"COPY people FROM '{path}';")
    copied(people, path, "WITH (FORMAT='CSV', NULLSTR='NA', ROWTIME='1970-01-01T00:00:05')")
    assert rows(people, "SELECT id, name, ROWTIME FROM people;") == [(1, None, 5000)]
    refused(people, f"COPY people FROM '{path}' WITH (FORMAT='XML');")
    refused(people, f"COPY people FROM '{path}' WITH (COLOUR='red');")
    refused(people, f"COPY people FROM '{path}' WITH (FORMAT='CSV', ROWTIME='now');")


@pytest.mark.parametrize("name", ["none.csv", "none*.csv", "http://localhost/x.csv"])
def test_copy_reads_local_files(people: Database, tmp_path: Path, name: str) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    place = name if "://" in name else f"{tmp_path}/{name}"
    refused(people, f"COPY people FROM '{place}';")
    people.session.local = False
    refused(people, f"COPY people FROM '{tmp_path}/a.csv';")
    assert rows(people, "SELECT * FROM people;") == []


def test_copy_refuses_unknown_columns(shop: Database, tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("customer,colour\nann,red\n")
    assert "COLOUR" in str(refused(shop, f"COPY orders FROM '{tmp_path}/b.csv';")).upper()
