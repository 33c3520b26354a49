"""A back-fill over HTTP: its figures while it runs, and a client that leaves."""

from __future__ import annotations

import json
import socket
import threading
from urllib.parse import urlsplit

import pytest

from millstream import udf
from millstream.history.watch import Watch
from tests.patience import PATIENCE_S
from tests.server.conftest import RunningServer

FILLED = (
    "CREATE TABLE o WITH (BACKFILL = 'duckdb') AS SELECT customer, COUNT(*) AS n FROM orders"
    " WHERE WAITING(customer) = customer GROUP BY customer;"
)


class Waiting:
    """A user function that blocks until it is released."""

    def __init__(self, door: RunningServer) -> None:
        self.door = door
        self.begun = threading.Event()
        self.may = threading.Event()

    def __call__(self, value: str) -> str:
        self.begun.set()
        self.may.wait(PATIENCE_S)
        return value

    def watch(self) -> Watch:
        """Of the job that waits."""
        assert self.begun.wait(PATIENCE_S)
        (watch,) = self.door.engine.historical.backfills
        return watch


@pytest.fixture
def waiting(shop: RunningServer) -> Waiting:
    made = Waiting(shop)
    shop.engine.register([udf("WAITING", "STRING -> STRING", made)])
    return made


def sent(door: RunningServer) -> socket.socket:
    """The statement, on a connection of its own."""
    body = json.dumps({"ksql": FILLED}).encode()
    parts = urlsplit(door.url)
    made = socket.create_connection((parts.hostname or "", parts.port or 0))
    head = f"POST /ksql HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
    made.sendall(head.encode() + body)
    return made


def test_progress_is_reported(shop: RunningServer, waiting: Waiting) -> None:
    connection = sent(shop)
    waiting.watch()
    figures = shop.http.get("/metrics").text
    assert 'millstream_backfill_done{sink="O",stage="read"} 3' in figures
    assert 'millstream_backfill_size{sink="O",stage="read"} 3' in figures
    waiting.may.set()
    connection.settimeout(PATIENCE_S)
    assert connection.recv(100).startswith(b"HTTP/1.1 200")
    connection.close()
    assert "millstream_backfill_done{" not in shop.http.get("/metrics").text


def test_a_client_that_leaves_ends_it(shop: RunningServer, waiting: Waiting) -> None:
    before = shop.engine.log.topics(), shop.engine.catalog
    connection = sent(shop)
    watch = waiting.watch()
    connection.close()
    assert watch.cancelled.wait(PATIENCE_S)
    waiting.may.set()
    shop.ksql("CREATE TYPE money AS INT; DROP TYPE money;")
    assert (shop.engine.log.topics(), shop.engine.catalog) == before
