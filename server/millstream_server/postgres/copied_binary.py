"""The binary format of COPY: reading rows, and what is around rows (`messages.row_body`).

Source: PostgreSQL's documentation, "COPY", "Binary Format".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from millstream_server.postgres.copying import BAD_COPY, Pieces, in_pieces
from millstream_server.postgres.refusals import NOT_SUPPORTED, PgError

_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
HEADER = _SIGNATURE + struct.pack("!ii", 0, 0)
"""What is before the rows."""
TRAILER = struct.pack("!h", -1)
"""What is behind them."""
_CRITICAL = ~0xFFFF
_INT2, _INT4 = struct.Struct("!h"), struct.Struct("!i")


def binary_pieces(data: bytes, count: int) -> Iterator[Pieces]:
    """The fields of some rows at a time, by column, of which there are `count`. Raises PgError for
    what is no copy, for a row that has fewer or more, and for too many rows."""
    return in_pieces(_rows(data, count), count)


def _rows(data: bytes, count: int) -> Iterator[list[bytes | None]]:
    at = _begin(data)
    number = 0
    # A copy that ends without its trailer is whole: the protocol tells its end, too.
    while at < len(data):
        number += 1
        found, at = _number(data, at, _INT2, number)
        if found == -1:
            if at < len(data):
                raise _none(f"there are {len(data) - at} bytes behind its end")
            return
        if found != count:
            raise PgError(f"Row {number} of COPY has {found} columns instead of {count}.",
                          code=BAD_COPY)  # fmt: skip
        fields: list[bytes | None] = []
        for _ in range(count):
            size, at = _number(data, at, _INT4, number)
            if size < -1 or at + size > len(data):
                raise _none(f"row {number} has a field of {size} bytes")
            fields.append(None if size == -1 else data[at : at + size])
            at += max(size, 0)
        yield fields


def _begin(data: bytes) -> int:
    """Where the rows begin."""
    if not data.startswith(_SIGNATURE):
        raise _none("its first bytes are others")
    flags, at = _number(data, len(_SIGNATURE), _INT4, 0)
    if flags & _CRITICAL:
        raise PgError("A binary COPY cannot have OIDs here.", code=NOT_SUPPORTED)
    size, at = _number(data, at, _INT4, 0)
    if size < 0 or at + size > len(data):
        raise _none(f"its header is longer by {size} bytes")
    return at + size


def _number(data: bytes, at: int, layout: struct.Struct, row: int) -> tuple[int, int]:
    if at + layout.size > len(data):
        raise _none(f"it ends within row {row}" if row else "it ends within its header")
    (found,) = layout.unpack_from(data, at)
    return found, at + layout.size


def _none(detail: str) -> PgError:
    return PgError("These bytes are no binary COPY.", detail=detail, code=BAD_COPY)
