"""The files of the console, as any client gets them."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console import build
from tests.server.conftest import RunningServer
from tests.server.guarded import Guarded, guarded

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
PAGE_BYTES_MAX = 400_000


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("guarded")) as found:
        yield found


def test_it_was_built_from_the_sources_here() -> None:
    told = (build.STATIC / build.DIGEST).read_text(encoding="utf-8")
    assert told == build.digest(), "run make console, and commit what it makes"
    assert (build.SOURCES / "src" / "words.json").read_text(encoding="utf-8") == build.words()


def test_browsers_get_a_page_and_other_clients_are_led_on(door: RunningServer) -> None:
    page = door.http.get("/", headers=BROWSER)
    assert page.headers["content-type"].startswith("text/html")
    assert "Millstream" in page.text
    assert door.http.get("/").headers["location"] == "/info"
    assert door.http.get("/", headers={"accept": "*/*"}).status_code == 307


def test_all_that_the_page_needs_is_there_and_small(door: RunningServer) -> None:
    page = door.http.get("/", headers=BROWSER).text
    named = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(named) == 3
    assert all(name.startswith("/console/") for name in named)
    sizes = 0
    for name in named:
        with door.http.stream("GET", name, headers={"accept-encoding": "gzip"}) as answer:
            assert answer.status_code == 200
            sizes += len(b"".join(answer.iter_raw()))
    assert sizes < PAGE_BYTES_MAX / 2
    plain = sum(len(door.http.get(name).content) for name in named)
    assert plain < PAGE_BYTES_MAX


@pytest.mark.parametrize("path", sorted(build.STATIC.iterdir()), ids=lambda path: path.name)
def test_files_are_the_same_packed_and_plain(door: RunningServer, path: Path) -> None:
    address = f"/console/{path.name}"
    plain = door.http.get(address, headers={"accept-encoding": "identity"})
    assert plain.content == path.read_bytes()
    assert "content-encoding" not in plain.headers
    with door.http.stream("GET", address, headers={"accept-encoding": "gzip, br"}) as packed:
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(b"".join(packed.iter_raw())) == path.read_bytes()


@pytest.mark.parametrize(
    "name", ["../pages.py", "..%2fpages.py", "%2e%2e/pages.py", "static/index.html", "a/b", ""]
)
def test_nothing_else_is_served(door: RunningServer, name: str) -> None:
    assert door.http.get(f"/console/{name}").status_code == 404


def test_the_page_needs_no_credentials_and_nothing_else_goes_without(closed: Guarded) -> None:
    stranger = closed.clients["none"]
    assert stranger.get("/", headers=BROWSER).status_code == 200
    assert stranger.get("/console/console.js").status_code == 200
    assert stranger.get("/info").status_code == 401
    assert stranger.get("/console/../info").status_code == 401


def test_other_pages_may_not_embed_it(closed: Guarded) -> None:
    stranger = closed.clients["none"]
    policy = stranger.get("/", headers=BROWSER).headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    elsewhere = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert stranger.get("/console/console.js", headers=elsewhere).status_code == 403
