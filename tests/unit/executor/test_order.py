"""In what order rows are processed and which have to wait."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millstream.executor.order import Segment, order_rows


def segment(index: int, times: list[int], *, partition: int = 0, end: bool = True) -> Segment:
    return Segment(index, partition, np.array(times, np.int64), end)


def numbers(*segments: Segment) -> list[list[int]]:
    return [seq.tolist() for seq in order_rows(segments).seq]


def test_one_partition_keeps_its_order() -> None:
    assert numbers(segment(0, [5, 1, 9])) == [[0, 1, 2]]


def test_the_running_maximum_decides_between_partitions() -> None:
    assert numbers(segment(0, [5, 1, 9]), segment(1, [4, 6])) == [[1, 2, 4], [0, 3]]


def test_the_first_input_goes_first_at_equal_times() -> None:
    assert numbers(segment(0, [3]), segment(1, [3])) == [[0], [1]]


def test_a_lower_rank_goes_first_wherever_it_is_listed() -> None:
    assert numbers(segment(1, [3, 4]), segment(0, [3, 4])) == [[1, 3], [0, 2]]


def test_rows_behind_a_partition_that_may_bring_more_wait() -> None:
    ordered = order_rows([segment(0, [1, 5], end=False), segment(1, [2, 5, 6])])
    assert ordered.accepted == (2, 1)


def test_an_empty_partition_that_may_bring_more_holds_everything() -> None:
    ordered = order_rows([segment(0, [], end=False), segment(1, [2])])
    assert ordered.accepted == (0, 0)


def test_tasks_do_not_wait_for_each_other() -> None:
    ordered = order_rows(
        [
            segment(0, [], end=False),
            segment(0, [4], partition=1),
            segment(1, [2]),
            segment(1, [3], partition=1),
        ]
    )
    assert ordered.accepted == (0, 1, 0, 1)


def test_rows_of_one_change_share_their_number() -> None:
    pair = Segment(0, 0, np.array([1, 1, 2]), True, joined=np.array([False, True, False]))
    assert numbers(pair) == [[0, 0, 1]]


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=2, max_size=3))
def test_it_is_the_order_of_always_taking_the_lowest_head(times: list[list[int]]) -> None:
    heads, expected, clock = [0] * len(times), [], -1
    running = [np.maximum.accumulate(own).tolist() if own else [] for own in times]
    while any(head < len(own) for head, own in zip(heads, times, strict=True)):
        waiting = [i for i, head in enumerate(heads) if head < len(times[i])]
        # The head with the lowest time, but never lower than what its partition has shown.
        first = min(waiting, key=lambda i: (running[i][heads[i]], i))
        expected.append((first, heads[first]))
        heads[first] += 1
        clock += 1
    found = numbers(*(segment(index, own) for index, own in enumerate(times)))
    placed = {(i, j): seq for i, own in enumerate(found) for j, seq in enumerate(own)}
    assert sorted(placed, key=placed.__getitem__) == expected
