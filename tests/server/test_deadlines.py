"""Connections that send nothing, or too little, or read nothing, and the capacity for others."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.events
import h2.settings
import hpack
import httpx
import pytest

from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.service.engine import Engine
from millstream.service.execution import open_engine
from millstream_server.http.admission import Admission, ConnectionLimits
from millstream_server.http.listening import Tls
from millstream_server.http.progress import BYTES_TAKEN_MIN, Progress
from millstream_server.http.transport import Transport
from millstream_server.server import ServerSettings
from tests.certified import authority
from tests.patience import PATIENCE_S
from tests.served import NO_AUTHORITIES, Served, served

HURRIED = Transport(headers_seconds=0.4, stall_seconds=0.4)
GET = b"GET /info HTTP/1.1\r\nhost: localhost\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
UPGRADE = b"connection: upgrade\r\nupgrade: "
PART_OF_HEADERS = b"\x00\x00\x01\x01\x00\x00\x00\x00\x01\x82"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    engine.start()
    yield engine
    engine.close()


@contextmanager
def serving(
    engine: Engine, transport: Transport = HURRIED, tls: Tls | None = None
) -> Iterator[Served]:
    settings = ServerSettings(body_seconds=0.4)
    with served(engine, settings=settings, tls=tls, transport=transport) as found:
        yield found


@pytest.fixture(scope="module")
def hurried(engine: Engine) -> Iterator[Served]:
    with serving(engine) as found:
        yield found


def connected(door: Served) -> socket.socket:
    host = urlsplit(door.url)
    client = socket.create_connection((host.hostname, host.port))
    client.settimeout(PATIENCE_S)
    return client


def rest(client: socket.socket) -> bytes:
    """The bytes until the server closes the connection."""
    found = b""
    try:
        while piece := client.recv(65_536):
            found += piece
    except ConnectionError:
        pass
    return found


SILENT = {
    "nothing": b"",
    "a part of a head": GET,
    "a part of the preface": PREFACE[:10],
    "a preface alone": PREFACE,
    "a preface and settings": PREFACE + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "a preface and a part of headers": PREFACE + b"\x00\x00\x00\x04" + b"\0" * 5 + PART_OF_HEADERS,
    "a part of a head after an answer": GET + b"\r\n" + GET,
    "a part of a head after an answer without protocol": GET + UPGRADE + b"x\r\n\r\n" + GET,
    "a preface after a change of protocol": GET + UPGRADE + b"h2c\r\nhttp2-settings: \r\n\r\n",
    "a part of a websocket's head": GET.replace(b"/info", b"/ws/query") + UPGRADE + b"websocket",
    "no body, which nobody reads": GET + b"content-length: 9\r\n\r\n",
    "a part of a body, which nobody reads": GET + b"content-length: 9\r\n\r\n{",
}


@pytest.mark.parametrize("sent", SILENT.values(), ids=SILENT)
def test_a_client_with_an_incomplete_head_is_disconnected(hurried: Served, sent: bytes) -> None:
    with connected(hurried) as client:
        client.sendall(sent)
        rest(client)


@pytest.mark.parametrize("path", [b"/ksql", b"/query", b"/query-stream", b"/close-query"])
@pytest.mark.parametrize(
    "body", [b"content-length: 9\r\n\r\n{", b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n"]
)
def test_a_client_with_an_incomplete_body_is_disconnected(
    hurried: Served, path: bytes, body: bytes
) -> None:
    with connected(hurried) as client:
        client.sendall(b"POST " + path + b" HTTP/1.1\r\nhost: localhost\r\n" + body)
        assert rest(client).startswith(b"HTTP/1.1 408 ")


class Http2:
    """A client that the test controls."""

    def __init__(self, door: Served, window: int = 65_535) -> None:
        self.socket = connected(door)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        code = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE
        self.h2.local_settings.update({code: window})
        self.h2.local_settings.acknowledge()
        self.h2.initiate_connection()

    def ask(self, stream: int, path: str, body: bytes | None = None, method: str = "POST") -> None:
        """Begin a request, whose body does not end."""
        names = (":method", method), (":scheme", "http"), (":authority", "localhost")
        self.h2.send_headers(stream, [*names, (":path", path)])
        if body is not None:
            self.h2.send_data(stream, body)
        self.send()

    def send(self) -> None:
        """Send the pending bytes."""
        self.socket.sendall(self.h2.data_to_send())

    def events(self) -> Iterator[h2.events.Event]:
        """The received bytes, to the end of the connection."""
        while True:
            try:
                data = self.socket.recv(65_536)
            except ConnectionError:
                return
            if not data:
                return
            yield from self.h2.receive_data(data)
            self.send()


@pytest.mark.parametrize("path", ["/ksql", "/query-stream", "/inserts-stream"])
@pytest.mark.parametrize("body", [None, b'{"a"'])
def test_bodies_that_do_not_end_are_answered_over_http2(
    hurried: Served, path: str, body: bytes | None
) -> None:
    client = Http2(hurried)
    client.ask(1, path, body)
    found = next(e for e in client.events() if isinstance(e, h2.events.ResponseReceived))
    assert dict(found.headers)[":status"] == "408"
    client.socket.close()


def test_a_handshake_that_does_not_end_is_cut_off(engine: Engine, tmp_path: Path) -> None:
    ours = authority("ours", tmp_path)
    file = str(ours.signed("server", tmp_path, "canary"))
    with serving(engine, tls=Tls(file, file, "canary")) as door:
        for sent in (b"", b"\x16\x03\x01"):
            with connected(door) as client:
                client.sendall(sent)
                rest(client)
        trusted = ssl.create_default_context(cafile=str(ours.file))
        with connected(door) as client:
            secured = trusted.wrap_socket(client, server_hostname="127.0.0.1")
            secured.sendall(GET)
            assert rest(secured) == b""
        for http2 in (True, False):
            with httpx.Client(verify=trusted, http2=http2, timeout=PATIENCE_S) as client_:
                assert client_.get(f"{door.url}/info").status_code == 200


def test_connections_that_ask_again_and_again_stay(hurried: Served) -> None:
    """Each request is a new beginning, and an answer may take as long as it takes."""
    with httpx.Client(base_url=hurried.url, verify=NO_AUTHORITIES, timeout=PATIENCE_S) as client:
        client.post("/ksql", json={"ksql": MADE})
        sql = {"sql": "SELECT * FROM s EMIT CHANGES;"}
        with client.stream("POST", "/query-stream", json=sql) as answer:
            lines = answer.iter_lines()
            next(lines)
            with connected(hurried) as silent:
                rest(silent)
            client.post("/ksql", json={"ksql": "INSERT INTO s VALUES (1, 'a');"})
            assert next(filter(None, lines)) == '[1,"a"]'


MADE = "CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', format='JSON', partitions=1);"


HALF = b"POST /ksql HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n"
HEAD_ALONE = hpack.Encoder().encode(
    [(":method", "POST"), (":scheme", "http"), (":authority", "localhost"), (":path", "/ksql")]
)
HALF_HTTP2 = len(HEAD_ALONE).to_bytes(3, "big") + b"\x01\x04\x00\x00\x00\x01" + HEAD_ALONE


@pytest.mark.parametrize(
    "silent",
    [
        *(b"", GET, PREFACE, GET + b"\r\n", HALF + b"\r\n", HALF + UPGRADE + b"x\r\n\r\n"),
        PREFACE + b"\x00\x00\x00\x04" + b"\0" * 5 + HALF_HTTP2,
    ],
)
def test_silent_sockets_do_not_block_others(engine: Engine, silent: bytes) -> None:
    slow = Transport(ConnectionLimits(total=20, per_address=10))
    with served(engine, transport=slow) as door, ExitStack() as stack:
        first = stack.enter_context(connected(door))
        first.sendall(silent)
        for _ in range(30):
            stack.enter_context(connected(door)).sendall(silent)
            with httpx.Client(verify=NO_AUTHORITIES, timeout=PATIENCE_S) as client:
                assert client.get(f"{door.url}/info").status_code == 200
        # The oldest had to go.
        rest(first)


def test_a_client_that_reads_nothing_over_http2_is_reset(engine: Engine) -> None:
    """The window stays shut, while the connection is alive."""
    with serving(engine) as door:
        client = Http2(door, window=10)
        client.ask(1, "/openapi.json", method="GET")
        client.h2.end_stream(1)
        client.send()
        reset = next(e for e in client.events() if isinstance(e, h2.events.StreamReset))
        assert reset.stream_id == 1
        client.h2.ping(b"12345678")
        client.send()
        assert next(e for e in client.events() if isinstance(e, h2.events.PingAckReceived))
        client.socket.close()


@pytest.mark.parametrize("upgrade", [b"", UPGRADE + b"x\r\n"])
def test_a_client_that_reads_nothing_over_http1_is_disconnected(
    engine: Engine, upgrade: bytes
) -> None:
    with serving(engine) as door, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(PATIENCE_S)
        host = urlsplit(door.url)
        client.connect((host.hostname, host.port))
        asked = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n" + upgrade + b"\r\n"
        # Bytes sent at the end are refused: the peer is gone.
        with pytest.raises(ConnectionError):
            for _ in range(1_000):
                client.sendall(asked * 20)
            while client.recv(1):
                client.sendall(asked)
            raise ConnectionResetError


class Held:
    """A connection."""

    def __init__(self, *, idle: bool = True) -> None:
        self.idle = idle
        self.authenticated = False
        self.open = True

    def close(self) -> None:
        """See `Admitted`."""
        self.open = False


def test_room_is_kept_for_those_that_are_authenticated() -> None:
    limits = ConnectionLimits(total=4, per_address=4, reserved=2)
    admission = Admission(limits)
    known = [Held(idle=False), Held(idle=False)]
    for held in known:
        assert admission.admit(held, "a")
        admission.authenticate(held)
    busy = [Held(idle=False), Held(idle=False)]
    assert [admission.admit(held, "b") for held in busy] == [True, True]
    # No idle connection is left to close, and busy ones stay.
    assert not admission.admit(Held(), "c")
    admission.remove(known[0])
    assert not admission.admit(Held(), "c")
    busy[0].idle = True
    assert admission.admit(Held(), "c")
    assert [held.open for held in (*known, *busy)] == [True, True, False, True]


def test_one_address_has_its_share() -> None:
    admission = Admission(ConnectionLimits(total=10, per_address=2))
    mine = [Held(), Held(idle=False)]
    assert [admission.admit(held, "mine") for held in mine] == [True, True]
    yours = Held()
    assert admission.admit(yours, "yours")
    assert admission.admit(Held(idle=False), "mine")
    assert [held.open for held in (*mine, yours)] == [False, True, True]
    assert not admission.admit(Held(), "mine")
    assert admission.admit(Held(), "yours")
    admission.remove(mine[1])
    assert admission.admit(Held(), "mine")
    assert len(admission.connections()) == 4


def test_idle_connections_of_the_unknown_go_first() -> None:
    admission = Admission(ConnectionLimits(total=3, per_address=3))
    known, unknown, busy = Held(), Held(), Held(idle=False)
    for held in (known, unknown, busy):
        assert admission.admit(held, "a")
    admission.authenticate(known)
    assert admission.admit(Held(idle=False), "b")
    assert (known.open, unknown.open) == (True, False)
    assert admission.admit(Held(idle=False), "b")
    assert (known.open, busy.open) == (False, True)


def test_what_counts_as_progress() -> None:
    progress = Progress()
    assert progress.stalled_for(0, 10.0) == 0
    assert progress.stalled_for(100_000, 11.0) == 0
    assert progress.stalled_for(100_000 - BYTES_TAKEN_MIN + 1, 15.0) == 4
    assert progress.stalled_for(100_000 - BYTES_TAKEN_MIN, 16.0) == 0
    assert progress.stalled_for(100_000 - BYTES_TAKEN_MIN, 17.0) == 1
    assert progress.stalled_for(0, 18.0) == 0
    assert progress.stalled_for(5, 19.0) == 0
    assert progress.stalled_for(5, 30.0) == 11
