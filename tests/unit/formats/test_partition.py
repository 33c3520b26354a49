"""The partitioner agrees with Java's, byte for byte."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.formats.ipc import pack, unpack
from millstream.formats.partition import murmur2, partition_of
from millstream.formats.payload import one_array
from millstream.model.errors import CorruptionError


def murmur2_of_one(data: bytes) -> int:
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    state = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * factor & mask
        state = (state * factor & mask) ^ ((word ^ word >> 24) * factor & mask)
    if rest := data[whole:]:
        state = (state ^ int.from_bytes(rest, "little")) * factor & mask
    state = (state ^ state >> 13) * factor & mask
    return state ^ state >> 15


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_hash(keys: list[bytes]) -> None:
    found = murmur2(pa.array(keys, pa.binary())).tolist()
    assert found == [murmur2_of_one(key) for key in keys]


def test_partitions() -> None:
    keys = pa.chunked_array([pa.array([b"x", None]), pa.array([b"21"])]).slice(0, 3)
    assert partition_of(keys, 4).tolist() == [2, -1, (-973932308 & 0x7FFFFFFF) % 4]
    assert partition_of(pa.array([], pa.binary()), 4).tolist() == []


def test_batches_travel_as_bytes() -> None:
    table = pa.table({"a": [1, None], "$part": pa.array([0, 1], pa.int32())})
    assert unpack(pack(table)).equals(table)
    with pytest.raises(CorruptionError):
        unpack(b"no batch at all")


@given(st.lists(st.binary(min_size=8, max_size=8), max_size=5), st.integers(0, 3))
def test_keys_of_one_length(keys: list[bytes], skipped: int) -> None:
    array = one_array(pa.array(keys, pa.binary()).slice(skipped))
    assert murmur2(array).tolist() == [murmur2_of_one(key) for key in keys[skipped:]]
