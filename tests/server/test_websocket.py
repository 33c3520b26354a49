"""GET /ws/query: the frames of a websocket."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode, urlsplit

import pyarrow as pa
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from millstream.query.rendered_rows import RenderedRows
from millstream.query.results import Change
from millstream_server.http.connections import WEBSOCKET_BYTES_MAX
from millstream_server.results import queries
from tests.patience import PATIENCE_S, until
from tests.server.conftest import RunningServer


def frames(door: RunningServer, request: str | None) -> tuple[list[Any], int, str]:
    """All frames, and with what the server closed."""
    query = "" if request is None else "?" + urlencode({"request": request})
    found = []
    with connect(f"ws{door.url[4:]}/ws/query{query}", open_timeout=PATIENCE_S) as client:
        try:
            while True:
                found.append(client.recv(PATIENCE_S))
        except ConnectionClosed as closed:
            assert closed.rcvd is not None
            return found, closed.rcvd.code, closed.rcvd.reason


def test_the_rows_of_a_query(shop: RunningServer) -> None:
    sql = "SELECT customer, amount FROM orders EMIT CHANGES LIMIT 2;"
    (schema, *rows, last), code, reason = frames(shop, json.dumps({"ksql": sql}))
    assert [field["name"] for field in json.loads(schema)] == ["CUSTOMER", "AMOUNT"]
    assert json.loads(schema)[0]["schema"] == {
        "type": "STRING",
        "fields": None,
        "memberSchema": None,
    }
    assert rows == ['{"row":{"columns":["ann",1.50]}}', '{"row":{"columns":["bob",20.00]}}']
    assert json.loads(last) == {"error": "done"}
    assert (code, reason) == (1000, "done")


def test_a_deletion_is_marked(door: RunningServer) -> None:
    door.ksql(
        "CREATE STREAM s (k STRING KEY, n INT) WITH (kafka_topic='s', format='JSON', partitions=1);"
    )
    door.ksql("INSERT INTO s VALUES ('x', 5);")
    door.ksql("INSERT INTO s VALUES ('x', -7);")
    sql = "SELECT k, SUM(n) AS t FROM s GROUP BY k HAVING SUM(n) > 0 EMIT CHANGES LIMIT 2;"
    (_, *rows, _), _, _ = frames(door, json.dumps({"ksql": sql}))
    assert rows == [
        '{"row":{"columns":["x",5]}}',
        '{"row":{"columns":["x",null],"tombstone":true}}',
    ]


def test_a_pull_query_and_print(shop: RunningServer) -> None:
    found, code, _ = frames(shop, json.dumps({"ksql": "SELECT * FROM spending;"}))
    assert (len(found), code) == (4, 1000)
    found, code, _ = frames(shop, json.dumps({"ksql": "PRINT orders FROM BEGINNING LIMIT 1;"}))
    assert any(frame.startswith("rowtime") for frame in found) and code == 1000


@pytest.mark.parametrize(
    "request_text", [None, "{", json.dumps({"ksql": "SHOW STREAMS;"}), json.dumps({"ksql": "NO"})]
)
def test_a_bad_request(shop: RunningServer, request_text: str | None) -> None:
    found, code, reason = frames(shop, request_text)
    assert code == 1003
    assert json.loads(found[-1])["error"].startswith(reason[:20])


def test_clients_of_one_reading_share_its_frames(shop: RunningServer) -> None:
    """A row is encoded once for all clients of a scalable push query."""
    request = json.dumps(
        {
            "ksql": "SELECT customer, amount FROM orders EMIT CHANGES;",
            "streamsProperties": {
                "ksql.query.push.v2.enabled": "true",
                "auto.offset.reset": "latest",
            },
        }
    )
    url = f"ws{shop.url[4:]}/ws/query?{urlencode({'request': request})}"
    with (
        connect(url, open_timeout=PATIENCE_S) as one,
        connect(url, open_timeout=PATIENCE_S) as other,
    ):
        for client in (one, other):
            assert json.loads(client.recv(PATIENCE_S))[0]["name"] == "CUSTOMER"
        shop.ksql("INSERT INTO orders VALUES ('d\u2028e', 1.00);")
        for client in (one, other):
            row = json.loads(client.recv(PATIENCE_S), parse_float=str)
            assert row == {"row": {"columns": ["d\u2028e", "1.00"]}}


def test_rows_are_put_into_text_once() -> None:
    calls = []

    def make(rows: pa.Table) -> bytes:
        calls.append(rows.num_rows)
        return b"x"

    change = Change(pa.table({"a": list(range(queries.ROWS_AT_ONCE + 1))}), RenderedRows(100))
    for _ in range(2):
        for start in (0, queries.ROWS_AT_ONCE):
            assert queries.shared(change, "kind", start, make) == b"x"
    assert calls == [queries.ROWS_AT_ONCE, 1]


def test_a_client_that_leaves_ends_its_query(shop: RunningServer) -> None:
    request = json.dumps({"ksql": "SELECT * FROM orders EMIT CHANGES;"})
    url = f"ws{shop.url[4:]}/ws/query?{urlencode({'request': request})}"
    with connect(url, open_timeout=PATIENCE_S) as client:
        client.recv(PATIENCE_S)
        ended = shop.watched()
    assert ended.wait(PATIENCE_S)


FRAMES = 400


def endless(kind: int) -> Iterator[bytes]:
    """The frames of a message that does not end, each as large as a message may be."""
    head = b"\xff" + WEBSOCKET_BYTES_MAX.to_bytes(8, "big") + bytes(4)
    for number in range(FRAMES):
        yield bytes([0 if number else kind]) + head + b"x" * WEBSOCKET_BYTES_MAX


def opening(changed: str = "") -> bytes:
    """A request for a websocket with the rows of a push query."""
    request = urlencode({"request": json.dumps({"ksql": "SELECT * FROM orders EMIT CHANGES;"})})
    return (
        f"GET /ws/query?{request} HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\n"
        f"connection: upgrade\r\nsec-websocket-version: {changed or 13}\r\n"
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()


def sent(client: socket.socket, kind: int) -> int:
    """How many frames of an endless message the server lets pass."""
    count = 0
    with suppress(ConnectionError):
        for frame in endless(kind):
            client.sendall(frame)
            count += 1
    return count


def connected(door: RunningServer) -> socket.socket:
    parts = urlsplit(door.url)
    return socket.create_connection((parts.hostname, parts.port), PATIENCE_S)


@pytest.mark.parametrize("kind", [1, 2], ids=["text", "bytes"])
def test_a_message_that_is_too_large_ends_the_connection(shop: RunningServer, kind: int) -> None:
    with connected(shop) as client:
        client.sendall(opening())
        assert client.recv(65_536).startswith(b"HTTP/1.1 101 ")
        until(lambda: bool(shop.engine.push_queries.streams))
        ended = shop.watched()
        assert sent(client, kind) < FRAMES
    assert ended.wait(PATIENCE_S)


@pytest.mark.parametrize("changed", ["12", ""], ids=["a wrong version", "a message before"])
def test_a_websocket_that_is_refused_ends_the_connection(shop: RunningServer, changed: str) -> None:
    with connected(shop) as client:
        client.sendall(opening(changed) + next(endless(1)))
        assert sent(client, 2) < FRAMES
    until(lambda: not shop.engine.push_queries.streams)
