"""A client that sends bytes, and reads the messages that come back."""

from __future__ import annotations

import socket
import struct
from types import TracebackType

from tests.patience import PATIENCE_S

STARTUP = b"user\0bob\0database\0shop\0\0"


def first(code: int, body: bytes = b"") -> bytes:
    """The first message of a connection."""
    return struct.pack("!ii", len(body) + 8, code) + body


def message(letter: bytes, body: bytes = b"") -> bytes:
    """A later message."""
    return letter + struct.pack("!i", len(body) + 4) + body


class Wire:
    """One connection."""

    def __init__(self, port: int, *, started: bool = True) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.key = b""
        if started:
            self.send(first(3 << 16, STARTUP))
            for letter, body in self.until(b"Z"):
                if letter == b"K":
                    self.key = body

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def read(self) -> tuple[bytes, bytes] | None:
        """The next message; None if the server has closed the connection."""
        head = self._exactly(5)
        if head is None:
            return None
        body = self._exactly(int.from_bytes(head[1:]) - 4)
        return None if body is None else (head[:1], body)

    def _exactly(self, count: int) -> bytes | None:
        found = b""
        while len(found) < count:
            try:
                some = self.socket.recv(count - len(found))
            except ConnectionError:
                return None
            if not some:
                return None
            found += some
        return found

    def until(self, letter: bytes) -> list[tuple[bytes, bytes]]:
        """All messages up to one of this kind, or up to the end."""
        found = []
        while (one := self.read()) is not None:
            found.append(one)
            if one[0] == letter:
                break
        return found

    def asked(self, text: str) -> list[tuple[bytes, bytes]]:
        """What a simple query is answered with."""
        self.send(message(b"Q", text.encode() + b"\0"))
        return self.until(b"Z")

    def error(self) -> dict[str, str]:
        """The fields of the next error; none if there is no error before the end."""
        for letter, body in self.until(b"E"):
            if letter == b"E":
                return fields(body)
        return {}

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.socket.close()


def fields(body: bytes) -> dict[str, str]:
    """The fields of an error."""
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}
