"""The output of EXTENDED, EXPLAIN of an id and `metrics()` about sources and queries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream import Database
from millstream.model.errors import MillstreamError
from millstream.query.results import History, Rows, Stream
from tests.unit.conftest import LATE


def table(db: Database, sql: str) -> Rows:
    result = db.execute(sql)
    assert isinstance(result, Rows | History)
    return result


def facts_of(db: Database, sql: str, name: str) -> dict[str, str]:
    return {fact: value for owner, fact, value in table(db, sql) if owner == name}


def query_of(db: Database, sink: str) -> str:
    return next(query.id for query in db.engine.catalog.queries.values() if query.sink == sink)


@pytest.mark.parametrize(
    "sql", ["SHOW STREAMS EXTENDED;", "LIST STREAMS EXTENDED;", "DESCRIBE STREAMS EXTENDED;"]
)
def test_streams_extended(shop: Database, sql: str) -> None:
    facts = facts_of(shop, sql, "ORDERS")
    query = query_of(shop, "SPENDING")
    assert facts["Type"] == "STREAM" and facts["Queries that read from it"] == query
    assert facts["Sources made from it"] == "SPENDING"
    assert facts["Field CUSTOMER"] == "STRING  (key)"
    assert facts[f"Records read by {query}"].startswith("4 (")
    summary, heads, *lines = facts[f"Consumer group {query}"].splitlines()
    assert summary == "Max lag 0" and heads.split() == [
        "Partition",
        "Start",
        "End",
        "Offset",
        "Lag",
    ]
    assert [line.split()[0] for line in lines] == ["0", "1"]
    assert sum(int(line.split()[3]) for line in lines) == 4
    assert not facts_of(shop, sql, "SPENDING"), "that is a table"


@pytest.mark.parametrize("sql", ["SHOW TABLES EXTENDED;", "DESCRIBE TABLES EXTENDED;"])
def test_tables_extended(shop: Database, sql: str) -> None:
    facts = facts_of(shop, sql, "SPENDING")
    query = query_of(shop, "SPENDING")
    assert facts["Queries that write into it"] == query
    assert int(facts[f"Records written by {query}"].partition(" (")[0]) >= 3


def test_topics_extended(shop: Database) -> None:
    listed = {row[0]: row[1:5] for row in table(shop, "SHOW TOPICS EXTENDED;")}
    assert listed["orders"] == ("2", "1", "2", "1"), "one query reads both partitions"
    assert listed["SPENDING"] == ("2", "1", "0", "0")


def test_queries_extended_and_explain_show_the_same(shop: Database) -> None:
    query = query_of(shop, "SPENDING")
    facts = facts_of(shop, "SHOW QUERIES EXTENDED;", query)
    assert facts["Status"] == "RUNNING" and facts["Sinks"] == "SPENDING"
    assert facts["Overridden property auto.offset.reset"] == "earliest"
    assert "4 records in" in facts["Sub-topology 0"] and "lag 0" in facts["Sub-topology 0"]
    stages = dict(table(shop, f"EXPLAIN {query};"))
    assert list(stages) == ["QUERY", "STATEMENT", "PLAN", "TOPOLOGY", "PROGRAM"]
    assert f"Statement: {facts['Statement']}" in stages["QUERY"]
    assert len(table(shop, f"EXPLAIN (PLAN) {query};")) == 1


def test_push_queries_are_described_while_they_run(shop: Database) -> None:
    with_changes = shop.execute("SELECT customer, total FROM spending EMIT CHANGES;")
    assert isinstance(with_changes, Stream)
    with with_changes as stream:
        facts = facts_of(shop, "SHOW QUERIES EXTENDED;", stream.query_id)
        assert facts["Query Type"] == "PUSH" and facts["Field TOTAL"] == "DOUBLE"
        stages = dict(table(shop, f"EXPLAIN {stream.query_id};"))
        assert list(stages) == ["QUERY", "STATEMENT", "PLAN", "TOPOLOGY", "PROGRAM"]
        assert "Field CUSTOMER: STRING" in stages["QUERY"]
    with pytest.raises(MillstreamError, match="does not exist"):
        shop.execute(f"EXPLAIN {stream.query_id};")


def test_a_paused_query(shop: Database) -> None:
    query = query_of(shop, "SPENDING")
    shop.execute(f"PAUSE {query};")
    shop.wait()
    assert facts_of(shop, "SHOW QUERIES EXTENDED;", query)["Status"] == "PAUSED"
    assert shop.metrics().arrow().column("state").to_pylist() == ["PAUSED"]


def test_metrics(db: Database) -> None:
    assert db.metrics().arrow().num_rows == 0
    db.execute(LATE)
    db.wait()
    (row,) = db.metrics().arrow().to_pylist()
    assert (row["query"], row["sub_topology"], row["tasks"]) == (query_of(db, "HITS"), 0, 1)
    assert (row["records_in"], row["records_out"]) == (3, 2)
    assert (row["late"], row["problems"], row["lag"], row["to_restore"]) == (1, 0, 0, 0)
    assert row["inputs"] == ["clicks"] and row["outputs"] == ["HITS"]
    assert row["changes"] >= 1 and row["commits"] >= 1
    assert 0 <= row["commit_wait_ms"] <= row["commit_wait_max_ms"]


def test_metrics_of_two_sub_topologies(shop: Database) -> None:
    shop.execute("CREATE TABLE items AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item;")
    shop.wait()
    found = [
        row for row in shop.metrics().arrow().to_pylist() if row["query"] == query_of(shop, "ITEMS")
    ]
    assert [row["sub_topology"] for row in found] == [0, 1]
    assert found[0]["outputs"] == found[1]["inputs"]
    assert found[0]["records_in"] == 4 and found[0]["records_out"] >= 1


def test_a_source_outlives_those_made_from_it(reopen: Callable[[], Database]) -> None:
    db = reopen()
    db.execute(
        "CREATE STREAM base (k STRING KEY, v INT) WITH (KAFKA_TOPIC='b', PARTITIONS=1, "
        "FORMAT='JSON'); CREATE STREAM made AS SELECT * FROM base; TERMINATE ALL;"
    )
    for _ in range(2):
        with pytest.raises(MillstreamError, match=r"(?s)Cannot drop BASE.*\[MADE\].*drop them"):
            db.execute("DROP STREAM base;")
        db = reopen()
    db.execute("DROP STREAM made; DROP STREAM base;")
    assert not db.engine.catalog.sources


def test_inserting_makes_no_link(db: Database) -> None:
    db.execute(
        "CREATE STREAM a (k STRING KEY, v INT) WITH (KAFKA_TOPIC='a', PARTITIONS=1, FORMAT='JSON');"
        "CREATE STREAM b (k STRING KEY, v INT) WITH (KAFKA_TOPIC='b', PARTITIONS=1, FORMAT='JSON');"
        "INSERT INTO b SELECT * FROM a;"
    )
    with pytest.raises(MillstreamError, match="queries read from this source"):
        db.execute("DROP STREAM a;")
    db.execute("TERMINATE ALL; DROP STREAM a;")
