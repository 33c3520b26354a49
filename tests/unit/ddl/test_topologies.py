"""How the topics between sub-topologies are laid out: as they were when the query was created."""

from __future__ import annotations

import pytest

from millstream.catalog.catalog import Catalog
from millstream.ddl.environment import Environment
from millstream.ddl.topologies import topology_of
from millstream.functions.catalogue import builtin_catalogue
from millstream.log.log import Topic
from millstream.model.settings import EngineSettings
from millstream.plan.build import plan_query
from millstream.plan.define import create_source
from millstream.plan.sinks import NewSource
from millstream.topology.topology import InternalTopic
from millstream_parser import parse, statements
from tests.unit.ddl.folding import Existing


def moved(
    tasks: int, created: int | None = None, *, shared: bool = True, alone: bool = False
) -> InternalTopic:
    """The repartition topic of a count over a topic with so many partitions. `created`: the
    partitions that it had when the query was created."""
    source, query = parse(
        "CREATE STREAM s (k INT KEY, g INT) WITH (KAFKA_TOPIC = 's', FORMAT = 'JSON');"
        "CREATE TABLE o AS SELECT g, COUNT(*) AS c FROM s GROUP BY g;"
    )
    assert isinstance(source, statements.CreateSource)
    assert isinstance(query, statements.CreateAs)
    settings = EngineSettings()
    catalog = Catalog().with_source(create_source(source, Catalog(), {}))
    functions = builtin_catalogue()
    planned = plan_query(
        query.query,
        catalog,
        target=NewSource(query.kind, query.name),
        properties={},
        functions=functions,
    )
    environment = Environment(functions, settings, Existing((Topic("s", tasks),)), shared=shared)
    name = f"{settings.internal_prefix}Q_1-0-repartition"
    known = () if created is None else (Topic("s", tasks), Topic(name, created))
    topology = topology_of("Q_1", planned, environment, known, alone=alone)
    (topic,) = (one for one in topology.internal_topics if one.name == name)
    return topic


@pytest.mark.parametrize("tasks", [2, 8, 64, 256])
def test_a_new_query_has_a_partition_for_each_receiver(tasks: int) -> None:
    topic = moved(tasks)
    assert (topic.partitions, topic.senders, topic.channels) == (tasks, tasks, 0)


@pytest.mark.parametrize("tasks", [2, 8])
def test_one_created_with_a_partition_for_each_channel_keeps_them(tasks: int) -> None:
    topic = moved(tasks, (tasks + 1) * tasks)
    assert (topic.partitions, topic.senders, topic.channels) == ((tasks + 1) * tasks, 0, tasks + 1)


def test_one_created_with_mixed_partitions_labels_its_records_from_now_on() -> None:
    topic = moved(16, 16)
    assert (topic.partitions, topic.senders) == (16, 16)


def test_nothing_is_labelled_where_nobody_else_sends() -> None:
    for topic in (moved(4, shared=False), moved(4, alone=True), moved(1)):
        assert topic.senders == 0 and topic.partitions == topic.tasks
