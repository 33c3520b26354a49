"""What sub-topologies of a query hand each other in memory instead of writing it (ADR 45)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from millstream.log.log import Appended, Fetched, TopicPartition
from millstream.runtime.hand_over import HandOver
from tests.simulation.pure import Disk
from tests.simulation.world import ROWS
from tests.unit.runtime.queries import AT_LEAST, COUNT, EXACTLY, REKEY, SETTINGS, Bench

AT = ("rep", 0)


@dataclass
class Stored:
    """A reader of a log whose partition has the records 3, 4 and 5."""

    asked: list[tuple[int, int | None]] = field(default_factory=list)

    def begin(self, together: Collection[TopicPartition] = ()) -> None:
        return

    def read(
        self, topic: str, partition: int, offset: int, count: int, before: int | None = None
    ) -> Fetched[Any]:
        self.asked.append((offset, before))
        end = 6 if before is None else min(6, before)
        stop = min(end, offset + count)
        rows = tuple((at, "k", "stored") for at in range(offset, stop))
        return Fetched(topic, partition, rows, len(rows), stop, stop == end)

    def ready(self, positions: Any) -> int:
        return 10

    def close(self) -> None:
        return


def sent(*values: str, at: TopicPartition = AT) -> Appended[Any]:
    return Appended(*at, tuple(("k", value) for value in values), len(values), 10 * len(values))


def handing(*outputs: Appended[Any]) -> HandOver[Any]:
    made = HandOver(ROWS)
    made.begin({AT: 6})
    assert made.take(outputs) == []
    return made


def test_outputs_for_others_are_left_to_the_log() -> None:
    made = HandOver(ROWS)
    other = sent("a", at=("out", 0))
    assert made.take([sent("a"), other]) == [sent("a"), other]
    made.begin({AT: 6})
    assert made.take([sent("a"), other]) == [other]
    assert (made.count, made.bytes) == (1, 10)


def test_without_batches_nothing_is_handed_over() -> None:
    made: HandOver[Any] = HandOver(None)
    made.begin({AT: 6})
    assert not made.active
    reader = Stored()
    assert made.over(reader) is reader


def test_memory_is_read_behind_the_log() -> None:
    reader = Stored()
    both = handing(sent("a", "b"), sent("c")).over(reader)
    first = both.read(*AT, 3, 2)
    assert ([row[0] for row in first.batch], first.end) == ([3, 4], False)
    last = both.read(*AT, 5, 2)
    # More follows, although it is not on the log.
    assert ([row[0] for row in last.batch], last.next_offset, last.end) == ([5], 6, False)
    memory = both.read(*AT, 6, 2)
    assert memory.batch == ((6, "k", "a"), (7, "k", "b"))
    assert (memory.count, memory.next_offset, memory.end, memory.bytes) == (2, 8, False, 20)
    rest = both.read(*AT, 7, 9)
    assert (rest.batch, rest.end) == (((7, "k", "b"), (8, "k", "c")), True)
    assert reader.asked == [(3, 6), (5, 6)]
    nothing = both.read(*AT, 9, 9)
    assert (nothing.count, nothing.next_offset, nothing.end) == (0, 9, True)


def test_what_others_write_behind_the_end_is_not_read() -> None:
    made = HandOver(ROWS)
    made.begin({AT: 4})
    both = made.over(Stored())
    assert [row[0] for row in both.read(*AT, 3, 9).batch] == [3]
    assert both.read(*AT, 4, 9).count == 0


def test_consumed_records_are_dropped_wherever_a_batch_is_cut() -> None:
    made = handing(sent("a", "b", "c"), sent("d"))
    made.consumed(AT, 7)
    assert (made.count, made.bytes) == (3, 30)
    first, left = made.leave(AT)
    assert first == 7
    assert [value for appended in left for _, value in appended.batch] == ["b", "c", "d"]
    assert made.count == made.bytes == 0


def test_only_what_is_on_the_log_is_a_position() -> None:
    made = handing(sent("a", "b"))
    made.consumed(AT, 8)
    assert made.durable(AT, 8) == 6
    assert made.durable(AT, 5) == 5
    assert made.durable(("in", 0), 8) == 8
    assert made.lag({AT: 6}) == {AT: 0}
    assert made.lag({AT: 5}) == {}


def test_what_lies_before_a_bound_is_void_if_nothing_was_sent() -> None:
    made = handing(sent("a"))
    assert made.ended(AT, 6, 9) == 6
    made.consumed(AT, 7)
    assert made.ended(AT, 5, 9) == 5
    assert made.ended(AT, 7, 9) == 9
    assert made.durable(AT, 9) == 9
    assert made.take([sent("b")]) == []
    assert made.over(Stored()).read(*AT, 9, 9).batch == ((9, "k", "b"),)


def test_what_was_left_is_on_the_log() -> None:
    made = handing(sent("a"))
    made.leave(AT)
    made.written({AT: 8})
    reader = Stored()
    made.over(reader).read(*AT, 6, 9)
    assert reader.asked == [(6, 8)]
    assert made.take([sent("b")]) == []
    assert made.over(reader).read(*AT, 8, 9).batch == ((8, "k", "b"),)


# ---- in a query ----------------------------------------------------------------------------------


def bench(hold: float = 0.0, *, markers: bool = True, **settings: Any) -> Bench:
    made = Bench(1, replace(SETTINGS, **settings), markers=markers)
    jobs = [(REKEY, made.executor(REKEY)), (COUNT, made.executor(COUNT, hold=hold))]
    made.query(jobs, batches=ROWS)
    return made


@pytest.mark.parametrize("guarantee", [EXACTLY, AT_LEAST])
def test_what_is_processed_before_the_commit_is_never_written(guarantee: Any) -> None:
    made = Bench(2, markers=True)
    jobs = [(REKEY, made.executor(REKEY)), (COUNT, made.executor(COUNT))]
    made.query(jobs, guarantee=guarantee, batches=ROWS)
    made.send(1, 2, 1)
    made.send(3, partition=1)
    made.rest()
    assert len(made.rows(partition=1)) + len(made.rows(partition=0)) == 4
    assert [made.log.written_end("rep", partition) for partition in range(2)] == [0, 0]
    assert made.status().lag == {("in", 0): 0, ("in", 1): 0, ("rep", 0): 0, ("rep", 1): 0}
    assert made.log.positions("Q")["rep", 0] == 0


def test_without_hand_over_all_of_it_is_written() -> None:
    made = Bench(markers=True)
    made.query([(REKEY, made.executor(REKEY)), (COUNT, made.executor(COUNT))])
    made.send(1, 2, 1)
    made.rest()
    assert made.log.written_end("rep", 0) > 0


def test_a_query_goes_on_after_a_restart_where_it_was() -> None:
    disks = [Disk(), Disk()]
    made = bench()
    made.instance.remove_query("Q", made.now)
    for _ in range(3):
        jobs = [
            (REKEY, made.executor(REKEY, disks[0])),
            (COUNT, made.executor(COUNT, disks[1], 0.9)),
        ]
        made.query(jobs, batches=ROWS)
        made.send(1, 2, 1)
        made.steps(6)
        made.instance.remove_query("Q", made.now)
    made.query([(REKEY, made.executor(REKEY)), (COUNT, made.executor(COUNT))], batches=ROWS)
    made.rest()
    numbers = {key: number for key, (number, _) in made.rows()}
    assert numbers == {1: 6, 2: 3}
    assert len(made.rows()) == 9


def test_rows_wait_for_more_while_there_is_more_input() -> None:
    made = bench(max_batch_records=2, commit_interval_ms=1000)
    moving, counting = made.instance.executors("Q")
    made.send(*range(8))

    def runs(executor: Any) -> int:
        return sum(any(read.count for read in reads) for reads in executor.handed)

    while not runs(counting):
        made.steps(1)
    assert runs(moving) == 4
    made.steps(8)
    assert runs(counting) == 4


def test_the_commit_does_not_wait_for_more() -> None:
    made = bench(max_batch_records=1, commit_interval_ms=0)
    made.send(*range(5))
    made.steps(12)
    assert made.status().metrics.commits > 2
    made.rest()
    assert made.log.written_end("rep", 0) == 0
    assert len(made.rows()) == 5


@pytest.mark.parametrize("hold", [0.0, 0.95])
def test_a_commit_round_finds_everything_processed_that_can_be(hold: float) -> None:
    made = bench(hold, max_batch_records=1, commit_interval_ms=5)
    _, counting = made.instance.executors("Q")
    made.send(*range(9))
    rounds = 0
    for _ in range(300):
        made.now += 1
        if made.instance.advance("Q", made.now, commits=False).due:
            ran = len(counting.handed)  # type: ignore[attr-defined]
            made.instance.commit_round(["Q"], made.now)
            assert len(counting.handed) == ran  # type: ignore[attr-defined]
            rounds += 1
            kept = made.instance._queries["Q"].runners.hand_over.count
            assert kept == 0
    assert rounds > 1
    assert len(made.rows()) == 9
    # Only what was held back is on the log.
    assert (made.log.written_end("rep", 0) == 0) == (hold == 0.0)
