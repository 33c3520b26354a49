"""GET /ws/query: the frames of a websocket."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.server.conftest import PATIENCE_S, Door


def frames(door: Door, request: str | None) -> tuple[list[Any], int, str]:
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


def test_the_rows_of_a_query(shop: Door) -> None:
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


def test_a_pull_query_and_print(shop: Door) -> None:
    found, code, _ = frames(shop, json.dumps({"ksql": "SELECT * FROM spending;"}))
    assert (len(found), code) == (4, 1000)
    found, code, _ = frames(shop, json.dumps({"ksql": "PRINT orders FROM BEGINNING LIMIT 1;"}))
    assert any(frame.startswith("rowtime") for frame in found) and code == 1000


@pytest.mark.parametrize(
    "request_text", [None, "{", json.dumps({"ksql": "SHOW STREAMS;"}), json.dumps({"ksql": "NO"})]
)
def test_a_bad_request(shop: Door, request_text: str | None) -> None:
    found, code, reason = frames(shop, request_text)
    assert code == 1003
    assert json.loads(found[-1])["error"].startswith(reason[:20])


def test_a_client_that_leaves_ends_its_query(shop: Door) -> None:
    request = json.dumps({"ksql": "SELECT * FROM orders EMIT CHANGES;"})
    url = f"ws{shop.url[4:]}/ws/query?{urlencode({'request': request})}"
    with connect(url, open_timeout=PATIENCE_S) as client:
        client.recv(PATIENCE_S)
        ended = shop.watched()
    assert ended.wait(PATIENCE_S)
