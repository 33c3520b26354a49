"""A process that was stopped for longer than its session writes nothing after it continues."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pytest

pytest.importorskip("confluent_kafka")

from millstream.log.kafka.assignment_topic import members_topic
from millstream.log.kafka.member import KafkaMember
from millstream.log.log import Outcome
from millstream.model.errors import UnavailableError
from tests.kafka.bystander import bystander
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
    until,
)
from tests.kafka.run import cluster, tool

A_WHILE = 20


@dataclass
class Zombie:
    """A process of `tests.kafka.zombie`."""

    process: subprocess.Popen[str]

    def hears(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def says(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def zombie(
    party: Party, protocol: Protocol, topic: str, tasks: int = TASKS, *named: str
) -> Iterator[Zombie]:
    command = [sys.executable, "-m", "tests.kafka.zombie", party.servers, party.namespace]
    process = subprocess.Popen(
        [*command, protocol, GROUP, topic, str(tasks), *named],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        made = Zombie(process)
        assert made.says() == "joined"
        yield made
    finally:
        process.kill()
        process.wait()


def heir(party: Party, protocol: Protocol) -> KafkaMember:
    made = party.join(protocol)
    until(lambda: claims(made) == [ALL], made)
    return made


@PROTOCOLS
@pytest.mark.timeout(300)
def test_one_that_was_stopped_between_commits(party: Party, protocol: Protocol) -> None:
    log = party.log(protocol)
    topic = party.topic()
    with zombie(party, protocol, topic) as stopped:
        stopped.hears("1")
        assert stopped.says() == "committed"
        stopped.stop()
        after = heir(party, protocol)
        assert log.positions(GROUP) == {(topic, 0): 1}
        writer = after.writer(after.assignment().epoch)
        assert writer.transact(GROUP, [append(topic, 5)], {(topic, 0): 5}) is Outcome.COMMITTED
        stopped.go_on()
        stopped.hears("2")
        assert stopped.says() == "aborted"
        until(lambda: claims(after) != [ALL])
        after.settled(after.assignment().epoch)
        for _ in range(A_WHILE):
            # It has joined again, and its old writer still may not use that.
            stopped.hears("3")
            assert stopped.says() == "aborted"
            look()
    assert numbers(log, topic) == [1, 5]
    assert log.positions(GROUP, {(topic, 0)}) == {(topic, 0): 5}


@PROTOCOLS
@pytest.mark.timeout(300)
def test_one_that_was_stopped_within_a_commit(party: Party, protocol: Protocol) -> None:
    """Its successor does not learn positions that may still move, not even first ones."""
    log = party.log(protocol)
    topic = party.topic()
    with zombie(party, protocol, topic) as stopped:
        stopped.hears("1?")
        assert stopped.says() == "sent"
        stopped.stop()
        after = heir(party, protocol)
        found = None
        while found is None:
            with suppress(UnavailableError):
                found = log.positions(GROUP, {(topic, 0)})
        assert found == {}
        writer = after.writer(after.assignment().epoch)
        assert writer.transact(GROUP, [append(topic, 5)], {(topic, 0): 5}) is Outcome.COMMITTED
        stopped.go_on()
        stopped.hears("")
        assert stopped.says() in ("aborted", "unknown")
    assert numbers(log, topic) == [5]
    assert log.positions(GROUP, {(topic, 0)}) == {(topic, 0): 5}


@pytest.mark.timeout(300)
def test_one_that_was_thrown_out_while_joining_again(servers: str) -> None:
    """A static member waits in a rejoin when the broker goes away, and comes back too late: it
    joins with a new member id, and gets no report that its assignment is lost."""
    assert servers
    with cluster() as (own, brokers):
        party = Party(own)
        log = party.log("classic")
        topic, service = party.topic(), f"{party.namespace}-instances"
        shared = members_topic(service)
        log.create_topic(shared)
        with (
            bystander(own, service, shared.name) as stopped,
            zombie(party, "classic", topic, TASKS, "one") as late,
        ):
            late.hears("1")
            assert late.says() == "committed"
            stopped.stop()
            after = party.join("classic")
            for _ in range(A_WHILE):
                look()
            late.stop()
            tool(brokers, "kill", "1")
            tool(brokers, "start-one", "1")
            until(lambda: claims(after) == [ALL])
            writer = after.writer(after.assignment().epoch)
            assert writer.transact(GROUP, [append(topic, 5)], {(topic, 0): 5}) is Outcome.COMMITTED
            late.go_on()
            until(lambda: claims(after) != [ALL])
            for _ in range(A_WHILE):
                late.hears("2")
                assert late.says() in ("aborted", "unknown")
                look()
        assert numbers(log, topic) == [1, 5]
        assert log.positions(GROUP, {(topic, 0)}) == {(topic, 0): 5}
        party.close()
