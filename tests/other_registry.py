"""A schema registry elsewhere, for tests: a real HTTP server that can misbehave."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

JSON = "application/vnd.schemaregistry.v1+json"


class OtherRegistry:
    """The schemas of a registry, and how it answers.

    `status`: it answers with this instead. `body`: with these bytes instead. `held`: it answers
    only when this event is set. `user`: the only one that it serves, as "name:password"; `token`: a
    bearer token. `incompatible`: it refuses to register.
    """

    def __init__(self) -> None:
        self.subjects: dict[str, list[dict[str, Any]]] = {}
        self.texts: dict[int, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.status: int | None = None
        self.body: bytes | None = None
        self.held: threading.Event | None = None
        self.user = self.token = ""
        self.incompatible = ""

    def register(self, subject: str, schema: str, kind: str = "AVRO", **more: Any) -> int:
        """Register a schema; returns its id."""
        given = {"schema": schema, "schemaType": kind, **more}
        return self._register(subject, given)["id"]

    def answer(self, method: str, path: str, given: Any) -> tuple[int, Any]:
        """The status and the body of an answer."""
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        match method, *parts:
            case "GET", "schemas", "ids", number:
                found = self.texts.get(int(number))
                if found and "format=serialized" in path:
                    found = {**found, "schema": _serialised(found["schema"])}
                return (200, found) if found else (404, _error(40403, "Schema not found"))
            case "GET", "schemas", "ids", number, "subjects":
                held = [
                    name
                    for name, versions in self.subjects.items()
                    if any(each["id"] == int(number) for each in versions)
                ]
                return (200, held) if held else (404, _error(40403, "Schema not found"))
            case "GET", "subjects", subject, "versions", version:
                return self._version(subject, version)
            case "POST", "subjects", subject, "versions":
                if self.incompatible:
                    return 409, _error(409, self.incompatible)
                return 200, {"id": self._register(subject, given)["id"]}
            case "POST", "subjects", subject:
                for each in self.subjects.get(subject, []):
                    if _same(each, given):
                        return 200, each
                return 404, _error(40403, "Schema not found")
            case "DELETE", "subjects", subject:
                gone = self.subjects.pop(subject, None)
                if gone is None:
                    return 404, _error(40401, f"Subject '{subject}' not found.")
                return 200, [each["version"] for each in gone]
        return 404, _error(404, "HTTP 404 Not Found")

    def refuses(self, header: str) -> bool:
        """Whether a client with these credentials is refused."""
        if self.user:
            return header != "Basic " + base64.b64encode(self.user.encode()).decode()
        return bool(self.token) and header != f"Bearer {self.token}"

    def _version(self, subject: str, version: str) -> tuple[int, Any]:
        versions = self.subjects.get(subject, [])
        if version == "latest" and versions:
            return 200, versions[-1]
        for each in versions:
            if str(each["version"]) == version:
                return 200, each
        return 404, _error(40402, "Version not found.")

    def _register(self, subject: str, given: dict[str, Any]) -> dict[str, Any]:
        versions = self.subjects.setdefault(subject, [])
        for each in versions:
            if _same(each, given):
                return each
        ids = [number for number, text in self.texts.items() if _same(text, given)]
        number = ids[0] if ids else 101 + len(self.texts)
        self.texts[number] = given
        made = {"subject": subject, "version": len(versions) + 1, "id": number, **given}
        versions.append(made)
        return made


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    kinds = [each.get("schemaType") or "AVRO" for each in (one, other)]
    references = [each.get("references") or [] for each in (one, other)]
    return (one["schema"], kinds[0], references[0]) == (other["schema"], kinds[1], references[1])


def _serialised(text: str) -> str:
    """A schema of Protobuf as a descriptor in base64, which its deserialisers ask for."""
    if "{" not in text:
        return text
    from tests.conformance.messages import messages_of

    return base64.b64encode(messages_of(text, ())[0].file.serialized_pb).decode()


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error_code": code, "message": message}


@contextmanager
def served(registry: OtherRegistry, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve a registry on a free port; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            given = json.loads(self.rfile.read(size)) if size else None
            registry.requests.append(f"{self.command} {self.path}")
            if registry.held is not None:
                registry.held.wait()
            if registry.refuses(self.headers.get("Authorization", "")):
                status, content = 401, json.dumps(_error(40101, "Unauthorized")).encode()
            elif registry.status is not None:
                status, content = registry.status, b'{"error_code": 50001, "message": "no store"}'
            else:
                status, found = registry.answer(self.command, self.path, given)
                content = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", JSON)
            self.send_header("Content-Length", str(len(registry.body or content)))
            self.end_headers()
            self.wfile.write(registry.body or content)

        do_GET = do_POST = do_DELETE = do_PUT = respond  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        if registry.held is not None:
            registry.held.set()
        server.shutdown()
        server.server_close()
        thread.join()
