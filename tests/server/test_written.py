"""Consecutive writes are sent together, and nothing is held back for longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from millstream_server.http.written import Written


class Sent(asyncio.Transport):
    """Records its input, and when it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.pieces.append(bytes(data))

    def close(self) -> None:
        self.pieces.append(b"closed")


def sent(work: Callable[[Written], None]) -> list[bytes]:
    """What goes to the system when `work` writes, until the loop has done what it has to."""
    inner = Sent()

    async def run() -> None:
        work(Written(inner, asyncio.get_running_loop()))
        await asyncio.sleep(0)

    asyncio.run(run())
    return inner.pieces


def test_head_and_body_are_one() -> None:
    assert sent(lambda to: (to.write(b"head "), to.write(b"body"))[0]) == [b"head body"]


def test_a_head_alone_is_sent_too() -> None:
    assert sent(lambda to: to.write(b"head")) == [b"head"]


def test_a_body_may_be_empty() -> None:
    assert sent(lambda to: (to.write(b"head"), to.write(b""))[0]) == [b"head"]


def test_many_pieces_stay_in_order() -> None:
    def write(to: Written) -> None:
        for piece in b"abcde":
            to.write(bytes([piece]))

    assert sent(write) == [b"ab", b"cd", b"e"]


def test_what_waits_is_sent_before_the_end() -> None:
    assert sent(lambda to: (to.write(b"head"), to.close())[0]) == [b"head", b"closed"]
