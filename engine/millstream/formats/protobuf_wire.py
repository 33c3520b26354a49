"""Protobuf's wire format: varints, tags and length-delimited fields."""

from __future__ import annotations

import struct

from millstream.model.errors import RecordError

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_MASK = 2**64 - 1

Fields = dict[int, list[int | bytes]]
"""The values of each field number, in order: varints and fixed numbers as unsigned integers. The
field whose last value comes last is the last one."""


def varint(number: int) -> bytes:
    """A number as a varint; a negative one as its 64-bit two's complement."""
    number &= _MASK
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def tag(number: int, wire: int) -> bytes:
    """The tag before a field's value."""
    return varint(number << 3 | wire)


def delimited(number: int, content: bytes) -> bytes:
    """A string, bytes, message or packed field."""
    return tag(number, LENGTH) + varint(len(content)) + content


def signed(number: int, bits: int) -> int:
    """A varint read as a signed integer of `bits` bits; higher bits are dropped as the standard
    requires."""
    number &= 2**bits - 1
    return number - 2**bits if number >> (bits - 1) else number


def double_of(number: int | bytes) -> float:
    """A fixed 64-bit value as the floating-point number it holds."""
    content = number if isinstance(number, bytes) else number.to_bytes(8, "little")
    return float(struct.unpack("<d", content)[0])


def double_bytes(number: float) -> bytes:
    """A floating-point number as a fixed 64-bit value."""
    return struct.pack("<d", number)


def read_fields(content: bytes) -> Fields:
    """The fields of a message by number. Raises RecordError when the bytes are not a message."""
    found: Fields = {}
    at = 0
    while at < len(content):
        head, at = read_varint(content, at)
        number, wire = head >> 3, head & 7
        value: int | bytes
        if wire == VARINT:
            value, at = read_varint(content, at)
        elif wire == LENGTH:
            length, at = read_varint(content, at)
            value, at = content[at : at + length], at + length
        elif wire in (FIXED64, FIXED32):
            width = 8 if wire == FIXED64 else 4
            value, at = int.from_bytes(content[at : at + width], "little"), at + width
        else:
            raise RecordError(f"unknown wire type {wire} at byte {at}")
        if at > len(content) or number == 0:
            raise RecordError("the Protobuf message is cut off or malformed")
        values = found.pop(number, None) or []
        values.append(value)
        found[number] = values
    return found


def read_varint(content: bytes, at: int) -> tuple[int, int]:
    """A varint and where it ends."""
    found = shift = 0
    while True:
        if at >= len(content) or shift > 63:
            raise RecordError("the Protobuf message is cut off or malformed")
        byte = content[at]
        found |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return found & _MASK, at
        shift += 7
