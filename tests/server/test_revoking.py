"""An ongoing operation ends when SIGHUP revokes its permission."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import Queue
from urllib.parse import urlencode

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.scripts.text import parse_text
from millstream.service.engine import Engine
from millstream.service.execution import execute_script, open_engine
from millstream_server.auth.audit import Audit
from millstream_server.auth.guard import NoAuthentication
from millstream_server.auth.passwords import hashed
from millstream_server.auth.principal import Principal
from millstream_server.bootstrap.config import load_config
from millstream_server.bootstrap.reloading import Reloading
from millstream_server.bootstrap.wiring import gate
from millstream_server.failures import FORBIDDEN_ON_KAFKA, RefusedError, RevokedError
from millstream_server.ongoing import OngoingWork
from millstream_server.results.framing import DELIMITED, KSQL
from tests.patience import PATIENCE_S, until
from tests.served import NO_AUTHORITIES, Served, served
from tests.server.guarded import HEADERS
from tests.server.test_auth import CHEAP

MADE = "CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', format='JSON', partitions=1);"
INSERTED = "INSERT INTO s VALUES (1, 'a');"
QUERY = "SELECT * FROM s EMIT CHANGES;"
RULES = "allow role:reader READ topic:s\nallow role:writer WRITE topic:s\n"
PEOPLE = {"reader": "reader", "writer": "writer", "admin": "admin"}


class Guarded:
    """A server with users and rules that can be changed."""

    def __init__(self, folder: Path) -> None:
        self.users, self.rules = folder / "users", folder / "rules"
        self.people(PEOPLE)
        self.write(self.rules, RULES)
        self.lines: list[str] = []
        flags = {
            "authentication.method": "BASIC",
            "authentication.users.file": str(self.users),
            "authorization.rules.file": str(self.rules),
        }
        self.config = load_config(flags=flags)

    def write(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o600)

    def people(self, passwords: dict[str, str]) -> None:
        """Have these users, each with a role of their name."""
        text = "".join(f"{n}: {hashed(p, CHEAP).text()}, {n}\n" for n, p in passwords.items())
        self.write(self.users, text)

    @contextmanager
    def serving(self) -> Iterator[None]:
        engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
        try:
            engine.start()
            list(execute_script(engine, MADE, Session()))
            self.engine: Engine = engine
            log = Audit(self.lines.append, time.time)
            guard = gate(self.config, engine, log, monotonic=lambda: 0.0)
            with served(engine, guard=guard) as door:
                self.door: Served = door
                recheck = partial(door.server.ongoing.recheck, guard)
                self.reloading = Reloading(self.config, guard, log, recheck=recheck)
                yield
        finally:
            engine.close()

    def insert(self) -> None:
        list(execute_script(self.engine, INSERTED, Session()))


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    found = Guarded(tmp_path)
    with found.serving():
        yield found


Lines = Queue[str | None]


def streamed(guarded: Guarded, sql: str, kind: str, caller: str, found: Lines) -> None:
    """The lines of a push query, then None."""
    headers = {"accept": kind, **HEADERS[caller]()}
    with (
        httpx.Client(
            base_url=guarded.door.url, verify=NO_AUTHORITIES, timeout=PATIENCE_S
        ) as client,
        client.stream("POST", "/query-stream", json={"sql": sql}, headers=headers) as answer,
    ):
        for line in filter(None, answer.iter_lines()):
            found.put(line)
    found.put(None)


def over_websocket(guarded: Guarded, sql: str, caller: str, found: Lines) -> None:
    """The frames of a push query, then None."""
    query = urlencode({"request": json.dumps({"sql": sql})})
    url = f"ws{guarded.door.url[4:]}/ws/query?{query}"
    with connect(url, open_timeout=PATIENCE_S, additional_headers=HEADERS[caller]()) as client:
        try:
            while True:
                found.put(str(client.recv(PATIENCE_S)))
        except ConnectionClosed as closed:
            assert closed.rcvd is not None and closed.rcvd.code == 1011
    found.put(None)


ASKED: dict[str, Callable[[Guarded, Lines], None]] = {
    "lines": lambda g, q: streamed(g, QUERY, DELIMITED, "reader", q),
    "an array": lambda g, q: streamed(g, QUERY, KSQL, "reader", q),
    "a websocket": lambda g, q: over_websocket(g, QUERY, "reader", q),
    "PRINT": lambda g, q: streamed(g, "PRINT s;", DELIMITED, "reader", q),
}
CHANGES: dict[str, Callable[[Guarded], None]] = {
    "the user is no more": lambda g: g.people({"writer": "writer", "admin": "admin"}),
    "another password": lambda g: g.people({**PEOPLE, "reader": "another"}),
    "a rule less": lambda g: g.write(g.rules, "allow role:writer WRITE topic:s\n"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_a_push_query_ends_with_an_error(
    guarded: Guarded, asked: Callable[[Guarded, Lines], None], change: Callable[[Guarded], None]
) -> None:
    revoked: Lines = Queue()
    others: Lines = Queue()
    asking = [
        threading.Thread(target=asked, args=(guarded, revoked), daemon=True),
        threading.Thread(
            target=streamed, args=(guarded, QUERY, DELIMITED, "admin", others), daemon=True
        ),
    ]
    for thread in asking:
        thread.start()
    until(lambda: len(guarded.engine.push_queries.streams) == 2)
    others.get(timeout=PATIENCE_S)
    # Nothing has changed: nothing ends.
    assert guarded.reloading.reload() == ()
    guarded.insert()
    assert '"a"' in str(others.get(timeout=PATIENCE_S))
    change(guarded)
    assert guarded.reloading.reload() == ()
    until(lambda: len(guarded.engine.push_queries.streams) == 1)
    guarded.insert()
    lines = []
    while (line := revoked.get(timeout=PATIENCE_S)) is not None:
        lines.append(line)
    # The one row of before, then why there are no more.
    assert sum('"a"' in line for line in lines) == 1
    assert "uthenticat" in lines[-1] or "uthoriz" in lines[-1] or "allowed" in lines[-1], lines[-1]
    assert any('"refused"' in line for line in guarded.lines)
    # Those of others continue.
    assert '"a"' in str(others.get(timeout=PATIENCE_S))
    for stream in list(guarded.engine.push_queries.streams.values()):
        stream.close()
    for thread in asking:
        thread.join(PATIENCE_S)
    until(lambda: not guarded.door.server.ongoing.count)


def test_rows_are_not_inserted_any_more(guarded: Guarded) -> None:
    sent: Queue[bytes | None] = Queue()

    def body() -> Iterator[bytes]:
        yield b'{"target": "s"}\n{"ID": 1, "V": "a"}\n'
        while (line := sent.get(timeout=PATIENCE_S)) is not None:
            yield line

    def end() -> int:
        return guarded.engine.log.end_offset("s", 0)

    found: list[str] = []

    def insert() -> None:
        transport = httpx.HTTPTransport(verify=NO_AUTHORITIES, http1=False, http2=True)
        with (
            httpx.Client(
                base_url=guarded.door.url, timeout=PATIENCE_S, transport=transport
            ) as client,
            client.stream(
                "POST", "/inserts-stream", content=body(), headers=HEADERS["writer"]()
            ) as answer,
        ):
            found.extend(filter(None, answer.iter_lines()))

    inserting = threading.Thread(target=insert, daemon=True)
    inserting.start()
    until(lambda: end() == 1)
    guarded.write(guarded.rules, "allow role:reader READ topic:s\n")
    assert guarded.reloading.reload() == ()
    sent.put(b'{"ID": 2, "V": "b"}\n')
    sent.put(None)
    inserting.join(PATIENCE_S)
    assert end() == 1
    first, second = map(json.loads, found)
    assert first == {"status": "ok", "seq": 0}
    assert (second["status"], second["seq"]) == ("error", 1)
    assert second["error_code"] // 100 == 403
    until(lambda: not guarded.door.server.ongoing.count)


class Refusing(NoAuthentication):
    """Allows nothing."""

    def authorise(self, principal: object, statement: object, session: object) -> None:
        raise RefusedError(FORBIDDEN_ON_KAFKA, "not any more")


def test_what_is_revoked_while_it_begins_ends_too() -> None:
    """The rules may be read again after a query was allowed and before there is one to end."""
    work = OngoingWork()
    (piece,) = parse_text(QUERY)
    begun = work.begin(Principal("ann"), piece, Session())
    work.recheck(Refusing())
    ended: list[RevokedError] = []
    begun.ends_by(ended.append)
    assert [error.refused.code for error in ended] == [FORBIDDEN_ON_KAFKA]
    with pytest.raises(RevokedError, match="not any more"):
        begun.check()
    work.recheck(Refusing())
    assert len(ended) == 1
    work.end(begun)
    assert work.count == 0


def test_what_is_still_allowed_goes_on() -> None:
    work = OngoingWork()
    (piece,) = parse_text(QUERY)
    begun = work.begin(Principal("ann"), piece, Session())
    ended: list[RevokedError] = []
    begun.ends_by(ended.append)
    work.recheck(NoAuthentication())
    begun.check()
    assert not ended
