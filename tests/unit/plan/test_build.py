"""Plans of queries, looked at from outside: the sink, and whether rows move."""

from __future__ import annotations

import pytest

from millstream.catalog.source import Format
from millstream.model.errors import StatementError
from millstream.plan.build import Planned
from millstream.plan.nodes import Aggregate, Read, Repartition
from tests.unit.plan.planning import nodes, planned


def moves(plan: Planned) -> int:
    return sum(isinstance(node, Repartition) for node in nodes(plan.node))


@pytest.mark.parametrize(
    ("query", "schema", "moved"),
    [
        ("STREAM AS SELECT * FROM two", "`A` INTEGER KEY, `B` INTEGER KEY, `C` INTEGER", 0),
        ("STREAM AS SELECT c, b, a FROM two", "`A` INTEGER KEY, `B` INTEGER KEY, `C` INTEGER", 0),
        ("STREAM AS SELECT k AS x, x.* FROM s AS x", None, 0),
        ("STREAM AS SELECT k, v AS x, v + 1, n->a FROM s",
         "`K` STRING KEY, `X` INTEGER, `KSQL_COL_0` INTEGER, `A` INTEGER", 0),
        ("STREAM AS SELECT k, n->* FROM s", "`K` STRING KEY, `A` INTEGER, `B` STRING", 0),
        ("STREAM AS SELECT n->a, n->a, k FROM s", "`K` STRING KEY, `A` INTEGER, `A_1` INTEGER", 0),
        ("STREAM AS SELECT *, ABS(v), ABS(v) FROM number",
         "`KSQL_COL_1` INTEGER KEY, `V` INTEGER, `KSQL_COL_0` INTEGER, `KSQL_COL_2` INTEGER", 0),
        ("STREAM AS SELECT k, ROWTIME AS rt, ROWOFFSET + 1 AS ro FROM s",
         "`K` STRING KEY, `RT` BIGINT, `RO` BIGINT", 0),
        ("STREAM AS SELECT v FROM bare", "`V` INTEGER", 0),
        ("STREAM AS SELECT k, AS_VALUE(k) AS copy FROM s", "`K` STRING KEY, `COPY` STRING", 0),
        ("STREAM AS SELECT * FROM heads", "`K` STRING KEY, `V` INTEGER, `H` BYTES", 0),
        ("STREAM AS SELECT * FROM win", "`K` STRING KEY, `V` INTEGER", 0),
        ("STREAM AS SELECT *, WINDOWEND AS we FROM win",
         "`K` STRING KEY, `V` INTEGER, `WE` BIGINT", 0),
        ("STREAM AS SELECT k, EXPLODE(l) AS i FROM s", "`K` STRING KEY, `I` INTEGER", 0),
        ("STREAM AS SELECT * FROM two PARTITION BY c",
         "`C` INTEGER KEY, `A` INTEGER, `B` INTEGER", 0),
        ("STREAM AS SELECT * FROM line PARTITION BY v, k", None, 0),
        ("STREAM AS SELECT * FROM two PARTITION BY b, c % 2",
         "`B` INTEGER KEY, `KSQL_COL_0` INTEGER KEY, `C` INTEGER, `A` INTEGER", 0),
        ("STREAM AS SELECT * FROM line PARTITION BY NULL", "`V` INTEGER, `K` STRING", 0),
        ("STREAM AS SELECT * FROM line PARTITION BY ROWTIME",
         "`ROWTIME` BIGINT KEY, `V` INTEGER, `K` STRING", 0),
        ("TABLE AS SELECT * FROM t", "`ID` INTEGER KEY, `NAME` STRING", 0),
        ("TABLE AS SELECT v, COUNT(*) FROM s GROUP BY v",
         "`V` INTEGER KEY, `KSQL_COL_0` BIGINT", 1),
        ("TABLE AS SELECT k, COUNT(*) FROM s GROUP BY k", "`K` STRING KEY, `KSQL_COL_0` BIGINT", 0),
        ("TABLE AS SELECT COUNT(*) AS c, b AS y, a AS x FROM two GROUP BY a, b",
         "`X` INTEGER KEY, `Y` INTEGER KEY, `C` BIGINT", 0),
        ("TABLE AS SELECT COUNT(*) AS c, b, a FROM two GROUP BY b, a",
         "`B` INTEGER KEY, `A` INTEGER KEY, `C` BIGINT", 1),
        ("TABLE AS SELECT a, COUNT(*) AS c FROM two GROUP BY a", "`A` INTEGER KEY, `C` BIGINT", 1),
        ("TABLE AS SELECT ABS(v) AS x, ABS(v) * SUM(w) AS y, 'c' AS z FROM s GROUP BY ABS(v)",
         "`X` INTEGER KEY, `Y` DOUBLE, `Z` STRING", 1),
        ("TABLE AS SELECT k, WINDOWSTART AS a, COUNT(*) * WINDOWEND AS b FROM s "
         "WINDOW TUMBLING (SIZE 1 DAY) GROUP BY k",
         "`K` STRING KEY, `A` BIGINT, `B` BIGINT", 0),
        ("TABLE AS SELECT k, WINDOWSTART AS a, COUNT(*) AS c FROM win GROUP BY k, WINDOWSTART",
         "`K` STRING KEY, `A` BIGINT KEY, `C` BIGINT", 1),
        ("TABLE AS SELECT name, COUNT(*) AS c FROM t GROUP BY name",
         "`NAME` STRING KEY, `C` BIGINT", 1),
        ("STREAM AS SELECT * FROM bare JOIN t ON bare.v = t.id",
         "`BARE_V` INTEGER KEY, `BARE_W` DOUBLE, `T_ID` INTEGER, `T_NAME` STRING", 1),
        ("STREAM AS SELECT t.id, w FROM bare JOIN t ON bare.v = t.id",
         "`ID` INTEGER KEY, `W` DOUBLE", 1),
        ("STREAM AS SELECT t.id, u.name, t.name FROM bare "
         "JOIN t ON v = t.id LEFT JOIN u ON u.id = t.id",
         "`T_ID` INTEGER KEY, `U_NAME` STRING, `T_NAME` STRING", 1),
        ("STREAM AS SELECT id, w FROM bare JOIN t ON v + 1 = id",
         "`ID` INTEGER KEY, `W` DOUBLE", 1),
    ],
)  # fmt: skip
def test_sinks(query: str, schema: str | None, moved: int) -> None:
    kind, rest = query.split(" ", 1)
    name = f"CREATE {kind} o {rest} EMIT CHANGES;"
    if schema is None:
        with pytest.raises(StatementError):
            planned(name)
        return
    plan = planned(name)
    assert plan.sink is not None
    assert (str(plan.sink.schema), plan.sink.kind.value, moves(plan)) == (schema, kind, moved)


def test_formats_are_inherited_from_the_left_source() -> None:
    plain = planned("CREATE STREAM o AS SELECT * FROM line EMIT CHANGES;").sink
    assert plain is not None
    assert plain.value_format == Format("DELIMITED", None, {"delimiter": ";"})
    assert plain.key_format == Format("KAFKA")
    other = planned(
        "CREATE STREAM o WITH (FORMAT = 'JSON', KAFKA_TOPIC = 'out', TIMESTAMP = 't') AS "
        "SELECT *, ROWTIME AS t FROM line EMIT CHANGES;"
    )
    assert other.sink is not None and other.sink.timestamp is not None
    assert (other.sink.topic, other.sink.timestamp.name) == ("out", "T")
    assert other.sink.key_format == other.sink.value_format == Format("JSON")


def test_the_key_format_of_results_without_and_with_new_keys() -> None:
    keyless = planned("CREATE STREAM o AS SELECT * FROM two PARTITION BY NULL EMIT CHANGES;").sink
    assert keyless is not None and keyless.key_format == Format("NONE")
    with pytest.raises(StatementError, match="Key format specified for stream without key"):
        planned(
            "CREATE STREAM o WITH (KEY_FORMAT = 'JSON') AS SELECT * FROM two PARTITION BY NULL;"
        )


def test_the_topic_of_a_sink() -> None:
    sql = "CREATE STREAM o WITH (PARTITIONS = 3) AS SELECT * FROM s EMIT CHANGES;"
    plan = planned(sql, {"ksql.output.topic.name.prefix": "pre_"})
    assert plan.sink_topic is not None
    assert (plan.sink_topic.name, plan.sink_topic.like) == ("pre_O", "s")
    assert (plan.sink_topic.partitions, plan.sink_topic.replicas) == (3, None)


def test_only_used_columns_are_read() -> None:
    plan = planned("CREATE TABLE o AS SELECT v, COUNT(w) FROM s GROUP BY v EMIT CHANGES;")
    (read,) = (node for node in nodes(plan.node) if isinstance(node, Read))
    assert read.columns == ("K", "V", "W")
    assert not read.materialised


@pytest.mark.parametrize(
    ("sql", "materialised"),
    [
        ("CREATE TABLE o AS SELECT * FROM t;", True),
        ("CREATE TABLE o AS SELECT * FROM t WHERE id > 1;", True),
        ("CREATE TABLE o AS SELECT name, COUNT(*) FROM t GROUP BY name;", True),
        ("SELECT * FROM t EMIT CHANGES;", False),
    ],
)
def test_tables_are_materialised_for_differences_and_pull_queries(
    sql: str, materialised: bool
) -> None:
    reads = [node for node in nodes(planned(sql).node) if isinstance(node, Read)]
    assert [read.materialised for read in reads] == [materialised]


def test_equal_aggregates_are_computed_once() -> None:
    plan = planned(
        "CREATE TABLE o AS SELECT v, SUM(w), SUM(w) + COUNT(*) FROM s GROUP BY v "
        "HAVING COUNT(*) > 1;"
    )
    (step,) = (node for node in nodes(plan.node) if isinstance(node, Aggregate))
    assert [call.function for _, call in step.aggregates] == ["SUM", "COUNT"]


@pytest.mark.parametrize(
    ("window", "emit", "grace", "retention"),
    [
        ("TUMBLING (SIZE 1 HOUR)", "CHANGES", 23 * 3_600_000, 86_400_000),
        ("TUMBLING (SIZE 2 DAYS)", "CHANGES", 0, 2 * 86_400_000),
        ("TUMBLING (SIZE 1 HOUR)", "FINAL", 0, 3_600_000),
        ("SESSION (1 HOUR, GRACE PERIOD 0 SECONDS)", "CHANGES", 0, 3_600_000),
        ("TUMBLING (SIZE 1 HOUR, RETENTION 3 HOURS, GRACE PERIOD 1 HOUR)", "CHANGES",
         3_600_000, 3 * 3_600_000),
    ],
)  # fmt: skip
def test_grace_and_retention(window: str, emit: str, grace: int, retention: int) -> None:
    plan = planned(
        f"CREATE TABLE o AS SELECT k, COUNT(*) FROM s WINDOW {window} GROUP BY k EMIT {emit};"
    )
    (step,) = (node for node in nodes(plan.node) if isinstance(node, Aggregate))
    assert step.window is not None
    assert (step.window.grace_ms, step.window.retention_ms) == (grace, retention)
    assert step.final == (emit == "FINAL")


def test_a_join_on_differing_key_formats_moves_the_stream_to_the_tables_partitions() -> None:
    plan = planned("CREATE STREAM o AS SELECT * FROM bare JOIN wide ON v = a;")
    (move,) = (node for node in nodes(plan.node) if isinstance(node, Repartition))
    assert move.key_format == Format("DELIMITED")


def test_push_queries_have_their_columns_in_the_order_asked_for() -> None:
    plan = planned("SELECT c, ROWTIME, a FROM two EMIT CHANGES LIMIT 2;")
    assert plan.sink is None
    assert plan.node.schema.names == ("C", "ROWTIME", "A")
    assert [column.name for column in plan.node.schema.key] == ["A"]
    star = planned("SELECT * FROM win EMIT CHANGES;")
    assert star.node.schema.names == ("K", "WINDOWSTART", "WINDOWEND", "V")


def test_the_new_planner_lets_keys_go_and_orders_them_as_selected() -> None:
    new = {"ksql.new.query.planner.enabled": "true"}
    keyless = planned("CREATE STREAM o AS SELECT v FROM s;", new).sink
    assert keyless is not None and str(keyless.schema) == "`V` INTEGER"
    ordered = planned("CREATE STREAM o AS SELECT b, a, c FROM two;", new).sink
    assert ordered is not None and ordered.schema.names == ("B", "A", "C")


def test_a_union_of_very_many_selects_is_planned() -> None:
    """Whatever walks the plan takes one step of the stack for each level."""
    select = "SELECT k, v FROM s"
    found = planned(f"{' UNION ALL '.join([select] * 1500)} EMIT CHANGES;")
    assert len(found.sources) == 1500
