"""How long regular expressions in Python may take."""

from __future__ import annotations

from contextvars import ContextVar

import pyarrow as pa
import pytest

from millstream.functions.attempts import RowFunction
from millstream.functions.scalar import regular


class Clock:
    """Stands for `time`; `others` is what other threads ran."""

    def __init__(self) -> None:
        self.now, self.others = 100.0, 0.0

    def perf_counter(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.now - self.others


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(regular, "time", made)
    monkeypatch.setattr(regular, "_LONE", ContextVar("lone"))
    return made


def slow(clock: Clock) -> RowFunction:
    """A function that takes all the time it gets, and fails then, for 'slow' texts."""

    def compute(left: float, text: str) -> str:
        if text.startswith("slow"):
            clock.now += left
            raise TimeoutError
        return text

    made = regular._timed(compute, pa.string())
    assert isinstance(made, RowFunction)
    return made


def failed(function: RowFunction, *texts: str) -> list[bool]:
    return [bool(item["failed"]) for item in function.attempt(pa.array(texts)).to_pylist()]


def test_a_batch_has_half_a_second_and_the_next_one_too(clock: Clock) -> None:
    function = slow(clock)
    assert failed(function, "a", "slow", "b", "slow too") == [False, True, True, True]
    assert clock.now == 100.5
    assert failed(function, "a", "b") == [False, False]


def test_what_others_run_meanwhile_does_not_count(clock: Clock) -> None:
    def compute(left: float, text: str) -> str:
        clock.now += 1
        clock.others += 0.999
        if text == "slow" and left < 0.4:
            raise TimeoutError
        return text

    function = regular._timed(compute, pa.string())
    assert isinstance(function, RowFunction)
    assert failed(function, *"abcd", "slow", "e") == [False] * 6


def test_rows_one_after_the_other_share_it(clock: Clock) -> None:
    function = slow(clock)
    for place in range(1000):
        assert failed(function, f"slow {place}") == [True]
        clock.now += 0.0001
    assert clock.now < 101
    assert failed(function, "a") == [False]


def test_a_single_row_has_all_of_it_again_later(clock: Clock) -> None:
    function = slow(clock)
    assert failed(function, "slow") == [True]
    clock.now += 1
    assert failed(function, "slow") == [True]
    assert clock.now == pytest.approx(102)
