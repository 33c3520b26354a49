"""The frames of an HTTP/2 connection, counted before they are read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

PREFACE_BYTES = 24
_HEAD_BYTES = 9
_HEADERS = 1
_END_STREAM, _END_HEADERS = 1, 4


class Kind(Enum):
    """Frames that cost the server more than the client. `burst` of them are allowed at once, and
    `per_second` afterwards; plus two window updates for each KiB of responses."""

    RESET = ("stream resets", 100, 33.0)
    CONTROL = ("pings, settings, priorities and empty frames", 200, 33.0)
    WINDOW = ("window updates", 2_000, 100.0)

    def __init__(self, title: str, burst: int, per_second: float) -> None:
        self.title = title
        self.burst = burst
        self.per_second = per_second


CONTINUATIONS_MAX = 8
"""The bytes of one header block."""


@dataclass(slots=True)
class Bucket:
    """A token bucket with at most `burst` tokens and `per_second` refills."""

    burst: float
    per_second: float
    tokens: float
    at: float

    def take(self, count: float, now: float) -> bool:
        """Take tokens; returns False, and takes none, if there are too few. A negative count
        returns tokens."""
        self.spend(0.0, now)
        if count > self.tokens:
            return False
        self.tokens = min(self.burst, self.tokens - count)
        return True

    def spend(self, count: float, now: float, least: float = -math.inf) -> None:
        """Take tokens, perhaps in advance, down to the level `least`."""
        back = max(0.0, now - self.at) * self.per_second
        self.tokens = max(least, min(self.burst, self.tokens + back) - count)
        self.at = now


Shared = Callable[[Kind, float], bool]
"""Counts the frames of several connections together; returns False if there are too many."""


def alone(kind: Kind, times: float) -> bool:
    """A limit that is not shared with other connections."""
    return True


@dataclass(slots=True)
class FrameMeter:
    """Reads only frame headers. `clock`: monotonic seconds."""

    headers_bytes_max: int
    clock: Callable[[], float]
    shared: Shared = alone
    """Counts the same frames together with other connections."""
    excess: str = ""
    """The kind of frames that exceeded a limit; empty for none."""
    in_headers: bool = False
    """Whether a header block is incomplete."""
    greeted: bool = False
    """Whether the preface has arrived."""
    frames: int = 0
    """The number of streams begun."""
    _skip: int = PREFACE_BYTES
    _head: bytes = b""
    _block_bytes: int = 0
    _continuations: int = 0
    _buckets: dict[Kind, Bucket] = field(default_factory=dict)

    def feed(self, data: bytes) -> None:
        """Count the frames of the next bytes; `excess` says whether there were too many."""
        at = 0
        while at < len(data) and not self.excess:
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                at += step
                self.greeted = self.greeted or not self._skip
                continue
            step = _HEAD_BYTES - len(self._head)
            self._head += data[at : at + step]
            at += step
            if len(self._head) == _HEAD_BYTES:
                head, self._head = self._head, b""
                self._skip = int.from_bytes(head[:3], "big")
                self._frame(head[3], head[4], self._skip)

    def count(self, kind: Kind, times: float = 1) -> None:
        """Count frames that are not in the bytes, such as resets that the client provoked."""
        now = self.clock()
        if kind not in self._buckets:
            self._buckets[kind] = Bucket(kind.burst, kind.per_second, kind.burst, now)
        alone, together = self._buckets[kind].take(times, now), self.shared(kind, times)
        if not (alone and together):
            self.excess = kind.title

    def sent(self, size: int) -> None:
        """Note sent response bytes, for which the client may send window updates. A client that
        opens windows byte by byte gains almost nothing."""
        self.count(Kind.WINDOW, -2 * size / 1024)

    def _frame(self, kind: int, flags: int, size: int) -> None:
        self.frames += 1
        match kind:
            case 1 | 9:  # HEADERS, CONTINUATION
                self._headers(kind, flags, size)
            case 3:  # RST_STREAM
                self.count(Kind.RESET)
            case 8:  # WINDOW_UPDATE
                self.count(Kind.WINDOW)
            case 0 if size or flags & _END_STREAM:  # DATA
                pass
            case _:
                self.count(Kind.CONTROL)

    def _headers(self, kind: int, flags: int, size: int) -> None:
        if kind == _HEADERS:
            self._block_bytes = self._continuations = 0
        else:
            self._continuations += 1
        self._block_bytes += size
        self.in_headers = not flags & _END_HEADERS
        if self._continuations > CONTINUATIONS_MAX:
            self.excess = "continuations"
        elif self._block_bytes > self.headers_bytes_max:
            self.excess = "bytes of headers"
