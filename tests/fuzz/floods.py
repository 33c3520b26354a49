"""What attackers of the server send, as bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import hpack

HOST = b"host: localhost\r\n"
HEAD = b"GET /info HTTP/1.1\r\n" + HOST
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
UPGRADE = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
OPENING = (
    b"GET /ws/query?request=%s HTTP/1.1\r\n"
    + HOST
    + UPGRADE
    + b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
SILENT = {
    "nothing": b"",
    "half a head": HEAD,
    "an HTTP/2 preface": PREFACE + b"\0\0\0\4\0\0\0\0\0",
    "half a websocket's head": HEAD.replace(b"/info", b"/ws/query") + UPGRADE,
    "no body": b"POST /ksql HTTP/1.1\r\n" + HOST + b"content-length: 9\r\n\r\n",
}
DATA, HEADERS, PRIORITY, RST, SETTINGS, PING, WINDOW, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
FRAMES_AT_ONCE = 200


def frame(kind: int, stream: int = 0, payload: bytes = b"", flags: int = 0) -> bytes:
    """One HTTP/2 frame."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload


def request(path: str, method: str = "GET") -> bytes:
    """The headers of a request, for a connection that has sent none before."""
    fields = [(":method", method), (":scheme", "http"), (":authority", "localhost")]
    return hpack.Encoder().encode([*fields, (":path", path)], huffman=False)


def resets() -> Iterator[bytes]:
    """Requests that are whole, and given up at once (rapid reset)."""
    yield PREFACE + frame(SETTINGS)
    head = b"".join(
        b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value
        for name, value in (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":authority", b"localhost"),
            (b":path", b"/ksql"),
        )
    )
    body = json.dumps({"ksql": "SHOW STREAMS;"}).encode()
    stream = 1
    while stream < 1 << 30:
        piece = b""
        for _ in range(FRAMES_AT_ONCE // 4):
            piece += frame(HEADERS, stream, head, 4) + frame(DATA, stream, body, 1)
            piece += frame(RST, stream, b"\0\0\0\x08")
            stream += 2
        yield piece


def repeated(one: bytes) -> Callable[[], Iterator[bytes]]:
    """A preface, then the same frame without end."""

    def made() -> Iterator[bytes]:
        yield PREFACE + frame(SETTINGS)
        while True:
            yield one * FRAMES_AT_ONCE

    return made


def continuations() -> Iterator[bytes]:
    """Headers that do not end."""
    yield PREFACE + frame(SETTINGS) + frame(HEADERS, 1, request("/info"))
    while True:
        yield frame(CONTINUATION, 1, b"\0\1a\1b" * 200)


def pipelined() -> Iterator[bytes]:
    """Requests whose responses are not read."""
    while True:
        yield (HEAD + b"\r\n") * FRAMES_AT_ONCE


def trailers() -> Iterator[bytes]:
    """A body, and headers behind it without end."""
    yield b"POST /ksql HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n"
    while True:
        yield b"x-more: " + b"y" * 8_000 + b"\r\n"


def fragments() -> Iterator[bytes]:
    """A websocket, and a message to it that does not end."""
    query = b"%7B%22sql%22%3A%22SELECT%20%2A%20FROM%20s%20EMIT%20CHANGES%3B%22%7D"
    yield OPENING % query
    yield b"\x01\xff" + (65_536).to_bytes(8, "big") + b"\0\0\0\0" + b"x" * 65_536
    while True:
        yield b"\x00\xff" + (65_536).to_bytes(8, "big") + b"\0\0\0\0" + b"x" * 65_536


FLOODS: dict[str, Callable[[], Iterator[bytes]]] = {
    "rapid resets": resets,
    "pings": repeated(frame(PING, 0, b"12345678")),
    "settings": repeated(frame(SETTINGS)),
    "window updates": repeated(frame(WINDOW, 0, b"\0\0\0\0\1"[1:])),
    "continuations": continuations,
    "pipelined requests": pipelined,
    "headers behind a body": trailers,
    "a websocket's message": fragments,
}
FOREIGN = {
    "another name in Host (DNS rebinding)": (
        "host: evil.example:8088",
        "origin: http://evil.example:8088",
    ),
    "a page of another origin": ("host: localhost", "origin: http://evil.example"),
    "a sandboxed page": ("host: localhost", "origin: null"),
    "an image or script": (
        "host: localhost",
        "sec-fetch-site: cross-site",
        "sec-fetch-mode: no-cors",
    ),
}
