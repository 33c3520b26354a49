"""The two directions of a connection: messages in, with their bounds, and bytes out."""

from __future__ import annotations

import asyncio
import ssl

from millstream_server.postgres import messages as m

STARTUP_BYTES_MAX = 10_000
"""As in PostgreSQL."""
_HEAD = 5


class Reader(asyncio.StreamReader):
    """A stream reader with an event for the end of the connection, which is set without a read."""

    def __init__(self) -> None:
        super().__init__(limit=64 << 10)
        self.left = asyncio.Event()

    def feed_eof(self) -> None:
        """See asyncio."""
        self.left.set()
        super().feed_eof()

    def set_exception(self, exc: Exception) -> None:
        """See asyncio."""
        self.left.set()
        super().set_exception(exc)

    @property
    def buffered(self) -> bool:
        """Whether bytes have come that were not read."""
        return bool(self._buffer)  # type: ignore[attr-defined]


class MessageTransport:
    """One connection. A client that does not read for `stall_s` is disconnected."""

    def __init__(
        self, reader: Reader, writer: asyncio.StreamWriter, bytes_max: int, stall_s: float
    ) -> None:
        self._reader, self._writer = reader, writer
        self._bytes_max, self._stall_s = bytes_max, stall_s
        self._reading: asyncio.Future[m.Message | None] | None = None
        self.left = reader.left

    async def first(self) -> m.First | None:
        """The first message; None if there is none. Raises ProtocolError."""
        body = await self._body(b"", STARTUP_BYTES_MAX)
        return None if body is None else m.read_first(body)

    async def message(self, bytes_max: int | None = None) -> m.Message | None:
        """The next message; None at the end. Raises ProtocolError for one that is none, or has too
        many bytes."""
        try:
            letter = await self._reader.readexactly(1)
        except asyncio.IncompleteReadError:
            return None
        body = await self._body(letter, bytes_max or self._bytes_max)
        return None if body is None else m.read_message(letter, body)

    async def resumable(self) -> m.Message | None:
        """As `message`. If this is cancelled, the next call goes on where it was: no part of a
        message is lost."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self.message())
        found = await asyncio.shield(self._reading)
        self._reading = None
        return found

    async def _body(self, letter: bytes, bytes_max: int) -> bytes | None:
        try:
            length = int.from_bytes(await self._reader.readexactly(4), signed=True) - 4
            if not 0 <= length <= bytes_max:
                what = f"a message {letter.decode('latin-1')!r} of {length} bytes"
                raise m.ProtocolError(f"{what}; it may have {bytes_max}")
            return await self._reader.readexactly(length)
        except asyncio.IncompleteReadError:
            return None

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    async def encrypt(self, context: ssl.SSLContext) -> None:
        """Go on with TLS. Bytes that came before it are nobody's: raises ProtocolError."""
        if self._reader.buffered:
            raise m.ProtocolError("data before the encryption that it asked for")
        self.write(b"S")
        await self.drain()
        await self._writer.start_tls(context)

    def write(self, data: bytes) -> None:
        """Send, in the end."""
        self._writer.write(data)

    async def drain(self) -> None:
        """Wait until the client has read enough. Raises ConnectionError if it does not."""
        try:
            async with asyncio.timeout(self._stall_s):
                await self._writer.drain()
        except TimeoutError:
            raise ConnectionAbortedError("the client does not read") from None

    def certificate(self) -> dict[str, object] | None:
        """The client's certificate, if it has shown a valid one."""
        tls = self._writer.get_extra_info("ssl_object")
        return None if tls is None else tls.getpeercert() or None

    @property
    def encrypted(self) -> bool:
        """Whether TLS is on."""
        return self._writer.get_extra_info("ssl_object") is not None

    @property
    def address(self) -> str:
        """The client's address."""
        name = self._writer.get_extra_info("peername")
        return str(name[0]) if name else ""

    def abort(self) -> None:
        """Close at once; what was not sent is lost."""
        self._stop_reading()
        self._writer.transport.abort()

    async def close(self) -> None:
        """Send what is left, and close."""
        self._stop_reading()
        self._writer.close()
        try:
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()
        except (TimeoutError, ConnectionError, ssl.SSLError):
            self.abort()
