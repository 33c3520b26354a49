"""What an HTTP/2 connection may send: streams, resets, headers in pieces, pings and the like."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import hpack
import pytest

from millstream_server.http.frames import CONTINUATIONS_MAX, PREFACE_BYTES, FrameMeter, Kind
from tests.patience import PATIENCE_S
from tests.server.conftest import RunningServer

HEADERS_MAX = 16 << 10
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, PRIORITY, RST, WINDOW, DATA, HEADERS, CONTINUATION = 4, 6, 2, 3, 8, 0, 1, 9


def frame(kind: int, stream: int = 0, payload: bytes = b"", flags: int = 0) -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload


def metered(data: bytes, step: int = 1 << 20, seconds: float = 0.0) -> FrameMeter:
    """A meter that has seen the bytes, cut anywhere; each cut takes `seconds`."""
    now = [0.0]
    meter = FrameMeter(HEADERS_MAX, lambda: now[0])
    for start in range(0, len(data), step):
        meter.feed(data[start : start + step])
        now[0] += seconds
    return meter


FLOODS = {
    "pings": (frame(PING, 0, b"12345678"), Kind.CONTROL),
    "settings": (frame(SETTINGS), Kind.CONTROL),
    "priorities": (frame(PRIORITY, 1, b"12345"), Kind.CONTROL),
    "empty data": (frame(DATA, 1), Kind.CONTROL),
    "unknown frames": (frame(200, 1, b"x"), Kind.CONTROL),
    "resets": (frame(RST, 1, b"1234"), Kind.RESET),
    "window updates": (frame(WINDOW, 0, b"1234"), Kind.WINDOW),
}


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
@pytest.mark.parametrize(("sent", "kind"), FLOODS.values(), ids=FLOODS)
def test_floods_of_frames_are_seen_however_they_are_cut(sent: bytes, kind: Kind, step: int) -> None:
    assert metered(PREFACE + sent * kind.burst, step).excess == ""
    assert metered(PREFACE + sent * (kind.burst + 1), step).excess == kind.title


@pytest.mark.parametrize(("sent", "kind"), FLOODS.values(), ids=FLOODS)
def test_what_comes_slowly_is_no_flood(sent: bytes, kind: Kind) -> None:
    data = bytes(PREFACE_BYTES) + sent * kind.burst * 3
    assert metered(data, len(sent), 1.0 / kind.per_second).excess == ""


@pytest.mark.parametrize("step", [1, 10, 1 << 20])
def test_headers_in_pieces_are_bounded(step: int) -> None:
    begun = PREFACE + frame(HEADERS, 1, b"x")
    more, last = frame(CONTINUATION, 1, b"x"), frame(CONTINUATION, 1, b"x", flags=4)
    whole = metered(begun + more * (CONTINUATIONS_MAX - 1) + last, step)
    assert (whole.excess, whole.in_headers) == ("", False)
    part = metered(begun + more * CONTINUATIONS_MAX, step)
    assert (part.excess, part.in_headers) == ("", True)
    assert metered(begun + more * CONTINUATIONS_MAX + last, step).excess == "continuations"
    large = frame(CONTINUATION, 1, b"x" * HEADERS_MAX)
    assert metered(begun + large, step).excess == "bytes of headers"


def test_windows_may_be_opened_for_what_is_sent() -> None:
    now = [0.0]
    meter = FrameMeter(HEADERS_MAX, lambda: now[0])
    meter.feed(PREFACE)
    for _ in range(3 * Kind.WINDOW.burst):
        meter.sent(1_024)
        meter.feed(frame(WINDOW, 0, b"\0\0\4\0") * 2)
    assert meter.excess == ""
    for _ in range(3 * Kind.WINDOW.burst):
        meter.sent(1)
        meter.feed(frame(WINDOW, 0, b"\0\0\0\1"))
    assert meter.excess == Kind.WINDOW.title


def test_bodies_are_not_frames_too_many() -> None:
    assert metered(PREFACE + frame(DATA, 1, b"x" * 100) * 100_000).excess == ""
    assert not metered(PREFACE[:-1]).greeted
    assert metered(PREFACE).greeted


class Client:
    """A client that breaks rules."""

    def __init__(self, door: RunningServer) -> None:
        parts = urlsplit(door.url)
        self.socket = socket.create_connection((parts.hostname, parts.port), PATIENCE_S)
        config = h2.config.H2Configuration(
            header_encoding="utf-8",
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self.h2 = h2.connection.H2Connection(config)
        self.h2.initiate_connection()

    def names(self, path: str = "/info", method: str = "GET") -> list[tuple[str, str]]:
        return [
            (":method", method),
            (":scheme", "http"),
            (":authority", "localhost"),
            (":path", path),
        ]

    def send(self, more: bytes = b"") -> None:
        self.socket.sendall(self.h2.data_to_send() + more)

    def events(self) -> Iterator[h2.events.Event]:
        while True:
            try:
                data = self.socket.recv(65_536)
            except ConnectionError:
                return
            if not data:
                return
            yield from self.h2.receive_data(data)

    def goodbye(self) -> int | None:
        """The code that the server ends the connection with."""
        found = None
        with self.socket:
            for event in self.events():
                if isinstance(event, h2.events.ConnectionTerminated):
                    found = event.error_code
        return found


def test_rapid_resets_end_the_connection(door: RunningServer) -> None:
    client = Client(door)
    for number in range(3 * Kind.RESET.burst):
        stream = 2 * number + 1
        client.h2.send_headers(stream, client.names("/ksql", "POST"))
        client.h2.reset_stream(stream)
    client.send()
    assert client.goodbye() == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
    assert door.http2.get("/info").status_code == 200


def test_resets_that_the_server_is_made_to_send_count_too(door: RunningServer) -> None:
    """Each request is whole, then a frame comes that its stream must not have."""
    client = Client(door)
    client.send()
    encoder = hpack.Encoder()
    sent = b""
    # More than come back while the server reads them.
    for number in range(2 * Kind.RESET.burst):
        stream = 2 * number + 1
        head = encoder.encode(client.names())
        sent += frame(HEADERS, stream, head, flags=5) + frame(DATA, stream, b"x", flags=0)
    client.socket.sendall(sent)
    with client.socket:
        found = b""
        while piece := client.socket.recv(65_536):
            found += piece
    assert f"too many {Kind.RESET.title}".encode() in found
    assert door.http2.get("/info").status_code == 200


@pytest.mark.parametrize(("sent", "kind"), FLOODS.values(), ids=FLOODS)
def test_floods_end_the_connection(door: RunningServer, sent: bytes, kind: Kind) -> None:
    client = Client(door)
    client.h2.send_headers(1, client.names("/query-stream", "POST"))
    if sent[3] == WINDOW:
        sent = frame(WINDOW, 0, b"\0\0\0\1")
    client.send(sent * (3 * kind.burst))
    with client.socket:
        for _ in client.events():
            pass
    assert door.http2.get("/info").status_code == 200


def test_headers_without_end_end_the_connection(door: RunningServer) -> None:
    client = Client(door)
    head = frame(HEADERS, 1, hpack.Encoder().encode(client.names()))
    client.send(head + frame(CONTINUATION, 1, b"\0\1a\1b") * 100)
    assert client.goodbye() == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM


def test_headers_that_grow_when_they_are_unpacked_end_the_connection(door: RunningServer) -> None:
    """One byte for each copy of a long header."""
    client = Client(door)
    encoder = hpack.Encoder()
    first = encoder.encode([*client.names(), ("x-long", "y" * 3_000)])
    assert encoder.encode([("x-long", "y" * 3_000)]) == b"\xbe"
    client.send(frame(HEADERS, 1, first, flags=5) + frame(HEADERS, 3, b"\xbe" * 100, flags=5))
    assert client.goodbye() is not None


def test_streams_at_a_time_are_bounded(door: RunningServer) -> None:
    client = Client(door)
    encoder = hpack.Encoder()
    names = client.names("/query-stream", "POST")
    client.send()
    sent = (frame(HEADERS, 2 * n + 1, encoder.encode(names), flags=4) for n in range(101))
    client.socket.sendall(b"".join(sent))
    assert client.goodbye() is not None


@pytest.mark.parametrize(
    "names",
    [
        [(":method", "CONNECT"), (":authority", "localhost")],
        [(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", "/\xe4")],
        [(":method", "G\xe4T"), (":scheme", "http"), (":authority", "x"), (":path", "/info")],
        [(":method", "GET"), (":scheme", "http"), (":path", "")],
        [(":method", "GET"), (":scheme", "http")],
    ],
)
def test_requests_that_are_none_leave_no_trace(
    door: RunningServer, names: list[tuple[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(door)
    client.h2.send_headers(1, names, end_stream=True)
    client.h2.ping(b"12345678")
    client.send()
    for event in client.events():
        if isinstance(event, h2.events.PingAckReceived | h2.events.ConnectionTerminated):
            break
    client.socket.close()
    assert door.http2.get("/info").status_code == 200
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_what_is_left_of_a_body_that_was_not_read_ends_nothing(door: RunningServer) -> None:
    client = Client(door)
    client.h2.send_headers(1, client.names("/nothing", "POST"))
    client.send()
    answered = (e for e in client.events() if isinstance(e, h2.events.StreamEnded))
    assert next(answered).stream_id == 1
    client.h2.send_data(1, b"x" * 1_000, end_stream=True)
    client.h2.send_headers(3, client.names(), end_stream=True)
    client.send()
    assert next(answered).stream_id == 3
    client.socket.close()


def test_requests_that_were_given_up_still_count(door: RunningServer) -> None:
    """Resets do not free the room of what the server still works on."""
    body = json.dumps({"sql": "SELECT 1;"}).encode()
    client = Client(door)
    for number in range(Kind.RESET.burst):
        client.h2.send_headers(2 * number + 1, client.names("/query-stream", "POST"))
        client.h2.send_data(2 * number + 1, body, end_stream=True)
        client.h2.reset_stream(2 * number + 1)
    client.h2.send_headers(2 * Kind.RESET.burst + 1, client.names(), end_stream=True)
    client.send()
    found = next(e for e in client.events() if isinstance(e, h2.events.ResponseReceived))
    assert dict(found.headers)[":status"] in ("200", "429")
    client.socket.close()
