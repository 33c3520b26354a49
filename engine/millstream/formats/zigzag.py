"""Numbers of variable length whose sign is in their lowest bit: Avro's, and those that lead to a
message of Protobuf."""

from __future__ import annotations

from millstream.model.errors import RecordError


def read_long(payload: bytes, at: int) -> tuple[int, int]:
    """A number of variable length; negative ones are in the odd places (zigzag)."""
    byte = payload[at]
    at += 1
    found, shift = byte & 0x7F, 7
    while byte > 0x7F:
        if shift > 63:
            raise RecordError("a number has more than ten bytes")
        byte = payload[at]
        at += 1
        found |= (byte & 0x7F) << shift
        shift += 7
    found &= (1 << 64) - 1
    return (found >> 1) ^ -(found & 1), at


def put_long(number: int, out: bytearray) -> None:
    """A number of variable length; see `read_long`."""
    left = (number << 1) ^ (number >> 63)
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
