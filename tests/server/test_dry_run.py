"""Requests of several statements: all of them are tried before the first one is executed."""

from __future__ import annotations

import pytest

from tests.server.conftest import MADE, RunningServer

FIRST = "CREATE TYPE first AS INT; INSERT INTO s (id, v) VALUES (1, 'first');"


def state(door: RunningServer) -> tuple[object, ...]:
    engine = door.engine
    ends = [engine.log.end_offset("s", partition) for partition in range(2)]
    names = {topic.name for topic in engine.log.topics()}
    return engine.catalog, engine.command_topic.log.next_offset, ends, names


@pytest.mark.parametrize(
    ("last", "says"),
    [
        ("CREATE STREAM s (x INT) WITH (kafka_topic='t', format='JSON', partitions=1);", "exists"),
        ("CREATE STREAM t (x INT) WITH (kafka_topic='none', format='JSON');", "does not exist"),
        ("CREATE STREAM t (x INT) WITH (kafka_topic='s', format='JSON', partitions=3);",
         "different partition"),
        ("CREATE STREAM t AS SELECT nothing FROM s;", "NOTHING"),
        ("CREATE TABLE first AS SELECT id, COUNT(*) AS n FROM first GROUP BY id;", "FIRST"),
        ("CREATE STREAM t WITH (partitions=3, kafka_topic='s') AS SELECT * FROM s;",
         "different partition"),
        ("INSERT INTO s SELECT id FROM s;", ""),
        ("INSERT INTO s (id) VALUES (true);", "Expected type INTEGER"),
        ("INSERT INTO t (id) VALUES (1);", "unknown stream"),
        ("DROP STREAM t;", "T does not exist"),
        ("DROP TYPE first; DROP TYPE first;", "FIRST"),
        ("ALTER STREAM s ADD COLUMN v INT;", "V"),
        ("TERMINATE nothing;", "Unknown queryId"),
        ("DESCRIBE t;", "Could not find STREAM/TABLE 'T'"),
        ("EXPLAIN SELECT nothing FROM s EMIT CHANGES;", "NOTHING"),
        ("SET 'no.such.property'='1';", "property"),
        ("ALTER SYSTEM 'auto.offset.reset'='earliest';", "ALTER SYSTEM"),
        ("SPOOL OFF;", "SPOOL"),
        ("CREATE SINK CONNECTOR c WITH ('connector.class'='x');", "Connect"),
        ("RUN SCRIPT 'x.sql';", "local file"),
        ("CREATE STREAM t WITH (kafka_topic='_millstream_commands') AS SELECT * FROM s;",
         "internal to the service"),
        ("CREATE STREAM t AS SELECT * FROM s; DROP STREAM s DELETE TOPIC;", "CSAS_T_"),
    ],
)  # fmt: skip
def test_nothing_is_executed_where_a_later_statement_is_wrong(
    door: RunningServer, last: str, says: str
) -> None:
    door.ksql(MADE)
    before = state(door)
    error = door.refused(FIRST + last)
    assert says in error["message"]
    assert error["entities"] == []
    assert error["statementText"] == last.split(";")[-2].strip() + ";"
    assert state(door) == before


def test_statements_build_on_those_before_them(door: RunningServer) -> None:
    """Objects of the first statements exist for the next ones, in the dry run as in the
    execution."""
    entities = door.ksql(
        f"{MADE} CREATE TYPE place AS STRUCT<x INT>;"
        "CREATE STREAM t (id INT KEY, p place) WITH (kafka_topic='t', format='JSON', partitions=2);"
        "INSERT INTO t VALUES (1, STRUCT(x := 1));"
        "CREATE STREAM u AS SELECT * FROM s; INSERT INTO u SELECT id, v FROM s;"
        "PAUSE CSAS_U_3; RESUME CSAS_U_3; TERMINATE INSERTQUERY_4;"
        "CREATE OR REPLACE STREAM u AS SELECT * FROM s WHERE id > 1;"
        "DESCRIBE u; EXPLAIN SELECT * FROM u EMIT CHANGES; EXPLAIN CSAS_U_3;"
        "CREATE SOURCE TABLE w (id INT PRIMARY KEY, v STRING)"
        " WITH (kafka_topic='s', value_format='JSON');"
        "DROP STREAM u DELETE TOPIC;"
        "CREATE STREAM u (id INT KEY) WITH (kafka_topic='U', format='JSON', partitions=5);"
        "ALTER STREAM u ADD COLUMN w INT; DROP TYPE IF EXISTS other; TERMINATE ALL;"
    )
    assert entities[-1]["commandStatus"]["status"] == "SUCCESS"
    topic = door.engine.log.topic("U")
    assert topic is not None and topic.partitions == 5


def test_a_push_query_is_not_ended_by_a_dry_run(shop: RunningServer) -> None:
    with shop.http.stream(
        "POST", "/query-stream", json={"sql": "SELECT * FROM orders EMIT CHANGES;"}
    ):
        (query_id,) = shop.engine.push_queries.streams
        shop.refused(f"TERMINATE {query_id}; DROP STREAM nothing;")
        assert list(shop.engine.push_queries.streams) == [query_id]
        (ended, _) = shop.ksql(f"TERMINATE {query_id}; SHOW STREAMS;")
        assert ended["@type"] == "terminate_query"
