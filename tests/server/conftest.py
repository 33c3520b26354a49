"""A server over an engine in memory, and clients of it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.service.engine import Engine
from millstream.service.execution import open_engine
from tests.patience import PATIENCE_S
from tests.served import NO_AUTHORITIES, SOCKET_BYTES, Served, served

BUFFER_BYTES = 64 << 10
MADE = (
    "CREATE STREAM s (id INT KEY, v STRING)"
    " WITH (kafka_topic='s', value_format='JSON', partitions=2);"
)


class RunningServer:
    """A server, and what tests do with it."""

    def __init__(self, engine: Engine, door: Served, stack: ExitStack) -> None:
        self.engine = engine
        self.server = door.server
        self.url = door.url
        self.http = stack.enter_context(self.client())
        self.http2 = stack.enter_context(self.client(http2=True))

    def client(self, *, http2: bool = False) -> httpx.Client:
        """A client of the server; its connections hold as much as those of the server."""
        bound = (socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
        transport = httpx.HTTPTransport(
            verify=NO_AUTHORITIES, http1=not http2, http2=http2, socket_options=[bound]
        )
        return httpx.Client(base_url=self.url, timeout=PATIENCE_S, transport=transport)

    def ksql(self, text: str, **more: Any) -> Any:
        """The entities of statements."""
        answer = self.http.post("/ksql", json={"ksql": text, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, text: str, **more: Any) -> Any:
        """The error that statements are answered with; its status is that of its code."""
        answer = self.http.post("/ksql", json={"ksql": text, **more})
        error = answer.json()
        assert answer.status_code == error["error_code"] // 100, answer.text
        return error

    def query(self, sql: str, accept: str | None = None, path: str = "/query-stream") -> str:
        """The whole answer to a query."""
        headers = {} if accept is None else {"accept": accept}
        answer = self.http.post(path, json={"sql": sql}, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.text

    def feed(self, topic: str, values: list[bytes | None]) -> None:
        """Append records without a key."""
        rows = raw_batch([(None, value, 1) for value in values])
        size = sum(len(value or b"") for value in values)
        self.engine.log.writer("feeder").append([Appended(topic, 0, rows, len(values), size)])

    def watched(self) -> threading.Event:
        """Set when the only push query that runs has ended."""
        (stream,) = self.engine.push_queries.streams.values()
        ended = threading.Event()
        close = stream.on_close

        def closing() -> None:
            close()
            ended.set()

        stream.on_close = closing
        return ended


@pytest.fixture
def door() -> Iterator[RunningServer]:
    settings = EngineSettings(threads=1, push_buffer_bytes=BUFFER_BYTES)
    engine = open_engine(":memory:", settings, now_ms)
    engine.start()
    with served(engine, {"auto.offset.reset": "earliest"}) as found, ExitStack() as stack:
        yield RunningServer(engine, found, stack)
    engine.close()


@pytest.fixture
def shop(door: RunningServer) -> RunningServer:
    """Three orders of two customers, and what each has spent."""
    door.ksql(
        "CREATE STREAM orders (customer STRING KEY, amount DECIMAL(6, 2))"
        " WITH (kafka_topic='orders', value_format='JSON', partitions=1);"
        "CREATE TABLE spending AS SELECT customer, SUM(amount) AS total FROM orders"
        " GROUP BY customer;"
        "INSERT INTO orders VALUES ('ann', 1.50); INSERT INTO orders VALUES ('bob', 20.00);"
        "INSERT INTO orders VALUES ('ann', 2.25);"
    )
    door.engine.drain()
    return door
