"""SELECT and PRINT over real sockets: framings, ends, clients that leave or do not read."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import ExitStack
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.runtime.spec import QueryState
from millstream.service.execution import open_engine
from millstream_server.results.framing import ARROW, DELIMITED, JSON, KSQL, PROTOBUF
from tests.patience import PATIENCE_S
from tests.served import SOCKET_BYTES, served
from tests.server.conftest import BUFFER_BYTES, RunningServer

PULL = "SELECT * FROM spending WHERE customer = 'ann';"
PUSH = "SELECT customer, amount FROM orders EMIT CHANGES"


def test_a_pull_query_on_a_table(shop: RunningServer) -> None:
    assert shop.query(PULL) == (
        '{"queryId":null,"columnNames":["CUSTOMER","TOTAL"],'
        '"columnTypes":["STRING","DECIMAL(6, 2)"]}\n["ann",3.75]\n'
    )
    assert json.loads(shop.query(PULL, JSON))[1] == ["ann", 3.75]
    assert shop.query(PULL, KSQL, "/query") == (
        '[{"header":{"queryId":null,"schema":"`CUSTOMER` STRING KEY, `TOTAL` DECIMAL(6, 2)"}},\n'
        '{"row":{"columns":["ann",3.75]}}]\n'
    )
    assert "protoSchema" in shop.query(PULL, PROTOBUF)


def test_a_push_query_ends_at_its_limit(shop: RunningServer) -> None:
    header, *rows = json.loads(shop.query(f"{PUSH} LIMIT 2;", KSQL), parse_float=Decimal)
    assert header["header"]["schema"] == "`CUSTOMER` STRING, `AMOUNT` DECIMAL(6, 2)"
    assert rows == [
        {"row": {"columns": ["ann", Decimal("1.50")]}},
        {"row": {"columns": ["bob", Decimal("20.00")]}},
        {"finalMessage": "Limit Reached"},
    ]


def test_a_pull_query_on_a_stream_is_completed(shop: RunningServer) -> None:
    *_, last = json.loads(shop.query("SELECT amount FROM orders;", KSQL))
    assert last == {"finalMessage": "Query Completed"}
    *_, last = json.loads(shop.query("SELECT amount FROM orders LIMIT 1;", KSQL))
    assert last == {"finalMessage": "Limit Reached"}


def test_deletions_are_tombstones(door: RunningServer) -> None:
    door.ksql(
        "CREATE TABLE t (id INT PRIMARY KEY, v STRING)"
        " WITH (kafka_topic='t', key_format='JSON', value_format='JSON', partitions=1);"
    )
    rows = door.engine.log.writer("w")
    batch = raw_batch([(b"1", b'{"V":"a"}', 1), (b"1", None, 2)])
    rows.append([Appended("t", 0, batch, 2, 20)])
    found = json.loads(door.query("SELECT * FROM t EMIT CHANGES LIMIT 2;", KSQL))
    assert found[1:3] == [
        {"row": {"columns": [1, "a"]}},
        {"row": {"columns": [1, None], "tombstone": True}},
    ]


SESSIONS = (
    "SELECT k, WINDOWSTART, WINDOWEND, COUNT(*) AS n FROM clicks"
    " WINDOW SESSION (10 SECONDS) GROUP BY k EMIT CHANGES LIMIT 3;"
)


@pytest.fixture
def clicks(door: RunningServer) -> RunningServer:
    """Two clicks that make one session."""
    door.ksql(
        "CREATE STREAM clicks (k STRING KEY, n INT)"
        " WITH (kafka_topic='clicks', format='JSON', partitions=1);"
    )
    door.ksql("INSERT INTO clicks (rowtime, k, n) VALUES (1000, 'x', 1);")
    door.ksql("INSERT INTO clicks (rowtime, k, n) VALUES (5000, 'x', 2);")
    return door


def test_a_session_that_grows_is_deleted_with_its_key_alone(clicks: RunningServer) -> None:
    found = json.loads(clicks.query(SESSIONS, KSQL))
    assert found[1:4] == [
        {"row": {"columns": ["x", 1000, 1000, 1]}},
        {"row": {"columns": ["x", 1000, 1000, None], "tombstone": True}},
        {"row": {"columns": ["x", 1000, 5000, 2]}},
    ]


def test_framings_without_a_mark_leave_deletions_out(clicks: RunningServer) -> None:
    results = [["x", 1000, 1000, 1], ["x", 1000, 5000, 2]]
    _, *lines = clicks.query(SESSIONS).splitlines()
    assert [json.loads(line) for line in lines] == results
    _, *rows = json.loads(clicks.query(SESSIONS, "application/json"))
    assert rows == results
    answer = clicks.http2.post(
        "/query-stream",
        json={"sql": SESSIONS, "properties": {"auto.offset.reset": "earliest"}},
        headers={"accept": ARROW},
    )
    found = pa.ipc.open_stream(answer.content).read_all()
    assert [list(row.values()) for row in found.to_pylist()] == results


def test_arrow_over_http2(shop: RunningServer) -> None:
    answer = shop.http2.post("/query-stream", json={"sql": PULL}, headers={"accept": ARROW})
    assert answer.http_version == "HTTP/2"
    assert answer.headers["content-type"] == ARROW
    found = pa.ipc.open_stream(answer.content).read_all()
    assert found.to_pylist() == [{"CUSTOMER": "ann", "TOTAL": Decimal("3.75")}]


def test_queries_beyond_the_dialect_have_types(shop: RunningServer) -> None:
    text = shop.query("SELECT count(*) AS n, max(total) AS m FROM spending GROUP BY ALL;")
    assert json.loads(text.splitlines()[0])["columnTypes"] == ["BIGINT", "DECIMAL(6, 2)"]


def test_print_gives_lines(shop: RunningServer) -> None:
    lines = shop.query("PRINT orders FROM BEGINNING LIMIT 2;").splitlines()
    assert len([line for line in lines if line.startswith("rowtime")]) == 2
    refused = shop.http.post(
        "/query-stream", json={"sql": "PRINT orders;"}, headers={"accept": ARROW}
    )
    assert refused.status_code == 406
    assert not shop.engine.push_queries.streams


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT nothing FROM spending;", 40001),
        ("SELECT * FROM nothing EMIT CHANGES;", 40001),
        ("SHOW STREAMS;", 40001),
        (f"{PULL}{PULL}", 40000),
        ("SELEC", 40001),
        ("PRINT nothing;", 40001),
    ],
)
def test_errors_before_the_first_byte(shop: RunningServer, sql: str, code: int) -> None:
    for path in ("/query", "/query-stream"):
        answer = shop.http.post(path, json={"sql": sql})
        assert (answer.status_code, answer.json()["error_code"]) == (400, code)


def test_a_push_query_is_listed_with_its_text(shop: RunningServer) -> None:
    with shop.http.stream("POST", "/query-stream", json={"sql": f"{PUSH};"}):
        queries = shop.ksql("SHOW QUERIES;")[0]["queries"]
        (listed,) = (query for query in queries if query["queryType"] == "PUSH")
        (explained,) = shop.ksql(f"EXPLAIN {listed['id']};")
    texts = (listed["queryString"], explained["queryDescription"]["statementText"])
    assert [" ".join(text.split()).upper() for text in texts] == [PUSH.upper()] * 2


def test_rows_arrive_as_they_are_made(shop: RunningServer) -> None:
    with shop.http.stream("POST", "/query-stream", json={"sql": f"{PUSH};"}) as answer:
        lines = answer.iter_lines()
        json.loads(next(lines))
        assert [next(lines) for _ in range(3)] == ['["ann",1.50]', '["bob",20.00]', '["ann",2.25]']
        shop.http2.post("/ksql", json={"ksql": "INSERT INTO orders VALUES ('eve', 7);"})
        assert next(lines) == '["eve",7.00]'


@pytest.mark.parametrize("version", ["http", "http2"])
def test_a_client_that_leaves_ends_its_query(shop: RunningServer, version: str) -> None:
    client = shop.client(http2=version == "http2")
    with client.stream("POST", "/query-stream", json={"sql": f"{PUSH};"}) as answer:
        lines = answer.iter_lines()
        next(lines)
        ended = shop.watched()
    client.close()
    assert ended.wait(PATIENCE_S)
    assert not shop.engine.push_queries.streams


def test_a_client_that_leaves_print_ends_it(shop: RunningServer) -> None:
    client = shop.client()
    with client.stream("POST", "/query-stream", json={"sql": "PRINT orders;"}):
        ended = shop.watched()
    client.close()
    assert ended.wait(PATIENCE_S)


@pytest.mark.parametrize("by", ["close-query", "statement", "server"])
def test_a_query_is_ended_by_others(shop: RunningServer, by: str) -> None:
    with shop.http.stream(
        "POST", "/query-stream", json={"sql": f"{PUSH};"}, headers={"accept": KSQL}
    ) as answer:
        lines = answer.iter_lines()
        query_id = json.loads(next(lines).rstrip(",")[1:])["header"]["queryId"]
        if by == "close-query":
            done = shop.http2.post("/close-query", json={"queryId": query_id})
            assert (done.status_code, done.content) == (200, b"")
        elif by == "statement":
            done = shop.http2.post("/ksql", json={"ksql": f"TERMINATE {query_id};"})
            (entity,) = done.json()
            assert (entity["@type"], entity["wasTerminated"]) == ("terminate_query", True)
        else:
            shop.server.close()
        assert list(lines)[-1] == '{"finalMessage":"Query Completed"}]'


def overrun(door: RunningServer) -> tuple[socket.socket, int, threading.Event]:
    """A client that does not read while more and more comes, until its query has failed; how many
    records there were; set when the query is gone."""
    door.ksql(
        "CREATE STREAM s (v STRING) WITH (kafka_topic='s', value_format='JSON', partitions=1);"
        "CREATE STREAM copied AS SELECT * FROM s;"
    )
    slow = silent(door.url, "SELECT * FROM s EMIT CHANGES;")
    (query_id,) = door.engine.push_queries.streams
    ended = door.watched()
    value = json.dumps({"V": "x" * 1_000}).encode()
    for count in range(1_000, 100_000, 1_000):
        door.feed("s", [value] * 1_000)
        door.engine.drain()
        states = {query.query_id: query.state for query in door.engine.statuses()}
        if states.get(query_id, QueryState.ERROR) is QueryState.ERROR:
            return slow, count, ended
    raise AssertionError("a client may have everything without reading it")


def test_a_client_that_does_not_read_is_dropped_alone(door: RunningServer) -> None:
    slow, count, ended = overrun(door)
    assert door.engine.log.end_offset("COPIED", 0) == count
    rest = b""
    while piece := slow.recv(1 << 20):
        rest += piece
    slow.close()
    assert b"reads too slowly" in rest[-1_000:]
    assert ended.wait(PATIENCE_S)


def test_a_client_that_never_reads_does_not_keep_the_server(door: RunningServer) -> None:
    slow, _, _ = overrun(door)
    # The listener is closed while the client is still connected.
    assert slow.fileno() >= 0


def test_a_client_that_never_reads_is_cut_off() -> None:
    settings = EngineSettings(threads=1, push_buffer_bytes=BUFFER_BYTES)
    engine = open_engine(":memory:", settings, now_ms)
    engine.start()
    properties = {"auto.offset.reset": "earliest"}
    with served(engine, properties, patience_s=0.5) as found, ExitStack() as stack:
        door = RunningServer(engine, found, stack)
        slow, _, ended = overrun(door)
        assert ended.wait(PATIENCE_S)
        slow.close()
    engine.close()


def silent(url: str, sql: str) -> socket.socket:
    """A client that sends a query and reads the first bytes of the answer alone."""
    host = urlsplit(url)
    body = json.dumps({"sql": sql}).encode()
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
    client.settimeout(PATIENCE_S)
    client.connect((host.hostname, host.port))
    head = f"POST /query-stream HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"  # noqa: E501
    client.sendall(head.encode() + body)
    seen: Any = b""
    while b"queryId" not in seen:
        seen += client.recv(64)
    return client


def test_http2_by_upgrade(shop: RunningServer) -> None:
    host = urlsplit(shop.url)
    with socket.create_connection((host.hostname, host.port)) as client:
        client.settimeout(PATIENCE_S)
        client.sendall(
            b"GET /info HTTP/1.1\r\nhost: x\r\nconnection: Upgrade, HTTP2-Settings\r\n"
            b"upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n"
        )
        assert client.recv(1_000).startswith(b"HTTP/1.1 101")


def test_the_accept_header_chooses(shop: RunningServer) -> None:
    for accept, kind in ((None, DELIMITED), ("*/*", DELIMITED), (JSON, JSON), (KSQL, KSQL)):
        headers = {} if accept is None else {"accept": accept}
        answer = shop.http.post("/query-stream", json={"sql": PULL}, headers=headers)
        assert answer.headers["content-type"] == kind
    assert shop.http.post("/query", json={"ksql": PULL}).headers["content-type"] == KSQL
