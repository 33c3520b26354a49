"""HTTP/1.1 by uvicorn, with limits on its buffers, which have none otherwise."""

from __future__ import annotations

import logging
from typing import Any, cast

from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

PIPELINED_MAX = 32


class PlainHttp1(HttpToolsProtocol):
    """Handles one connection. Trailers are dropped: uvicorn would add them to the checked
    headers."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        app: ASGIApp,
        headers_bytes_max: int,
        log: logging.Logger,
    ) -> None:
        super().__init__(config, state, {})
        self.app = cast(Any, app)
        self.logger, self.access_log = log, False
        self._headers_bytes_max = headers_bytes_max
        self._head_bytes = 0
        self._body_came = False
        self._in_head = False
        self._in_body = False
        self.requests = 0
        """The number of requests so far."""

    @property
    def working(self) -> bool:
        """Whether a complete request is in progress."""
        return not self._idle and not self.cycle.more_body

    @property
    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    @property
    def incomplete(self) -> bool:
        """Whether a head, or an unread body, is incomplete."""
        return self._idle and (self.cycle is None or self._in_head or self.cycle.more_body)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        super().connection_lost(exc)
        # After an error uvicorn leaves its timer running, which would keep all of this alive.
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        before, self._body_came = self.cycle, False
        super().data_received(data)
        # Chunk extensions, trailers and the head of a next request count alike.
        passed = self._body_came or self.cycle is not before
        self._head_bytes = 0 if passed else self._head_bytes + len(data)
        if self._head_bytes > self._headers_bytes_max:
            self.transport.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """See uvicorn."""
        if not self._in_body:
            super().on_header(name, value)

    def on_message_begin(self) -> None:
        """See uvicorn."""
        super().on_message_begin()
        self._in_head, self._in_body = True, False

    def on_headers_complete(self) -> None:
        """See uvicorn."""
        self._in_head, self._in_body = False, True
        if len(self.pipeline) >= PIPELINED_MAX:
            raise ValueError("too many requests are pipelined")
        self.requests += 1
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """See uvicorn."""
        self._body_came = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See uvicorn."""
        self._body_came = True
        super().on_message_complete()
