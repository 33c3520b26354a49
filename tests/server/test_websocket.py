"""GET /ws/query: the frames of a websocket."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from millstream.service.results import Change
from millstream.service.texts import Texts
from millstream_server.rows import queries
from tests.patience import PATIENCE_S
from tests.server.conftest import Door


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


def test_a_deletion_is_marked(door: Door) -> None:
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


def test_clients_of_one_reading_share_its_frames(shop: Door) -> None:
    """What a row is on the wire is made once, for all who ask a scalable push query."""
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

    change = Change(pa.table({"a": list(range(queries.ROWS_AT_ONCE + 1))}), Texts(100))
    for _ in range(2):
        for start in (0, queries.ROWS_AT_ONCE):
            assert queries.shared(change, "kind", start, make) == b"x"
    assert calls == [queries.ROWS_AT_ONCE, 1]


def test_a_client_that_leaves_ends_its_query(shop: Door) -> None:
    request = json.dumps({"ksql": "SELECT * FROM orders EMIT CHANGES;"})
    url = f"ws{shop.url[4:]}/ws/query?{urlencode({'request': request})}"
    with connect(url, open_timeout=PATIENCE_S) as client:
        client.recv(PATIENCE_S)
        ended = shop.watched()
    assert ended.wait(PATIENCE_S)
