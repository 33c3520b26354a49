"""Commit rounds: the transactions of several writers as one, and what one bad writer costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from millstream.log.batches import Batches
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Outcome, Participant, Topic
from millstream.log.rounds import in_halves, one_by_one
from millstream.log.simulated import SimulatedLog
from millstream.log.watchers import News
from millstream.model.batch import raw_batch
from millstream.model.errors import FencedError, StatementError, UnavailableError
from tests.unit.log.suite import run

COMMITTED = Outcome.COMMITTED


# ---- halves -------------------------------------------------------------------------------------


class Names:
    """A log that cannot commit for some writers, which are names here."""

    def __init__(self, bad: Sequence[str], error: Exception | None = None) -> None:
        self.bad = frozenset(bad)
        self.error = error
        self.attempts: list[list[str]] = []
        self.committed: list[str] = []

    def __call__(self, participants: Sequence[Participant[Any]]) -> Outcome:
        names = [each.group for each in participants]
        self.attempts.append(names)
        if not self.bad.isdisjoint(names):
            raise self.error or StatementError(str(sorted(self.bad.intersection(names))))
        self.committed += names
        return COMMITTED


def named(names: Sequence[str]) -> list[Participant[Any]]:
    return [Participant(None, name, (), {}) for name in names]  # type: ignore[arg-type]


def never(_error: Exception) -> bool:
    return False


def test_all_are_committed_at_once() -> None:
    log = Names(())
    names = [f"q{number}" for number in range(100)]
    assert in_halves(named(names), log, never) == [COMMITTED] * 100
    assert log.attempts == [names]
    assert in_halves((), log, never) == []


@pytest.mark.parametrize("bad", range(100))
def test_one_that_fails_is_found_in_a_few_attempts(bad: int) -> None:
    names = [f"q{number}" for number in range(100)]
    log = Names([names[bad]])
    results = in_halves(named(names), log, never)
    assert isinstance(results.pop(bad), StatementError)
    assert results == [COMMITTED] * 99
    assert sorted(log.committed) == sorted({*names} - {names[bad]})
    assert len(log.attempts) <= 1 + 2 * math.ceil(math.log2(100))


def test_any_number_of_bad_ones() -> None:
    for seed in range(200):
        rnd = Random(seed)
        names = [f"q{number}" for number in range(rnd.randint(1, 20))]
        bad = [name for name in names if rnd.random() < 0.3]
        log = Names(bad)
        results = in_halves(named(names), log, never)
        good = [name for name in names if name not in bad]
        assert [each is COMMITTED for each in results] == [name in good for name in names]
        assert log.committed == good, "each once"


def test_an_error_that_all_share_is_not_searched_for() -> None:
    log = Names(["q3"], UnavailableError("full", code="E-LOG-FULL"))
    results = in_halves(named([f"q{number}" for number in range(50)]), log, lambda _: True)
    assert len(log.attempts) == 1
    assert all(isinstance(result, UnavailableError) for result in results)


# ---- the log in a file --------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    opened = EmbeddedLog.open(tmp_path / "a.log")
    for name in ("t0", "t1", "t2", "shared"):
        opened.create_topic(Topic(name, 2))
    yield opened
    opened.close()


def participant(log: EmbeddedLog, number: int, *, topic: str | None = None) -> Participant[Any]:
    """A query that has read the shared topic and writes a topic of its own."""
    records = raw_batch([(b"k", f"{number}".encode(), number)])
    appended = (Appended(topic or f"t{number}", 0, records, 1),)
    return Participant(log.writer(f"w{number}"), f"g{number}", appended, {("shared", 1): number})


def values(log: EmbeddedLog, topic: str) -> list[bytes]:
    end = log.end_offset(topic, 0)
    found: list[bytes] = log.read(topic, 0, 0, end).batch["value"].to_pylist()
    return found


def commits(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes the commits of the file."""
    made: list[str] = []
    commit = log._file._commit

    def noted(cursor: duckdb.DuckDBPyConnection) -> None:
        commit(cursor)
        made.append("commit")

    monkeypatch.setattr(log._file, "_commit", noted)
    return made


def test_a_round_is_one_transaction(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    round_ = [participant(log, number) for number in range(3)]
    news: list[News] = []
    log.on_news(news.append)
    made = commits(log, monkeypatch)
    assert log.transact_all(round_) == [COMMITTED] * 3
    assert made == ["commit"]
    assert [one.grown for one in news] == [frozenset({"t0", "t1", "t2"})]
    for number in range(3):
        assert values(log, f"t{number}") == [str(number).encode()]
        assert log.positions(f"g{number}") == {("shared", 1): number}


def test_what_a_round_has_written_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log = EmbeddedLog.open(path)
    for name in ("t0", "t1", "shared"):
        log.create_topic(Topic(name, 2))
    for _ in range(2):
        log.transact_all([participant(log, 0), participant(log, 1)])
    before = [log.read(topic, 0, 0, 9).batch for topic in ("t0", "t1")]
    log.close()
    log = EmbeddedLog.open(path)
    assert [log.read(topic, 0, 0, 9).batch for topic in ("t0", "t1")] == before
    assert (values(log, "t0"), values(log, "t1")) == ([b"0", b"0"], [b"1", b"1"])
    assert (log.positions("g0"), log.positions("g1")) == ({("shared", 1): 0}, {("shared", 1): 1})
    log.close()


def test_two_queries_that_write_one_topic(log: EmbeddedLog) -> None:
    log.transact_all([participant(log, 0, topic="shared"), participant(log, 1, topic="shared")])
    fetched = log.read("shared", 0, 0, 9)
    assert fetched.batch["offset"].to_pylist() == [0, 1]
    assert fetched.batch["value"].to_pylist() == [b"0", b"1"]
    first, second = fetched.batch["arrival"].to_pylist()
    assert first < second, "as if one had committed after the other"


def test_a_writer_that_was_fenced_fails_alone(log: EmbeddedLog) -> None:
    round_ = [participant(log, number) for number in range(3)]
    log.writer("w1")
    results = log.transact_all(round_)
    assert isinstance(results.pop(1), FencedError)
    assert results == [COMMITTED, COMMITTED]
    assert [values(log, f"t{number}") for number in range(3)] == [[b"0"], [], [b"2"]]
    assert log.positions("g1") == {}


def test_a_topic_that_is_gone_stops_its_writer_alone(log: EmbeddedLog) -> None:
    round_ = [participant(log, number) for number in range(3)]
    log.delete_topic("t2")
    results = log.transact_all(round_)
    assert isinstance(results[2], StatementError)
    assert results[:2] == [COMMITTED, COMMITTED]
    assert (values(log, "t0"), values(log, "t1")) == ([b"0"], [b"1"])


def test_a_writer_that_was_closed_fails_alone(log: EmbeddedLog) -> None:
    round_ = [participant(log, number) for number in range(2)]
    round_[0].writer.close()
    results = log.transact_all(round_)
    assert isinstance(results[0], Exception)
    assert results[1] is COMMITTED


def test_a_commit_in_doubt_is_in_doubt_for_all(
    log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_ = [participant(log, number) for number in range(3)]

    def lost(_cursor: object) -> None:
        log._file.doubt = True
        raise _in_doubt(log)

    monkeypatch.setattr(log._file, "_commit", lost)
    assert log.transact_all(round_) == [Outcome.UNKNOWN] * 3
    monkeypatch.undo()
    log.writer("w0")
    assert [values(log, f"t{number}") for number in range(3)] == [[], [], []]


def _in_doubt(log: EmbeddedLog) -> Exception:
    from millstream.log.logfile import in_doubt

    return in_doubt(log.path)


FULL = """
import resource, sys
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Outcome, Participant, Topic
from millstream.model.batch import raw_batch

log = EmbeddedLog.open(sys.argv[1])
for name in ("a", "b", "c"):
    log.create_topic(Topic(name, 1))
large = raw_batch([(b"k", b"x" * 1000, 0)] * 3000)
round_ = [
    Participant(log.writer(name), name, (Appended(name, 0, large, 3000),), {(name, 0): 7})
    for name in ("a", "b", "c")
]
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))
print([getattr(result, "code", result) for result in log.transact_all(round_)])
assert [log.end_offset(name, 0) for name in ("a", "b", "c")] == [0, 0, 0]
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert log.transact_all(round_) == [Outcome.COMMITTED] * 3
log.close()
log = EmbeddedLog.open(sys.argv[1])
assert [log.end_offset(name, 0) for name in ("a", "b", "c")] == [3000, 3000, 3000]
"""


def test_a_full_disk_takes_nothing_from_anyone(tmp_path: Path) -> None:
    printed = run(FULL, tmp_path / "a.log")
    assert printed == "['E-LOG-FULL', 'E-LOG-FULL', 'E-LOG-FULL']\n"


def test_two_writers_that_move_positions_of_one_group(log: EmbeddedLog) -> None:
    round_ = [
        Participant(log.writer(f"w{partition}"), "g", (), {("shared", partition): 5})
        for partition in range(2)
    ]
    assert log.transact_all(round_) == [COMMITTED] * 2
    assert log.positions("g") == {("shared", 0): 5, ("shared", 1): 5}


def test_a_round_is_one_by_one_where_a_writer_is_of_another_kind(log: EmbeddedLog) -> None:
    mine, other = participant(log, 0), participant(log, 1)

    class Wrapped:
        def transact(self, *arguments: Any) -> Outcome:
            return other.writer.transact(*arguments)

    wrapped = Participant(Wrapped(), other.group, other.appended, other.positions)  # type: ignore[arg-type]
    assert log.transact_all([mine, wrapped]) == [COMMITTED] * 2
    assert (values(log, "t0"), values(log, "t1")) == ([b"0"], [b"1"])


def test_one_by_one_each_has_its_own_result(log: EmbeddedLog) -> None:
    round_ = [participant(log, number) for number in range(3)]
    log.writer("w0")
    results = one_by_one(round_)
    assert isinstance(results[0], FencedError)
    assert results[1:] == [COMMITTED, COMMITTED]


# ---- the simulated log --------------------------------------------------------------------------


def test_the_simulated_log_commits_all_or_none() -> None:
    rows: Batches[tuple[int, ...]] = Batches(
        cut=lambda batch, start, count: batch[start : start + count],
        join=lambda parts: tuple(row for part in parts for row in part),
        topic_partition=lambda batch, _first: batch,
        size=len,
    )
    log = SimulatedLog(rows)
    log.create_topic(Topic("t", 2))
    writers = [log.writer(name) for name in ("a", "b")]
    round_ = [
        Participant(writer, str(place), (Appended("t", place, (place,), 1),), {("t", place): 5})
        for place, writer in enumerate(writers)
    ]
    assert log.transact_all(round_) == [COMMITTED, COMMITTED]
    log.writer("b")
    first, second = log.transact_all(round_)
    assert first is COMMITTED
    assert isinstance(second, FencedError)
    assert [log.end_offset("t", place) for place in (0, 1)] == [2, 1]
