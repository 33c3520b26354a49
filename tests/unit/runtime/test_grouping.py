"""Which tasks are run together."""

from __future__ import annotations

import pytest

from millstream.runtime.grouping import SMALL_RUNS, STATEMENT_ROWS, ByBacklog, divided

MANY = 4 * STATEMENT_ROWS


@pytest.mark.parametrize(
    ("rows", "statements", "free", "groups"),
    [
        ({0: MANY, 1: MANY}, 1, 1, 2),
        ({0: MANY, 1: MANY, 2: MANY, 3: MANY}, 1, 7, 4),
        ({0: MANY, 1: MANY, 2: MANY, 3: MANY}, 1, 1, 2),
        pytest.param({0: MANY, 1: MANY}, 1, 0, 1, id="no thread is free"),
        pytest.param({0: MANY, 1: 0, 2: 0}, 1, 7, 1, id="one task has all rows"),
        pytest.param({0: STATEMENT_ROWS, 1: STATEMENT_ROWS - 1}, 1, 1, 1, id="few rows"),
        pytest.param({0: STATEMENT_ROWS, 1: STATEMENT_ROWS}, 1, 1, 2, id="just enough"),
        pytest.param({0: MANY, 1: MANY}, 10, 1, 1, id="few rows for so many statements"),
        pytest.param({}, 1, 1, 1, id="nothing"),
    ],
)
def test_a_backlog_is_divided_at_once(
    rows: dict[int, int], statements: int, free: int, groups: int
) -> None:
    found = ByBacklog().after(rows, statements, free).groups
    assert len({found.get(task, 0) for task in rows} or {0}) == groups


def test_small_runs_in_succession_put_tasks_together() -> None:
    grouping = ByBacklog().after({0: MANY, 1: MANY}, 1, 1)
    for _ in range(SMALL_RUNS - 1):
        grouping = grouping.after({0: 1, 1: 1}, 1, 1)
        assert len(set(grouping.groups.values())) == 2
    assert not grouping.after({0: 1, 1: 1}, 1, 1).groups


def test_a_large_run_in_between_keeps_them_divided() -> None:
    grouping = ByBacklog()
    for turn in range(4 * SMALL_RUNS):
        rows = {0: MANY, 1: MANY} if turn % (SMALL_RUNS - 1) == 0 else {0: 1, 1: 1}
        grouping = grouping.after(rows, 1, 1)
        assert len(set(grouping.groups.values())) == 2


def test_threads_that_are_busy_for_long_put_tasks_together() -> None:
    grouping = ByBacklog().after({0: MANY, 1: MANY}, 1, 1)
    for _ in range(SMALL_RUNS):
        grouping = grouping.after({0: MANY, 1: MANY}, 1, 0)
    assert not grouping.groups


def test_tasks_stay_in_their_groups_while_these_are_about_even() -> None:
    present = {0: 0, 1: 0, 2: 1, 3: 1}
    assert divided({0: 60, 1: 60, 2: 40, 3: 50}, 2, present) == present


def test_uneven_groups_are_divided_anew() -> None:
    found = divided({0: 100, 1: 100, 2: 1, 3: 1}, 2, {0: 0, 1: 0, 2: 1, 3: 1})
    assert found[0] != found[1]
    assert found[2] != found[3]


def test_tasks_of_a_group_that_is_given_up_are_divided_anew() -> None:
    found = divided({0: 10, 1: 10, 2: 10}, 2, {0: 0, 1: 1, 2: 2})
    assert set(found.values()) == {0, 1}


def test_the_groups_are_as_even_as_they_can_be() -> None:
    rows = {0: 7, 1: 5, 2: 4, 3: 4}
    found = divided(rows, 2, {})
    sizes = [sum(rows[task] for task in rows if found[task] == group) for group in (0, 1)]
    assert sorted(sizes) == [9, 11]
