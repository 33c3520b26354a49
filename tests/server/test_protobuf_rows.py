"""Answers in protobuf: rows that a message cannot hold."""

from __future__ import annotations

import base64
import json

import pytest

from millstream_server.results.framing import PROTOBUF
from tests.server.conftest import RunningServer


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("a ARRAY<INT>", "ARRAY[1, CAST(NULL AS INT)]"),
        ("m MAP<STRING, INT>", "MAP('a' := CAST(NULL AS INT))"),
        ("l ARRAY<ARRAY<INT>>", "ARRAY[ARRAY[1]]"),
        ("d ARRAY<MAP<STRING, INT>>", "ARRAY[MAP('a' := 1)]"),
    ],
)
def test_a_row_that_protobuf_cannot_hold_ends_the_answer(
    door: RunningServer, column: str, value: str
) -> None:
    name = column.split()[0]
    door.ksql(
        f"CREATE STREAM odd (k INT KEY, {column})"
        " WITH (kafka_topic='odd', value_format='JSON', partitions=1);"
        "CREATE TABLE kept AS SELECT k, LATEST_BY_OFFSET(k) AS l,"
        f" LATEST_BY_OFFSET({name}) AS v FROM odd GROUP BY k;"
        f"INSERT INTO odd (k, {name}) VALUES (1, {value}); INSERT INTO odd (k) VALUES (2);"
    )
    door.engine.drain()
    for sql in ("SELECT * FROM odd;", "SELECT * FROM odd EMIT CHANGES LIMIT 2;"):
        *_, last = json.loads(door.query(sql, PROTOBUF))
        assert "Cannot write a row as protobuf" in last["errorMessage"]["message"], sql
    for sql in ("SELECT * FROM kept WHERE k = 1;", "SELECT * FROM kept;"):
        answer = door.http.post("/query", json={"ksql": sql}, headers={"accept": PROTOBUF})
        assert "Cannot write a row as protobuf" in answer.text, sql
        assert answer.status_code in (200, 400), sql
    *_, row, _ = json.loads(door.query("SELECT k FROM odd;", PROTOBUF))
    assert base64.b64decode(row["row"]["protobufBytes"]) == b"\x08\x02"
