"""The callers of the requests, and their server."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.service.engine import Engine
from millstream.service.execution import execute_script, open_engine
from millstream_server.auth.audit import Audit
from millstream_server.auth.endpoint_needs import NEEDS
from millstream_server.auth.passwords import hashed
from millstream_server.bootstrap.config import ServerConfig, load_config
from millstream_server.bootstrap.wiring import gate
from tests.served import served

SETUP = (
    "CREATE STREAM orders (customer STRING KEY, amount DECIMAL(6, 2))"
    " WITH (kafka_topic='orders', value_format='JSON', partitions=1);"
    "CREATE TABLE spending AS SELECT customer, SUM(amount) AS total FROM orders"
    " GROUP BY customer;"
    "INSERT INTO orders VALUES ('ann', 1.50); INSERT INTO orders VALUES ('bob', 20.00);"
)
CHEAP = (14, 8, 1)
"""The least cost of a password's hash."""
READING = {"/query", "/query-stream", "/inserts-stream"}
"""What needs nothing for itself, and rights for any statement that is not refused anyway."""


@dataclass(frozen=True, slots=True)
class Caller:
    """`user` has the role of this name and the name for a password; None shows nothing. A 2xx is
    for the paths of `open_to` alone, None for all; `changes`: they may change something."""

    name: str
    guarded: bool = True
    user: str | None = None
    open_to: frozenset[str] | None = None
    changes: bool = False

    @property
    def authorization(self) -> str:
        """The authentication header, or ""."""
        if self.user is None:
            return ""
        return "Basic " + base64.b64encode(f"{self.user}:{self.user}".encode()).decode()


CALLERS = (
    Caller("anybody, of a server without users", guarded=False, changes=True),
    Caller("an admin", user="admin", changes=True),
    Caller(
        "a user without rights",
        user="stranger",
        open_to=frozenset(path for path, needs in NEEDS.items() if not needs) - READING,
    ),
    Caller("somebody unknown", open_to=frozenset()),
)


@dataclass(frozen=True, slots=True)
class Shop:
    """A server with some rows."""

    url: str
    engine: Engine

    def seen(self) -> object:
        """The objects that must stay unchanged for callers without rights."""
        catalog = self.engine.catalog
        end = self.engine.log.end_offset("orders", 0)
        return sorted(catalog.sources), sorted(catalog.queries), sorted(catalog.types), end


@contextmanager
def shop(*, guarded: bool) -> Iterator[Shop]:
    """Serve some rows, with users if `guarded`."""
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    try:
        engine.start()
        list(execute_script(engine, SETUP, Session({"auto.offset.reset": "earliest"})))
        engine.drain()
        with TemporaryDirectory() as folder:
            config = _with_users(Path(folder)) if guarded else load_config()
            guard = gate(config, engine, Audit(lambda line: None, time.time))
        with served(engine, {"auto.offset.reset": "earliest"}, guard=guard) as door:
            yield Shop(door.url, engine)
    finally:
        engine.close()


def _with_users(folder: Path) -> ServerConfig:
    users = folder / "users"
    lines = (f"{name}: {hashed(name, CHEAP).text()}, {name}\n" for name in ("admin", "stranger"))
    users.write_text("".join(lines))
    users.chmod(0o600)
    flags = {"authentication.method": "BASIC", "authentication.users.file": str(users)}
    return load_config(flags={**flags, "millstream.statement.max.rate": "10000"})
