"""The last row of each key, however the changes are batched."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millstream.history.latest import RAW_KEY, last_rows
from millstream.model.batch import DIFF

CHANGES = st.lists(st.tuples(st.binary(max_size=1), st.integers(0, 1)), max_size=30)


def table(changes: list[tuple[int, bytes, int]]) -> pa.Table:
    return pa.table(
        {
            "n": pa.array([n for n, _, _ in changes], pa.int64()),
            RAW_KEY: pa.array([key for _, key, _ in changes], pa.binary()),
            DIFF: pa.array([diff for _, _, diff in changes], pa.int8()),
        }
    )


@given(CHANGES, st.integers(1, 7))
def test_as_a_dictionary_has_it(changes: list[tuple[bytes, int]], size: int) -> None:
    numbered = [(n, key, diff) for n, (key, diff) in enumerate(changes)]
    pieces = [table(numbered[at : at + size]) for at in range(0, len(numbered), size)]
    last = {key: (n, diff) for n, key, diff in numbered}
    expected = sorted(n for n, diff in last.values() if diff)
    assert [n for rows in last_rows(pieces) for n in rows["n"].to_pylist()] == expected


def test_no_changes() -> None:
    assert not list(last_rows([]))
