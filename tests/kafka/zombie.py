"""A process with a part in a group, for tests that stop it: `python -m tests.kafka.zombie SERVERS
NAMESPACE PROTOCOL GROUP TOPIC TASKS [INSTANCE]`.

It prints `joined` when it holds TASKS of four. Each input line is a number: it writes that to
partition 0, moves the position there, and prints the outcome. Before the number of a line that ends
with `?` is committed, it prints `sent` and waits for another line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Event
from typing import Any, cast

from confluent_kafka import Producer

from millstream.log.kafka.client import Membership
from millstream.log.kafka.log import KafkaLog
from millstream.log.kafka.transactions import Transactions
from millstream.log.log import Appended, Outcome
from tests.kafka.parties import TASKS, Protocol
from tests.unit.log.suite import table_of


def say(text: str) -> None:
    print(text, flush=True)


def hesitant(commit: Callable[[Transactions, Producer], Outcome], asked: list[str]) -> Any:
    """A commit that first waits for a line, if the last one requested that."""

    def committed(transactions: Transactions, producer: Producer) -> Outcome:
        if asked[-1].endswith("?"):
            say("sent")
            sys.stdin.readline()
        return commit(transactions, producer)

    return committed


def main() -> None:
    """Run until there are no more lines."""
    servers, namespace, protocol, group, topic, tasks, *named = sys.argv[1:]
    instance = "".join(named)
    membership = Membership(instance, cast(Protocol, protocol), session_timeout_ms=3000)
    log = KafkaLog(servers, namespace=namespace, membership=membership)
    member = log.join(group, TASKS)
    while len(member.assignment().partitions) < int(tasks):
        Event().wait(0.05)
    writer = member.writer(member.assignment().epoch)
    say("joined")
    lines: list[str] = []
    Transactions._committed = hesitant(Transactions._committed, lines)  # type: ignore[method-assign]
    while line := sys.stdin.readline().strip():
        lines.append(line)
        number = int(line.rstrip("?"))
        appended = [Appended(topic, 0, table_of([number]), 1)]
        say(writer.transact(group, appended, {(topic, 0): number}).value)


if __name__ == "__main__":
    main()
