"""Combines consecutive writes into one send."""

from __future__ import annotations

import asyncio
from typing import Any


class Written(asyncio.Transport):
    """The transport of a connection, for uvicorn, which writes the head and the body of a response
    separately: that would be two system calls for a pull query. The first of consecutive pieces is
    buffered until the second, or until the end of the current event loop iteration."""

    def __init__(self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._inner = inner
        self._loop = loop
        self._waits = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """See asyncio.WriteTransport."""
        if self._waits:
            waiting, self._waits = self._waits, b""
            self._inner.write(waiting + data)
        else:
            self._waits = bytes(data)
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        if self._waits:
            waiting, self._waits = self._waits, b""
            self._inner.write(waiting)

    def close(self) -> None:
        """See asyncio.BaseTransport."""
        self._send()
        self._inner.close()

    def abort(self) -> None:
        """See asyncio.WriteTransport."""
        self._inner.abort()

    def is_closing(self) -> bool:
        """See asyncio.BaseTransport."""
        return self._inner.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See asyncio.BaseTransport."""
        return self._inner.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """See asyncio.ReadTransport."""
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        """See asyncio.ReadTransport."""
        self._inner.resume_reading()
