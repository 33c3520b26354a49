"""Queries over history over HTTP: framings, errors, clients that leave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx

from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.query.session import Bounds
from tests.patience import PATIENCE_S, until
from tests.server.conftest import RunningServer

PULL = "SELECT * FROM spending WHERE total > 0;"
RANGE = "SELECT customer, amount FROM orders BETWEEN OFFSETS 0 AND 0;"


def fill(shop: RunningServer) -> None:
    """Orders whose rows, 60 MB, are more than connections and the server hold."""
    batch = raw_batch([(b"ann" * 100, b'{"amount": 1.25}', n) for n in range(200_000)])
    shop.engine.writer.append([Appended("orders", 0, batch, batch.num_rows)])


@contextmanager
def reading(shop: RunningServer) -> Iterator[httpx.Response]:
    """The answer to a client that has read the first of many orders, and hangs up in the end."""
    fill(shop)
    with (
        shop.client() as client,
        client.stream("POST", "/query-stream", json={"sql": "SELECT * FROM orders;"}) as reply,
    ):
        # Unreferenced line iterators close the connection: then the query ends, sooner or later.
        lines = reply.iter_lines()
        assert "columnNames" in next(lines) and next(lines)
        yield reply


def test_rows_in_each_framing(shop: RunningServer) -> None:
    header, *rows = shop.query(RANGE).splitlines()
    assert json.loads(header)["columnNames"] == ["CUSTOMER", "AMOUNT"]
    assert rows
    answer = shop.http.post("/query", json={"ksql": RANGE})
    found = [item["row"]["columns"] for item in answer.json() if "row" in item]
    assert found == [json.loads(row) for row in rows]


def test_an_aggregate_over_a_stream(shop: RunningServer) -> None:
    lines = shop.query("SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer;").splitlines()
    assert json.loads(lines[0])["columnTypes"] == ["STRING", "BIGINT"]
    assert len(lines) > 1


def test_the_backend_is_a_property_of_the_request(shop: RunningServer) -> None:
    body = {"sql": RANGE, "properties": {"millstream.history.backend": "duckdb"}}
    assert shop.http.post("/query-stream", json=body).status_code == 200
    body["properties"] = {"millstream.history.backend": "quantum"}
    assert shop.http.post("/query-stream", json=body).status_code == 400


def test_a_range_that_cannot_be_is_a_bad_request(shop: RunningServer) -> None:
    late = "SELECT * FROM orders AS OF TIMESTAMP '2999';"
    answer = shop.http.post("/query-stream", json={"sql": late})
    assert answer.status_code == 400
    assert "beyond now" in answer.json()["message"]


def test_a_client_that_leaves_ends_its_query(shop: RunningServer) -> None:
    with reading(shop):
        (watch,) = shop.engine.historical.queries
    assert watch.cancelled.wait(PATIENCE_S)


def test_how_far_a_query_is(shop: RunningServer) -> None:
    with reading(shop) as reply:
        where = f"/history/{reply.headers['millstream-query']}"
        (stage,) = shop.http.get(where).json()["stages"]
        assert 0 < stage["done"] <= stage["total"] == 200_003
    until(lambda: shop.http.get(where).status_code == 404)
    assert "millstream-query" not in shop.http.post("/query", json={"ksql": PULL}).headers


def test_a_query_counts_among_the_pull_queries_until_its_rows_are_read(shop: RunningServer) -> None:
    shop.server.settings = replace(shop.server.settings, pull_queries_max=1)
    assert len(shop.query(RANGE).splitlines()) == len(shop.query(RANGE).splitlines())
    with reading(shop):
        assert shop.http.post("/query-stream", json={"sql": RANGE}).status_code == 429


def test_an_answer_ends_with_an_error_where_it_gets_too_large(shop: RunningServer) -> None:
    shop.server.settings = replace(shop.server.settings, bounds=Bounds(rows=2))
    *_, last = shop.query("SELECT * FROM orders;").splitlines()
    assert "more than 2 rows" in json.loads(last)["message"]
    shop.server.settings = replace(shop.server.settings, bounds=Bounds(rows=3))
    assert len(shop.query("SELECT * FROM orders;").splitlines()) == 4


def test_a_range_of_a_table_is_no_lookup_by_key(shop: RunningServer) -> None:
    asked = "SELECT * FROM spending{} WHERE customer = 'ann';"
    assert len(shop.query(asked.format("")).splitlines()) == 2
    assert len(shop.query(asked.format(" BETWEEN OFFSETS 90 AND 99")).splitlines()) == 1
