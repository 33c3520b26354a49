"""Computes the partition of a key: Kafka's default partitioner (murmur2 of the key bytes)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.formats.payload import Bytes, byte_content, one_array, present_rows

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)

Words = npt.NDArray[np.uint32]


def partition_of(keys: Bytes, partitions: int) -> npt.NDArray[np.int32]:
    """The partition of each key, as in Java's client; -1 for a NULL key."""
    array = one_array(keys)
    hashes = murmur2(array) & np.uint32(0x7FFFFFFF)
    found = (hashes % np.uint32(partitions)).astype(np.int32)
    return np.where(present_rows(array), found, np.int32(-1))


def partition_by_column(numbers: pa.Array, partitions: int) -> npt.NDArray[np.int32]:
    """The partition that each number means, modulo the number of partitions; -1 for NULL."""
    array = one_array(numbers)
    found = np.asarray(array.fill_null(0)) % partitions
    return np.where(np.asarray(array.is_valid()), found, -1).astype(np.int32)


def murmur2(keys: Bytes) -> Words:
    """The 32-bit hash of each value of a binary array without offset."""
    starts, content = byte_content(keys)
    lengths = np.diff(starts)
    if len(keys) and (lengths == lengths[0]).all():
        matrix = content[starts[0] : starts[-1]].reshape(len(keys), lengths[0])
        return _of_length(matrix, int(lengths[0]))
    found = np.zeros(len(keys), np.uint32)
    # Values of one length are hashed together, a word of all of them at a time.
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        matrix = content[starts[:-1][rows][:, None] + np.arange(length)]
        found[rows] = _of_length(matrix, length)
    return found


def _of_length(matrix: npt.NDArray[np.uint8], length: int) -> Words:
    whole = length // 4
    words = np.ascontiguousarray(matrix[:, : whole * 4]).view("<u4")
    state = np.full(len(matrix), _SEED ^ np.uint32(length), np.uint32)
    for index in range(whole):
        mixed = words[:, index] * _M
        mixed ^= mixed >> np.uint32(24)
        state = state * _M ^ mixed * _M
    rest = matrix[:, whole * 4 :].astype(np.uint32)
    if rest.shape[1]:
        for index in range(rest.shape[1]):
            state ^= rest[:, index] << np.uint32(8 * index)
        state = state * _M
    state = (state ^ (state >> np.uint32(13))) * _M
    return np.asarray(state ^ (state >> np.uint32(15)), np.uint32)
