"""A server with everything on: TLS, passwords, tokens, certificates, rules, an audit log."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.service.engine import Engine
from millstream.service.execution import execute_script, open_engine
from millstream_server.auth.audit import Audit
from millstream_server.auth.passwords import hashed
from millstream_server.bootstrap.addresses import Address
from millstream_server.bootstrap.config import ServerConfig, load_config
from millstream_server.bootstrap.startup import server_settings, tls_of
from millstream_server.bootstrap.wiring import gate
from millstream_server.http.listening import bind
from millstream_server.postgres.connections import PostgresLimits
from tests.certified import Authority, authority
from tests.patience import PATIENCE_S
from tests.served import Served, served
from tests.server.keys import AUDIENCE, ISSUER, claims, jwks, signed
from tests.server.test_auth import CHEAP

PEOPLE = {"reader": "reader", "writer": "writer", "admin": "admin"}
RULES = """
allow role:reader READ topic:raw_orders
allow role:writer WRITE topic:raw_orders
"""
SETUP = """
CREATE STREAM orders (id INT KEY, item STRING)
  WITH (kafka_topic='raw_orders', value_format='JSON', partitions=1);
CREATE STREAM pay (id INT KEY, amount INT)
  WITH (kafka_topic='salaries', value_format='JSON', partitions=1);
CREATE STREAM paid AS SELECT id, amount FROM pay EMIT CHANGES;
INSERT INTO orders VALUES (1, 'tea'); INSERT INTO pay VALUES (1, 9);
"""


@dataclass(frozen=True)
class Guarded:
    """The server, and how each kind of caller speaks to it."""

    url: str
    engine: Engine
    lines: list[str]
    clients: dict[str, httpx.Client]
    trusted: ssl.SSLContext
    ours: Authority
    door: Served
    config: ServerConfig

    def headers(self, caller: str) -> dict[str, str]:
        """What a caller shows in headers."""
        return HEADERS[caller]()

    def audited(self, **fields: str) -> list[dict[str, Any]]:
        """The events of the audit log that have these fields."""
        found = [json.loads(line) for line in self.lines]
        return [entry for entry in found if fields.items() <= entry.items()]


def _basic(name: str, password: str) -> dict[str, str]:
    text = base64.b64encode(f"{name}:{password}".encode()).decode()
    return {"authorization": f"Basic {text}"}


def _bearer(**changed: Any) -> dict[str, str]:
    now = int(time.time())
    token = signed(claims(**{"nbf": now - 10, "exp": now + 600, **changed}))
    return {"authorization": f"Bearer {token}"}


HEADERS = {
    "none": dict,
    "wrong password": lambda: _basic("admin", "guess"),
    "unknown user": lambda: _basic("nobody", "nobody"),
    "another scheme": lambda: {"authorization": "Negotiate abc"},
    "expired token": lambda: _bearer(roles=["admin"], exp=int(time.time()) - 300),
    "token of another": lambda: _bearer(roles=["admin"], iss="https://evil.example"),
    "reader": lambda: _basic("reader", "reader"),
    "writer": lambda: _basic("writer", "writer"),
    "admin": lambda: _basic("admin", "admin"),
    "token": lambda: _bearer(roles=["reader"]),
    "certificate": dict,
}
UNKNOWN = tuple(HEADERS)[:6]
READERS = ("reader", "token", "certificate")


@contextmanager
def guarded(folder: Path, **flags: str) -> Iterator[Guarded]:
    """Serve with the given settings besides those of the module."""
    ours = authority("ours", folder)
    config = load_config(flags={**_flags(folder, ours), **flags})
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    engine.start()
    list(execute_script(engine, SETUP, Session()))
    engine.drain()
    lines: list[str] = []
    log = Audit(lines.append, time.time)
    placeholder = bind(Address("127.0.0.1", 0, True))
    settings = server_settings(config, placeholder)
    # Cached logins stay valid, and failed attempts stay delayed, however long the tests take.
    guard = gate(config, engine, log, monotonic=lambda: 0.0)
    placeholder.bound.close()
    with ExitStack() as stack:
        stack.callback(engine.close)
        door = stack.enter_context(
            served(
                engine,
                settings=settings,
                guard=guard,
                tls=tls_of(config),
                postgres=PostgresLimits(only_tls=True),
            )
        )
        trusted = ssl.create_default_context(cafile=str(ours.file))
        trusted.set_alpn_protocols(["h2", "http/1.1"])
        shown = ssl.create_default_context(cafile=str(ours.file))
        shown.load_cert_chain(ours.signed("carol", folder))
        clients = {
            caller: stack.enter_context(
                httpx.Client(
                    base_url=door.url,
                    http2=True,
                    timeout=PATIENCE_S,
                    headers=make(),
                    verify=shown if caller == "certificate" else trusted,
                )
            )
            for caller, make in HEADERS.items()
        }
        for name in PEOPLE:
            clients[name].get("/info")
        yield Guarded(door.url, engine, lines, clients, trusted, ours, door, config)


def _flags(folder: Path, ours: Authority) -> dict[str, str]:
    users = "".join(
        f"{name}: {hashed(name, CHEAP).text()}, {role}\n" for name, role in PEOPLE.items()
    )
    return {
        "authentication.method": "BASIC,BEARER,MTLS",
        "authentication.users.file": _file(folder / "users", users),
        "authentication.subjects.file": _file(folder / "subjects", "CN=carol: carol, reader\n"),
        "authentication.jwt.keys": _file(folder / "keys.json", json.dumps(jwks())),
        "authentication.jwt.issuer": ISSUER,
        "authentication.jwt.audience": AUDIENCE,
        "authorization.rules.file": _file(folder / "rules", RULES),
        "ssl.keystore.location": str(ours.signed("server", folder, "canary-of-the-key")),
        "ssl.key.password": "canary-of-the-key",
        "ssl.truststore.location": str(ours.file),
        "ssl.client.authentication": "REQUESTED",
        # By the clock that stands still, what is used up is never given back.
        "millstream.statement.max.rate": "1000000",
        "millstream.request.max.rate": "1000000",
    }


def _file(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)
