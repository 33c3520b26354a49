"""From the plan of a persistent query to its topology, over topics that exist."""

from __future__ import annotations

from collections.abc import Iterable

from millstream.ddl.environment import Environment, Topics
from millstream.log.log import Topic
from millstream.model import refusals
from millstream.plan.build import Planned
from millstream.topology.split import a_lane_each, mixed, split
from millstream.topology.topology import Topology

MOST_LANES = 72
"""Partitions that a repartition topic may have for the sake of its lanes."""


def partitions_of(topic: str, topics: Topics) -> int:
    """The number of partitions of a topic that must exist."""
    found = topics.topic(topic)
    if found is None:
        raise refusals.UNKNOWN_TOPIC(topic=topic, hint="It may have been deleted.")
    return found.partitions


def topology_of(
    query_id: str,
    planned: Planned,
    environment: Environment,
    created: Iterable[Topic] = (),
    *,
    alone: bool = False,
) -> Topology:
    """The sub-topologies of a plan, with the internal topics named for the query. StatementError
    where sources do not fit together.

    `created`: the topics of the query as they were when it was created, if it was. `alone`: other
    instances have no tasks of it.
    """
    topics = environment.topics
    assert topics is not None, "the partitions of topics decide"
    made = {topic.name: topic.partitions for topic in created}

    def lanes(topic: str, senders: int, readers: int) -> int:
        each = a_lane_each(senders)
        wide = each * readers <= MOST_LANES
        if topic in made:
            wide = made[topic] == each * readers
        return each if wide else 0

    return split(
        planned.node,
        query_id,
        partitions=lambda topic: partitions_of(topic, topics),
        prefix=environment.settings.internal_prefix,
        lanes=lanes if environment.shared and not alone else mixed,
    )
