"""POST /inserts-stream: inserts streamed rows and acknowledges each (reference: 6)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from millstream.model.errors import MillstreamError
from millstream.scripts.text import parse_text
from millstream.statements.row_inserts import InsertResult, RowInserts, open_inserts
from millstream_parser import statements as s
from millstream_server.answers import Streamed
from millstream_server.auth.principal import Principal
from millstream_server.endpoints import principal_of
from millstream_server.failures import (
    BAD_STATEMENT,
    MALFORMED,
    NEEDS_HTTP2,
    TOO_SLOW,
    RefusedError,
    refusal,
)
from millstream_server.ongoing import Ongoing
from millstream_server.requests import Asked, accepted, check_characters, check_depth, settings_of
from millstream_server.results.framing import DELIMITED, JSON
from millstream_server.results.values import text_of
from millstream_server.server import Server

LINE_BYTES_MAX = 1 << 20
ROWS_AT_ONCE = 1_000
_NAME = re.compile(r"\w+|`[^`]+`|\"[^\"]+\"")


async def inserts_stream(request: Request, server: Server) -> Response:
    """The endpoint. Only HTTP/2 lets rows and acknowledgements flow at the same time; a client
    that requests an upgrade has sent all rows with the request and gets the response without
    upgrading."""
    upgrades = request.headers.get("upgrade", "").lower() == "h2c"
    if request.scope.get("http_version") not in ("2", "3") and not upgrades:
        raise RefusedError(NEEDS_HTTP2, "This endpoint is only available when using HTTP2")
    kind = accepted(request.headers.get("accept", ""), (DELIMITED, JSON), DELIMITED)
    seconds = server.settings.body_seconds
    lines = _lines(request, seconds)
    try:
        async with asyncio.timeout(seconds):
            first = await anext(lines, None)
    except TimeoutError as error:
        raise _slow() from error
    if not first:
        raise RefusedError(MALFORMED, "The first line must be an object with the target")
    opened = await server.run(_opened, server, first[0], principal_of(request))
    pieces = _acknowledged(server, opened, first[1:], lines, array=kind == JSON)
    return Streamed(pieces, kind, reading=True)


def _slow() -> RefusedError:
    return RefusedError(TOO_SLOW, "The rows did not come in time")


@dataclass(frozen=True, slots=True)
class _Opened:
    """The target of rows, as an operation that can be revoked while they arrive."""

    inserts: RowInserts
    ongoing: Ongoing

    def insert(self, rows: list[bytes]) -> InsertResult:
        """See `RowInserts`; nothing is inserted after it is revoked."""
        try:
            self.ongoing.check()
            return self.inserts.insert(rows)
        except MillstreamError as error:
            return InsertResult(0, error)


def _opened(server: Server, line: bytes, principal: Principal) -> _Opened:
    """The target that the first line names."""
    try:
        wanted = json.loads(line)
        target = wanted["target"]
    except (ValueError, KeyError, TypeError) as error:
        raise RefusedError(MALFORMED, "Invalid JSON in inserts stream request") from error
    check_characters(line, wanted)
    if not isinstance(target, str):
        raise RefusedError(MALFORMED, "The target must be the name of a stream")
    session = server.session(Asked("", settings_of(wanted, "properties")))
    if not _NAME.fullmatch(target):
        raise RefusedError(BAD_STATEMENT, f"'{target}' is not the name of a stream", target)
    try:
        # A name follows the rules of the language: folded to upper case unless it is quoted.
        (parsed,) = parse_text(f"INSERT INTO {target} VALUES (NULL);")
    except MillstreamError as error:
        raise RefusedError(
            BAD_STATEMENT, f"'{target}' is not the name of a stream", target
        ) from error
    if not isinstance(parsed.statement, s.InsertValues):
        raise RefusedError(BAD_STATEMENT, f"'{target}' is not the name of a stream", target)
    ongoing = server.ongoing.begin(principal, parsed, session)
    try:
        server.guard.authorise(principal, parsed, session)
        server.guard.record(principal, parsed)
        return _Opened(
            open_inserts(parsed.statement.target, server.engine.inserts, session), ongoing
        )
    except MillstreamError as error:
        server.ongoing.end(ongoing)
        sight = server.guard.sight(principal, server.engine.catalog)
        raise refusal(error, target, seen=sight.suggested) from error
    except RefusedError:
        server.ongoing.end(ongoing)
        raise


async def _lines(request: Request, seconds: float) -> AsyncGenerator[list[bytes], None]:
    """The received lines, batched as they arrived. A line must be complete within `seconds`; there
    is no limit on the time between lines."""
    left = b""
    pieces = request.stream()
    while True:
        try:
            async with asyncio.timeout(seconds if left else None):
                piece = await anext(pieces, None)
        except TimeoutError as error:
            raise _slow() from error
        if piece is None:
            break
        *whole, left = (left + piece).split(b"\n")
        if len(left) > LINE_BYTES_MAX:
            raise RefusedError(MALFORMED, f"A line has at most {LINE_BYTES_MAX} bytes")
        found = [line for line in whole if line.strip()]
        for line in found:
            check_depth(line)
        if found:
            yield found
    if left.strip():
        check_depth(left)
        yield [left]


async def _acknowledged(
    server: Server,
    opened: _Opened,
    rows: list[bytes],
    lines: AsyncGenerator[list[bytes], None],
    *,
    array: bool,
) -> AsyncGenerator[bytes, None]:
    """The acknowledgements, in the order of the rows; the first error ends them."""
    sequence = 0

    def framed(found: list[dict[str, Any]]) -> bytes:
        texts = [text_of(item) for item in found]
        if not array:
            return "".join(f"{text}\n" for text in texts).encode()
        opening = "[" if sequence == 0 else ","
        return (opening + ",".join(texts)).encode() if texts else b""

    pending: list[bytes] | None = rows
    try:
        while pending is not None:
            for start in range(0, len(pending), ROWS_AT_ONCE):
                chosen = pending[start : start + ROWS_AT_ONCE]
                done = await server.run(opened.insert, chosen)
                acknowledged = _acknowledgements(done, sequence)
                yield framed(acknowledged)
                sequence += len(acknowledged)
                if done.error is not None:
                    pending = None
                    break
            else:
                pending = await anext(lines, None)
    finally:
        server.ongoing.end(opened.ongoing)
    if array:
        yield b"]" if sequence else b"[]"


def _acknowledgements(done: InsertResult, sequence: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"status": "ok", "seq": sequence + number} for number in range(done.count)
    ]
    if done.error is not None:
        why = refusal(done.error, "")
        found.append(
            {
                "status": "error",
                "seq": sequence + done.count,
                "error_code": why.code,
                "message": why.message,
            }
        )
    return found
