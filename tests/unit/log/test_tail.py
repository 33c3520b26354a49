"""The newest records in memory: what is found again, and that the bound is one of real memory."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from millstream.log.tail import PIECE_BYTES, TailCache
from tests.unit.log.suite import run


def records(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64())})


def found(tail: TailCache, first: int, stop: int, topic: str = "t") -> list[int] | None:
    table = tail.find((topic, 0), first, stop)
    return None if table is None else table["n"].to_pylist()


def test_records_of_several_pieces() -> None:
    tail = TailCache(1 << 20)
    for first in (0, 3, 6):
        tail.add(("t", 0), first, records(first, first + 1, first + 2))
    assert found(tail, 0, 9) == list(range(9))
    assert found(tail, 2, 7) == [2, 3, 4, 5, 6]
    assert found(tail, 8, 9) == [8]


def test_the_oldest_piece_of_all_partitions_makes_room() -> None:
    tail = TailCache(3 * (PIECE_BYTES + 8))
    tail.add(("old", 0), 0, records(1))
    for offset in range(3):
        tail.add(("t", 0), offset, records(offset))
    assert found(tail, 0, 1, "old") is None
    assert found(tail, 0, 3) == [0, 1, 2]
    tail.add(("t", 0), 3, records(3))
    assert (found(tail, 0, 1), found(tail, 1, 4)) == (None, [1, 2, 3])


def test_a_topic_that_is_deleted_gives_its_room_back() -> None:
    tail = TailCache(2 * (PIECE_BYTES + 8))
    tail.add(("gone", 0), 0, records(1))
    tail.add(("t", 0), 0, records(5))
    tail.forget("gone")
    tail.add(("t", 0), 1, records(6))
    assert (found(tail, 0, 1, "gone"), found(tail, 0, 2)) == (None, [5, 6])


SMALL_PIECES = """
import resource, sys
from millstream.log.tail import TailCache
from millstream.model.batch import raw_batch

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

tail, before = TailCache(16 << 20), peak()
for offset in range(20_000):
    tail.add(("t", 0), offset, raw_batch([(b"k", b"v", offset)]))
assert tail.find(("t", 0), 19_999, 20_000)["timestamp"].to_pylist() == [19_999]
print(peak() - before)
"""


def test_many_small_pieces_stay_within_the_bound(tmp_path: Path) -> None:
    # In a process of its own, whose memory has no earlier peak.
    assert int(run(SMALL_PIECES, tmp_path)) < 2 * (16 << 20)
