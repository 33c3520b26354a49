"""Members of one group, for tests."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from millstream.log.kafka.client import Membership
from millstream.log.kafka.log import KafkaLog
from millstream.log.kafka.member import KafkaMember
from millstream.log.log import Appended, Member, Topic
from tests.unit.log.suite import numbers_of_table, table_of

Protocol = Literal["classic", "consumer"]
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
TASKS = 4
ALL = frozenset(range(TASKS))
GROUP = "query"


@dataclass
class Party:
    """Processes of one service, each with its log; they release tasks at once on request."""

    servers: str
    namespace: str = field(default_factory=lambda: f"members-{uuid.uuid4().hex[:8]}.")
    logs: list[KafkaLog] = field(default_factory=list)

    def log(self, protocol: Protocol, instance: str = "") -> KafkaLog:
        membership = Membership(instance, protocol, session_timeout_ms=3000)
        self.logs.append(KafkaLog(self.servers, namespace=self.namespace, membership=membership))
        return self.logs[-1]

    def join(self, protocol: Protocol, instance: str = "") -> KafkaMember:
        made = self.log(protocol, instance).join(GROUP, TASKS)
        assert isinstance(made, KafkaMember)
        return made

    def topic(self) -> str:
        name = f"{self.namespace}real"
        self.logs[0].create_topic(Topic(name, TASKS))
        return name

    def close(self) -> None:
        for log in self.logs:
            log.close()
        last = KafkaLog(self.servers, namespace=self.namespace)
        last.forget_group(GROUP)
        for name in ("real", "-instances-members", "-instances-assignments"):
            last.delete_topic(f"{self.namespace}{name}")
        last.close()


def look() -> None:
    threading.Event().wait(0.05)


def until(holds: Callable[[], bool], *settling: Member[Any]) -> None:
    """Wait for it, while these release tasks on request."""
    while not holds():
        for one in settling:
            one.settled(one.assignment().epoch)
        look()


def claims(*members: Member[Any]) -> list[frozenset[int]]:
    return [one.assignment().partitions for one in members]


def shared(*members: Member[Any]) -> bool:
    """Whether each task has an owner, and the assignment is balanced."""
    held = claims(*members)
    sizes = [len(partitions) for partitions in held]
    disjoint = sum(sizes) == TASKS and frozenset().union(*held) == ALL
    return disjoint and max(sizes) - min(sizes) <= 1


def append(topic: str, number: int, partition: int = 0) -> Appended[Any]:
    return Appended(topic, partition, table_of([number]), 1)


def numbers(log: KafkaLog, topic: str, partition: int = 0) -> list[int]:
    return numbers_of_table(log.read(topic, partition, 0, 1000).batch)
