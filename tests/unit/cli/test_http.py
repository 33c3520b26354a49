"""The shell's HTTP client against a server: connections, TLS, and responses that are ended."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millstream.model.clock import now_ms
from millstream.model.errors import MillstreamError, StatementError, UnavailableError
from millstream.model.settings import EngineSettings
from millstream.remote.http import JSON, LINES, Credentials, Wire
from millstream.service.engine import Engine
from millstream.service.execution import open_engine
from millstream_server.http.listening import Tls
from tests.certified import authority
from tests.patience import PATIENCE_S, until
from tests.served import served
from tests.shell.served import Served

ANYONE = Credentials()
STREAM = "CREATE STREAM s (id INT KEY) WITH (kafka_topic='s', value_format='JSON', partitions=1);"
PUSH = {"ksql": "SELECT * FROM s EMIT CHANGES;", "streamsProperties": {}}


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    engine.start()
    yield engine
    engine.close()


@pytest.fixture(params=["http", "https"])
def wire(request: pytest.FixtureRequest, engine: Engine, tmp_path: Path) -> Iterator[Wire]:
    """A connection to a real server; with TLS, the server chooses HTTP/2."""
    signing = authority("authority", tmp_path)
    pem = str(signing.signed("server", tmp_path))
    tls = Tls(pem, pem) if request.param == "https" else None
    with served(engine, tls=tls) as door:
        wire = Wire(door.url, ANYONE, {"ssl.ca.location": str(signing.file)})
        wire.post("/ksql", {"ksql": STREAM})
        yield wire
        wire.close()


def test_a_push_query_ends_while_a_thread_waits_for_rows(engine: Engine, wire: Wire) -> None:
    with wire.open("/query", PUSH, JSON) as reply:
        pieces = reply.pieces()
        assert '"header"' in next(pieces)
        ended = threading.Event()

        def read() -> None:
            assert list(pieces) == []
            ended.set()

        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        until(lambda: _waits_for_data(reading))
        assert len(engine.push_queries.streams) == 1
        reply.close()
        assert ended.wait(PATIENCE_S)
    until(lambda: not engine.push_queries.streams)
    assert wire.get("/info")["KsqlServerInfo"]["serverStatus"] == "RUNNING"


def test_requests_of_several_threads_do_not_wait_for_each_other(wire: Wire) -> None:
    with wire.open("/query", PUSH, JSON) as reply:
        next(reply.pieces())
        found: list[Any] = []
        asking = [
            threading.Thread(target=lambda: found.append(wire.get("/info")), daemon=True)
            for _ in range(8)
        ]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join(PATIENCE_S)
        assert len(found) == 8
        reply.close()


def test_a_server_must_have_a_certificate_that_is_trusted(engine: Engine, tmp_path: Path) -> None:
    signing, other = authority("one", tmp_path), authority("other", tmp_path)
    pem = str(signing.signed("server", tmp_path))
    with served(engine, tls=Tls(pem, pem)) as door:
        for tls in ({}, {"ssl.ca.location": str(other.file)}):
            with pytest.raises(UnavailableError, match="Cannot reach the server") as caught:
                Wire(door.url, ANYONE, tls).get("/info")
            assert "CERTIFICATE_VERIFY_FAILED" in caught.value.detail


def test_a_client_presents_its_certificate(engine: Engine, tmp_path: Path) -> None:
    signing = authority("authority", tmp_path)
    pem, mine = (str(signing.signed(name, tmp_path)) for name in ("server", "client"))
    trusted = {"ssl.ca.location": str(signing.file)}
    with served(engine, tls=Tls(pem, pem, authorities=str(signing.file))) as door:
        with pytest.raises(UnavailableError):
            Wire(door.url, ANYONE, trusted).get("/info")
        shown = {**trusted, "ssl.certificate.location": mine, "ssl.key.location": mine}
        assert Wire(door.url, ANYONE, shown).get("/info")


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://host:port", "http://[::1"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(StatementError, match="Not the URL of a server"):
        Wire(url, ANYONE)


def test_certificates_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(StatementError, match="Cannot read the certificates: /none"):
        Wire("https://localhost", ANYONE, {"ssl.ca.location": "/none"})


@pytest.fixture
def fake() -> Iterator[Served]:
    with Served(lambda _: (200, [])) as server:
        yield server


def test_a_proxy_of_the_environment_is_not_used(
    fake: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert Wire(fake.url, ANYONE).get("/info")


def test_connections_are_used_again(fake: Served) -> None:
    wire = Wire(fake.url, ANYONE)
    for _ in range(3):
        wire.get("/info")
        with pytest.raises(MillstreamError, match="Not a property"):
            wire.get("/is_valid_property/x")
    wire.close()
    assert len(fake.peers) == 1


def test_lines_end_at_line_feeds_alone(fake: Served) -> None:
    fake.lines = ("a\u2028b\x0cc\x85d\re", "", "f")
    with Wire(fake.url, ANYONE).open("/query-stream", {}, LINES) as reply:
        assert tuple(reply.lines()) == fake.lines


def test_a_response_that_breaks_off_is_an_error(fake: Served) -> None:
    fake.rows.put({"header": {}})
    with Wire(fake.url, ANYONE).open("/query", {}, JSON) as reply:
        pieces = reply.pieces()
        assert "header" in next(pieces)
        fake.rows.put(ConnectionResetError())
        with pytest.raises(UnavailableError, match="breaks off"):
            list(pieces)


def _waits_for_data(thread: threading.Thread) -> bool:
    """Whether a thread is in the system call of a socket's read method."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code.co_name == "read"
