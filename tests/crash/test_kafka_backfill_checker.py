"""The checker of tables made with back-fill, tried with planted faults."""

from __future__ import annotations

from tests.crash.kafka_backfill_checker import (
    check_changes,
    check_one_query,
    check_whole,
    first_of,
    total,
)
from tests.crash.kafka_checker import Record


def change(group: str, count: int, found: int) -> Record:
    return Record(0, 0, group, {"C": count, "S": found})


def changes(group: str, *counts: int) -> list[Record]:
    """The output of a table that processes this many of the group's numbers at a time."""
    return [change(group, count, total(first_of(group), count)) for count in counts]


def test_groups_are_numbers_with_one_rest() -> None:
    assert first_of("3h1") == 10
    assert total(10, 3) == 10 + 31 + 52
    assert first_of("9h1") == first_of("3") == -1


def test_stretches_of_the_numbers_are_right() -> None:
    assert check_changes(changes("3h1", 2, 3, 7)) == []


def test_a_number_twice_a_gap_and_a_step_back_are_seen() -> None:
    (right,) = changes("3h1", 2)
    twice = change("3h1", 3, total(10, 2) + 31)
    gap = change("3h1", 3, total(10, 2) + 73)
    for wrong in (twice, gap, right, change("9h1", 1, 1)):
        assert len(check_changes([right, wrong])) == 1


def test_the_whole_is_all_numbers_of_all_groups() -> None:
    whole = [change(f"{n % 7}h{n % 3}", 1, n) for n in range(5)]
    assert check_whole(whole, 5) == []
    assert check_whole(whole[:4], 5) and check_whole(whole, 22)


def version(number: int, group: str, *counts: int) -> list[Record]:
    """Changes by one of the queries that have made the table."""
    return [Record(0, 0, one.key, {**one.value, "V": number}) for one in changes(group, *counts)]


def test_a_newer_query_begins_where_its_job_did() -> None:
    rows = [*version(1, "3h1", 2, 5), *version(2, "3h1", 4, 6)]
    assert check_changes(rows) == check_one_query(rows) == []


def test_a_change_by_one_that_was_replaced_is_seen() -> None:
    late = [*version(1, "3h1", 2), *version(2, "3h1", 3), *version(1, "3h1", 4)]
    assert len(check_changes(late)) == 1


def test_a_mix_of_queries_is_seen() -> None:
    assert check_one_query([*version(1, "3h1", 2), *version(2, "0h0", 3)])
