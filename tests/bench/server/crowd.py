"""Many slow push clients and many pull clients at once: what the server's memory does, and what
the persistent queries lose.

Visits come at a steady rate; a persistent query writes them to a stream that all push clients query
(scalable push). Each of these reads some bytes a second, far too slowly, and repeats its query when
it was ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import select
import socket
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench.server.pulls import wrk
from tests.bench.server.world import PATIENCE_S, Serving, append, load, started

GROWTH_MB_MAX = 200.0
RATE_MIN = 0.90
STREAM = "CREATE STREAM seen AS SELECT id, amount FROM visits EMIT CHANGES;"
SCALABLE = {"ksql.query.push.v2.enabled": "true", "auto.offset.reset": "latest"}
ASKED = json.dumps({"sql": "SELECT * FROM seen EMIT CHANGES;", "properties": SCALABLE}).encode()
SLOW_BYTES = 256
"""What a slow client reads in a second."""
FEED_S = 0.1
PULL_CLIENTS = 50
PULL_PAUSE_MS = 100


@dataclass(frozen=True, slots=True)
class Crowd:
    """The measurements."""

    clients: int
    ended: int
    alone_per_s: float
    beside_per_s: float
    pulls_per_s: float
    before_mb: float
    most_mb: float

    def __str__(self) -> str:
        return (
            f"{self.clients} slow push clients ({self.ended} were ended) and pull clients"
            f" ({self.pulls_per_s:,.0f} queries/s): the persistent queries took"
            f" {self.alone_per_s:,.0f} records/s alone, {self.beside_per_s:,.0f} beside"
            f" ({self.beside_per_s / self.alone_per_s:.0%}); memory {self.before_mb:.0f} MB,"
            f" at most {self.most_mb:.0f} MB"
        )

    @property
    def good(self) -> bool:
        """Whether the goals are met."""
        kept = self.beside_per_s >= RATE_MIN * self.alone_per_s
        return kept and self.most_mb - self.before_mb <= GROWTH_MB_MAX


def crowd(server: Serving, keys: int, *, clients: int, seconds: int) -> Crowd:
    """Measure the persistent queries alone, then beside all the clients."""
    alone = _rate(server, seconds)
    before = server.rss_mb()
    ended, stop, sizes = [0], threading.Event(), [before]
    threads = [
        threading.Thread(target=_slow_clients, args=(server, clients, stop, ended)),
        threading.Thread(target=_watch, args=(server, stop, sizes)),
    ]
    for thread in threads:
        thread.start()
    pulled: list[int] = []
    pulling = threading.Thread(
        target=lambda: pulled.extend(wrk(server, keys, seconds, PULL_CLIENTS, PULL_PAUSE_MS))
    )
    pulling.start()
    try:
        beside = _rate(server, seconds)
    finally:
        stop.set()
        for thread in (*threads, pulling):
            thread.join()
    return Crowd(clients, ended[0], alone, beside, pulled[0] / seconds, before, max(sizes))


def _rate(server: Serving, seconds: int) -> float:
    first, begin = server.taken(), time.monotonic()
    time.sleep(seconds)
    return (server.taken() - first) / (time.monotonic() - begin)


def _watch(server: Serving, stop: threading.Event, sizes: list[float]) -> None:
    while not stop.wait(0.5):
        sizes.append(server.rss_mb())


def _slow_clients(server: Serving, count: int, stop: threading.Event, ended: list[int]) -> None:
    sockets = [_slow_client(server) for _ in range(count)]
    while not stop.wait(1):
        for place, client in enumerate(sockets):
            if select.select([client], [], [], 0)[0] and not client.recv(SLOW_BYTES):
                ended[0] += 1
                client.close()
                sockets[place] = _slow_client(server)
    for client in sockets:
        client.close()


def _slow_client(server: Serving) -> socket.socket:
    host, _, port = server.host.partition(":")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(PATIENCE_S)
    client.connect((host, int(port)))
    head = f"POST /query-stream HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n"
    client.sendall(f"{head}content-length: {len(ASKED)}\r\n\r\n".encode() + ASKED)
    return client


def serve_fed(folder: Path, keys: int, per_s: int) -> None:
    """A server over the folder, whose visits come from within the process; until it is ended."""
    import numpy as np

    from millstream_server.bootstrap.addresses import Address
    from millstream_server.bootstrap.config import load_config
    from millstream_server.bootstrap.startup import (
        collecting_rarely,
        open_database,
        server_settings,
    )
    from millstream_server.http.listening import bind, serve
    from millstream_server.routes import application
    from millstream_server.server import Server

    flags = {
        "ksql.streams.state.dir": str(folder),
        "ksql.max.push.queries": "1000",
        "auto.offset.reset": "latest",
    }
    config, listener = load_config(flags=flags), bind(Address("127.0.0.1", 0, tls=False))
    with collecting_rarely(), open_database(config) as database:
        if "SEEN" not in database.engine.catalog.sources:
            database.execute(STREAM)

        def feed() -> None:
            chance, due = np.random.default_rng(1), time.monotonic()
            while True:
                append(database, chance.integers(0, keys, int(per_s * FEED_S)))
                due += FEED_S
                time.sleep(max(0.0, due - time.monotonic()))

        threading.Thread(target=feed, daemon=True).start()
        server = Server(database.engine, server_settings(config, listener))
        print(listener.url, file=sys.stderr, flush=True)
        asyncio.run(serve(application(server), [listener], asyncio.Event().wait))


def main(arguments: list[str]) -> int:
    """Measure, and report; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="tests.bench.server.crowd", description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--per-second", type=int, default=10_000, help="visits that come")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve is not None:
        serve_fed(options.serve, options.keys, options.per_second)
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        load(folder, options.keys)
        words = ["--serve", name, "--keys", options.keys, "--per-second", options.per_second]
        command = [sys.executable, "-m", "tests.bench.server.crowd", *map(str, words)]
        with started(command, folder / "server.log") as server:
            _rate(server, 3)
            found = crowd(server, options.keys, clients=options.clients, seconds=options.seconds)
    print(found)
    print(f"{'met' if found.good else 'MISSED'}: {RATE_MIN:.0%} of the rate, 200 MB at most")
    return 0 if found.good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
