"""What old clients need of HTTP/1.1 and HTTP/2."""

from __future__ import annotations

import http.client
import json
import socket
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.events

from tests.patience import PATIENCE_S
from tests.server.conftest import RunningServer

LIVE_SQL = "SELECT customer FROM orders EMIT CHANGES LIMIT 3;"


def connection(door: RunningServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(door.url).netloc, timeout=PATIENCE_S)


def test_a_status_has_its_words(door: RunningServer) -> None:
    client = connection(door)
    for path, words in (("/info", "OK"), ("/nothing", "Not Found")):
        client.request("GET", path)
        answer = client.getresponse()
        assert (answer.reason, bool(answer.read())) == (words, True)


def test_a_target_may_be_a_whole_url(door: RunningServer) -> None:
    client = connection(door)
    client.request("GET", f"{door.url}/info?a=b")
    assert client.getresponse().status == 200


def test_the_pattern_of_a_path_is_a_path_like_others(door: RunningServer) -> None:
    answer = door.http.get("/status/{type}/{entity}/{action}")
    assert (answer.status_code, answer.json()["error_code"]) == (404, 40400)
    assert door.http.get("/is_valid_property/{property}").status_code == 400


def test_rows_sent_with_an_upgrade_are_answered_without_it(shop: RunningServer) -> None:
    client = connection(shop)
    headers = {"connection": "upgrade, http2-settings", "upgrade": "h2c", "http2-settings": ""}
    body = b'{"target":"orders"}\n{"CUSTOMER":"cy","AMOUNT":1}'
    client.request("POST", "/inserts-stream", body, headers)
    answer = client.getresponse()
    assert (answer.status, json.loads(answer.read())) == (200, {"status": "ok", "seq": 0})


def frames(door: RunningServer, sql: str) -> list[bytes]:
    """The frames of an answer over HTTP/2."""
    parts = urlsplit(door.url)
    body = json.dumps({"sql": sql}).encode()
    found: list[bytes] = []
    http2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    with socket.create_connection((parts.hostname, parts.port), PATIENCE_S) as client:
        http2.initiate_connection()
        names = (":method", "POST"), (":scheme", "http"), (":authority", parts.netloc)
        http2.send_headers(1, [*names, (":path", "/query-stream")])
        http2.send_data(1, body, end_stream=True)
        while True:
            client.sendall(http2.data_to_send())
            for event in http2.receive_data(client.recv(1 << 16)):
                if isinstance(event, h2.events.DataReceived):
                    found.append(event.data)
                if isinstance(event, h2.events.StreamEnded):
                    return found


def test_each_row_of_a_live_answer_has_a_frame(shop: RunningServer) -> None:
    _, *rows = (frame for frame in frames(shop, LIVE_SQL) if frame)
    assert rows == [b'["ann"]\n', b'["bob"]\n', b'["ann"]\n']
