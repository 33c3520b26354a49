"""Which family refuses a statement about sources of our own, one by one.

What the mutants of other statements do not bring about; the conditions are those of
shared/reference, sql-statements 22.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millstream.log.log import Topic
from millstream.model.errors import ConflictError, StatementError
from millstream.service.engine import Engine
from millstream.service.execution import execute_piece
from millstream.service.session import Session
from millstream.service.text import parse_text
from tests.conformance.engine_case import in_memory
from tests.refusals.families import families_of
from tests.refusals.test_live import OWN

WITH = "WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON')"
TOPIC = "KAFKA_TOPIC='orders'"
FAMILIES = [
    ("SELECT 1 FROM orders WINDOW TUMBLING (SIZE 1 MONTH) EMIT CHANGES;", "P_CALENDAR_UNIT"),
    ("SELECT TRANSFORM(l, x => x, 1) FROM orders EMIT CHANGES;", "P_LAMBDA_LAST"),
    ("DROP STREAM orders;", "catalog.DROPPED_READ"),
    ("DROP TABLE users DELETE TOPIC;", "catalog.TOPIC_OF_READ_ONLY"),
    (f"CREATE STREAM x (a INT, h BYTES HEADER('a'), i BYTES HEADER('a')) {WITH};",
     "catalog.HEADER_TWICE"),
    (f"CREATE STREAM `a b` (a INT) {WITH};", "catalog.ILLEGAL_NAME"),
    (f"CREATE STREAM x (a INT) WITH ({TOPIC}, VALUE_FORMAT='AVRO');", "catalog.REGISTRY_NEEDED"),
    ("CREATE STREAM x WITH (BACKFILL='moon') AS SELECT * FROM orders;", "model.INVALID_PROPERTY"),
    (f"CREATE STREAM x (a INT) WITH ({TOPIC}, VALUE_FORMAT='DELIMITED',"
     " WRAP_SINGLE_VALUE=true);", "catalog.FORMAT_AND_WRAPPING"),
    (f"CREATE STREAM x (a INT, b BOOLEAN) WITH ({TOPIC}, VALUE_FORMAT='JSON', TIMESTAMP='b');",
     "catalog.TIMESTAMP_TYPE"),
    ("CREATE OR REPLACE STREAM heads (k INT KEY, v INT)"
     " WITH (KAFKA_TOPIC='heads', VALUE_FORMAT='JSON');", "model.COLUMNS_CHANGED"),
    ("CREATE OR REPLACE STREAM large (id INT KEY, v INT)"
     " WITH (KAFKA_TOPIC='LARGE', VALUE_FORMAT='JSON');", "catalog.REPLACED_WRITTEN"),
    ("INSERT INTO orders WITH (QUERY_ID='a-b') SELECT * FROM orders;",
     "catalog.QUERY_ID_CHARACTERS"),
    ("INSERT INTO orders WITH (QUERY_ID='CSAS_1') SELECT * FROM orders;",
     "catalog.QUERY_ID_RESERVED"),
    ("INSERT INTO no_such SELECT * FROM orders;", "plan.SINK_MISSING"),
    ("INSERT INTO spent SELECT who, amount AS total FROM orders PARTITION BY who;",
     "plan.SINK_IS_TABLE"),
    ("INSERT INTO heads SELECT id, 1 AS v FROM orders;", "plan.SINK_WITH_HEADERS"),
    ("INSERT INTO orders SELECT who, SUM(amount) FROM orders GROUP BY who;", "plan.SINK_KIND"),
    ("CREATE TABLE x AS SELECT who, LATEST_BY_OFFSET(total) FROM spent GROUP BY who;",
     "plan.AGGREGATE_ON_TABLE"),
    ("CREATE STREAM x AS SELECT CASE id WHEN 1 THEN 2 END FROM orders;", "plan.CASE_WITH_OPERAND"),
    ("CREATE STREAM x AS SELECT id, CAST(1 AS DECIMAL(0, 0)) FROM orders;",
     "plan.DECIMAL_PRECISION"),
    ("CREATE STREAM x AS SELECT id, m[1] FROM orders;", "plan.MAP_INDEX_TYPE"),
    ("CREATE STREAM x AS SELECT id, GREATEST(1, 'x') FROM orders;", "model.NO_SIGNATURE"),
    ("CREATE STREAM x AS SELECT id FROM orders PARTITION BY NULL, id;",
     "plan.PARTITIONED_BY_NULL_AND_MORE"),
    ("CREATE STREAM x AS SELECT id FROM orders PARTITION BY id, id;", "plan.PARTITIONED_TWICE"),
    ("CREATE STREAM x AS SELECT who, n FROM hourly;", "plan.QUERY_ON_WINDOWED_TABLE"),
    ("CREATE TABLE x AS SELECT * FROM hourly;", "plan.QUERY_ON_WINDOWED_TABLE"),
    ("CREATE STREAM x AS SELECT *, ROWTIME FROM orders;", "plan.RESERVED_IN_SELECT"),
    ("CREATE STREAM x AS SELECT * FROM users u JOIN orders o ON u.id = o.who;", "plan.JOIN_ORDER"),
    ("CREATE STREAM x AS SELECT * FROM orders o JOIN users u ON o.who = u.name;",
     "plan.STREAM_TABLE_JOIN_KEY"),
    ("CREATE TABLE x AS SELECT who, COUNT(*) FROM orders GROUP BY who HAVING id > 1;",
     "plan.UNGROUPED_HAVING"),
    ("SELECT * FROM hourly WHERE WINDOWSTART <> 1 AND who = 'a' AND yes = true;",
     "query.BOUND_UNSUPPORTED"),
    ("SELECT ROWPARTITION FROM spent;", "query.COLUMN_OF_LOG"),
    ("SELECT * FROM spent WHERE who = NULL;", "query.WHERE_OF_PULL_QUERY"),
    ("SELECT * FROM hourly WHERE who = 12;", "query.WHERE_OF_PULL_QUERY"),
    ("SELECT * FROM spent;", "query.WHERE_MISSING"),
    ("SELECT * FROM spent WHERE who > 'a' OR who < 'b';", "query.SCAN_DISABLED"),
    ("SELECT * FROM hourly WHERE who = 'a';", "query.KEYS_NOT_IN_WHERE"),
    ("SELECT * FROM spent WHERE who <> 'a';", "query.KEY_BOUND"),
    ("SELECT * FROM spent WHERE total > 1;", "query.KEY_NOT_IN_WHERE"),
    ("ALTER SYSTEM 'auto.offset.reset'='earliest';", "service.ALTER_SYSTEM"),
    ("EXPLAIN SHOW STREAMS;", "service.EXPLAINED_KIND"),
    ("COPY orders FROM '/no/such.csv';", "service.FILE_MISSING"),
    ("COPY orders FROM '/no/such.xml';", "service.FILE_FORMAT_UNKNOWN"),
    ("INSERT INTO users VALUES ('a', 'b');", "service.INSERT_INTO_READ_ONLY"),
    ("INSERT INTO heads (k, v, h) VALUES (1, 2, 'AA==');", "service.INSERTED_HEADER"),
    ("CREATE STREAM x AS SELECT * FROM orders o FULL JOIN users u ON o.who = u.id;",
     "plan.STREAM_TABLE_FULL_JOIN"),
    ("CREATE STREAM x AS SELECT id, CASE WHEN id THEN 1 END FROM orders;", "plan.WHEN_TYPE"),
    ("CREATE STREAM x AS SELECT id, CASE WHEN true THEN 1 WHEN false THEN 'a' END FROM orders;",
     "plan.CASE_TYPES"),
    ("ALTER STREAM orders ADD COLUMN id INT;", "catalog.COLUMN_EXISTS"),
    ("INSERT INTO orders (id) VALUES (CAST('x' AS TIMESTAMP));", "service.VALUE_TYPE"),
    ("CREATE OR REPLACE STREAM heads AS SELECT * FROM orders;", "service.REPLACED_WITHOUT_QUERY"),
    ("SPOOL OFF;", "service.SPOOL"),
]  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    opened = in_memory()
    for topic in ("orders", "users", "heads"):
        opened.log.create_topic(Topic(topic, 1))
    for piece in parse_text(OWN):
        execute_piece(opened, piece, Session({"auto.offset.reset": "earliest"}))
    yield opened
    opened.close()


@pytest.mark.parametrize(("text", "family"), FAMILIES, ids=[text[:60] for text, _ in FAMILIES])
def test_family(engine: Engine, text: str, family: str) -> None:
    session = Session({"ksql.query.pull.table.scan.enabled": "false"})
    with pytest.raises((StatementError, ConflictError)) as caught:
        for piece in parse_text(text):
            execute_piece(engine, piece, session)
    assert families_of(caught.value.message) == [family], caught.value.message
