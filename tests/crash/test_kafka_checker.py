"""The checker of Kafka runs is checked: each forged history must be flagged, the true one not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash.kafka_checker import (
    Ack,
    Record,
    check,
    check_at_least_once,
    doubled_input,
    parsed,
    read_acks,
)
from tests.crash.kafka_input import record

History = dict[str, list[Record]]
NUMBERS = 40
PARTITIONS = 2


def appended(records: list[Record], partition: int, key: str, value: dict[str, object]) -> None:
    offset = sum(1 for other in records if other.partition == partition)
    records.append(Record(partition, offset, key, value))


def true_history(again: range = range(0)) -> tuple[History, dict[int, Ack]]:
    """What an engine without faults leaves; keys choose partitions, groups too. `again`: what the
    producer of the input has sent twice."""
    history: History = {name: [] for name in ("numbers", "copies", "moved", "counts")}
    counts: dict[str, tuple[int, int]] = {}
    for number in (*range(again.stop), *again, *range(again.stop, NUMBERS)):
        key, value = record(number)
        source = parsed(int(key) % PARTITIONS, len(history["numbers"]), key, value)
        history["numbers"].append(source)
        g, h = str(source.value["G"]), str(source.value["H"])
        if number % 3:
            appended(history["copies"], source.partition, source.key, {"N": number})
        appended(history["moved"], int(g[1]) % PARTITIONS, g, {"N": number, "H": h})
        count, total = counts.get(h, (0, 0))
        counts[h] = count + 1, total + number
        appended(history["counts"], 0, h, {"C": count + 1, "S": total + number})
    acks: dict[int, Ack] = {r.number("N"): (r.partition, r.offset) for r in history["numbers"]}
    return history, acks


def lose(topic: str, index: int) -> Callable[[History], None]:
    def fault(history: History) -> None:
        del history[topic][index]

    return fault


def double(topic: str, index: int) -> Callable[[History], None]:
    def fault(history: History) -> None:
        twin = history[topic][index]
        history[topic].append(replace(twin, offset=1_000))

    return fault


def swap(topic: str, key: str, other: int = 1) -> Callable[[History], None]:
    """Exchange the values of the first and another record of a key."""

    def fault(history: History) -> None:
        topic_partitions = [i for i, item in enumerate(history[topic]) if item.key == key]
        first, second = topic_partitions[0], topic_partitions[other]
        one, two = history[topic][first], history[topic][second]
        history[topic][first] = replace(one, value=two.value)
        history[topic][second] = replace(two, value=one.value)

    return fault


def alter(topic: str, index: int, **changed: object) -> Callable[[History], None]:
    """Other fields of a record, or of its value (in capitals)."""

    def fault(history: History) -> None:
        item = history[topic][index]
        values = {name: value for name, value in changed.items() if name.isupper()}
        fields = {name: value for name, value in changed.items() if not name.isupper()}
        history[topic][index] = replace(item, value={**item.value, **values}, **fields)  # type: ignore[arg-type]

    return fault


def recount(history: History) -> None:
    """A count that takes one record twice and another never, its counts without a gap."""
    changes = [i for i, item in enumerate(history["counts"]) if item.key == "h0"]
    for index in changes[5:]:
        item = history["counts"][index]
        history["counts"][index] = replace(item, value={**item.value, "S": item.number("S") - 3})


def count_out_of_order(history: History) -> None:
    """A count that takes two records of one partition with the same G the wrong way round."""
    early, late = next(
        (one.number("N"), other.number("N"))
        for one in history["numbers"]
        for other in history["numbers"]
        if (one.partition, one.value["G"], one.value["H"])
        == (other.partition, other.value["G"], "h1")
        and one.offset < other.offset
        and other.value["H"] == "h1"
    )
    total = 0
    numbers = [r.number("N") for r in history["numbers"] if r.value["H"] == "h1"]
    swapped = [late if n == early else early if n == late else n for n in numbers]
    for index, item in enumerate(history["counts"]):
        if item.key == "h1":
            total += swapped.pop(0)
            history["counts"][index] = replace(item, value={**item.value, "S": total})


def test_a_true_history_passes() -> None:
    history, acks = true_history()
    assert check(history, acks) == []
    assert doubled_input(history) == []


def test_what_the_input_has_twice_is_wanted_twice_in_the_same_order() -> None:
    history, acks = true_history(range(10, 16))
    assert check(history, acks) == []
    told = doubled_input(history)
    assert [line.split()[1] for line in told] == [str(number) for number in range(10, 16)]
    del history["moved"][-1]
    assert check(history, acks) == ["moved: lost 39"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lose("numbers", 3), "number 3 was acknowledged at (1, 3) and is lost"),
        (double("numbers", 4), "copies: 1 times 4 instead of 2, at [("),
        (double("numbers", 4), "moved: 1 times 4 instead of 2, at [("),
        (double("numbers", 4), "counts: 1 times 4 instead of 2, at ["),
        (lose("copies", 2), "copies: lost 4"),
        (lose("copies", -1), "copies: lost 38"),
        (double("copies", 2), "copies: 2 times 4 instead of 1, at [("),
        (swap("copies", "1"), "copies: 1 reordered"),
        (alter("copies", 0, N=3), "copies: invented 3"),
        (alter("copies", 0, key="5"), "copies: 1 has key 5 instead of 1"),
        (alter("copies", 7, partition=7), "is in 2 partitions"),
        (lose("moved", 9), "moved: lost 9"),
        (double("moved", 9), "moved: 2 times 9 instead of 1, at [("),
        (swap("moved", "g0", 7), "moved: g0 reordered"),
        (alter("moved", 9, key="g0"), "moved: 9 has key g0 instead of g4"),
        (lose("counts", -1), "counts: lost 39"),
        (lose("counts", 20), "counts: h2 goes from 6 to 8"),
        (double("counts", -1), "counts: h0 goes from 14 to 14"),
        (alter("counts", 20, S=1), "counts: h2 at 7 has sum 1"),
        (recount, "counts: 2 times 12 instead of 1"),
        (recount, "counts: lost 15"),
        (count_out_of_order, "counts: h1 reordered"),
    ],
)
def test_planted_faults_are_found(fault: Callable[[History], None], message: str) -> None:
    history, acks = true_history()
    fault(history)
    problems = check(history, acks)
    assert any(message in problem for problem in problems), problems


def test_a_record_whose_offset_the_client_does_not_know_must_be_in_its_partition(
    tmp_path: Path,
) -> None:
    file = tmp_path / "acks"
    file.write_text("3 1 None\n4 0 4\n")
    acks = read_acks(file)
    history, _ = true_history()
    assert check(history, acks) == []
    assert "number 3 was acknowledged at (0, None) and is lost" in check(history, {3: (0, None)})


def repeat_counts(history: History) -> None:
    """An engine that died has counted a part again, and then some rows twice."""
    rows = history["counts"]
    history["counts"] = [*rows[:20], *rows[10:]]
    last = rows[-1]
    appended(history["counts"], 0, last.key, {"C": last.number("C") + 1, "S": 10_000})


@pytest.mark.parametrize(
    "fault",
    [double("copies", 5), double("moved", 0), swap("moved", "g0", 2), repeat_counts],
    ids=["a row twice", "a row late", "two rows in another order", "counted again"],
)
def test_what_at_least_once_allows(fault: Callable[[History], None]) -> None:
    history, acks = true_history()
    fault(history)
    assert check(history, acks)
    assert check_at_least_once(history, acks) == []


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (lose("copies", 3), "copies: lost"),
        (lose("moved", 3), "moved: lost"),
        (lose("numbers", 3), "is lost"),
        (alter("copies", 2, N=1_000), "invented"),
        (alter("moved", 2, key="g9"), "has key g9"),
        (lambda history: history["counts"].pop(), "counts: h"),
        (lambda history: history["counts"].append(history["counts"][0]), "but was at|ends at"),
        (alter("counts", -1, S=0), "ends at"),
    ],
)
def test_what_at_least_once_does_not_allow(fault: Callable[[History], object], found: str) -> None:
    """Losses, and a row of a table behind a newer one."""
    history, acks = true_history()
    fault(history)
    problems = check_at_least_once(history, acks)
    assert any(re.search(found, problem) for problem in problems), problems


def test_a_count_that_was_higher_once() -> None:
    """What an instance that had lost its task has written over the newer row."""
    history, acks = true_history()
    last = history["counts"][-1]
    appended(history["counts"], 0, last.key, {"C": last.number("C") + 5, "S": 10_000})
    appended(history["counts"], 0, last.key, {"C": last.number("C") + 4, "S": 9_000})
    assert check_at_least_once(history, acks) == [
        f"counts: {last.key} ends at {{'C': {last.number('C') + 4}, 'S': 9000}},"
        f" but was at {last.number('C') + 5}"
    ]
