"""The remains of closed connections, and the joint limits of one address."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import h2.connection
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from millstream_server.bootstrap.addresses import Address
from millstream_server.bootstrap.config import load_config
from millstream_server.bootstrap.startup import transport_of
from millstream_server.http.addresses import (
    FLOODS_REMEMBERED,
    KNOWN_SECONDS,
    Addresses,
    AddressLimits,
    network_of,
)
from millstream_server.http.admission import Admission, ConnectionLimits
from millstream_server.http.connection import Connection
from millstream_server.http.frames import FrameMeter, Kind
from millstream_server.http.http1 import PlainHttp1
from millstream_server.http.http2 import LiveHttp2
from millstream_server.http.listening import bind, serve
from millstream_server.http.protocols import HttpConnection, NegotiatedProtocol, WholeHttp1
from millstream_server.http.transport import Transport
from tests.fuzz.floods import (
    HEADERS,
    OPENING,
    PING,
    PREFACE,
    RST,
    SETTINGS,
    frame,
    request,
)
from tests.patience import PATIENCE_S, until
from tests.server.conftest import RunningServer
from tests.server.test_deadlines import Held

HEADERS_END, STREAM_END = 4, 1
HEAD = b"GET /info HTTP/1.1\r\nhost: localhost\r\n"
GREETING = PREFACE + frame(SETTINGS)
OF_CONNECTIONS = (
    Connection,
    PlainHttp1,
    HttpConnection,
    NegotiatedProtocol,
    WholeHttp1,
    LiveHttp2,
    h2.connection.H2Connection,
    asyncio.StreamReader,
)


@contextmanager
def answering(app: ASGIApp, transport: Transport | None = None) -> Iterator[tuple[str, int]]:
    """Serve an application; the address where it answers."""
    listener = bind(Address("127.0.0.1", 0, False))
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve(app, [listener], stop.wait, transport=transport))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield listener.address
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def exchanged(address: tuple[str, int], sent: bytes, *, ends: bool = False) -> bytes:
    """What comes for these bytes: at least something, or where `ends` all to the end."""
    with socket.create_connection(address, PATIENCE_S) as client:
        found = b""
        try:
            client.sendall(sent)
            found = client.recv(65_536)
            while ends and (piece := client.recv(65_536)):
                found += piece
        except ConnectionError:
            pass
        return found


def given_up(count: int, first: int = 1) -> bytes:
    """Requests that are whole and reset at once."""
    head = request("/info")
    return b"".join(
        frame(HEADERS, stream, head, HEADERS_END | STREAM_END) + frame(RST, stream, b"\0\0\0\x08")
        for stream in range(first, first + 2 * count, 2)
    )


KINDS = {
    "HTTP/1.1": (HEAD + b"connection: close\r\n\r\n", True),
    "HTTP/1.1 that is left open": (HEAD + b"\r\n", False),
    "HTTP/1.1 that is no request": (b"NOTHING\r\n\r\n", True),
    "HTTP/2": (GREETING + frame(HEADERS, 1, request("/info"), 5), False),
    "HTTP/2 that is no request": (GREETING + frame(HEADERS, 2, b"", 5), True),
    "a flood of resets": (GREETING + given_up(2 * Kind.RESET.burst), True),
    "a flood of pings": (GREETING + frame(PING, 0, b"12345678") * 1_000, True),
    "a websocket that is refused": (OPENING % b"%7B%7D", True),
    "a websocket of another version": ((OPENING % b"").replace(b"13", b"12"), True),
    "a change to HTTP/2": (HEAD + b"upgrade: h2c\r\nhttp2-settings: \r\n\r\n", False),
}


def left() -> list[object]:
    """What there is of connections."""
    # `gc` is off: so that only what refers to itself in a circle is not gone by now.
    return [one for one in gc.get_objects() if isinstance(one, OF_CONNECTIONS)]


@pytest.mark.parametrize(("sent", "ends"), KINDS.values(), ids=KINDS)
def test_connections_leave_nothing_to_be_collected(
    door: RunningServer, sent: bytes, ends: bool
) -> None:
    """Memory that waits for the garbage collector costs an attacker nothing."""
    parts = urlsplit(door.url)
    address = (str(parts.hostname), int(parts.port or 0))
    exchanged(address, sent, ends=ends)
    gc.collect()
    gc.disable()
    try:
        before = set(map(id, left()))
        for _ in range(3):
            assert exchanged(address, sent, ends=ends)
        until(lambda: all(id(one) in before for one in left()))
    finally:
        gc.enable()


class Counting:
    """An application that notes its requests, and counts those that were cancelled. Without `ends`
    it waits without end."""

    def __init__(self, *, ends: bool) -> None:
        self.begun: list[str] = []
        self.cancelled = 0
        self._ends = ends

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun.append(scope["path"])
        try:
            if not self._ends:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def lingering(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers once its client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    await asyncio.sleep(0)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x"})


@pytest.mark.parametrize("kind", ["HTTP/2", "a change to HTTP/2"])
def test_a_connection_ends_with_the_last_answer(kind: str) -> None:
    """However long an idle connection may stay: its client has left."""
    sent, _ = KINDS[kind]
    before = set(map(id, left()))
    with answering(lingering) as address:
        with socket.create_connection(address, PATIENCE_S) as client:
            client.sendall(sent)
            assert client.recv(65_536)
        # `gc` may run here: what is left is not in a circle alone.
        until(lambda: all(id(one) in before for one in left()))


def test_requests_that_are_given_up_at_once_are_not_begun() -> None:
    app = Counting(ends=True)
    with answering(app) as address, socket.create_connection(address, PATIENCE_S) as client:
        # In one piece, so that the server reads all at once.
        client.sendall(GREETING + given_up(3) + frame(HEADERS, 7, request("/another"), 5))
        until(lambda: "/another" in app.begun)
    assert app.begun == ["/another"]


def test_a_flood_ends_what_was_begun_before_it() -> None:
    app = Counting(ends=False)
    count = 20
    heads = b"".join(
        frame(HEADERS, 2 * n + 1, request("/info"), HEADERS_END | STREAM_END) for n in range(count)
    )
    with answering(app) as address, socket.create_connection(address, PATIENCE_S) as client:
        client.sendall(GREETING + heads)
        until(lambda: len(app.begun) == count)
        assert app.cancelled == 0
        client.sendall(frame(PING, 0, b"12345678") * 1_000)
        until(lambda: app.cancelled == count)


def test_connections_of_one_address_share_a_bound_on_resets() -> None:
    """Each connection stays below its own limit, and the attacker reconnects."""
    limits = ConnectionLimits(of_address=AddressLimits(frames_factor=2))
    ended = 0
    with answering(Counting(ends=True), Transport(limits)) as address:
        for _ in range(6):
            sent = GREETING + given_up(Kind.RESET.burst // 2) + frame(PING, 0, b"12345678")
            with socket.create_connection(address, PATIENCE_S) as client:
                client.sendall(sent)
                found = b""
                while b"12345678" not in found and b"too many" not in found:
                    piece = client.recv(65_536)
                    assert piece
                    found += piece
                ended += b"too many stream resets" in found
        # Clients without resets are not affected.
        asked = GREETING + frame(HEADERS, 1, request("/info"), 5) + frame(PING, 0, b"12345678")
        assert b"too many" not in exchanged(address, asked)
    assert ended >= 1


def test_frames_of_an_address_are_counted_together() -> None:
    now = [0.0]
    addresses = Addresses(AddressLimits(frames_factor=2), lambda: now[0])
    burst = int(Kind.RESET.burst)
    resets = [
        FrameMeter(1 << 14, lambda: now[0], addresses.frames(address))
        for address in ("a", "a", "a", "b")
    ]
    for meter in resets[:2]:
        meter.count(Kind.RESET, burst)
    assert [meter.excess for meter in resets] == ["", "", "", ""]
    for meter in resets[2:]:
        meter.count(Kind.RESET)
    assert [meter.excess for meter in resets] == ["", "", Kind.RESET.title, ""]
    now[0] += 1.0
    later = FrameMeter(1 << 14, lambda: now[0], addresses.frames("a"))
    for _ in range(int(2 * Kind.RESET.per_second)):
        later.count(Kind.RESET)
    assert later.excess == ""


LIMITS = AddressLimits(connections_per_second=10, connections_burst=20)


def opened(addresses: Addresses, address: str, tries: int = 1_000) -> int:
    """How many of so many connections may be opened."""
    return sum(addresses.may_connect(address) for _ in range(tries))


def test_new_connections_of_an_address_have_a_rate() -> None:
    now = [0.0]
    addresses = Addresses(LIMITS, lambda: now[0])
    assert (opened(addresses, "192.0.2.1"), opened(addresses, "192.0.2.2")) == (20, 20)
    now[0] += 1.0
    assert opened(addresses, "192.0.2.1") == 10
    now[0] += 60.0
    assert opened(addresses, "192.0.2.1") == 20


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.0.1", "::1"])
def test_proxies_on_this_machine_have_no_rate(address: str) -> None:
    addresses = Addresses(LIMITS, lambda: 0.0)
    addresses.flooded(address)
    assert opened(addresses, address) == 1_000


def test_an_address_that_was_authenticated_has_no_rate_for_a_time() -> None:
    now = [0.0]
    admission = Admission(ConnectionLimits(of_address=LIMITS), lambda: now[0])
    known = Held()
    assert admission.admit(known, "192.0.2.1")
    admission.authenticate(known)
    for _ in range(100):
        assert admission.admit(Held(), "192.0.2.1")
    now[0] += KNOWN_SECONDS
    assert sum(admission.admit(Held(), "192.0.2.1") for _ in range(100)) == 20


def test_an_address_that_floods_gets_no_new_connections_for_some_seconds() -> None:
    now = [0.0]
    admission = Admission(ConnectionLimits(of_address=LIMITS), lambda: now[0])
    flooding = [Held() for _ in range(12)]
    for held in flooding:
        assert admission.admit(held, "192.0.2.1")
    admission.flooded(flooding[0])
    # One of several clients of an address may be at fault: it does not shut the others out.
    for held in flooding[1:]:
        admission.flooded(held)
    assert not admission.admit(Held(), "192.0.2.1")
    assert admission.admit(Held(), "192.0.2.2")
    now[0] += FLOODS_REMEMBERED / 2
    assert not admission.admit(Held(), "192.0.2.1")
    now[0] += FLOODS_REMEMBERED
    assert admission.admit(Held(), "192.0.2.1")


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::9", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_what_counts_as_one_address(host: str, network: str) -> None:
    assert network_of(host) == network


def test_the_settings_of_addresses() -> None:
    flags = {
        "millstream.connections.address.rate": "7",
        "millstream.connections.address.max": "70",
        "millstream.frames.address.factor": "3",
    }
    assert transport_of(load_config(flags=flags)).limits.of_address == AddressLimits(7, 70, 3)
    unset = transport_of(load_config()).limits
    assert unset.of_address == AddressLimits() == ConnectionLimits().of_address
