"""Rows of a server's response as Arrow tables, as they arrive."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from millstream.model.errors import UnavailableError
from millstream.remote.http import Reply

ARROW = "application/vnd.apache.arrow.stream"
_BROKEN_OFF = "The server has ended the query before its last row"
_END = b"\xff\xff\xff\xff\0\0\0\0"
"""How a whole stream ends; one that failed on the way does not."""


class ArrowResponse:
    """A response with rows. Raises UnavailableError where it breaks off."""

    def __init__(self, reply: Reply) -> None:
        """Waits for the columns."""
        self._bytes = _Bytes(reply)
        try:
            self._reader = pa.ipc.open_stream(self._bytes)
        except pa.ArrowException as error:
            raise UnavailableError(_BROKEN_OFF, detail=str(error)) from error

    @property
    def schema(self) -> pa.Schema:
        """The columns; its metadata has the id of a push query."""
        return self._reader.schema

    def __iter__(self) -> Iterator[pa.Table]:
        while True:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                break
            except pa.ArrowException as error:
                raise UnavailableError(_BROKEN_OFF, detail=str(error)) from error
            yield pa.Table.from_batches([batch])
        if self._bytes.last != _END:
            raise UnavailableError(_BROKEN_OFF, hint="Its log says why.")


class _Bytes:
    """The file that Arrow reads."""

    closed = False

    def __init__(self, reply: Reply) -> None:
        self._pieces = reply.raw()
        self._left = b""
        self.last = b""
        """The last bytes that were read."""

    def read(self, size: int = -1) -> bytes:
        """Exactly so many bytes, fewer at the end."""
        while size < 0 or len(self._left) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._left += piece
        cut = len(self._left) if size < 0 else size
        found, self._left = self._left[:cut], self._left[cut:]
        self.last = (self.last + found[-len(_END) :])[-len(_END) :]
        return found

    def close(self) -> None:
        """The caller closes the response."""
