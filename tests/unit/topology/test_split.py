"""Where plans are cut, what the topics between are called, and how many partitions they have."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from millstream.catalog.catalog import Catalog
from millstream.functions.catalogue import builtin_catalogue
from millstream.model.errors import StatementError
from millstream.plan.build import plan_query
from millstream.plan.define import create_source
from millstream.plan.nodes import Repartition, Write
from millstream.plan.sinks import NewSource
from millstream.topology.show import show_topology
from millstream.topology.split import (
    ChannelLayout,
    LayoutOf,
    labelled,
    mixed,
    partition_per_channel,
    split,
)
from millstream.topology.topology import (
    RepartitionInput,
    SourceInput,
    Topology,
    channels_of,
    senders_of,
)
from millstream_parser import parse, statements

SOURCES = """
CREATE STREAM s (k INT KEY, v INT, w INT) WITH (KAFKA_TOPIC = 's', FORMAT = 'JSON');
CREATE TABLE t (id INT PRIMARY KEY, x INT) WITH (KAFKA_TOPIC = 't', FORMAT = 'JSON');
CREATE TABLE u (id INT PRIMARY KEY, y INT) WITH (KAFKA_TOPIC = 'u', FORMAT = 'JSON');
CREATE TABLE w (id INT PRIMARY KEY, z INT) WITH (KAFKA_TOPIC = 'w', FORMAT = 'JSON');
"""


def topology(sql: str, partitions: Mapping[str, int], layout: LayoutOf = mixed) -> Topology:
    catalog = Catalog()
    for statement in parse(SOURCES):
        assert isinstance(statement, statements.CreateSource)
        catalog = catalog.with_source(create_source(statement, catalog, {}))
    (statement,) = parse(sql)
    assert isinstance(statement, statements.CreateAs)
    planned = plan_query(
        statement.query,
        catalog,
        target=NewSource(statement.kind, statement.name),
        properties={},
        functions=builtin_catalogue(),
    )
    return split(
        planned.node, "Q_1", partitions=partitions.__getitem__, prefix="ms-", layout=layout
    )


def test_a_stateless_query_is_one_piece_without_internal_topics() -> None:
    result = topology("CREATE STREAM o AS SELECT * FROM s PARTITION BY v;", {"s": 3})
    (sub,) = result.subtopologies
    assert (sub.index, sub.partitions, sub.output, sub.changelog) == (0, 3, "O", None)
    assert isinstance(sub.inputs[0], SourceInput) and sub.inputs[0].topic == "s"
    assert not result.internal_topics
    assert [source.name for source in result.sources] == ["S"]


def test_grouping_by_another_column_moves_rows() -> None:
    result = topology("CREATE TABLE o AS SELECT v, COUNT(*) FROM s GROUP BY v;", {"s": 3})
    first, second = result.subtopologies
    assert isinstance(first.root, Repartition) and isinstance(second.root, Write)
    assert (first.output, first.changelog) == ("ms-Q_1-0-repartition", None)
    (item,) = second.inputs
    assert isinstance(item, RepartitionInput)
    assert (item.topic, item.schema) == (first.output, first.root.schema)
    assert [(t.name, t.partitions, t.kind) for t in result.internal_topics] == [
        ("ms-Q_1-0-repartition", 3, "repartition"),
        ("ms-Q_1-1-changelog", 3, "changelog"),
    ]


def test_a_sub_topology_with_state_reads_through_a_channel_for_each_sender() -> None:
    asked: list[tuple[str, int, int]] = []

    def layout(topic: str, senders: int, readers: int) -> ChannelLayout:
        asked.append((topic, senders, readers))
        return partition_per_channel(topic, senders, readers)

    sql = "CREATE STREAM o AS SELECT * FROM s JOIN t ON s.v = t.id PARTITION BY w;"
    result = topology(sql, {"s": 3, "t": 5}, layout)
    first, second = result.subtopologies
    assert asked == [(first.output, 3, 5)]
    assert channels_of(second) == {first.output: 4}
    moved = [topic for topic in result.internal_topics if topic.kind == "repartition"]
    assert [(one.tasks, one.channels, one.partitions) for one in moved] == [(5, 4, 20)]


def test_or_the_records_on_its_partitions_say_who_has_sent_their_rows() -> None:
    sql = "CREATE STREAM o AS SELECT * FROM s JOIN t ON s.v = t.id PARTITION BY w;"
    result = topology(sql, {"s": 3, "t": 5}, labelled)
    _, second = result.subtopologies
    assert (channels_of(second), senders_of(second)) == ({}, {result.subtopologies[0].output: 3})
    moved = [topic for topic in result.internal_topics if topic.kind == "repartition"]
    assert [(one.tasks, one.senders, one.partitions) for one in moved] == [(5, 3, 5)]


def test_the_rows_of_a_single_sender_need_no_labels() -> None:
    assert labelled("t", 1, 5) == partition_per_channel("t", 1, 5) == ChannelLayout(channels=1)


def test_a_moved_stream_takes_the_partitions_of_the_table() -> None:
    result = topology(
        "CREATE STREAM o AS SELECT * FROM s JOIN t ON s.v = t.id JOIN u ON s.w = u.id;",
        {"s": 3, "t": 5, "u": 7},
    )
    assert [sub.partitions for sub in result.subtopologies] == [3, 5, 7]
    assert [sub.index for sub in result.subtopologies] == [0, 1, 2]
    kinds = {topic.name: topic.partitions for topic in result.internal_topics}
    assert kinds["ms-Q_1-0-repartition"] == 5 and kinds["ms-Q_1-1-repartition"] == 7
    assert [source.name for source in result.sources] == ["S", "T", "U"]


def test_joined_topics_must_have_as_many_partitions() -> None:
    sql = "CREATE STREAM o AS SELECT * FROM s JOIN t ON s.k = t.id;"
    assert len(topology(sql, {"s": 2, "t": 2}).subtopologies) == 1
    with pytest.raises(StatementError, match="number of partitions don't match") as caught:
        topology(sql, {"s": 2, "t": 4})
    assert "`S` partitions = 2; `T` partitions = 4. Please" in str(caught.value)


def test_the_refusal_names_the_topic_that_differs() -> None:
    sql = "CREATE STREAM o AS SELECT * FROM s JOIN t ON s.k = t.id JOIN u ON s.k = u.id;"
    with pytest.raises(StatementError, match="Can't join `S` with `U` since"):
        topology(sql, {"s": 2, "t": 2, "u": 3})


def test_a_topology_is_shown_with_the_way_of_the_rows() -> None:
    text = show_topology(
        topology("CREATE TABLE o AS SELECT v, COUNT(*) FROM s GROUP BY v;", {"s": 1})
    )
    assert "Sub-topology: 1 (partitions: 1)" in text
    assert "Source: READ-0-00 (topics: [s], Read STREAM S [s])\n      --> REPARTITION-0-01" in text
    assert "--> ms-Q_1-0-repartition" in text
    assert "State: ms-Q_1-1-changelog" in text


FOREIGN = "CREATE TABLE o AS SELECT t.id, x, y FROM t JOIN u ON t.x = u.id"


def test_a_foreign_key_join_goes_to_the_right_table_and_back() -> None:
    result = topology(f"{FOREIGN};", {"t": 2, "u": 5})
    assert [sub.partitions for sub in result.subtopologies] == [2, 5, 2]
    assert [sub.output for sub in result.subtopologies] == [
        "ms-Q_1-0-subscription",
        "ms-Q_1-1-response",
        "O",
    ]
    assert all(sub.changelog for sub in result.subtopologies)
    moved = {t.name: t.partitions for t in result.internal_topics if t.kind == "repartition"}
    assert moved == {"ms-Q_1-0-subscription": 5, "ms-Q_1-1-response": 2}


def test_a_table_beside_a_foreign_key_join_has_the_partitions_of_its_left_table() -> None:
    sql = f"{FOREIGN} JOIN w ON t.id = w.id;"
    widths = [sub.partitions for sub in topology(sql, {"t": 2, "u": 5, "w": 2}).subtopologies]
    assert widths == [2, 5, 2]
    with pytest.raises(StatementError, match="Can't join `T` with `W` since"):
        topology(sql, {"t": 2, "u": 5, "w": 5})
