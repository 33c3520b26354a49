"""Counters that move between processes which start, stop and lag at random: no process continues
from an outdated position, and none counts twice."""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from millstream.log.kafka import instance_member as member_module
from millstream.log.kafka.log import KafkaLog
from millstream.log.log import Assignment, Member, Outcome
from millstream.model.errors import UnavailableError
from tests.kafka.parties import GROUP, PROTOCOLS, TASKS, Party, Protocol, append, numbers

WORKERS = 3
STAYS = 3
ROUNDS = 60
DAWDLES = 0.3
PATIENCE = 0.3
"""The seconds for releasing tasks; a lagging process takes longer."""


@dataclass
class Worker:
    """Goes through the stays of one process: in each it joins, counts for a while, and leaves."""

    log: KafkaLog
    topic: str
    draw: random.Random
    committed: Counter[int]
    """By task, what all workers have counted; each adds to it while it owns the task."""
    failures: list[BaseException] = field(default_factory=list)

    def run(self) -> None:
        try:
            stays = 0
            while stays < STAYS or not self.enough():
                member = self.log.join(GROUP, TASKS)
                self.stay(member)
                member.close()
                stays += 1
        except BaseException as error:
            self.failures.append(error)

    def enough(self) -> bool:
        """Whether every task went on: on a slow machine that takes more stays."""
        return all(self.committed[task] > ROUNDS for task in range(TASKS))

    def stay(self, member: Member[Any]) -> None:
        held, counts, writer = Assignment(-1, frozenset()), dict[int, int](), None
        for _ in range(ROUNDS + self.draw.randrange(ROUNDS)):
            try:
                assignment = member.assignment()
                if writer is None or assignment.epoch != held.epoch:
                    if self.draw.random() < DAWDLES:
                        threading.Event().wait(2 * PATIENCE)
                    elif writer is None or self.draw.random() < 0.5:
                        member.settled(assignment.epoch)
                        writer, held, counts = self.opened(member, assignment)
                if writer is not None and held.partitions and not self.count(writer, counts):
                    writer = None
            except UnavailableError:
                writer = None
            threading.Event().wait(self.draw.random() / 20)

    def opened(
        self, member: Member[Any], assignment: Assignment
    ) -> tuple[Any, Assignment, dict[int, int]]:
        writer = member.writer(assignment.epoch)
        topic_partitions = {(self.topic, task) for task in assignment.partitions}
        found = self.log.positions(GROUP, topic_partitions)
        return (
            writer,
            assignment,
            {task: found.get((self.topic, task), 0) for task in assignment.partitions},
        )

    def count(self, writer: Any, counts: dict[int, int]) -> bool:
        records = [append(self.topic, number + 1, task) for task, number in counts.items()]
        positions = {(self.topic, task): number + 1 for task, number in counts.items()}
        if writer.transact(GROUP, records, positions) is not Outcome.COMMITTED:
            return False
        for task in counts:
            counts[task] += 1
            self.committed[task] += 1
        return True


@PROTOCOLS
@pytest.mark.timeout(600)
def test_nothing_is_counted_twice(
    party: Party, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_module, "SETTLE_SECONDS", PATIENCE)
    logs = [party.log(protocol) for _ in range(WORKERS)]
    topic = party.topic()
    committed = Counter[int]()
    workers = [Worker(log, topic, random.Random(seed), committed) for seed, log in enumerate(logs)]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [worker.failures for worker in workers] == [[]] * WORKERS
    topic_partitions = {(topic, task) for task in range(TASKS)}
    positions = logs[0].positions(GROUP, topic_partitions)
    counted = {
        topic_partition: numbers(logs[0], *topic_partition) for topic_partition in topic_partitions
    }
    assert counted == {
        topic_partition: list(range(1, positions[topic_partition] + 1))
        for topic_partition in topic_partitions
    }
    assert min(positions.values()) > ROUNDS
