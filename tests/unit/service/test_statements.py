"""Statements through the public API: effects, results and refusals."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from millstream import (
    ConflictError,
    Database,
    Done,
    History,
    MillstreamError,
    Rows,
    StatementError,
    Stream,
)

WITH = "WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON')"


def rows(db: Database, sql: str) -> list[tuple[object, ...]]:
    result = db.execute(sql)
    assert isinstance(result, Rows | History)
    return sorted(result, key=repr)


def streams(db: Database) -> list[tuple[object, ...]]:
    """The streams that statements have made."""
    return [row for row in rows(db, "SHOW STREAMS;") if row[0] != "KSQL_PROCESSING_LOG"]


def said(db: Database, sql: str) -> str:
    result = db.execute(sql)
    assert isinstance(result, Done)
    return result.message


def refused(db: Database, sql: str, *words: str) -> MillstreamError:
    with pytest.raises(MillstreamError) as caught:
        db.execute(sql)
    for word in words:
        assert word in str(caught.value)
    return caught.value


# CREATE STREAM and CREATE TABLE


def test_create_makes_the_topic(db: Database) -> None:
    assert said(db, f"CREATE STREAM s (k INT KEY, v INT) {WITH};") == "Stream created"
    assert rows(db, "SHOW TOPICS;") == [("t", "1", "1")]
    assert said(db, f"CREATE TABLE u (k INT PRIMARY KEY, v INT) {WITH};") == "Table created"


def test_create_needs_a_topic_or_partitions(db: Database) -> None:
    refused(
        db,
        "CREATE STREAM s (v INT) WITH (KAFKA_TOPIC='no', VALUE_FORMAT='JSON');",
        "Kafka topic does not exist: no",
        "PARTITIONS",
    )
    assert streams(db) == []


def test_if_not_exists_and_or_replace(db: Database) -> None:
    db.execute(f"CREATE STREAM s (v INT) {WITH};")
    error = refused(db, f"CREATE STREAM s (v INT) {WITH};", "already exists", "OR REPLACE")
    assert isinstance(error, ConflictError)
    assert "nothing was changed" in said(db, f"CREATE STREAM IF NOT EXISTS s (w INT) {WITH};")
    assert rows(db, "DESCRIBE s;") == [("V", "INTEGER")]
    assert said(db, f"CREATE OR REPLACE STREAM s (v INT, w INT) {WITH};") == "Stream created"
    assert rows(db, "DESCRIBE s;") == [("V", "INTEGER"), ("W", "INTEGER")]


def test_create_as_if_not_exists_and_or_replace(shop: Database) -> None:
    assert "nothing was changed" in said(
        shop, "CREATE TABLE IF NOT EXISTS spending AS SELECT customer, COUNT(*) AS n FROM orders "
        "GROUP BY customer;",
    )  # fmt: skip
    shop.execute("CREATE STREAM teas AS SELECT * FROM orders WHERE item = 'tea';")
    shop.wait()
    assert len(rows(shop, "SELECT * FROM teas;")) == 2
    shop.execute("CREATE OR REPLACE STREAM teas AS SELECT * FROM orders WHERE item = 'jam';")
    shop.execute(
        "INSERT INTO orders VALUES ('dan', 'tea', 1); INSERT INTO orders VALUES ('dan', 'jam', 2);"
    )
    shop.wait()
    found = rows(shop, "SELECT customer, item FROM teas;")
    assert found == [("ann", "tea"), ("cleo", "tea"), ("dan", "jam")], "goes on where it was"
    refused(
        shop,
        "CREATE OR REPLACE TABLE spending AS SELECT customer, MAX(amount) AS m FROM orders "
        "GROUP BY customer;",
        "not",
    )


def test_create_as_names_its_query(shop: Database) -> None:
    done = shop.execute("CREATE STREAM teas AS SELECT * FROM orders WHERE item = 'tea';")
    assert isinstance(done, Done) and done.query_id is not None
    assert re.fullmatch(r"CSAS_TEAS_[0-9]+", done.query_id)
    assert list(done) == [(done.message,)]
    assert done.arrow().to_pydict() == {"message": [done.message]}
    assert done.query_id in [row[0] for row in rows(shop, "SHOW QUERIES;")]


def test_nothing_is_left_of_a_refused_create_as(shop: Database) -> None:
    shows = ("SHOW ALL TOPICS;", "SHOW QUERIES;", "SHOW STREAMS;", "SHOW TABLES;")
    before = [rows(shop, text) for text in shows]
    refused(shop, "CREATE STREAM x AS SELECT nothing FROM orders;", "NOTHING")
    refused(shop, "CREATE STREAM x WITH (PARTITIONS=0) AS SELECT * FROM orders;")
    refused(
        shop, "CREATE STREAM x WITH (KAFKA_TOPIC='orders', PARTITIONS=9) AS SELECT * FROM orders;"
    )
    refused(shop, "CREATE STREAM spending AS SELECT * FROM orders;", "already exists")
    assert before == [rows(shop, text) for text in shows]


def test_insert_into_select(shop: Database) -> None:
    shop.execute(
        "CREATE STREAM all_names (customer STRING KEY, item STRING) "
        "WITH (KAFKA_TOPIC='names', PARTITIONS=2, VALUE_FORMAT='JSON');"
    )
    done = shop.execute("INSERT INTO all_names SELECT customer, item FROM orders WHERE amount > 2;")
    assert isinstance(done, Done) and done.query_id is not None
    shop.wait()
    found = rows(shop, "SELECT customer, item FROM all_names;")
    assert found == [("ann", "jam"), ("bob", "milk"), ("cleo", "tea")]
    refused(shop, "INSERT INTO all_names SELECT customer, amount FROM orders;")
    shop.execute("INSERT INTO all_names WITH (QUERY_ID='mine') SELECT customer, item FROM orders;")
    assert "mine" in [str(row[0]).lower() for row in rows(shop, "SHOW QUERIES;")]


# DROP, TERMINATE, PAUSE, RESUME


def test_drop_is_refused_while_used(shop: Database) -> None:
    error = refused(shop, "DROP STREAM orders;", "Cannot drop ORDERS", "CTAS_SPENDING_")
    assert isinstance(error, ConflictError)
    refused(shop, "DROP STREAM orders DELETE TOPIC;", "Cannot drop ORDERS")
    refused(shop, "DROP TABLE orders;", "Incompatible data source type")
    refused(shop, "DROP STREAM nothing;", "does not exist")
    assert "does not exist" in said(shop, "DROP STREAM IF EXISTS nothing;")
    shop.wait()
    assert len(rows(shop, "SELECT * FROM spending;")) == 3


def test_drop_ends_the_own_query_and_deletes_the_topic_if_asked(shop: Database) -> None:
    assert "was dropped" in said(shop, "DROP TABLE spending DELETE TOPIC;")
    assert rows(shop, "SHOW QUERIES;") == []
    assert [row[0] for row in rows(shop, "SHOW TOPICS;")] == ["orders"]
    internal = [str(row[0]) for row in rows(shop, "SHOW ALL TOPICS;")]
    assert not [name for name in internal if "SPENDING" in name]
    refused(shop, "SELECT * FROM spending;", "SPENDING does not exist")
    assert "was dropped" in said(shop, "DROP STREAM orders;")
    assert [row[0] for row in rows(shop, "SHOW TOPICS;")] == ["orders"], "the topic stays"


def test_terminate_leaves_the_sink(shop: Database) -> None:
    query = rows(shop, "SHOW QUERIES;")[0][0]
    assert said(shop, f"TERMINATE {query};") == f"Query terminated: {query}"
    assert rows(shop, "SHOW QUERIES;") == []
    assert len(rows(shop, "SHOW TABLES;")) == 1
    refused(shop, "SELECT * FROM spending;", "isn't queryable")
    refused(shop, f"TERMINATE {query};", "Unknown queryId")
    shop.execute("DROP TABLE spending;")


def test_pause_and_resume(shop: Database) -> None:
    query = rows(shop, "SHOW QUERIES;")[0][0]
    shop.execute(f"PAUSE {query};")
    shop.execute("INSERT INTO orders VALUES ('ann', 'tea', 100);")
    shop.wait()
    assert rows(shop, "SHOW QUERIES;")[0][2] == "PAUSED"
    assert rows(shop, "SELECT total FROM spending WHERE customer = 'ann';") == [(4.0,)]
    shop.execute(f"RESUME {query};")
    shop.wait()
    assert rows(shop, "SHOW QUERIES;")[0][2] == "RUNNING"
    assert rows(shop, "SELECT total FROM spending WHERE customer = 'ann';") == [(104.0,)]


def test_all_queries_at_once(shop: Database) -> None:
    shop.execute("CREATE STREAM teas AS SELECT * FROM orders;")
    shop.execute("PAUSE ALL;")
    shop.wait()
    assert {row[2] for row in rows(shop, "SHOW QUERIES;")} == {"PAUSED"}
    shop.execute("RESUME ALL;")
    shop.wait()
    assert {row[2] for row in rows(shop, "SHOW QUERIES;")} == {"RUNNING"}
    shop.execute("TERMINATE ALL;")
    assert rows(shop, "SHOW QUERIES;") == []
    assert said(shop, "TERMINATE ALL;") == "Query terminated: none"


# SHOW, DESCRIBE, EXPLAIN, PRINT


def test_show(shop: Database) -> None:
    assert streams(shop) == [("ORDERS", "orders", "KAFKA", "JSON", "false")]
    assert rows(shop, "LIST TABLES;") == [("SPENDING", "SPENDING", "KAFKA", "JSON", "false")]
    assert [row[0] for row in rows(shop, "SHOW TOPICS;")] == ["SPENDING", "orders"]
    assert len(rows(shop, "SHOW ALL TOPICS;")) > 2
    functions = rows(shop, "SHOW FUNCTIONS;")
    assert ("SUM", "AGGREGATE") in functions and ("EXPLODE", "TABLE") in functions
    settings = {row[0]: row[1:3] for row in rows(shop, "SHOW PROPERTIES;")}
    assert settings["auto.offset.reset"] == ("SESSION", "earliest")
    assert rows(shop, "SHOW CONNECTORS;") == []
    assert rows(shop, "SHOW CONNECTOR PLUGINS;") == [("datagen", "SOURCE", "1")]


def test_describe(shop: Database) -> None:
    assert rows(shop, "DESCRIBE orders;") == [
        ("AMOUNT", "DOUBLE"),
        ("CUSTOMER", "STRING  (key)"),
        ("ITEM", "STRING"),
    ]
    extended = dict(rows(shop, "DESCRIBE spending EXTENDED;"))
    assert extended["Kafka topic"] == "SPENDING (partitions: 2, replication: 1)"
    assert "CTAS_SPENDING" in str(extended["Queries that write into it"])
    listed = {row[0] for row in rows(shop, "DESCRIBE STREAMS;")}
    assert listed == {"ORDERS", "KSQL_PROCESSING_LOG"}
    about = dict(rows(shop, "DESCRIBE FUNCTION ucase;"))
    assert about["Name"] == "UCASE" and about["Type"] == "SCALAR"
    assert dict(rows(shop, "DESCRIBE FUNCTION sum;"))["Type"] == "AGGREGATE"
    assert dict(rows(shop, "DESCRIBE FUNCTION explode;"))["Type"] == "TABLE"
    refused(shop, "DESCRIBE nothing;", "Could not find STREAM/TABLE 'NOTHING' in the Metastore")
    refused(shop, "DESCRIBE FUNCTION nothing;", "Can't find any functions")


@pytest.mark.parametrize("stage", ["STATEMENT", "PLAN", "TOPOLOGY", "PROGRAM"])
def test_explain_stages(shop: Database, stage: str) -> None:
    shown = rows(shop, f"EXPLAIN ({stage}) SELECT customer, amount FROM orders EMIT CHANGES;")
    assert [row[0] for row in shown] == [stage] and shown[0][1]
    query = rows(shop, "SHOW QUERIES;")[0][0]
    assert rows(shop, f"EXPLAIN ({stage}) {query};")[0][1]


def test_explain_all_stages_and_refusals(shop: Database) -> None:
    text = "CREATE TABLE x AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer;"
    assert len(rows(shop, f"EXPLAIN {text}")) == 4
    assert len(rows(shop, "EXPLAIN INSERT INTO orders SELECT * FROM orders;")) == 4
    refused(shop, "EXPLAIN nobody;", "does not exist")
    refused(shop, "EXPLAIN SHOW STREAMS;")
    assert len(rows(shop, "SHOW TABLES;")) == 1, "explaining makes nothing"


def printed(db: Database, sql: str) -> list[str]:
    result = db.execute(sql)
    assert isinstance(result, Stream)
    return [row[0] for row in result]


def test_print(shop: Database) -> None:
    lines = printed(shop, "PRINT 'orders' FROM BEGINNING LIMIT 4;")
    assert lines[:2] == ["Key format: KAFKA_STRING", "Value format: JSON or KAFKA_STRING"]
    assert sorted(line.split("key: ")[1].split(",")[0] for line in lines if "key: " in line) == [
        "ann", "ann", "bob", "cleo",
    ]  # fmt: skip
    assert len(printed(shop, "PRINT 'orders' FROM BEGINNING INTERVAL 3 LIMIT 2;")) == 4
    refused(shop, "PRINT nothing;", "Could not find topic")


def test_print_follows_the_topic(shop: Database) -> None:
    result = shop.execute("PRINT orders;")
    assert isinstance(result, Stream)
    shop.execute("INSERT INTO orders VALUES ('dora', 'rice', 2);")
    lines = iter(result)
    assert "dora" in [next(lines)[0] for _ in range(3)][2]
    shop.close()
    assert list(lines) == [], "closing the database ends it"


# SET, DEFINE, ASSERT, RUN SCRIPT, types, ALTER


def test_settings(db: Database) -> None:
    assert "earliest" in said(db, "SET 'ksql.streams.auto.offset.reset' = 'earliest';")
    assert "unset" in said(db, "UNSET 'auto.offset.reset';")
    refused(db, "UNSET 'auto.offset.reset';", "was not set")
    refused(db, "SET 'auto.ofset.reset' = 'earliest';", "Did you mean 'auto.offset.reset'?")
    refused(db, "SET 'commit.interval.ms' = 'often';", "expected a whole number")
    refused(db, "ALTER SYSTEM 'commit.interval.ms' = '1';", "per session")


def test_variables(db: Database) -> None:
    db.execute("DEFINE name = 's'; CREATE STREAM ${name} (v INT) " + WITH + ";")
    assert [row[0] for row in streams(db)] == ["S"]
    assert rows(db, "SHOW VARIABLES;") == [("NAME", "s")]
    db.execute("INSERT INTO ${name} VALUES (7);")
    assert rows(db, "SELECT * FROM ${name};") == [(7,)]
    error = refused(db, "DEFINE x = '1 2';\nSELECT * FROM s WHERE v = ${x};", "cannot stand here")
    assert error.span is not None and error.span.line == 2
    db.execute("UNDEFINE name;")
    refused(db, "SELECT * FROM ${name};")
    db.execute("SET 'ksql.variable.substitution.enable' = 'false';")
    refused(db, "SELECT * FROM ${name};")


def test_asserted_topics(shop: Database) -> None:
    shop.execute("SET 'ksql.assert.topic.default.timeout.ms' = '0';")
    assert said(shop, "ASSERT TOPIC orders;") == "Topic orders exists"
    assert said(shop, "ASSERT TOPIC orders WITH (PARTITIONS=2);") == "Topic orders exists"
    error = refused(shop, "ASSERT TOPIC orders WITH (PARTITIONS=3);", "PARTITIONS 2, expected 3")
    assert error.code == "E-ASSERT"
    refused(shop, "ASSERT TOPIC orders WITH (COLOUR=3);", "unknown topic property")
    refused(shop, "ASSERT TOPIC nothing;", "does not exist")
    refused(shop, "ASSERT NOT EXISTS TOPIC orders;", "exists")
    assert "does not exist" in said(shop, "ASSERT NOT EXISTS TOPIC nothing;")
    missing = refused(shop, "ASSERT SCHEMA SUBJECT 'x' TIMEOUT 0 SECONDS;", "does not exist")
    assert missing.code == "E-ASSERT"


def test_run_script(db: Database, tmp_path: Path) -> None:
    script = tmp_path / "make.sql"
    script.write_text(f"CREATE STREAM s (v INT) {WITH};\nINSERT INTO s VALUES (1); -- the end\n")
    assert said(db, f"RUN SCRIPT '{script}';") == "2 statements executed"
    assert rows(db, "SELECT * FROM s;") == [(1,)]
    refused(db, f"RUN SCRIPT '{tmp_path}/none.sql';", "none.sql")
    db.session.local = False
    refused(db, f"RUN SCRIPT '{script}';", "local file")


# What is not there, and scripts


@pytest.mark.parametrize(
    "sql",
    [
        "SPOOL 'x';",
        "CREATE SOURCE CONNECTOR c WITH ('connector.class'='x');",
        "DROP CONNECTOR c;",
        "DESCRIBE CONNECTOR c;",
        "ASSERT VALUES orders (v) VALUES (1);",
    ],
)
def test_statements_of_other_places_say_so(db: Database, sql: str) -> None:
    error = refused(db, sql)
    assert error.code != MillstreamError.code


def test_a_script_is_parsed_before_it_runs(db: Database) -> None:
    refused(db, f"CREATE STREAM s (v INT) {WITH}; SELEC 1;")
    assert streams(db) == []
    refused(db, " -- nothing\n", "no statement")


def test_statements_before_a_failing_one_stand(db: Database) -> None:
    refused(db, f"CREATE STREAM s (v INT) {WITH}; CREATE STREAM s (v INT) {WITH};")
    assert len(streams(db)) == 1


def test_each_gives_results_one_by_one(db: Database) -> None:
    results = db.each(f"CREATE STREAM s (v INT) {WITH}; INSERT INTO s VALUES (1); SELECT * FROM s;")
    assert [type(result) for result in results] == [Done, Done, History]
    assert isinstance(db.sql("SHOW STREAMS;"), Rows)


def test_errors_point_at_the_place(db: Database) -> None:
    db.execute(f"CREATE STREAM s (amount INT) {WITH};")
    error = refused(db, "SELECT *\n  FROM s\n WHERE amuont > 1;", "AMUONT")
    assert isinstance(error, StatementError)
    assert error.span is not None and (error.span.line, error.span.column) == (3, 8)
    assert error.detail == " WHERE amuont > 1;\n       ^"
    assert "AMOUNT" in error.hint
