"""A worker of Kafka Connect, as far as its REST interface goes: requests are answered from memory,
and nothing runs."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

CLASSES = {
    "org.example.NumbersSource": "source",
    "org.example.FilesSink": "sink",
}
Answer = tuple[int, Any]


@dataclass
class Worker:
    """`broken`: what each request is answered with instead, as status and bytes. `user`: whom it
    asks for, as user:password."""

    url: str = ""
    connectors: dict[str, dict[str, str]] = field(default_factory=dict)
    topics: dict[str, list[str]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    broken: tuple[int, bytes] | None = None
    user: str = ""
    paths: list[str] = field(default_factory=list)

    def answer(self, method: str, path: str, body: Any) -> Answer:
        """The status, and what is answered as JSON."""
        words = [unquote(word) for word in path.partition("?")[0].strip("/").split("/")]
        match method, words:
            case "GET", ["connector-plugins"]:
                return 200, [
                    {"class": name, "type": kind, "version": "1.0"}
                    for name, kind in CLASSES.items()
                ]
            case "PUT", ["connector-plugins", name, "config", "validate"]:
                return self._validated(name, body)
            case "GET", ["connectors"]:
                return 200, {
                    name: {"info": self._info(name), "status": self._status(name)}
                    for name in self.connectors
                }
            case "POST", ["connectors"]:
                self.connectors[body["name"]] = {**body["config"], "name": body["name"]}
                return 201, self._info(body["name"])
            case _, ["connectors", name, *_] if name not in self.connectors:
                return 404, {"error_code": 404, "message": f"Connector {name} not found"}
            case "GET", ["connectors", name]:
                return 200, self._info(name)
            case "GET", ["connectors", name, "status"]:
                return 200, self._status(name)
            case "GET", ["connectors", name, "topics"]:
                return 200, {name: {"topics": self.topics.get(name, [])}}
            case "DELETE", ["connectors", name]:
                del self.connectors[name]
                return 204, None
        return 405, {"message": "no such request"}

    def _validated(self, name: str, config: dict[str, str]) -> Answer:
        known = {each.rpartition(".")[2]: each for each in CLASSES}
        if known.get(name) != config["connector.class"]:
            return 500, {"message": f"Failed to find any class with name {name}"}
        wrong = [] if config.get("topic") else ["Missing required configuration"]
        value = {"name": "topic", "value": config.get("topic"), "errors": wrong}
        return 200, {"error_count": len(wrong), "configs": [{"value": value}]}

    def _info(self, name: str) -> dict[str, Any]:
        config = self.connectors[name]
        kind = CLASSES[config["connector.class"]]
        tasks = [{"connector": name, "task": 0}, {"connector": name, "task": 1}]
        return {"name": name, "config": config, "tasks": tasks, "type": kind}

    def _status(self, name: str) -> dict[str, Any]:
        tasks = [
            {"id": number, "state": "RUNNING", "worker_id": f"w:{number}"} for number in (0, 1)
        ]
        if name in self.failed:
            tasks[1] |= {"state": "FAILED", "trace": "java.lang.RuntimeException: no disk"}
        return {
            "name": name,
            "connector": {"state": "RUNNING", "worker_id": "w:1"},
            "tasks": tasks,
            "type": self._info(name)["type"],
        }


@contextmanager
def serving() -> Iterator[Worker]:
    """A worker that answers on a port of its own."""
    worker = Worker()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            worker.paths.append(f"{self.command} {self.path}")
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            given = self.headers.get("authorization", "")
            wanted = base64.b64encode(worker.user.encode()).decode()
            if worker.broken is not None:
                status, content = worker.broken
            elif worker.user and given != f"Basic {wanted}":
                status, content = 401, b"{}"
            else:
                asked = json.loads(body) if body else None
                status, found = worker.answer(self.command, self.path, asked)
                content = b"" if found is None else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    worker.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield worker
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
