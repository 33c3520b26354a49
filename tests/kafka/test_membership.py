"""Instances that share the tasks of a query through a group of the brokers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from millstream.log.kafka import instance_member as member_module
from millstream.log.kafka.log import KafkaLog
from millstream.log.log import Assignment, Lag, Member, Outcome
from millstream.log.membership import SoleMember
from millstream.model.errors import CorruptionError, FencedError, UnavailableError
from tests.kafka.parties import (
    ALL,
    GROUP,
    PROTOCOLS,
    TASKS,
    Party,
    Protocol,
    append,
    claims,
    look,
    numbers,
    shared,
    until,
)
from tests.kafka.run import cluster, tool
from tests.patience import PATIENCE_S

A_WHILE = 20
"""Polls for something that must not happen, for a second in total."""


@PROTOCOLS
@pytest.mark.timeout(300)
def test_what_is_taken_over_was_settled_before(party: Party, protocol: Protocol) -> None:
    first = party.join(protocol)
    until(lambda: claims(first) == [ALL])
    before = first.assignment()
    second = party.join(protocol)
    until(lambda: claims(first) != [ALL])
    asked = first.assignment()
    assert (asked.epoch, asked.lost) == (before.epoch + 1, 0)
    assert len(asked.partitions) == TASKS // 2
    for _ in range(A_WHILE):
        first.settled(before.epoch)
        assert claims(first, second) == [asked.partitions, frozenset()]
        look()
    first.settled(asked.epoch)
    until(lambda: shared(first, second))
    assert first.assignment() == asked
    third = party.join(protocol)
    until(lambda: shared(first, second, third), first, second)
    second.close()
    second.close()
    until(lambda: shared(first, third), first, third)
    assert not any(one.assignment().lost for one in (first, third))


@PROTOCOLS
@pytest.mark.timeout(300)
def test_each_commits_its_own(party: Party, protocol: Protocol) -> None:
    members = [party.join(protocol), party.join(protocol)]
    topic = party.topic()
    until(lambda: shared(*members), *members)
    for number, one in enumerate(members):
        assignment = one.assignment()
        writer = one.writer(assignment.epoch)
        positions = {(topic, task): 10 + number for task in assignment.partitions}
        assert writer.transact(GROUP, [append(topic, number)], positions) is Outcome.COMMITTED
        assert writer.transact(GROUP, [append(topic, number)], {}) is Outcome.COMMITTED
        writer.append([append(topic, number)])
    everywhere = {(topic, task) for task in ALL}
    assert party.logs[0].positions(GROUP, everywhere) == {
        (topic, task): 10 + number
        for number, one in enumerate(members)
        for task in one.assignment().partitions
    }
    assert numbers(party.logs[0], topic) == [0, 0, 0, 1, 1, 1]


@PROTOCOLS
@pytest.mark.timeout(300)
def test_each_gets_the_positions_of_all(party: Party, protocol: Protocol) -> None:
    members = [party.join(protocol), party.join(protocol)]
    topic = party.topic()
    until(lambda: shared(*members), *members)
    first, second = members
    (task, *_) = second.assignment().partitions
    topic_partition, other = (topic, task), (topic, (task + 1) % TASKS)

    def told() -> Lag:
        found: list[Lag] = []
        until(
            lambda: (
                (lag := first.lag({topic_partition, other})) is not None and not found.append(lag)
            )
        )
        return found[0]

    assert told() == Lag({}, {topic_partition: 0, other: 0})
    writer = second.writer(second.assignment().epoch)
    assert writer.transact(GROUP, [append(topic, 1, task)], {}) is Outcome.COMMITTED
    until(lambda: told().ends[topic_partition] == 2)
    assert told().positions == {}
    assert writer.transact(GROUP, [], {topic_partition: 2}) is Outcome.COMMITTED
    until(lambda: told() == Lag({topic_partition: 2}, {topic_partition: 2, other: 0}))


@PROTOCOLS
@pytest.mark.timeout(300)
def test_a_member_that_does_not_release_loses_its_tasks(
    party: Party, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_module, "SETTLE_SECONDS", 1.0)
    slow = party.join(protocol)
    until(lambda: claims(slow) == [ALL])
    topic, held = party.topic(), slow.assignment()
    writer = slow.writer(held.epoch)
    assert writer.transact(GROUP, [append(topic, 1)], {(topic, 0): 1}) is Outcome.COMMITTED
    quick = party.join(protocol)
    until(lambda: shared(slow, quick), quick)
    assert slow.assignment().lost > held.epoch
    assert writer.transact(GROUP, [append(topic, 2)], {(topic, 0): 2}) is Outcome.ABORTED
    assert numbers(party.logs[0], topic) == [1]
    assert party.logs[1].positions(GROUP) == {(topic, 0): 1}
    again = slow.writer(slow.assignment().epoch)
    assert again.transact(GROUP, [append(topic, 3)], {(topic, 1): 3}) is Outcome.COMMITTED


@PROTOCOLS
@pytest.mark.timeout(300)
def test_a_name_keeps_its_tasks_over_a_restart(party: Party, protocol: Protocol) -> None:
    one, two = party.join(protocol, "one"), party.join(protocol, "two")
    until(lambda: shared(one, two), one, two)
    mine, others = one.assignment().partitions, two.assignment()
    party.logs[0].close()
    again = party.join(protocol, "one")
    until(lambda: claims(again) == [mine])
    assert two.assignment() == others


@pytest.mark.timeout(300)
def test_a_second_process_of_a_name_stops_the_first(party: Party) -> None:
    first = party.join("classic", "one")
    until(lambda: claims(first) == [ALL])
    topic, epoch = party.topic(), first.assignment().epoch
    writer = first.writer(epoch)
    second = party.join("classic", "one")
    until(lambda: claims(second) == [ALL])
    with suppress(FencedError):
        assert writer.transact(GROUP, [append(topic, 1)], {(topic, 0): 1}) is not Outcome.COMMITTED
    with pytest.raises(FencedError, match="instance id 'one'"):
        until(lambda: False, first)
    assert party.logs[1].positions(GROUP, {(topic, 0)}) == {}


@PROTOCOLS
@pytest.mark.timeout(300)
def test_commits_go_on_while_others_come_and_go(party: Party, protocol: Protocol) -> None:
    steady = party.join(protocol)
    until(lambda: claims(steady) == [ALL])
    topic, held = party.topic(), steady.assignment()
    done: list[int] = []
    writer = steady.writer(held.epoch)

    def commit() -> bool:
        nonlocal held, writer
        if (assignment := steady.assignment()) != held:
            steady.settled(assignment.epoch)
            held, writer = assignment, steady.writer(assignment.epoch)
        number = len(done) + 1
        outcome = writer.transact(GROUP, [append(topic, number)], {(topic, 0): number})
        if outcome is Outcome.COMMITTED:
            done.append(number)
            return True
        writer = steady.writer(held.epoch)
        return False

    def committing_until(holds: Callable[[], bool], *settling: Member[Any]) -> None:
        until(lambda: commit() and holds(), *settling)

    for _ in range(2):
        other = party.join(protocol)
        committing_until(partial(shared, steady, other), other)
        other.close()
        committing_until(lambda: claims(steady) == [ALL])
    assert numbers(party.logs[0], topic) == done
    assert party.logs[0].positions(GROUP) == {(topic, 0): len(done)}


@PROTOCOLS
@pytest.mark.timeout(300)
def test_a_group_is_forgotten_when_its_last_member_has_left(
    party: Party, protocol: Protocol
) -> None:
    member = party.join(protocol)
    until(lambda: claims(member) == [ALL])
    topic = party.topic()
    member.writer(member.assignment().epoch).transact(GROUP, [], {(topic, 0): 1})
    leaving = threading.Timer(1.0, member.close)
    leaving.start()
    other = party.log(protocol)
    other.forget_group(GROUP)
    leaving.join()
    assert other.positions(GROUP) == {}
    assert other.topic(f"{party.namespace}{GROUP}-leases") is None
    assert party.logs[0].positions(GROUP) == {}


@pytest.mark.timeout(300)
def test_all_count_the_tasks_alike(party: Party) -> None:
    first = party.join("classic")
    until(lambda: claims(first) == [ALL])
    other = party.log("classic").join(GROUP, 3)
    with pytest.raises(CorruptionError, match=r"share 4 tasks .* has 3") as raised:
        until(lambda: bool(other.assignment().partitions))
    assert raised.value.code == "E-PARTITIONS"
    assert claims(first) == [ALL]


def test_without_a_membership_all_is_held_at_once(servers: str) -> None:
    log = KafkaLog(servers)
    alone = log.join(GROUP, TASKS)
    assert isinstance(alone, SoleMember)
    assert alone.assignment() == Assignment(1, ALL)
    log.close()


@PROTOCOLS
@pytest.mark.timeout(300)
def test_unreachable_brokers_cost_no_tasks(servers: str, protocol: Protocol) -> None:
    """On a broker of its own, which is killed and comes back."""
    assert servers
    with cluster() as (own, brokers):
        party = Party(own)
        members = [party.join(protocol), party.join(protocol)]
        until(lambda: shared(*members), *members)
        topic = party.topic()
        first = members[0]
        writer = first.writer(first.assignment().epoch)
        assert writer.transact(GROUP, [append(topic, 1)], {(topic, 0): 1}) is Outcome.COMMITTED
        tool(brokers, "kill", "1")
        for _ in range(A_WHILE):
            first.assignment()
            look()
        tool(brokers, "start-one", "1")
        outcome = None
        while outcome is not Outcome.COMMITTED:
            until(lambda: shared(*members), *members)
            with suppress(UnavailableError):
                writer = first.writer(first.assignment().epoch)
                outcome = writer.transact(GROUP, [append(topic, 2)], {(topic, 0): 2})
        assert numbers(party.logs[0], topic) == [1, 2]
        assert party.logs[0].positions(GROUP) == {(topic, 0): 2}
        tool(brokers, "kill", "1")
        started = time.monotonic()
        for one in members:
            one.close()
        assert time.monotonic() < started + PATIENCE_S


@PROTOCOLS
@pytest.mark.timeout(300)
def test_a_group_is_vacant_once_all_have_left_it(party: Party, protocol: Protocol) -> None:
    log = party.log(protocol)
    assert log.vacant(GROUP)
    first, second = party.join(protocol), party.join(protocol)
    until(lambda: shared(first, second), first, second)
    assert not log.vacant(GROUP)
    second.close()
    until(lambda: claims(first) == [ALL], first)
    assert not log.vacant(GROUP)
    first.close()
    until(lambda: log.vacant(GROUP))
    third = party.join(protocol)
    until(lambda: claims(third) == [ALL])
    assert not log.vacant(GROUP)
