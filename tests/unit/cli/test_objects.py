"""Maps of a database in this process are objects in the shell, wherever they come from."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from millstream_cli.main import main
from millstream_cli.sessions.objects import with_objects

SETUP = """
SET 'auto.offset.reset' = 'earliest';
CREATE STREAM s (id INT KEY, m MAP<STRING, INT>) WITH (KAFKA_TOPIC='s', PARTITIONS=1, FORMAT='JSON');
CREATE TABLE t AS SELECT id, COLLECT_LIST(m) AS l FROM s GROUP BY id;
INSERT INTO s VALUES (1, MAP('a' := 1));
"""  # noqa: E501


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("SELECT * FROM s;", '{"ID": 1, "M": {"a": 1}}'),
        ("SELECT * FROM s EMIT CHANGES LIMIT 1;", '{"ID": 1, "M": {"a": 1}}'),
        ("SELECT * FROM t;", '{"ID": 1, "L": [{"a": 1}]}'),
        ("SELECT STRUCT(x := m) AS s FROM s;", '{"S": {"X": {"a": 1}}}'),
    ],
)
def test_maps_of_queries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], query: str, shown: str
) -> None:
    script = tmp_path / "script.sql"
    script.write_text(SETUP + query)
    assert main(["-f", str(script), "--output", "JSON"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == shown


def test_rows_without_maps_are_passed_on() -> None:
    rows = [(1, [2])]
    schema = pa.schema([("a", pa.int32()), ("b", pa.list_(pa.int32()))])
    assert next(with_objects(rows, schema)) is rows[0]


def test_keys_are_text() -> None:
    schema = pa.schema([("m", pa.map_(pa.int32(), pa.map_(pa.bool_(), pa.string())))])
    (row,) = with_objects([([(1, [(True, "x")]), (2, None)],)], schema)
    assert row == ({"1": {"true": "x"}, "2": None},)
