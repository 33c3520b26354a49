"""Which names a server answers to, and what a page of another origin can do: nothing."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.sync.client import connect

from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.service.execution import open_engine
from millstream_server.auth.audit import Audit
from millstream_server.auth.origins import Origins
from millstream_server.bootstrap.config import load_config
from millstream_server.bootstrap.wiring import gate, names
from tests.patience import PATIENCE_S
from tests.served import NO_AUTHORITIES, Served, served

LOCAL = "localhost:8088"
EVIL = "http://evil.example"


def refused(origins: Origins, scheme: str = "http", address: str = "127.0.0.1", **sent: str) -> int:
    """The status that these headers are refused with, 0 for none."""
    headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items()]
    found = origins.refusal(headers, scheme, address)
    return 0 if found is None else found.status


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost:8088", "LOCALHOST:1", "localhost.", "a.localhost:8088"),
        *("127.0.0.1", "127.0.0.1:8088", "127.8.9.1", "[::1]", "[::1]:8088", "[0:0:0:0:0:0:0:1]"),
        *("orders.example", "Orders.Example:8088", "orders.example."),
    ],
)
def test_names_that_are_answered(host: str) -> None:
    assert refused(Origins(hosts=frozenset({"orders.example"})), host=host) == 0


@pytest.mark.parametrize(
    "host",
    [
        *(
            "",
            "evil.example",
            "evil.example:8088",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
        ),
        *("evil.example#@localhost", "evil.example/localhost", "localhost@evil.example"),
        *("localhost:x", "localhost:8088:9", "[::1", "::1", "[::2]", "10.0.0.1", "2130706433"),
        *("evil.example\\localhost", "localhost evil.example", "0.0.0.0", "xn--localhost-", "*"),
        *("0177.0.0.1", "localhost,evil.example", "evillocalhost"),
    ],
)
def test_names_that_are_not(host: str) -> None:
    assert refused(Origins(), host=host) == 421


def test_the_address_that_a_client_has_connected_to_is_a_name() -> None:
    assert refused(Origins(), address="10.0.0.7", host="10.0.0.7:8088") == 0
    assert refused(Origins(), address="10.0.0.8", host="10.0.0.7:8088") == 421
    assert refused(Origins(hosts=frozenset("*")), host="whatever") == 0


def test_a_request_has_one_host_and_one_origin() -> None:
    for name in (b"host", b"origin"):
        headers = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
        found = Origins().refusal([*headers, (name, b"http://localhost")])
        assert found is not None and found.status == 421
    assert Origins().refusal([]) is not None


@pytest.mark.parametrize(
    ("scheme", "host", "origin", "status"),
    [
        ("http", LOCAL, f"http://{LOCAL}", 0),
        ("ws", LOCAL, f"http://{LOCAL}", 0),
        ("wss", "localhost", "https://localhost:443", 0),
        ("http", "localhost", "http://localhost:80", 0),
        ("http", LOCAL, f"https://{LOCAL}", 403),
        ("http", "localhost", "https://localhost", 403),
        ("http", LOCAL, "http://localhost:3000", 403),
        ("http", LOCAL, "http://127.0.0.1:8088", 403),
        ("http", LOCAL, "http://a.localhost:8088", 403),
        ("http", LOCAL, "null", 403),
        ("http", LOCAL, "", 403),
        ("http", LOCAL, EVIL, 403),
        ("http", LOCAL, f"http://{LOCAL}/", 403),
        ("http", LOCAL, f"http://x@{LOCAL}", 403),
        ("http", LOCAL, "https://told.example", 0),
        ("http", LOCAL, "http://told.example", 403),
    ],
)
def test_pages(scheme: str, host: str, origin: str, status: int) -> None:
    origins = Origins(allowed=frozenset({"https://told.example"}))
    assert refused(origins, scheme, host=host, origin=origin) == status


@pytest.mark.parametrize(
    ("site", "mode", "dest", "status"),
    [
        ("cross-site", "no-cors", "script", 403),
        ("cross-site", "no-cors", "image", 403),
        ("same-site", "no-cors", "empty", 403),
        ("cross-site", "navigate", "iframe", 403),
        ("cross-site", "navigate", "document", 0),
        ("same-origin", "cors", "empty", 0),
        ("none", "navigate", "document", 0),
    ],
)
def test_requests_of_pages_without_an_origin(site: str, mode: str, dest: str, status: int) -> None:
    sent = {"sec_fetch_site": site, "sec_fetch_mode": mode, "sec_fetch_dest": dest}
    assert refused(Origins(), host=LOCAL, **sent) == status


def test_a_server_goes_by_the_names_of_its_listeners() -> None:
    listeners = "https://orders.example:8088,http://127.0.0.1:1"
    flags = {"listeners": listeners, "millstream.hosts": "Proxy.Example"}
    assert names(load_config(flags=flags)) == {"orders.example", "127.0.0.1", "proxy.example"}
    everywhere = names(load_config(flags={"listeners": "http://0.0.0.0:8088"}))
    assert everywhere == {"0.0.0.0", socket.gethostname().lower()}


@pytest.fixture(scope="module")
def door() -> Iterator[Served]:
    """A server without any configuration."""
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    engine.start()
    guard = gate(load_config(), engine, Audit(lambda line: None, time.time))
    with served(engine, guard=guard) as found:
        yield found
    engine.close()


CHANGES = {"ksql": "CREATE STREAM stolen (v STRING) WITH (kafka_topic='t', format='JSON');"}
FOREIGN = {
    "rebinding": ({"host": "evil.example:8088", "origin": "http://evil.example:8088"}, 421),
    "rebinding without an origin": ({"host": "evil.example:8088"}, 421),
    "another page": ({"origin": EVIL}, 403),
    "a sandboxed page": ({"origin": "null"}, 403),
    "another port of this machine": ({"origin": "http://localhost:3000"}, 403),
    "an embedded answer": ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
}


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize(("sent", "status"), FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/info"), ("GET", "/nothing"), ("POST", "/ksql"), ("OPTIONS", "/ksql")],
)
def test_foreign_pages_are_refused_on_every_path(
    door: Served, method: str, path: str, sent: dict[str, str], status: int, http2: bool
) -> None:
    transport = httpx.HTTPTransport(verify=NO_AUTHORITIES, http1=not http2, http2=http2)
    with httpx.Client(base_url=door.url, transport=transport, timeout=PATIENCE_S) as client:
        kind = {"content-type": "text/plain"}
        answer = client.request(method, path, json=CHANGES, headers={**kind, **sent})
    assert (answer.status_code, answer.json()["error_code"] // 100) == (status, status)
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert "STOLEN" not in door.server.engine.catalog.sources


@pytest.mark.parametrize(("sent", "status"), FOREIGN.values(), ids=FOREIGN)
def test_websockets_of_foreign_pages_are_not_opened(
    door: Served, sent: dict[str, str], status: int
) -> None:
    parts = urlsplit(door.url)
    client = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE_S)
    opening = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    key = {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="}
    client.request("GET", "/ws/query?request=%7B%7D", headers={**opening, **key, **sent})
    answer = client.getresponse()
    assert (answer.status, json.loads(answer.read())["error_code"] // 100) == (status, status)
    client.close()


def test_websockets_of_other_clients_are_opened(door: Served) -> None:
    url = f"ws{door.url.removeprefix('http')}/ws/query?request=%7B%7D"
    with connect(url) as client:
        assert "error" in json.loads(client.recv(timeout=PATIENCE_S))


def test_headers_are_counted(door: Served) -> None:
    for http2 in (False, True):
        transport = httpx.HTTPTransport(verify=NO_AUTHORITIES, http1=not http2, http2=http2)
        with httpx.Client(base_url=door.url, transport=transport) as client:
            few = {f"x-{number}": "y" for number in range(80)}
            assert client.get("/info", headers=few).status_code == 200
            many = {f"x-{number}": "y" for number in range(100)}
            answer = client.get("/info", headers=many)
            assert (answer.status_code, answer.json()["error_code"]) == (431, 43100)
