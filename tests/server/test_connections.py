"""What connections speak, and the bounds of what they send."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import pytest

from millstream_server.http.connection import Speaks, spoken
from millstream_server.http.transport import Transport
from tests.patience import PATIENCE_S
from tests.server.conftest import RunningServer

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
GET = b"GET /info HTTP/1.1\r\nhost: x\r\n"


@pytest.mark.parametrize(
    ("seen", "speaks"),
    [
        (b"P", None),
        (PREFACE[:-1], None),
        (PREFACE + b"\0", Speaks.OTHER),
        (b"POST /ksql HTTP/1.1\r\n", None),
        (GET, None),
        (GET + b"\r\n", Speaks.PLAIN),
        (GET + b"Upgrade: h2c\r\n\r\n", Speaks.OTHER),
        (GET + b"UPGRADE: websocket\r\n\r\n", Speaks.OTHER),
        (GET + b"x-upgrade: h2c\r\n\r\nupgrade: h2c\r\n", Speaks.PLAIN),
    ],
)
def test_what_first_bytes_say(seen: bytes, speaks: Speaks | None) -> None:
    assert spoken(seen) is speaks


def connected(door: RunningServer) -> socket.socket:
    host = urlsplit(door.url)
    client = socket.create_connection((host.hostname, host.port))
    client.settimeout(PATIENCE_S)
    return client


def test_a_request_may_come_byte_by_byte(door: RunningServer) -> None:
    with connected(door) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in GET + b"\r\n":
            client.sendall(bytes([byte]))
        assert client.recv(15) == b"HTTP/1.1 200 OK"


def test_requests_may_come_at_once(door: RunningServer) -> None:
    with connected(door) as client:
        client.sendall((GET + b"\r\n") * 2 + GET + b"connection: close\r\n\r\n")
        answers = b""
        while piece := client.recv(65_536):
            answers += piece
    assert answers.count(b"HTTP/1.1 200 OK") == 3
    assert answers.count(b"\r\ndate: ") == 3


@pytest.mark.parametrize("before", [b"", GET + b"\r\n"])
def test_a_head_without_end_is_cut_off(door: RunningServer, before: bytes) -> None:
    with connected(door) as client:
        client.sendall(before + GET)
        with pytest.raises(ConnectionError):
            for _ in range(100):
                client.sendall(b"x: " + b"y" * (Transport().headers_bytes_max // 10) + b"\r\n")
            while client.recv(65_536):
                pass
            raise ConnectionResetError


@pytest.mark.parametrize("size", [1_000, 20_000, 400_000, 1_000_000])
def test_a_body_is_no_head_however_large(door: RunningServer, size: int) -> None:
    body = b'{"ksql": "SHOW STREAMS;' + b" " * size + b'"}'
    head = b"POST /ksql HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
    with connected(door) as client:
        for _ in range(3):
            client.sendall(head + body)
            assert client.recv(65_536).startswith(b"HTTP/1.1 200 OK")


def test_headers_behind_a_body_are_bounded_and_not_taken(door: RunningServer) -> None:
    begun = b"POST /ksql HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b'{"ksql": "SHOW STREAMS;"}'
    whole = b"%x\r\n%b\r\n0\r\n" % (len(body), body)
    with connected(door) as client:
        client.sendall(begun + whole + b"host: evil.example\r\nx: y\r\n\r\n")
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 OK")
    with connected(door) as client:
        client.sendall(begun + whole)
        with pytest.raises(ConnectionError):
            for _ in range(1_000):
                client.sendall(b"x: " + b"y" * 1_000 + b"\r\n")
            while client.recv(65_536):
                pass
            raise ConnectionResetError
