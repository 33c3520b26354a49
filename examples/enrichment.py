"""Look up each delivery's city by HTTP, hundreds of requests at the same time: a processor that
waits, and a small web service that it asks.

python examples/enrichment.py
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

import millstream
from millstream import AsyncContext, AsyncProcessor, KeyValueStore, Record

SQL = """
SET 'auto.offset.reset' = 'earliest';
CREATE STREAM deliveries (id STRING KEY, postcode STRING)
  WITH (KAFKA_TOPIC='deliveries', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM located AS SELECT * FROM PROCESS(deliveries, 'Located');
CREATE TABLE per_city AS SELECT city, COUNT(*) AS deliveries FROM located GROUP BY city;
"""
CITIES = ("Bern", "Graz", "Lyon")
ADDRESS: list[str] = []
"""Where the service is, while it runs."""


class Located(AsyncProcessor):
    """Adds the city. What is known already is in a store, and not asked for again."""

    output = "id STRING KEY, city STRING"
    concurrency = 200

    async def init(self, context: AsyncContext) -> None:
        self._context = context
        self._known = context.store("known", KeyValueStore("STRING", "STRING"))
        # The time that a record waits for one of the connections counts, too.
        self._client = httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=50))

    async def process(self, record: Record) -> None:
        postcode = record.value["POSTCODE"]
        city = self._known.get(postcode)
        if city is None:
            found = await self._client.get(f"{ADDRESS[0]}/{postcode}")
            city = found.raise_for_status().json()["city"]
            self._known.put(postcode, city)
        self._context.forward(record.key, {"CITY": city})

    async def close(self) -> None:
        await self._client.aclose()


FUNCTIONS = [millstream.processor(Located)]


class Places(BaseHTTPRequestHandler):
    """Knows the city of a postcode, but takes its time."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        time.sleep(0.02)
        city = CITIES[int(self.path[1:]) % len(CITIES)]
        said = json.dumps({"city": city}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    """One whose clients connect all at once."""

    request_queue_size = 50


@contextmanager
def places() -> Iterator[None]:
    """The service, on a free port."""
    with Server(("127.0.0.1", 0), Places) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ADDRESS[:] = [f"http://127.0.0.1:{server.server_port}"]
        yield
        server.shutdown()


def run(database: millstream.Database) -> None:
    """Have three hundred deliveries located, and print how many go to each city."""
    with places():
        database.execute(SQL)
        database.insert("deliveries", [(f"d{n}", str(1000 + n % 90)) for n in range(300)])
        database.wait()
        found = database.execute("SELECT city, deliveries FROM per_city")
        assert isinstance(found, millstream.Rows)
        for city, count in sorted(found.fetchall()):
            print(f"{city}: {count}")


if __name__ == "__main__":
    with millstream.connect(functions=FUNCTIONS) as opened:
        run(opened)
