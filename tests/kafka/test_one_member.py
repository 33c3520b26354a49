"""Processes that are one member each, for several queries."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import Consumer, TopicPartition

from millstream.log.kafka import instance_member
from millstream.log.kafka.log import KafkaLog
from millstream.log.kafka.member import KafkaMember
from millstream.log.log import Outcome, Participant, Topic
from millstream.model.errors import UnavailableError
from tests.kafka.parties import (
    ALL,
    PROTOCOLS,
    TASKS,
    Party,
    Protocol,
    append,
    claims,
    look,
    numbers,
    until,
)

ONE = frozenset({0})
A_WHILE = 20
"""Polls for something that must not happen, for a second in total."""


class Service:
    """Processes with the same queries."""

    def __init__(self, party: Party) -> None:
        self.party = party
        self.groups: set[str] = set()

    def start(
        self, protocol: Protocol, tasks: dict[str, int], instance: str = ""
    ) -> dict[str, KafkaMember]:
        """A process with these queries, and their number of tasks."""
        log = self.party.log(protocol, instance)
        self.groups |= tasks.keys()
        found = {}
        for group, count in tasks.items():
            found[group] = log.join(group, count)
            assert isinstance(found[group], KafkaMember)
        return found  # type: ignore[return-value]

    def close(self) -> None:
        for log in self.party.logs:
            log.close()
        last = KafkaLog(self.party.servers, namespace=self.party.namespace)
        for group in self.groups:
            last.forget_group(group)
        last.close()


@pytest.fixture
def service(party: Party) -> Iterator[Service]:
    made = Service(party)
    yield made
    made.close()


def held(process: dict[str, KafkaMember]) -> int:
    """How many tasks a process has."""
    return sum(len(partitions) for partitions in claims(*process.values()))


def all_held(tasks: dict[str, int], *processes: dict[str, KafkaMember]) -> bool:
    """Whether each task has one owner."""
    for group, count in tasks.items():
        owned = claims(*(process[group] for process in processes if group in process))
        if sum(map(len, owned)) != count or frozenset().union(*owned) != frozenset(range(count)):
            return False
    return True


def members(*processes: dict[str, KafkaMember]) -> list[KafkaMember]:
    return [member for process in processes for member in process.values()]


@PROTOCOLS
@pytest.mark.timeout(300)
def test_queries_of_one_task_are_spread(service: Service, protocol: Protocol) -> None:
    tasks = {f"q{number}": 1 for number in range(20)}
    first = service.start(protocol, tasks)
    until(lambda: all_held(tasks, first))
    second = service.start(protocol, tasks)
    until(
        lambda: all_held(tasks, first, second) and held(first) == held(second) == 10,
        *members(first, second),
    )


@PROTOCOLS
@pytest.mark.timeout(300)
def test_a_query_more_is_no_thread_more(service: Service, protocol: Protocol) -> None:
    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    tasks = {f"q{number}": 1 for number in range(10)}
    first = service.start(protocol, {"before": 1})
    until(lambda: all_held({"before": 1}, first))
    before = threads()
    log = service.party.logs[0]
    more = {group: log.join(group, 1) for group in tasks}
    service.groups |= tasks.keys()
    until(lambda: claims(*more.values()) == [ONE] * 10)
    # A thread of the client may be about to end.
    until(lambda: threads() <= before)


@PROTOCOLS
@pytest.mark.timeout(300)
def test_queries_that_come_together_change_the_group_once(
    service: Service, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribed: list[list[str]] = []

    class Counting(Consumer):
        def subscribe(self, topics: list[str], **callbacks: object) -> None:
            subscribed.append(topics)
            super().subscribe(topics, **callbacks)

    monkeypatch.setattr(instance_member, "Consumer", Counting)
    tasks = {f"q{number}": 2 for number in range(20)}
    first = service.start(protocol, tasks)
    until(lambda: all_held(tasks, first))
    assert len(subscribed) <= 5
    assert [member.assignment().epoch for member in first.values()] == [1] * 20


@PROTOCOLS
@pytest.mark.timeout(300)
def test_what_one_query_has_to_release_stops_no_other(service: Service, protocol: Protocol) -> None:
    """Until it has released its tasks, the thread of the member is within a callback."""
    tasks = {"shared": TASKS, "own": 1}
    first = service.start(protocol, tasks)
    until(lambda: all_held(tasks, first))
    own = first["own"].assignment()
    second = service.start(protocol, {"shared": TASKS})
    until(lambda: claims(first["shared"]) != [ALL])
    topic = service.party.topic()
    writer = first["own"].writer(own.epoch)
    for number in range(5):
        assert (
            writer.transact("own", [append(topic, number)], {(topic, 0): number})
            is Outcome.COMMITTED
        )
    assert first["own"].assignment() == own
    assert claims(second["shared"]) == [frozenset()]
    first["shared"].settled(first["shared"].assignment().epoch)
    until(lambda: all_held({"shared": TASKS}, first, second), *members(first, second))
    assert writer.transact("own", [append(topic, 5)], {(topic, 0): 5}) is Outcome.COMMITTED
    assert first["own"].assignment() == own
    assert numbers(service.party.logs[0], topic) == [*range(6)]


@PROTOCOLS
@pytest.mark.timeout(300)
def test_a_round_goes_on_while_others_come_and_go(service: Service, protocol: Protocol) -> None:
    """No query loses its assignment, and no round is aborted, for what happens to other queries."""
    tasks = {f"q{number}": 1 for number in range(3)}
    first = service.start(protocol, tasks)
    until(lambda: all_held(tasks, first))
    topic = service.party.topic()
    log = service.party.logs[0]
    writers = {group: member.writer(1) for group, member in first.items()}
    done = 0

    def commit() -> None:
        nonlocal done
        place = (topic, 1)
        participants = [
            Participant(writer, group, [append(topic, done)], {place: done})
            for group, writer in writers.items()
        ]
        assert log.transact_all(participants) == [Outcome.COMMITTED] * 3
        done += 1

    for number in range(4):
        group = f"more{number}"
        service.groups.add(group)
        more = log.join(group, 1)
        while claims(more) != [ONE]:
            commit()
            look()
        more.close()
        log.forget_group(group)
        commit()
    assert [member.assignment().epoch for member in first.values()] == [1] * 3
    assert numbers(log, topic) == [number for number in range(done) for _ in range(3)]
    found = [log.positions(group, {(topic, 1)}) for group in tasks]
    assert found == [{(topic, 1): done - 1}] * 3


@PROTOCOLS
@pytest.mark.timeout(300)
def test_a_query_that_ends_here_goes_on_elsewhere(service: Service, protocol: Protocol) -> None:
    tasks = {"a": 2, "b": 2}
    first, second = service.start(protocol, tasks), service.start(protocol, tasks)
    until(lambda: all_held(tasks, first, second), *members(first, second))
    first["a"].close()
    until(lambda: claims(second["a"]) == [frozenset({0, 1})], *members(first, second))
    until(lambda: all_held({"b": 2}, first, second), *members(first, second))
    log = service.party.logs[0]
    assert not log.vacant("a")
    again = log.join("a", 2)
    until(lambda: all_held({"a": 2}, second, {"a": again}), again, *members(first, second))  # type: ignore[dict-item]


@PROTOCOLS
@pytest.mark.timeout(300)
def test_a_name_keeps_all_its_tasks_over_a_restart(service: Service, protocol: Protocol) -> None:
    tasks = {f"q{number}": 2 for number in range(6)}
    one, two = service.start(protocol, tasks, "one"), service.start(protocol, tasks, "two")
    until(lambda: all_held(tasks, one, two) and held(one) == 6, *members(one, two))
    mine, others = claims(*one.values()), [member.assignment() for member in two.values()]
    for member in one.values():
        # As a process does that ends; it is some time until it closes its log.
        member.close()
        look()
    service.party.logs[0].close()
    again = service.start(protocol, tasks, "one")
    until(lambda: claims(*again.values()) == mine)
    assert [member.assignment() for member in two.values()] == others


@PROTOCOLS
@pytest.mark.timeout(300)
def test_a_group_is_not_vacant_while_tasks_are_released(
    service: Service, protocol: Protocol
) -> None:
    """The brokers show nobody who has them, but the one that had them may still commit."""
    tasks = {"a": 1, "b": 1}
    first = service.start(protocol, tasks)
    until(lambda: all_held(tasks, first))
    service.start(protocol, tasks)
    until(lambda: held(first) == 1)
    (moving,) = (group for group in tasks if claims(first[group]) == [frozenset()])
    third = service.party.log(protocol)
    assert not third.vacant(moving)
    topic = service.party.topic()
    writer = first[moving].writer(1)
    assert writer.transact(moving, [append(topic, 1)], {(topic, 0): 1}) is Outcome.COMMITTED


@PROTOCOLS
@pytest.mark.timeout(300)
def test_a_group_is_vacant_beside_other_queries(service: Service, protocol: Protocol) -> None:
    tasks = {"a": 2, "b": 2}
    first = service.start(protocol, tasks)
    until(lambda: all_held(tasks, first))
    other = service.party.log(protocol)
    assert not other.vacant("a")
    first["a"].close()
    until(lambda: other.vacant("a"))
    assert claims(first["b"]) == [frozenset({0, 1})]
    assert not first["b"].assignment().lost


def kind(servers: str, group: str) -> str:
    """The kind of a group. A process that has asked for it may abort when a broker goes away."""
    ask = (
        "import sys; from confluent_kafka.admin import AdminClient;"
        " asked = AdminClient({'bootstrap.servers': sys.argv[1]});"
        " found = asked.describe_consumer_groups([sys.argv[2]])[sys.argv[2]].result();"
        " print(found.type.name)"
    )
    command = [sys.executable, "-c", ask, servers, group]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.timeout(300)
def test_a_query_of_an_earlier_version_goes_on(service: Service) -> None:
    """Its group had members, and has the positions that they have moved. Brokers delete all
    positions of a group that had members of the classic protocol, some days after they have left:
    it must not stay one."""
    party = service.party
    log = party.log("classic")
    topic = party.topic()
    name = f"{party.namespace}old"
    log.create_topic(Topic(f"{name}-leases", 1))
    former = Consumer(
        {"bootstrap.servers": party.servers, "group.id": name, "enable.auto.commit": False}
    )
    assigned: list[TopicPartition] = []
    former.subscribe([topic], on_assign=lambda _, given: assigned.extend(given))
    while not assigned:
        former.poll(0.1)
    former.commit(offsets=[TopicPartition(topic, 1, 7)], asynchronous=False)
    service.groups.add("old")
    with pytest.raises(UnavailableError, match="a former version"):
        log.join("old", 1)
    former.close()
    assert kind(party.servers, name) == "CLASSIC"
    member = log.join("old", 1)
    until(lambda: claims(member) == [ONE])
    assert kind(party.servers, name) == "CONSUMER"
    assert log.positions("old") == {(topic, 1): 7}
    writer = member.writer(member.assignment().epoch)
    assert writer.transact("old", [append(topic, 1)], {(topic, 1): 8}) is Outcome.COMMITTED
    assert log.positions("old") == {(topic, 1): 8}
