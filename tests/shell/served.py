"""A tiny server of the REST API whose responses a test defines, row by row if needed."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HISTORY = "h1"
"""The name of every query over history."""


@dataclass(slots=True)
class Served:
    """`answers`: what POST /ksql answers, by statement text or a function of it; `rows` are the
    objects that POST /query sends as the test puts them there, None ends it, an error breaks it
    off; with `stages` it has a name by which they are asked for. `requests` keeps what was asked,
    `peers` the addresses of the connections."""

    answers: Callable[[str], tuple[int, Any]]
    rows: queue.Queue[Any] = field(default_factory=queue.Queue)
    lines: tuple[str, ...] = ()
    figures: str = ""
    stages: tuple[dict[str, Any], ...] = ()
    requests: list[tuple[str, str, Any, dict[str, str]]] = field(default_factory=list)
    peers: set[tuple[str, int]] = field(default_factory=set)
    closed: threading.Event = field(default_factory=threading.Event)
    server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Served:
        served = self

        class Answers(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                served.peers.add(self.client_address)
                super().setup()

            def do_GET(self) -> None:
                served.get(self)

            def do_POST(self) -> None:
                served.post(self)

            def log_message(self, *_: Any) -> None:
                """Nothing is printed."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self.server is not None
        self.rows.put(None)
        self.server.shutdown()
        self.server.server_close()

    def get(self, request: BaseHTTPRequestHandler) -> None:
        self.requests.append(("GET", request.path, None, dict(request.headers)))
        if request.path == "/metrics" and self.figures:
            pieces(request, [self.figures])
        elif request.path == f"/history/{HISTORY}":
            whole(request, 200, {"stages": self.stages})
        elif request.path == "/info":
            whole(request, 200, {"KsqlServerInfo": {"version": "7.5", "serverStatus": "RUNNING"}})
        elif request.path.startswith("/is_valid_property/auto."):
            whole(request, 200, True)
        else:
            whole(request, 400, {"error_code": 40000, "message": "Not a property"})

    def post(self, request: BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        self.requests.append(("POST", request.path, body, dict(request.headers)))
        match request.path:
            case "/ksql":
                whole(request, *self.answers(body["ksql"]))
            case "/query":
                self._stream(request)
            case "/query-stream":
                pieces(request, (f"{line}\n" for line in self.lines))
            case _:
                self.closed.set()
                whole(request, 200, {})

    def _stream(self, request: BaseHTTPRequestHandler) -> None:
        first = self.rows.get()
        if isinstance(first, tuple):
            whole(request, *first)
            return

        def framed() -> Any:
            yield "[" + json.dumps(first)
            while (item := self.rows.get()) is not None:
                if isinstance(item, OSError):
                    request.close_connection = True
                    raise item
                yield ",\n" + json.dumps(item)
            yield "]\n"

        # The comma of a row stands before the line break, as the server writes it.
        named = {"millstream-query": HISTORY} if self.stages else {}
        pieces(request, _commas_first(framed()), named)


def _commas_first(parts: Any) -> Any:
    for part in parts:
        yield from ([",\n", part[2:]] if part.startswith(",\n") else [part])


def whole(request: BaseHTTPRequestHandler, status: int, body: Any) -> None:
    data = json.dumps(body).encode()
    request.send_response(status)
    request.send_header("Content-Length", str(len(data)))
    request.end_headers()
    request.wfile.write(data)


def pieces(
    request: BaseHTTPRequestHandler, texts: Any, headers: Mapping[str, str] | None = None
) -> None:
    request.send_response(200)
    for name, value in (headers or {}).items():
        request.send_header(name, value)
    request.send_header("Transfer-Encoding", "chunked")
    request.end_headers()
    try:
        for text in texts:
            data = text.encode()
            request.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            request.wfile.flush()
        request.wfile.write(b"0\r\n\r\n")
    except OSError:
        return
