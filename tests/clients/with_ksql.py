"""A session with the client `ksql`; prints its observations as JSON."""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

from ksql import KSQLAPI
from ksql.errors import KSQLError

EARLIEST = {"auto.offset.reset": "earliest"}


def pushed(client: Any, query: str) -> tuple[list[Any], bool]:
    """Three rows of a push query over HTTP/2's library, and whether closing it ended it."""
    pieces = client.query(query, stream_properties=EARLIEST, use_http2=True)
    lines = (json.loads(line) for piece in pieces for line in piece.splitlines() if line)
    query_id = next(lines)["queryId"]
    rows = list(itertools.islice(lines, 3))
    return rows, client.close_query(query_id) and next(lines, None) is None


def pulled(client: Any, query: str) -> Any:
    """The row, once the table has both orders."""
    while True:
        rows = list(client.query(query, return_objects=True))
        if rows and rows[0]["TOTAL"] == 5:
            return [list(row.values()) for row in rows]


def refused(client: Any) -> int:
    """The code of an error, as the client reports it."""
    try:
        client.ksql("SELEC 1")
    except KSQLError as error:
        code: int = error.error_code
        return code
    return 0


def main(url: str) -> dict[str, Any]:
    """The session."""
    client = KSQLAPI(url)
    client.ksql(
        "CREATE STREAM raw (id INT KEY, qty INT)"
        " WITH (kafka_topic='orders', value_format='json', partitions=1)"
    )
    client.create_stream("orders", ["id INT KEY", "qty INT"], "orders")
    client.ksql("DROP STREAM raw")
    created = client.ksql(
        "CREATE TABLE totals AS SELECT id, SUM(qty) AS total FROM orders GROUP BY id"
    )
    query_id = created[0]["commandStatus"]["queryId"]
    rows = [{"ID": 1, "QTY": 2}, {"ID": 1, "QTY": 3}, {"ID": 2, "QTY": 7}]
    acknowledged = client.inserts_stream("orders", rows)
    seen, ended = pushed(client, "SELECT id, qty FROM orders EMIT CHANGES")
    limited = client.query(
        "SELECT id, qty FROM orders EMIT CHANGES LIMIT 2",
        stream_properties=EARLIEST,
        return_objects=True,
    )
    return {
        "streams": [stream["name"] for stream in client.ksql("LIST STREAMS")[0]["streams"]],
        "acknowledged": [answer["status"] for answer in acknowledged],
        "pulled": pulled(client, "SELECT id, total FROM totals WHERE id = 1"),
        "pushed": seen,
        "ended": ended,
        "limited": [list(row.values()) for row in limited],
        "unknown": client.close_query("nothing"),
        "refused": refused(client),
        "properties": any(p["name"] == "auto.offset.reset" for p in client.get_properties()),
        "terminated": client.ksql(f"TERMINATE {query_id}")[0]["commandStatus"]["status"],
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
