"""Requests to a server of the ksqlDB REST API."""

from __future__ import annotations

import base64
import codecs
import contextlib
import http.client
import json
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from millstream.model.errors import MillstreamError, Span, StatementError, UnavailableError

JSON = "application/vnd.ksql.v1+json"
LINES = "application/vnd.ksqlapi.delimited.v1"
_CONNECT_SECONDS = 10
_PIECE = 1 << 16
_PLACE = re.compile(r"line:? (\d+)(?::|, col: )(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a client: a user with a password, a bearer token, or none."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    def headers(self) -> dict[str, str]:
        """The Authorization header."""
        if self.token is not None:
            return {"Authorization": f"Bearer {self.token}"}
        if self.user is not None:
            pair = base64.b64encode(f"{self.user}:{self.password or ''}".encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        return {}


class RefusedError(StatementError):
    """A statement that the server refused. `entities` are the results of those before it."""

    def __init__(self, message: str, *, detail: str, span: Span | None, entities: Any) -> None:
        super().__init__(message, detail=detail, span=span)
        self.entities = entities if isinstance(entities, list) else []


@dataclass(frozen=True, slots=True)
class Wire:
    """The settings of a connection to a server. `tls` are the `ssl.*` settings of the client."""

    url: str
    credentials: Credentials
    tls: Mapping[str, str] = field(default_factory=dict)

    def get(self, path: str) -> Any:
        """The JSON value of a resource."""
        with Reply(self, "GET", path, None, JSON) as reply:
            return decoded(reply.text())

    def text(self, path: str) -> str:
        """The text of a resource that is not JSON."""
        with Reply(self, "GET", path, None, "*/*") as reply:
            return reply.text()

    def post(self, path: str, body: Mapping[str, Any], accept: str = JSON) -> Any:
        """The whole response of the server."""
        with Reply(self, "POST", path, body, accept) as reply:
            return decoded(reply.text())

    def open(self, path: str, body: Mapping[str, Any], accept: str) -> Reply:
        """A streaming response; the caller closes it."""
        return Reply(self, "POST", path, body, accept)

    def connection(self) -> http.client.HTTPConnection:
        """A new connection."""
        parts = urlsplit(self.url)
        host = parts.hostname or "localhost"
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=self.tls.get("ssl.ca.location"))
            if certificate := self.tls.get("ssl.certificate.location"):
                context.load_cert_chain(certificate, self.tls.get("ssl.key.location"))
            return http.client.HTTPSConnection(
                host, parts.port or 443, timeout=_CONNECT_SECONDS, context=context
            )
        return http.client.HTTPConnection(host, parts.port or 8088, timeout=_CONNECT_SECONDS)


class Reply:
    """A response of the server. Raises UnavailableError without one, and the error of a refusal."""

    def __init__(
        self, wire: Wire, method: str, path: str, body: Mapping[str, Any] | None, accept: str
    ) -> None:
        headers = {"Accept": accept, "Content-Type": JSON, **wire.credentials.headers()}
        content = None if body is None else json.dumps(body).encode()
        self.connection = wire.connection()
        try:
            self.connection.connect()
            # A statement may take long; only the connection has a timeout.
            self.connection.sock.settimeout(None)
            self.connection.request(method, path, content, headers)
            self.response = self.connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            raise UnavailableError(
                f"Cannot reach the server {wire.url}",
                detail=str(error),
                hint="Is it running? Does it speak TLS (https)? SERVER shows or changes the URL.",
            ) from error
        except BaseException:
            # Ctrl-C: the server detects the closed connection.
            self.connection.close()
            raise
        if self.response.status >= 400:
            with self:
                raise refusal(self.response.status, self.text(), str((body or {}).get("ksql", "")))

    def text(self) -> str:
        """The whole response."""
        return "".join(self.pieces())

    def pieces(self) -> Iterator[str]:
        """The response as it arrives. Ends when it is closed from another thread."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            try:
                data = self.response.read1(_PIECE)
            except (OSError, ValueError, AttributeError, http.client.HTTPException):
                return
            if not data:
                return
            yield decoder.decode(data)

    def lines(self) -> Iterator[str]:
        """The same by lines, without line ends."""
        waiting = ""
        for piece in self.pieces():
            *whole, waiting = (waiting + piece).split("\n")
            yield from whole
        if waiting:
            yield waiting

    def close(self) -> None:
        """Close the connection, even while another thread reads."""
        sock = self.connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self.connection.close()

    def __enter__(self) -> Reply:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()


def decoded(text: str) -> Any:
    """JSON with all digits of its numbers."""
    try:
        return json.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise UnavailableError(
            "What answers is not a ksqlDB or Millstream server", detail=text[:200]
        ) from error


def refusal(status: int, text: str, sent: str = "") -> MillstreamError:
    """The error of an unsuccessful response to statements."""
    try:
        body = json.loads(text, parse_float=Decimal)
    except ValueError:
        body = {}
    if not isinstance(body, dict) or "message" not in body:
        return UnavailableError(f"The server answered with status {status}", detail=text[:200])
    message = str(body["message"])
    if status >= 500:
        return UnavailableError(message)
    detail, span = _shown(message, str(body.get("statementText") or sent))
    return RefusedError(message, detail=detail, span=span, entities=body.get("entities"))


def _shown(message: str, statement: str) -> tuple[str, Span | None]:
    """The line that a message refers to, with a caret below the position, unless it has one."""
    found = _PLACE.search(message)
    lines = statement.splitlines()
    shown = "^" in message
    if shown or found is None or not 0 < int(found[1]) <= len(lines):
        return "", None
    line, column = lines[int(found[1]) - 1], int(found[2])
    word = re.compile(r"\w+").match(line, column - 1)
    width = len(word.group()) if word else 1
    return f"{line}\n{' ' * (column - 1)}^", Span(int(found[1]), column, 0, width)
