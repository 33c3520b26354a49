"""Batches that become records of internal topics."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.formats.ipc import RECORD_BYTES, pack, pieces, unpack
from millstream.model.errors import CorruptionError

WIDE = "x" * (RECORD_BYTES // 10)


def test_what_is_packed_is_unpacked() -> None:
    table = pa.table({"a": [1, None], "b": ["x", "y"]})
    assert unpack(pack(table)).equals(table)
    with pytest.raises(CorruptionError, match="Arrow batch"):
        unpack(b"something else")


def test_few_rows_are_one_piece_and_none_are_no_piece() -> None:
    table = pa.table({"a": [1, 2, 3]})
    assert [piece.to_pydict() for piece in pieces(table)] == [{"a": [1, 2, 3]}]
    assert list(pieces(table.slice(0, 0))) == []


@given(st.lists(st.integers(1, 4), min_size=1, max_size=30))
def test_rows_of_one_change_stay_together(sizes: list[int]) -> None:
    changes = np.repeat(np.arange(len(sizes)), sizes).astype(np.int64)
    table = pa.table({"change": changes, "wide": [WIDE] * len(changes)})
    made = list(pieces(table, changes))
    assert pa.concat_tables(made).equals(table)
    seen = [set(piece["change"].to_pylist()) for piece in made]
    assert sum(map(len, seen)) == len(set().union(*seen))
    assert all(piece.nbytes < RECORD_BYTES + 4 * len(WIDE) + 1_000 for piece in made)
