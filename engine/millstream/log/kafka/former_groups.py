"""The groups of queries that ran under a version in which each query had members of its own.

Such a group keeps its positions, and anyone can move them when its members have left. But brokers
delete all positions of a group that had members of the classic protocol, also those that were moved
a moment ago, when it has been without members for `offsets.retention.minutes`. A member of the
newer protocol makes it a group whose positions are deleted by their own age, like those of a group
that never had members.
"""

from __future__ import annotations

import logging
import time

from confluent_kafka import Consumer, TopicPartition

from millstream.log.kafka.client import REQUEST_SECONDS, Settings
from millstream.log.kafka.groups import Groups
from millstream.log.kafka.leaving import leave
from millstream.model.errors import UnavailableError


def take_over(groups: Groups, group: str, config: Settings, leases: str) -> None:
    """Make the group of a query one without members. `config`: of a member of the newer protocol;
    `leases`: the topic of the former members. Raises UnavailableError while the group has members:
    instances of the former version, with which tasks cannot be shared."""
    if not groups.vacant(group, (leases, 0)):
        raise UnavailableError(
            f"Instances of a former version of Millstream take part in the group '{group}'",
            hint="Stop all instances of the service before the first one of this version starts."
            " One that was killed counts until its session expires.",
        )
    consumer = Consumer(config)
    assigned: list[TopicPartition] = []
    deadline = time.monotonic() + REQUEST_SECONDS
    try:
        consumer.subscribe([leases], on_assign=lambda _, given: assigned.extend(given))
        while not assigned and time.monotonic() < deadline:
            consumer.poll(0.05)
    finally:
        leave(consumer)
    if not assigned:
        logging.getLogger("millstream").warning(
            "the brokers may delete the positions of '%s': it could not be made a group of the"
            " newer protocol",
            group,
        )
