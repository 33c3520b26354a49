"""Reading a partition with missing offsets up to a bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.log.log import Fetched, read_before


@given(
    st.sets(st.integers(0, 30), max_size=20),
    st.integers(0, 10),
    st.integers(0, 32),
    st.integers(1, 8),
)
def test_every_record_before_the_bound_is_read_once(
    present: set[int], offset: int, before: int, max_records: int
) -> None:
    end = 32

    def read_from(at: int, count: int) -> Fetched[tuple[int, ...]]:
        found = tuple(sorted(one for one in present if one >= at)[: max(count, 0)])
        # As the logs do: all that is missing at the end is passed, unless the count is reached.
        following = found[-1] + 1 if found and len(found) == count else end
        following = at if count <= 0 else following
        return Fetched("t", 0, found, len(found), following, following == end)

    position, seen = offset, []
    for _ in range(end + 2):
        fetched = read_before(
            lambda n, at=position: read_from(at, n), position, max_records, before
        )
        assert fetched.count == len(fetched.batch) <= max_records
        assert fetched.next_offset >= position
        seen += fetched.batch
        position = fetched.next_offset
        if fetched.end:
            break
    assert fetched.end and position == max(offset, before)
    assert seen == sorted(one for one in present if offset <= one < before)
