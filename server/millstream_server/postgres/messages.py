"""The messages of PostgreSQL's protocol, version 3: bytes to values, and answers to bytes.

Source: PostgreSQL's documentation, "Frontend/Backend Protocol". A message is a letter, its length
(with the length itself) and its body; the first message of a connection has no letter.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

VERSION = 3 << 16
SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
TEXT_FORMAT, BINARY_FORMAT = 0, 1
_INT2, _INT4 = struct.Struct("!h"), struct.Struct("!i")


class ProtocolError(Exception):
    """A client that does not follow the protocol: its connection ends."""


@dataclass(frozen=True, slots=True)
class Startup:
    """The first message: user, database and settings of the session."""

    parameters: Mapping[str, str]
    minor: int = 0


@dataclass(frozen=True, slots=True)
class CancelKey:
    """What ends the running statement of a session; the server gave it at the start."""

    process: int
    secret: int


@dataclass(frozen=True, slots=True)
class Negotiation:
    """A wish for an encrypted connection, before the first message. `tls`: False for GSS."""

    tls: bool


First = Startup | CancelKey | Negotiation


@dataclass(frozen=True, slots=True)
class SimpleQuery:
    """The text of statements, to be executed at once."""

    text: str


@dataclass(frozen=True, slots=True)
class Parse:
    """Prepares a statement. `types`: the OIDs of its parameters, 0 for unknown; it may have
    fewer than the text has parameters."""

    name: str
    text: str
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """Gives a prepared statement its parameters. `formats` and `result_formats`: one for all, one
    for each, or none (text)."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    """Asks for the columns of a portal or of a prepared statement."""

    portal: bool
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """Runs a portal. `limit`: the most rows for now, 0 for all."""

    portal: str
    limit: int


@dataclass(frozen=True, slots=True)
class CloseNamed:
    """Drops a portal or a prepared statement."""

    portal: bool
    name: str


@dataclass(frozen=True, slots=True)
class Sync:
    """The end of a series of messages: after an error the others of the series are skipped."""


@dataclass(frozen=True, slots=True)
class Flush:
    """Asks for the answers so far."""


@dataclass(frozen=True, slots=True)
class Terminate:
    """The client leaves."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A password, or a step of SASL."""

    body: bytes


@dataclass(frozen=True, slots=True)
class CopiedBytes:
    """Some bytes of the rows of COPY FROM STDIN."""

    data: bytes


@dataclass(frozen=True, slots=True)
class CopyDone:
    """All rows of COPY FROM STDIN have been sent."""


@dataclass(frozen=True, slots=True)
class CopyFail:
    """The client gives COPY FROM STDIN up, for a reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A function call: `letter` tells which."""

    letter: str


Message = (
    SimpleQuery
    | Parse
    | Bind
    | Describe
    | Execute
    | CloseNamed
    | Sync
    | Flush
    | Terminate
    | Secret
    | CopiedBytes
    | CopyDone
    | CopyFail
    | Unsupported
)


class _Body:
    """The parts of a body, one after the other."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def text(self) -> str:
        """A text up to its zero byte."""
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise ProtocolError("a text without its end")
        raw, self._at = self._body[self._at : end], end + 1
        return decoded(raw)

    def take(self, count: int) -> bytes:
        """So many bytes."""
        end = self._at + count
        if count < 0 or end > len(self._body):
            raise ProtocolError("a message shorter than it says")
        raw, self._at = self._body[self._at : end], end
        return raw

    def int2(self) -> int:
        """A number of two bytes."""
        return int(_INT2.unpack(self.take(2))[0])

    def int4(self) -> int:
        """A number of four bytes."""
        return int(_INT4.unpack(self.take(4))[0])

    def int2s(self) -> tuple[int, ...]:
        """A count, and so many numbers of two bytes."""
        return tuple(self.int2() for _ in range(self._count()))

    def int4s(self) -> tuple[int, ...]:
        """A count, and so many numbers of four bytes."""
        return tuple(self.int4() for _ in range(self._count()))

    def values(self) -> tuple[bytes | None, ...]:
        """A count, and so many values with their lengths, -1 for NULL."""
        return tuple(self._value() for _ in range(self._count()))

    def _count(self) -> int:
        # As PostgreSQL: up to 65,535 parameters.
        return self.int2() & 0xFFFF

    def _value(self) -> bytes | None:
        length = self.int4()
        return None if length == -1 else self.take(length)

    def end(self) -> None:
        """Check that nothing is left."""
        if self._at != len(self._body):
            raise ProtocolError("a message longer than it says")


def decoded(raw: bytes) -> str:
    """A text of the client; raises ProtocolError if it is no UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError("a text that is no UTF-8") from error


def read_first(body: bytes) -> First:
    """The first message of a connection, without its length; raises ProtocolError."""
    reading = _Body(body)
    code = reading.int4()
    match code:
        case _ if code in (SSL_REQUEST, GSS_REQUEST):
            reading.end()
            return Negotiation(code == SSL_REQUEST)
        case _ if code == CANCEL_REQUEST:
            return CancelKey(reading.int4(), reading.int4())
        case _ if code >> 16 == 3:
            parameters = {}
            while name := reading.text():
                parameters[name] = reading.text()
            reading.end()
            return Startup(parameters, code & 0xFFFF)
    raise ProtocolError(f"version {code >> 16}.{code & 0xFFFF} of the protocol")


def read_message(letter: bytes, body: bytes) -> Message:
    """A message; raises ProtocolError for one that is none."""
    reading = _Body(body)
    match letter:
        case b"p":
            return Secret(body)
        case b"d":
            return CopiedBytes(body)
        case b"F":
            return Unsupported(letter.decode())
        case b"c":
            found: Message = CopyDone()
        case b"f":
            found = CopyFail(reading.text())
        case b"Q":
            found = SimpleQuery(reading.text())
        case b"P":
            found = Parse(reading.text(), reading.text(), reading.int4s())
        case b"B":
            found = Bind(
                reading.text(), reading.text(), reading.int2s(), reading.values(), reading.int2s()
            )
        case b"D" | b"C":
            portal = _is_portal(reading.take(1))
            name = reading.text()
            found = Describe(portal, name) if letter == b"D" else CloseNamed(portal, name)
        case b"E":
            found = Execute(reading.text(), reading.int4())
        case b"S":
            found = Sync()
        case b"H":
            found = Flush()
        case b"X":
            found = Terminate()
        case _:
            raise ProtocolError(f"a message of the unknown kind {letter!r}")
    reading.end()
    return found


def _is_portal(kind: bytes) -> bool:
    if kind not in (b"P", b"S"):
        raise ProtocolError("neither a portal nor a statement")
    return kind == b"P"


def message(letter: bytes, body: bytes = b"") -> bytes:
    """A message to the client."""
    return letter + _INT4.pack(len(body) + 4) + body


def texts(*parts: str) -> bytes:
    """Texts with their zero bytes. A zero byte within one would end it: it is left out."""
    return b"".join(part.replace("\0", "").encode("utf-8", "replace") + b"\0" for part in parts)


AUTHENTICATED = message(b"R", _INT4.pack(0))
ASK_PASSWORD = message(b"R", _INT4.pack(3))
PARSED, BOUND, CLOSED = message(b"1"), message(b"2"), message(b"3")
NO_COLUMNS, EMPTY, SUSPENDED = message(b"n"), message(b"I"), message(b"s")
COPY_DONE = message(b"c")


def ask_sasl(mechanisms: Sequence[str]) -> bytes:
    """Offers mechanisms of SASL."""
    return message(b"R", _INT4.pack(10) + texts(*mechanisms) + b"\0")


def sasl_step(data: bytes, *, last: bool) -> bytes:
    """A step of SASL, or its last one."""
    return message(b"R", _INT4.pack(12 if last else 11) + data)


def parameter_status(name: str, value: str) -> bytes:
    """Tells a setting of the session."""
    return message(b"S", texts(name, value))


def key_data(key: CancelKey) -> bytes:
    """Gives the key for cancelling."""
    return message(b"K", _INT4.pack(key.process) + _INT4.pack(key.secret))


def negotiated(minor: int, unknown: Sequence[str]) -> bytes:
    """Answers a newer version: this one is spoken, without the options of these names."""
    return message(b"v", _INT4.pack(minor) + _INT4.pack(len(unknown)) + texts(*unknown))


def ready(status: str) -> bytes:
    """Asks for the next message; `status`: I, T in a transaction, E in a failed one."""
    return message(b"Z", status.encode())


def complete(tag: str) -> bytes:
    """The end of a statement."""
    return message(b"C", texts(tag))


def failed(fields: Mapping[str, str]) -> bytes:
    """An error: severity, code, message, …, by their letters."""
    return message(b"E", _fields(fields))


def notice(fields: Mapping[str, str]) -> bytes:
    """The same as a warning."""
    return message(b"N", _fields(fields))


def _fields(fields: Mapping[str, str]) -> bytes:
    return b"".join(name.encode() + texts(value) for name, value in fields.items()) + b"\0"


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a result. `size`: of a type of a fixed size, else -1."""

    name: str
    oid: int
    size: int
    format: int = TEXT_FORMAT


def row_description(fields: Iterable[Field]) -> bytes:
    """The columns of a result."""
    parts = [
        texts(field.name) + struct.pack("!ihihih", 0, 0, field.oid, field.size, -1, field.format)
        for field in fields
    ]
    return message(b"T", _INT2.pack(len(parts)) + b"".join(parts))


def parameter_description(oids: Sequence[int]) -> bytes:
    """The types of a statement's parameters."""
    return message(b"t", struct.pack(f"!H{len(oids)}i", len(oids), *oids))


def data_row(values: Sequence[bytes | None]) -> bytes:
    """A row."""
    return message(b"D", row_body(values))


def row_body(values: Sequence[bytes | None]) -> bytes:
    """Values behind their number, each behind its length: as in a row, and in a binary copy."""
    parts = [b"\xff\xff\xff\xff" if v is None else _INT4.pack(len(v)) + v for v in values]
    return _INT2.pack(len(parts)) + b"".join(parts)


def copy_out(columns: int, form: int) -> bytes:
    """The begin of copied rows, all of them as text or in binary."""
    return message(b"H", struct.pack(f"!bh{columns}h", form, columns, *[form] * columns))


def copy_in(columns: int, form: int) -> bytes:
    """The wish for rows to copy, all of them as text or in binary."""
    return message(b"G", struct.pack(f"!bh{columns}h", form, columns, *[form] * columns))


def copied(line: bytes) -> bytes:
    """A copied row."""
    return message(b"d", line)


def sasl_first(body: bytes, mechanism: str) -> str:
    """A client's first message of SASL; raises ProtocolError for another mechanism."""
    reading = _Body(body)
    if reading.text() != mechanism:
        raise ProtocolError("another mechanism than was offered")
    first = reading.take(reading.int4())
    reading.end()
    return decoded(first)
