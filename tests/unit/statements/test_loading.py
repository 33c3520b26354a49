"""Files become rows of a schema; invalid values are reported with their position."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.model.errors import StatementError
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import (
    BIGINT,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Map,
    Struct,
)
from millstream.statements.loading import FileFormat, Reject, file_format, load_batches

SIMPLE = Schema.of([Column("ID", INTEGER, Role.KEY), Column("NAME", STRING), Column("AT", DATE)])
NESTED = Schema.of(
    [
        Column("ID", BIGINT, Role.KEY),
        Column("L", Array(INTEGER)),
        Column("M", Map(STRING, INTEGER)),
        Column("S", Struct((Field("X", INTEGER), Field("Y", STRING)))),
        Column("B", BYTES),
        Column("D", Decimal(6, 2)),
        Column("F", DOUBLE),
        Column("T", TIMESTAMP),
    ]
)


def load(path: Path, schema: Schema, **options: Any) -> tuple[list[dict[str, Any]], list[Reject]]:
    rows: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    for loaded in load_batches(path, schema, **options):
        rows += loaded.table.to_pylist()
        rejects += loaded.rejects
    return rows, rejects


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('name,Id\n"a, ""b""\nc",1\n,2\n"",3\nplain,4\n')
    rows, rejects = load(path, SIMPLE)
    assert rejects == []
    assert [(row["ID"], row["NAME"], row["AT"]) for row in rows] == [
        (1, 'a, "b"\nc', None),
        (2, None, None),
        (3, "", None),
        (4, "plain", None),
    ]


def test_broken_csv_rows_are_reported_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "id;name;at\n1;a;2024-01-01\nx;b;2024-01-02\n3;c;never\n5;e\n6;f;2024-01-06;more\n"
        "7;g;2024-01-07\n"
    )
    rows, rejects = load(path, SIMPLE)
    assert [row["ID"] for row in rows] == [1, 7]
    assert [reject.line for reject in rejects] == [3, 4, 5, 6]
    assert [reject.column for reject in rejects] == ["id", "at", "", ""]
    assert rejects[0].raw == "x;b;2024-01-02"
    assert 'Could not convert string "x"' in str(rejects[0])


def test_nested_values_in_csv(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "id,l,m,s,b,d,f,t\n"
        '1,"[1,null]","{""a"":1}","{""X"":2,""Y"":""q""}",aGk=,1.5,1e3,2024-05-06T07:08:09.5\n'
        "2,oops,,,!,,,\n"
    )
    rows, rejects = load(path, NESTED)
    assert rows == [
        {
            "ID": 1,
            "L": [1, None],
            "M": [("a", 1)],
            "S": {"X": 2, "Y": "q"},
            "B": b"hi",
            "D": Exact("1.50"),
            "F": 1000.0,
            "T": datetime.datetime(2024, 5, 6, 7, 8, 9, 500000),
        }
    ]
    assert [reject.column for reject in rejects] == ["L", "B"]


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = ['{"id": 1, "name": "a", "AT": "2024-01-01"}', '{"ID": "x"}', "no json", "[1]"]
    path.write_text("\n".join([*lines, '{"Id": 5, "name": null}', '{"id": 6, "name": 7}']))
    rows, rejects = load(path, SIMPLE, batch_rows=2)
    assert [(row["ID"], row["NAME"]) for row in rows] == [(1, "a"), (5, None), (6, "7")]
    assert [(reject.line, reject.column) for reject in rejects] == [(2, "ID"), (3, ""), (4, "")]


def test_json_array_with_nested_values(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    value = {"ID": 1, "L": [1], "M": {"a": None}, "S": {"X": 1, "Y": "z"}, "B": "aGk=", "D": 1.25}
    path.write_text(json.dumps([value, {}], indent=1))
    rows, rejects = load(path, NESTED)
    assert rejects == []
    assert rows[0]["M"] == [("a", None)]
    assert rows[0]["S"] == {"X": 1, "Y": "z"}
    assert rows[0]["B"] == b"hi"
    assert set(rows[1].values()) == {None}


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2**40, 3], "Name": ["a", "b", None]}), path)
    rows, rejects = load(path, SIMPLE)
    assert [(row["ID"], row["NAME"]) for row in rows] == [(1, "a"), (3, None)]
    assert [(reject.line, reject.column) for reject in rejects] == [(2, "ID")]


def test_files_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,other\n1,2\n")
    with pytest.raises(StatementError, match="columns that the stream lacks: other"):
        load(path, SIMPLE)
    with pytest.raises(StatementError, match="no such file"):
        load(tmp_path / "b.csv", SIMPLE)
    for remote in ("https://example.org/a.csv", "s3://b/a.parquet"):
        with pytest.raises(StatementError, match="local files"):
            list(load_batches(remote, SIMPLE))
    with pytest.raises(StatementError, match="as PARQUET"):
        load(path, SIMPLE, format="parquet")


def test_formats() -> None:
    assert file_format("a.b/C.CSV.gz") is FileFormat.CSV
    assert file_format("a.txt", "json") is FileFormat.JSON
    with pytest.raises(StatementError, match="FORMAT"):
        file_format("a.txt")
    with pytest.raises(StatementError, match="as xml"):
        file_format("a.txt", "xml")
