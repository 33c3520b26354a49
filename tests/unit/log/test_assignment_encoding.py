"""The records of the assignment topic as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.log.assignment.encoding import decode, encode
from millstream.log.assignment.group_assignment import (
    GroupAssignment,
    Joined,
    Left,
    Record,
    Released,
    Seated,
    TaskOwner,
)

_NAMES = st.text(max_size=6)
_COUNTS = st.integers(0, 1 << 40)
_TASKS = st.tuples(_NAMES, _COUNTS)
_OWNERS = st.builds(TaskOwner, _NAMES, _NAMES, _COUNTS)
_RECORDS = st.one_of(
    st.builds(Seated, _NAMES, st.frozensets(_COUNTS)),
    st.builds(Joined, _NAMES, st.dictionaries(_NAMES, _COUNTS)),
    st.builds(Left, _NAMES, st.frozensets(_NAMES)),
    st.builds(Released, _NAMES, _COUNTS, st.frozensets(_TASKS)),
    st.builds(
        GroupAssignment,
        _COUNTS,
        _COUNTS,
        st.dictionaries(_NAMES, st.lists(_OWNERS, max_size=4).map(tuple)),
        st.dictionaries(_NAMES, st.frozensets(_NAMES)),
        st.dictionaries(_COUNTS, _NAMES),
        st.dictionaries(_TASKS, _NAMES),
    ),
)


@given(_RECORDS)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    assert decode(encode(record)) == record


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"version":2,"member":"a","left":[]}',
        b'{"version":1}',
        b'{"version":1,"member":"a"}',
        b'{"version":1,"members":[""],"number":1,"read":0,"tasks":{"q":[[0,1,1]]},"joined":{}}',
    ],
)
def test_what_is_no_record_is_ignored(value: bytes) -> None:
    assert decode(value) is None
