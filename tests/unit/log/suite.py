"""What every log must do. `CHECKS` run on every `Subject`; later logs join by adding a subject."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from millstream.log.batches import LISTS, TABLES
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Fetched, Log, Outcome, Topic
from millstream.log.simulated import SimulatedLog
from millstream.model.batch import raw_batch
from millstream.model.errors import (
    ConflictError,
    CorruptionError,
    FencedError,
    StatementError,
    UnavailableError,
)
from tests.patience import until


@dataclass(frozen=True)
class Subject:
    """A kind of log, and how its batches are made of and taken apart into small integers."""

    name: str
    open: Callable[[Path], Log[Any]]
    batch: Callable[[Sequence[int]], Any]
    numbers: Callable[[Any], list[int]]
    gaps: bool = False
    """Offsets that carry no record, because a transaction ended there."""
    config: Mapping[str, str] = field(
        default_factory=lambda: {"cleanup.policy": "compact", "odd ' key": ""}
    )
    """Settings of a topic that this kind of log accepts."""


def table_of(numbers: Sequence[int]) -> Any:
    return raw_batch([(b"k%d" % (n % 3), b"%d" % n, n) for n in numbers])


def numbers_of_table(table: Any) -> list[int]:
    return [int(value.as_py()) for value in table["value"]]


def numbers_of_list(records: list[int]) -> list[int]:
    return records


SUBJECTS = (
    Subject(
        "memory", lambda _: EmbeddedLog.open(":memory:", tail_bytes=0), table_of, numbers_of_table
    ),
    Subject("file", lambda at: EmbeddedLog.open(at / "a.log"), table_of, numbers_of_table),
    Subject("simulated", lambda _: SimulatedLog(LISTS), list, numbers_of_list),
    Subject("simulated-tables", lambda _: SimulatedLog(TABLES), table_of, numbers_of_table),
    Subject(
        "simulated-markers",
        lambda _: SimulatedLog(LISTS, markers=True),
        list,
        numbers_of_list,
        True,
    ),
)


def append(subject: Subject, numbers: Sequence[int], topic: str = "t", partition: int = 0) -> Any:
    return Appended(topic, partition, subject.batch(numbers), len(numbers))


def read_all(subject: Subject, log: Log[Any], topic: str = "t", partition: int = 0) -> list[int]:
    found: list[int] = []
    offset = log.start_offset(topic, partition)
    while True:
        fetched: Fetched[Any] = log.read(topic, partition, offset, 3)
        numbers = subject.numbers(fetched.batch)
        assert len(numbers) == fetched.count <= 3
        found += numbers
        offset = fetched.next_offset
        if fetched.end:
            assert offset == log.end_offset(topic, partition)
            return found


def offsets(subject: Subject, log: Log[Any]) -> dict[int, int]:
    """From each number on partition 0 of `t` to where reading it may start."""
    found: dict[int, int] = {}
    offset = log.start_offset("t", 0)
    while not (fetched := log.read("t", 0, offset, 1)).end or fetched.count:
        found.update(dict.fromkeys(subject.numbers(fetched.batch), offset))
        offset = fetched.next_offset
    return found


def check_topics(subject: Subject, log: Log[Any]) -> None:
    b = Topic("b", 2, 1, subject.config)
    log.create_topic(b)
    log.create_topic(Topic("B", 1))
    assert [topic.name for topic in log.topics()] == ["B", "b"]
    assert log.topic("b") == b
    assert log.topic("c") is None
    with pytest.raises(ConflictError, match="'b'"):
        log.create_topic(Topic("b", 3))
    with pytest.raises(StatementError):
        log.create_topic(Topic("empty", 0))
    log.delete_topic("b")
    log.delete_topic("b")
    assert log.topic("b") is None
    for call in (log.start_offset, log.end_offset):
        with pytest.raises(StatementError, match="no topic 'b'"):
            call("b", 0)
    with pytest.raises(StatementError, match="no partition 1"):
        log.read("B", 1, 0, 1)


def check_topics_together(subject: Subject, log: Log[Any]) -> None:
    log.create_topic(Topic("b", 2))
    a, b, empty, c = log.create_topics(
        [Topic("a", 1), Topic("b", 1), Topic("empty", 0), Topic("c", 3, 1, subject.config)]
    )
    assert isinstance(b, ConflictError) and isinstance(empty, StatementError)
    assert log.create_topics([]) == []
    found = log.describe(["c", "a", "nowhere"])
    assert sorted(found) == ["a", "c"]
    for name, made, partitions in (("a", a, 1), ("c", c, 3)):
        known = log.topic(name)
        assert isinstance(made, Topic) and known is not None
        assert made.id == known.id == found[name].id
        assert made.partitions == known.partitions == found[name].partitions == partitions
    assert log.topic("c") == c
    log.delete_topic("a")
    assert log.describe(["a"]) == {}
    (again,) = log.create_topics([Topic("a", 2)])
    assert isinstance(again, Topic) and isinstance(a, Topic) and again.id != a.id
    assert log.describe(["a"])["a"].id == again.id
    log.writer("w").append([append(subject, [1], topic="a", partition=1)])


def check_append_and_read(subject: Subject, log: Log[Any]) -> None:
    log.create_topic(Topic("t", 2))
    writer = log.writer("w")
    writer.append([append(subject, range(5)), append(subject, [9], partition=1)])
    writer.append([append(subject, [5]), append(subject, []), append(subject, [6, 7])])
    assert read_all(subject, log) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert read_all(subject, log, partition=1) == [9]
    starts = offsets(subject, log)
    middle = log.read("t", 0, starts[3], 4)
    assert (subject.numbers(middle.batch), middle.end) == ([3, 4, 5, 6], False)
    assert starts[6] < middle.next_offset <= starts[7]
    end = log.end_offset("t", 0)
    nothing = log.read("t", 0, end, 4)
    assert (nothing.count, nothing.next_offset, nothing.end) == (0, end, True)
    assert log.start_offset("t", 0) == 0
    assert end >= 8 if subject.gaps else end == 8
    with pytest.raises(CorruptionError) as beyond:
        log.read("t", 0, end + 1, 1)
    assert beyond.value.code == "E-TRUNCATED"
    with pytest.raises(StatementError):
        writer.append([append(subject, [1]), append(subject, [1], topic="nowhere")])
    assert log.end_offset("t", 0) == end


def check_deleted_topic_starts_again(subject: Subject, log: Log[Any]) -> None:
    log.create_topic(Topic("t", 1))
    log.create_topic(Topic("u", 1))
    writer = log.writer("w")
    writer.transact("g", [append(subject, [1, 2])], {("t", 0): 2, ("u", 0): 0})
    log.delete_topic("t")
    assert log.positions("g") == {("u", 0): 0}
    log.create_topic(Topic("t", 1))
    writer.append([append(subject, [3])])
    assert read_all(subject, log) == [3]


def check_transactions(subject: Subject, log: Log[Any]) -> None:
    log.create_topic(Topic("t", 1))
    log.create_topic(Topic("u", 1))
    writer = log.writer("w")
    assert log.positions("g") == {}
    done = writer.transact("g", [append(subject, [1]), append(subject, [2], "u")], {("t", 0): 1})
    assert done is Outcome.COMMITTED
    assert writer.transact("g", [], {("t", 0): 0, ("u", 0): 1}) is Outcome.COMMITTED
    assert writer.transact("h", [append(subject, [3])], {}) is Outcome.COMMITTED
    assert log.positions("g") == {("t", 0): 0, ("u", 0): 1}
    assert (read_all(subject, log), read_all(subject, log, "u")) == ([1, 3], [2])
    with pytest.raises(StatementError):
        writer.transact("g", [append(subject, [4])], {("nowhere", 0): 1})
    with pytest.raises(StatementError):
        writer.transact("g", [append(subject, [4], "nowhere")], {("t", 0): 9})
    assert log.positions("g")["t", 0] == 0
    assert read_all(subject, log) == [1, 3]
    log.forget_group("g")
    log.forget_group("g")
    assert log.positions("g") == {}


def check_fencing(subject: Subject, log: Log[Any]) -> None:
    log.create_topic(Topic("t", 1))
    old, other = log.writer("w"), log.writer("other")
    new = log.writer("w")
    with pytest.raises(FencedError, match="'w'"):
        old.append([append(subject, [1])])
    with pytest.raises(FencedError):
        old.transact("g", [append(subject, [1])], {("t", 0): 5})
    new.append([append(subject, [2])])
    other.append([append(subject, [3])])
    old.close()
    new.close()
    new.close()
    with pytest.raises(UnavailableError, match="closed"):
        new.append([append(subject, [4])])
    assert read_all(subject, log) == [2, 3]
    assert log.positions("g") == {}


def check_sending(subject: Subject, log: Log[Any]) -> None:
    """What is sent has no identity that could be fenced."""
    log.create_topic(Topic("t", 2))
    log.writer("w")
    log.writer("w").close()
    log.send([append(subject, [1, 2]), append(subject, [3], partition=1)])
    log.send([append(subject, [4])])
    log.send([])
    assert (read_all(subject, log), read_all(subject, log, partition=1)) == ([1, 2, 4], [3])
    with pytest.raises(StatementError, match="no topic 'u'"):
        log.send([append(subject, [5], "u")])


def check_truncate(subject: Subject, log: Log[Any]) -> None:
    log.create_topic(Topic("t", 2))
    writer = log.writer("w")
    writer.append([append(subject, range(6)), append(subject, [7], partition=1)])
    log.truncate("t", 0, 2)
    log.truncate("t", 0, 1)
    assert (log.start_offset("t", 0), log.start_offset("t", 1)) == (2, 0)
    assert read_all(subject, log) == [2, 3, 4, 5]
    with pytest.raises(CorruptionError, match="1 records are lost") as gap:
        log.read("t", 0, 1, 1)
    assert gap.value.code == "E-GAP"
    log.truncate("t", 0, 100)
    assert log.start_offset("t", 0) == log.end_offset("t", 0) >= 6
    writer.append([append(subject, [8])])
    assert read_all(subject, log) == [8]
    assert read_all(subject, log, partition=1) == [7]


def check_settings_and_usage(subject: Subject, log: Log[Any]) -> None:
    log.create_topic(Topic("t", 2))
    log.create_topic(Topic("u", 1))
    log.configure_topic("t", {"retention.ms": "-1", "segment.bytes": "2000000"})
    until(lambda: settings(log) == {"retention.ms": "-1", "segment.bytes": "2000000"})
    log.configure_topic("t", {"retention.ms": None, "segment.bytes": "3000000"})
    until(lambda: settings(log) == {"segment.bytes": "3000000"})
    with pytest.raises(StatementError, match="no topic 'v'"):
        log.configure_topic("v", {"retention.ms": "1"})
    log.writer("w").append([append(subject, [5, 6, 7]), append(subject, [3], partition=1)])
    log.truncate("t", 0, 1)
    ends = tuple(log.end_offset("t", part) for part in range(2))
    found = log.usage(["t", "u", "v"])
    assert (found["t"].starts, found["t"].ends) == ((1, 0), ends)
    assert found.keys() == {"t", "u"} and found["u"].ends == (0,)
    assert found["t"].oldest in (None, 3) and found["u"].oldest is None


def settings(log: Log[Any]) -> Mapping[str, str]:
    topic = log.topic("t")
    assert topic is not None
    return topic.config


def check_written_end(subject: Subject, log: Log[Any]) -> None:
    log.create_topic(Topic("t", 2))
    assert log.written_end("t", 0) == 0
    writer = log.writer("w")
    writer.append([append(subject, [1, 2])])
    readable = log.end_offset("t", 0)
    assert log.written_end("t", 0) >= readable >= 2
    assert log.written_end("t", 1) == 0
    both = {("t", partition): log.written_end("t", partition) for partition in range(2)}
    assert log.written_ends(both.keys()) == both
    assert log.written_ends(()) == {}
    for ask in (lambda: log.written_end("u", 0), lambda: log.written_ends([("t", 0), ("u", 0)])):
        with pytest.raises(StatementError, match="no topic 'u'"):
            ask()


def check_joining_alone(subject: Subject, log: Log[Any]) -> None:
    log.create_topic(Topic("t", 2))
    first = log.join("g", 2)
    assignment = first.assignment()
    assert (assignment.partitions, assignment.lost) == (frozenset({0, 1}), 0)
    old = first.writer(assignment.epoch)
    assert old.transact("g", [append(subject, [1])], {("t", 0): 1}) is Outcome.COMMITTED
    first.settled(assignment.epoch)
    assert first.assignment() == assignment
    new = log.join("g", 2).writer(assignment.epoch)
    with pytest.raises(FencedError):
        old.transact("g", [append(subject, [2])], {("t", 0): 2})
    assert new.transact("g", [append(subject, [3])], {("t", 1): 3}) is Outcome.COMMITTED
    first.close()
    first.close()
    assert log.positions("g") == {("t", 0): 1, ("t", 1): 3}
    assert log.positions("g", {("t", 0)}) == {("t", 0): 1}
    assert read_all(subject, log) == [1, 3]


CHECKS = (
    check_topics,
    check_topics_together,
    check_append_and_read,
    check_deleted_topic_starts_again,
    check_transactions,
    check_fencing,
    check_sending,
    check_truncate,
    check_settings_and_usage,
    check_written_end,
    check_joining_alone,
)


def run(program: str, path: Path) -> str:
    """What a program prints that runs in a process of its own, with a path as its argument."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
