"""Answers that clients do not read are bounded together."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pytest

from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.service.execution import execute_script, open_engine
from millstream_server.failures import RefusedError
from millstream_server.results.held import HeldRows
from millstream_server.server import ServerSettings
from tests.patience import PATIENCE_S, until
from tests.served import NO_AUTHORITIES, Served, served

LARGE = 40
MADE = (
    "CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', format='JSON', partitions=1);"
    "CREATE TABLE t AS SELECT id, LATEST_BY_OFFSET(v) AS v FROM s GROUP BY id;"
)
QUERY = '{"sql": "SELECT * FROM t;"}'


def test_tables_count_until_they_are_gone() -> None:
    held = HeldRows(1_000)
    tables = [pa.table({"a": pa.array([b"x" * 400])}) for _ in range(2)]
    for table in tables:
        held.hold(table)
    assert held.size == sum(table.nbytes for table in tables)
    with pytest.raises(RefusedError, match="have not read"):
        held.hold(pa.table({"a": pa.array([b"x" * 400])}))
    piece = tables.pop().slice(0, 0)
    del table
    assert piece.num_rows == 0 and held.size == tables[0].nbytes
    held.hold(pa.table({"a": pa.array([b"x" * 400])}))
    assert held.size == tables[0].nbytes


def test_one_answer_may_be_as_large_as_it_may_be() -> None:
    held = HeldRows(10)
    table = pa.table({"a": pa.array([b"x" * 400])})
    held.hold(table)
    with pytest.raises(RefusedError):
        held.hold(pa.table({"a": [1]}))


@pytest.fixture
def door() -> Iterator[Served]:
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    engine.start()
    session = Session({"auto.offset.reset": "earliest"})
    list(execute_script(engine, MADE, session))
    for number in range(LARGE):
        row = f"INSERT INTO s VALUES ({number}, '{'x' * 50_000}');"
        list(execute_script(engine, row, session))
    engine.drain()
    settings = ServerSettings(answers_bytes_max=LARGE * 50_000 * 5 // 2)
    with served(engine, settings=settings) as found:
        yield found
    engine.close()


def test_readers_that_take_nothing_hold_so_much_at_most(door: Served) -> None:
    parts = urlsplit(door.url)
    head = f"POST /query-stream HTTP/1.1\r\nhost: x\r\ncontent-length: {len(QUERY)}\r\n\r\n{QUERY}"
    with (
        ExitStack() as stack,
        httpx.Client(base_url=door.url, verify=NO_AUTHORITIES, timeout=PATIENCE_S) as client,
    ):
        for _ in range(3):
            slow = stack.enter_context(socket.socket())
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            slow.connect((parts.hostname, parts.port))
            slow.sendall(head.encode())
        until(lambda: door.server.held.size >= 2 * LARGE * 50_000)
        refused = client.post("/query-stream", content=QUERY)
        assert (refused.status_code, refused.json()["error_code"]) == (429, 42900)
        assert refused.headers["retry-after"] == "1"
        assert client.get("/info").status_code == 200
        stack.close()
        until(lambda: door.server.held.size == 0)
        assert client.post("/query-stream", content=QUERY).status_code == 200
