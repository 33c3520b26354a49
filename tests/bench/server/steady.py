"""Pull queries by key at a steady rate, independent of response times: a clock determines when each
is sent.

The time of a query counts from the moment it was due, so that one late response delays all queries
behind it (wrk sends less while it waits, and would not measure them).
"""

from __future__ import annotations

import gc
import random
import re
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.bench.server.world import PATIENCE_S, Serving

_LENGTH = re.compile(rb"content-length: *([0-9]+)", re.I)
_HEAD_END = b"\r\n\r\n"
_OK = b"HTTP/1.1 200 "


@dataclass(slots=True)
class _Connection:
    """One keep-alive connection. `due`: when the query was due that it waits for."""

    socket: socket.socket
    due: float = 0.0
    seen: bytes = b""


@dataclass(slots=True)
class Steadily:
    """The measurements: ms of each query, and how many were refused."""

    took_ms: list[float] = field(default_factory=list)
    failed: int = 0
    seconds: float = 0.0

    def percentile(self, share: float) -> float:
        """The ms within which a share of the queries were answered."""
        ordered = sorted(self.took_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def steadily(server: Serving, keys: int, *, per_s: int, seconds: int, connections: int) -> Steadily:
    """Send queries at a rate over some connections, for a while."""
    chance, found = random.Random(2), Steadily()
    opened = [_opened(server) for _ in range(connections)]
    gc.disable()
    try:
        begun = time.perf_counter()
        _ask(opened, lambda: _query(chance.randrange(keys)), per_s, per_s * seconds, found)
        found.seconds = time.perf_counter() - begun
    finally:
        gc.enable()
        for one in opened:
            one.socket.close()
    return found


def _ask(
    opened: list[_Connection],
    query: Callable[[], bytes],
    per_s: int,
    count: int,
    found: Steadily,
) -> None:
    poll, by_number = select.epoll(), {one.socket.fileno(): one for one in opened}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    free, begun, asked, answered = deque(opened), time.perf_counter(), 0, 0
    while answered < count:
        now = time.perf_counter()
        while free and asked < count and (due := begun + asked / per_s) <= now:
            one = free.popleft()
            one.due, asked = due, asked + 1
            one.socket.sendall(query())
        wait = begun + asked / per_s - time.perf_counter() if free and asked < count else PATIENCE_S
        for number, _ in poll.poll(max(0.0, wait)):
            one = by_number[number]
            if _taken(one, found):
                answered += 1
                free.append(one)
    poll.close()


def _taken(one: _Connection, found: Steadily) -> bool:
    """Read received bytes; returns whether the response is complete."""
    piece = one.socket.recv(65536)
    if not piece:
        raise RuntimeError("The server has closed a connection")
    one.seen += piece
    head, end, body = one.seen.partition(_HEAD_END)
    length = _LENGTH.search(head)
    if not end or length is None or len(body) < int(length[1]):
        return False
    found.took_ms.append((time.perf_counter() - one.due) * 1000)
    found.failed += not head.startswith(_OK)
    one.seen = b""
    return True


def _opened(server: Serving) -> _Connection:
    host, _, port = server.host.partition(":")
    made = socket.create_connection((host, int(port)), PATIENCE_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return _Connection(made)


def _query(number: int) -> bytes:
    body = f'{{"sql":"SELECT * FROM visitors WHERE id = \'user_{number}\';"}}'
    head = "POST /query-stream HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()
