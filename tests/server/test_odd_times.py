"""Times and dates that Python has no values for: right in every framing, and never an answer that
breaks off."""

from __future__ import annotations

import base64
import io
import json

import pyarrow as pa
import pyarrow.ipc
import pytest

from millstream_server.results.framing import ARROW, DELIMITED, JSON, KSQL, PROTOBUF
from tests.server.conftest import RunningServer

LATE, EARLY = 253_402_300_800_000, -62_135_596_800_001
LATE_TEXT, LATE_DAY = "+10000-01-01T00:00:00.000", "+10000-01-01"
EARLY_TEXT, EARLY_DAY = "0000-12-31T23:59:59.999", "0000-12-31"
MADE = """
CREATE STREAM odd (k STRING KEY, t TIMESTAMP, d DATE, a ARRAY<TIMESTAMP>)
  WITH (kafka_topic='odd', value_format='JSON', partitions=1);
CREATE TABLE latest AS SELECT k, LATEST_BY_OFFSET(t) AS t, LATEST_BY_OFFSET(d) AS d,
  LATEST_BY_OFFSET(a) AS a FROM odd GROUP BY k;
"""
QUERIES = [
    "SELECT t, d, a FROM latest WHERE k = 'late';",
    "SELECT t, d, a FROM latest WHERE k = 'late' AND true;",
    "SELECT t, d, a FROM odd WHERE k = 'late';",
    "SELECT t, d, a FROM odd WHERE k = 'late' EMIT CHANGES LIMIT 1;",
]


@pytest.fixture
def odd(door: RunningServer) -> RunningServer:
    door.ksql(MADE, streamsProperties={"auto.offset.reset": "earliest"})
    for key, ms in (("late", LATE), ("early", EARLY)):
        time = f"FROM_UNIXTIME({ms})"
        values = f"'{key}', {time}, FROM_DAYS({ms // 86_400_000}), ARRAY[{time}]"
        door.ksql(f"INSERT INTO odd VALUES ({values});")
    door.engine.drain()
    return door


def answer(door: RunningServer, sql: str, kind: str) -> bytes:
    body = {"sql": sql, "properties": {"auto.offset.reset": "earliest"}}
    found = door.http.post("/query-stream", json=body, headers={"accept": kind})
    assert found.status_code == 200, found.text
    return found.content


@pytest.mark.parametrize("kind", [DELIMITED, JSON, KSQL])
@pytest.mark.parametrize("sql", QUERIES)
def test_as_text(odd: RunningServer, sql: str, kind: str) -> None:
    late = f'["{LATE_TEXT}","{LATE_DAY}",["{LATE_TEXT}"]]'
    assert late in answer(odd, sql, kind).decode()
    early = f'["{EARLY_TEXT}","{EARLY_DAY}",["{EARLY_TEXT}"]]'
    assert early in answer(odd, sql.replace("late'", "early'"), kind).decode()


@pytest.mark.parametrize("sql", QUERIES)
def test_as_arrow(odd: RunningServer, sql: str) -> None:
    found = pa.ipc.open_stream(io.BytesIO(answer(odd, sql, ARROW))).read_all()
    assert found["T"].cast(pa.int64()).to_pylist() == [LATE * 1000]
    assert found["D"].cast(pa.int32()).to_pylist() == [LATE // 86_400_000]


@pytest.mark.parametrize("sql", [text.replace("t, d, a", "t") for text in QUERIES])
def test_as_protobuf(odd: RunningServer, sql: str) -> None:
    """A `google.protobuf.Timestamp`: seconds by their varint in field 1 of field 1."""
    text = answer(odd, sql, PROTOBUF).decode()
    rows = [item["row"]["protobufBytes"] for item in json.loads(text) if "row" in item]
    message = base64.b64decode(rows[0])
    seconds, shift = 0, 0
    for byte in message[3:]:
        seconds |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    assert seconds == LATE // 1000
