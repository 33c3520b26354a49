"""Requests to a server of the ksqlDB REST API, by httpx."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

import httpx

from millstream.model.errors import MillstreamError, Span, StatementError, UnavailableError

JSON = "application/vnd.ksql.v1+json"
LINES = "application/vnd.ksqlapi.delimited.v1"
_TIMEOUT = httpx.Timeout(None, connect=10.0)
"""A statement, and the time to the next row, may take long; only the connection has a timeout."""
_PLACE = re.compile(r"line:? (\d+)(?::|, col: )(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a client: a user with a password, a bearer token, or none. `headers` are
    sent with each request, for what stands in front of the server."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class RefusedError(StatementError):
    """A statement that the server refused. `entities` are the results of those before it."""

    def __init__(self, message: str, *, detail: str, span: Span | None, entities: Any) -> None:
        super().__init__(message, detail=detail, span=span)
        self.entities = entities if isinstance(entities, list) else []


class Wire:
    """Requests to the server of a URL, from any thread. `tls` are the `ssl.*` settings of the
    client. Raises StatementError for a URL or settings that cannot be used.

    A connection has one request at a time and is then used again. Several requests cannot share
    one over HTTP/2: httpcore's are not safe for threads.
    """

    def __init__(
        self, url: str, credentials: Credentials, tls: Mapping[str, str] | None = None
    ) -> None:
        self.url = url
        self._address = _address(url)
        self._credentials = credentials
        self._context = _context(self._address, tls or {})
        self._idle: list[httpx.Client] = []

    def get(self, path: str) -> Any:
        """The JSON value of a resource."""
        with self._send("GET", path, None, JSON) as reply:
            return decoded(reply.text())

    def text(self, path: str) -> str:
        """The text of a resource that is not JSON."""
        with self._send("GET", path, None, "*/*") as reply:
            return reply.text()

    def post(self, path: str, body: Mapping[str, Any], accept: str = JSON) -> Any:
        """The whole response of the server."""
        with self._send("POST", path, body, accept) as reply:
            return decoded(reply.text())

    def open(self, path: str, body: Mapping[str, Any], accept: str) -> Reply:
        """A streaming response; the caller closes it."""
        return self._send("POST", path, body, accept)

    def keep(self, client: httpx.Client) -> None:
        """Keep a client whose last response is complete for the next request."""
        self._idle.append(client)

    def close(self) -> None:
        """Close the connections that no request uses."""
        while self._idle:
            self._idle.pop().close()

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, accept: str) -> Reply:
        """Raises UnavailableError without a response, and the error of a refusal."""
        try:
            client = self._idle.pop()
        except IndexError:
            client = self._client()
        content = None if body is None else json.dumps(body).encode()
        request = client.build_request(method, path, content=content, headers={"Accept": accept})
        try:
            response = client.send(request, stream=True)
        except httpx.HTTPError as error:
            client.close()
            raise UnavailableError(
                f"Cannot reach the server {self.url}",
                detail=str(error),
                hint="Is it running? Does it speak TLS (https)? SERVER shows or changes the URL.",
            ) from error
        except BaseException:
            # Ctrl-C: the server detects the closed connection.
            client.close()
            raise
        reply = Reply(self, client, response)
        if response.status_code >= 400:
            with reply:
                sent = str((body or {}).get("ksql", ""))
                raise refusal(response.status_code, reply.text(), sent)
        return reply

    def _client(self) -> httpx.Client:
        given = self._credentials
        # No response is compressed: a compressor may hold rows back.
        headers = {**given.headers, "Content-Type": JSON, "Accept-Encoding": "identity"}
        if given.token is not None:
            headers["Authorization"] = f"Bearer {given.token}"
        return httpx.Client(
            base_url=self._address,
            auth=None if given.user is None else (given.user, given.password or ""),
            headers=headers,
            verify=self._context,
            http2=True,
            timeout=_TIMEOUT,
            trust_env=False,
        )


Content = TypeVar("Content", str, bytes)


class Reply:
    """A response of the server. As a context, it closes the connection unless all was read."""

    def __init__(self, wire: Wire, client: httpx.Client, response: httpx.Response) -> None:
        self.headers: Mapping[str, str] = response.headers
        self._wire = wire
        self._client = client
        self._response = response
        self._closed = False

    def text(self) -> str:
        """The whole response."""
        return "".join(self.pieces())

    def pieces(self) -> Iterator[str]:
        """The response as it arrives. Ends when it is closed from another thread."""
        return self._checked(self._response.iter_text())

    def raw(self) -> Iterator[bytes]:
        """The same as bytes."""
        return self._checked(self._response.iter_bytes())

    def _checked(self, pieces: Iterator[Content]) -> Iterator[Content]:
        try:
            yield from pieces
        except (httpx.HTTPError, httpx.StreamError) as error:
            if not self._closed:
                raise UnavailableError(
                    "The server's answer breaks off.", detail=str(error)
                ) from error

    def lines(self) -> Iterator[str]:
        """The same by lines, without line ends."""
        # Unlike httpx's, a line ends at a line feed alone: a record may contain the others.
        waiting = ""
        for piece in self.pieces():
            *whole, waiting = (waiting + piece).split("\n")
            yield from whole
        if waiting:
            yield waiting

    def close(self) -> None:
        """Close the connection, even while another thread reads."""
        self._closed = True
        # A thread that waits for data is not woken when its socket is closed.
        sock: socket.socket = self._response.extensions["network_stream"].get_extra_info("socket")
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        self._client.close()

    def __enter__(self) -> Reply:
        return self

    def __exit__(self, *_: object) -> None:
        if self._response.is_closed and not self._closed:
            self._wire.keep(self._client)
        else:
            self.close()


def _address(url: str) -> httpx.URL:
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise StatementError(f"Not the URL of a server: {url}", detail=str(error)) from error
    if address.scheme not in ("http", "https") or not address.host:
        raise StatementError(f"Not the URL of a server: {url}", hint="http://localhost:8088")
    if address.scheme == "http" and address.port is None:
        return address.copy_with(port=8088)
    return address


def _context(address: httpx.URL, tls: Mapping[str, str]) -> ssl.SSLContext:
    """What TLS trusts and presents; nothing for a server without TLS."""
    if address.scheme == "http":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context = ssl.create_default_context(cafile=tls.get("ssl.ca.location"))
        if certificate := tls.get("ssl.certificate.location"):
            context.load_cert_chain(certificate, tls.get("ssl.key.location"))
    except OSError as error:
        names = [value for name, value in tls.items() if name.endswith(".location")]
        raise StatementError(
            f"Cannot read the certificates: {', '.join(names)}", detail=str(error)
        ) from error
    return context


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
