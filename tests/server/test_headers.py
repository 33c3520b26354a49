"""The headers of every response, whatever its origin."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from millstream_server.http.headers import common_headers
from tests.patience import PATIENCE_S
from tests.server.conftest import RunningServer
from tests.server.guarded import Guarded, guarded

NAMES = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
HOST = b"\r\nhost: localhost\r\n"
UPGRADE = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
KEY = b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
RAW = {
    "no request": b"\x00\x01\x02\r\n\r\n",
    "no such method": b"FETCH /info HTTP/1.1" + HOST + b"\r\n",
    "a length that is none": b"POST /ksql HTTP/1.1" + HOST + b"content-length: x\r\n\r\n",
    "no such path": b"GET /nothing HTTP/1.1" + HOST + b"\r\n",
    "another method": b"DELETE /ksql HTTP/1.1" + HOST + b"\r\n",
    "HEAD": b"HEAD /info HTTP/1.1" + HOST + b"\r\n",
    "OPTIONS": b"OPTIONS /ksql HTTP/1.1" + HOST + b"\r\n",
    "a redirection": b"GET / HTTP/1.1" + HOST + b"\r\n",
    "a change of protocol that is none": b"GET /info HTTP/1.1" + HOST + b"upgrade: x\r\n\r\n",
    "a wrong request by the other server": b"GET /info HTTP/9" + HOST + b"upgrade: x\r\n\r\n",
    "a websocket that is opened": b"GET /ws/query HTTP/1.1" + HOST + UPGRADE + KEY + b"\r\n",
    "a websocket without a key": b"GET /ws/query HTTP/1.1" + HOST + UPGRADE + b"\r\n",
    "a websocket elsewhere": b"GET /nothing HTTP/1.1" + HOST + UPGRADE + KEY + b"\r\n",
    "a change to HTTP/2": b"GET /info HTTP/1.1" + HOST + b"connection: upgrade, http2-settings\r\n"
    b"upgrade: h2c\r\nhttp2-settings: \r\n\r\n",
}


def head(client: socket.socket) -> httpx.Headers:
    """The first head that comes."""
    found = b""
    while b"\r\n\r\n" not in found:
        piece = client.recv(65_536)
        assert piece, found
        found += piece
    lines = found.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    pairs = (line.partition(b":") for line in lines)
    return httpx.Headers([(name, value.strip()) for name, _, value in pairs])


@pytest.mark.parametrize("sent", RAW.values(), ids=RAW)
def test_answers_over_http1(door: RunningServer, sent: bytes) -> None:
    parts = urlsplit(door.url)
    with socket.create_connection((parts.hostname, parts.port), PATIENCE_S) as client:
        client.sendall(sent)
        check(head(client), secure=False)


def check(headers: httpx.Headers, *, secure: bool) -> None:
    """Each header is there, once."""
    for name, value in NAMES.items():
        assert headers.get_list(name) == [value]
    assert ("strict-transport-security" in headers) is secure
    if secure:
        assert headers["strict-transport-security"].startswith("max-age=31536000")
    assert "server" not in headers
    assert len(headers.get_list("date")) == 1


REQUESTS = [
    ("GET", "/info", None),
    ("GET", "/nothing", None),
    ("PUT", "/ksql", None),
    ("POST", "/ksql", {"ksql": "SHOW STREAMS;"}),
    ("POST", "/ksql", {"ksql": "no statement"}),
    ("POST", "/query-stream", {"sql": "SELECT * FROM orders EMIT CHANGES LIMIT 1;"}),
    ("POST", "/query-stream", {"sql": "SELECT * FROM spending;"}),
    ("POST", "/inserts-stream", {"target": "orders"}),
    ("GET", "/metrics", None),
]


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize(("method", "path", "body"), REQUESTS)
def test_answers(
    shop: RunningServer, method: str, path: str, body: dict[str, str] | None, http2: bool
) -> None:
    answer = (shop.http2 if http2 else shop.http).request(method, path, json=body)
    check(answer.headers, secure=False)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("secured")) as found:
        yield found


@pytest.mark.parametrize("caller", ["none", "reader", "admin"])
def test_answers_over_tls(secured: Guarded, caller: str) -> None:
    for method, path, body in REQUESTS[:4]:
        answer = secured.clients[caller].request(method, path, json=body)
        check(answer.headers, secure=True)
        plain = httpx.Client(verify=secured.trusted, headers=secured.headers(caller))
        with plain as client:
            check(client.request(method, secured.url + path, json=body).headers, secure=True)


def test_versions_of_tls(secured: Guarded, tmp_path: Path) -> None:
    parts = urlsplit(secured.url)
    found = {}
    for version in (ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cafile=str(secured.ours.file))
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = version
        context.minimum_version = version
        with socket.create_connection((parts.hostname, parts.port), PATIENCE_S) as client:
            try:
                with context.wrap_socket(client, server_hostname=parts.hostname) as spoken:
                    found[version.name] = spoken.version()
            except (ssl.SSLError, ConnectionError):
                found[version.name] = None
    assert found == {"TLSv1_1": None, "TLSv1_2": "TLSv1.2", "TLSv1_3": "TLSv1.3"}


def test_only_tls_says_that_there_must_be_tls() -> None:
    names = [{name for name, _ in common_headers(secure=secure)} for secure in (False, True)]
    assert names[1] - names[0] == {b"strict-transport-security"}
