"""A buffer holds each record once, whatever a client hands out."""

from __future__ import annotations

import pyarrow as pa
import pytest

from millstream.log.kafka.partition_buffer import PartitionBuffer
from millstream.model.batch import raw_batch


def records(*offsets: int) -> pa.Table:
    batch = raw_batch([(b"k", b"v", 0) for _ in offsets])
    at = batch.schema.get_field_index("offset")
    return batch.set_column(at, "offset", pa.array(offsets, pa.int64()))


@pytest.mark.parametrize(
    ("again", "held", "following"),
    [
        ((3, 4), [3, 4, 6], 7),
        ((4, 6), [3, 4, 6], 7),
        ((3, 4, 6, 7, 9), [3, 4, 6, 7, 9], 10),
        ((6, 8), [3, 4, 6, 8], 9),
        ((5,), [3, 4, 6], 7),
    ],
)
def test_what_has_come_before_is_left_out(
    again: tuple[int, ...], held: list[int], following: int
) -> None:
    buffer = PartitionBuffer(3)
    cursor = buffer.open(("t", 0), 3)
    buffer.add(records(3, 4, 6))
    buffer.add(records(*again))
    assert cursor.first(100)["offset"].to_pylist() == held
    assert (cursor.count, buffer.next) == (len(held), following)


def test_what_lies_before_the_position_or_the_end_is_left_out() -> None:
    buffer = PartitionBuffer(3)
    cursor = buffer.open(("t", 0), 3)
    buffer.add(records(1, 2, 3))
    assert cursor.first(100)["offset"].to_pylist() == [3]
    assert cursor.move(4)
    buffer.reach(8)
    buffer.add(records(7, 8))
    assert cursor.first(100)["offset"].to_pylist() == [8]
