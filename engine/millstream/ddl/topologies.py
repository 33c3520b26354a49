"""Splits the plan of a persistent query into a topology, over the topics that exist."""

from __future__ import annotations

from collections.abc import Iterable

from millstream.ddl.environment import Environment, Topics
from millstream.log.log import Topic
from millstream.model import refusals
from millstream.plan.build import Planned
from millstream.topology.split import (
    ChannelLayout,
    labelled,
    mixed,
    partition_per_channel,
    split,
)
from millstream.topology.topology import Topology


def partitions_of(topic: str, topics: Topics) -> int:
    """The number of partitions of a topic; raises StatementError if it does not exist."""
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
    """The sub-topologies of a plan, and internal topics named after the query. Raises
    StatementError if the sources do not fit together.

    `created`: the topics of the query as they were when it was created; empty for a new query.
    `alone`: other instances run no tasks of it.
    """
    topics = environment.topics
    assert topics is not None, "the topology depends on the partitions of topics"
    partitions = {topic.name: topic.partitions for topic in created}

    def layout(topic: str, senders: int, readers: int) -> ChannelLayout:
        # A query that an earlier version created with a partition for each channel keeps them.
        # Where it mixed the output of all senders, the records without labels are read first.
        wide = partition_per_channel(topic, senders, readers)
        if partitions.get(topic) == wide.channels * readers:
            return wide
        return labelled(topic, senders, readers)

    return split(
        planned.node,
        query_id,
        partitions=lambda topic: partitions_of(topic, topics),
        prefix=environment.settings.internal_prefix,
        layout=layout if environment.shared and not alone else mixed,
    )
