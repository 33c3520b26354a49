"""A session with the client `ksqldb`; prints its observations as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import requests
from ksqldb import KSQLdbClient

EARLIEST = {"auto.offset.reset": "earliest"}


async def pushed(client: Any, query: str) -> tuple[list[Any], bool]:
    """Three rows of a push query, and whether closing it ended it."""
    lines = client.query_async(query, stream_properties=EARLIEST)
    query_id = (await anext(lines))["queryId"]
    rows = [await anext(lines) for _ in range(3)]
    closed = await asyncio.to_thread(client.close_query, query_id)
    return rows, closed and await anext(lines, None) is None


def pulled(client: Any, query: str) -> Any:
    """The rows, once the table has both orders."""
    while True:
        _, *rows = client.query_sync(query)
        if rows and rows[0][1] == 5:
            return rows


def refused(client: Any) -> int:
    """The status of an error, as the client reports it."""
    try:
        client.ksql("SELEC 1;")
    except requests.HTTPError as error:
        return error.response.status_code
    return 0


def main(url: str) -> dict[str, Any]:
    """The session."""
    client = KSQLdbClient(url)
    client.ksql(
        "CREATE STREAM orders (id INT KEY, qty INT)"
        " WITH (kafka_topic='orders', value_format='json', partitions=1);"
    )
    created = client.ksql(
        "CREATE TABLE totals AS SELECT id, SUM(qty) AS total FROM orders GROUP BY id;"
    )
    query_id = created[0]["commandStatus"]["queryId"]
    rows = [{"ID": 1, "QTY": 2}, {"ID": 1, "QTY": 3}, {"ID": 2, "QTY": 7}]
    acknowledged = client.inserts_stream("orders", rows)
    seen, ended = asyncio.run(pushed(client, "SELECT id, qty FROM orders EMIT CHANGES;"))
    limited = asyncio.run(
        client.get_query_result(
            client.query_async("SELECT id, qty FROM orders EMIT CHANGES LIMIT 2;", EARLIEST)
        )
    )
    return {
        "streams": [stream["name"] for stream in client.ksql("LIST STREAMS;")[0]["streams"]],
        "acknowledged": [answer["status"] for answer in acknowledged],
        "pulled": pulled(client, "SELECT id, total FROM totals WHERE id = 1;"),
        "pushed": seen,
        "ended": ended,
        "limited": limited[1:],
        "unknown": client.close_query("nothing"),
        "refused": refused(client),
        "properties": any(p["name"] == "auto.offset.reset" for p in client.get_properties()),
        "terminated": client.ksql(f"TERMINATE {query_id};")[0]["commandStatus"]["status"],
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
