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
    ("ALTER STREAM large ADD COLUMN x INT;", "catalog.ALTERED_WRITTEN"),
    ("ALTER TABLE users ADD COLUMN x INT;", "catalog.ALTERED_READ_ONLY"),
    ("CREATE TABLE x (a INT PRIMARY KEY, b INT) WITH (KAFKA_TOPIC='orders', "
     "VALUE_FORMAT='JSON', RETENTION_MS=1000);",
     "catalog.RETENTION_OF_TABLE"),
    ("CREATE STREAM x (a INT, b ARRAY<STRUCT<key STRING, value BYTES>> HEADERS, c "
     "ARRAY<STRUCT<key STRING, value BYTES>> HEADERS) WITH (KAFKA_TOPIC='orders', "
     "VALUE_FORMAT='JSON');",
     "catalog.HEADERS_TWICE"),
    ("CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', "
     "VALUE_SCHEMA_ID=1);",
     "plan.INFERENCE_IMPOSSIBLE"),
    ("CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO', "
     "VALUE_SCHEMA_ID=1);",
     "plan.COLUMNS_AND_SCHEMA_ID"),
    ("CREATE STREAM x WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO', PARTITIONS=1);",
     "plan.COLUMNS_FROM_REGISTRY"),
    ("CREATE STREAM x (a INT, b INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', "
     "WRAP_SINGLE_VALUE=true);",
     "model.WRAPPED_COLUMNS"),
    ("CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='orders', FORMAT='AVRO', "
     "VALUE_SCHEMA_FULL_NAME='');",
     "catalog.EMPTY_SCHEMA_NAME"),
    ("CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO', "
     "VALUE_SCHEMA_FULL_NAME='a', VALUE_AVRO_SCHEMA_FULL_NAME='a');",
     "catalog.SCHEMA_NAME_TWICE"),
    ("CREATE SOURCE TABLE x (a INT PRIMARY KEY, b INT) WITH (KAFKA_TOPIC='orders', "
     "VALUE_FORMAT='JSON', WINDOW_TYPE='SESSION');",
     "plan.WINDOWED_SOURCE_TABLE"),
    ("CREATE TABLE x AS SELECT * FROM spent s JOIN users u ON s.who = u.name;",
     "plan.TABLE_TABLE_JOIN_KEY"),
    ("CREATE STREAM x AS SELECT * FROM orders o RIGHT JOIN users u ON o.who = u.id;",
     "plan.STREAM_TABLE_JOIN_KIND"),
    ("CREATE STREAM x AS SELECT * FROM orders a JOIN large a WITHIN 1 HOUR ON a.id = a.id;",
     "plan.ALIAS_TWICE"),
    ("SELECT * FROM orders o JOIN hourly h ON o.who = h.who EMIT CHANGES;",
     "plan.ONE_SIDE_WINDOWED"),
    ("CREATE STREAM x AS SELECT id, who LIKE 'a!' ESCAPE '!' FROM orders;", "plan.ESCAPE_AT_END"),
    ("CREATE STREAM x AS SELECT id, REDUCE(l, 0, (a, b) => 'x') AS b FROM orders;",
     "model.LAMBDA_RESULT"),
    ("CREATE TABLE x AS SELECT who, TOPK(id, id) FROM orders GROUP BY who;",
     "plan.CONSTANT_NEEDED"),
    ("CREATE STREAM x AS SELECT id, 1e400 AS d FROM orders;", "plan.DOUBLE_OVERFLOW"),
    ("CREATE STREAM x WITH (KEY_FORMAT='JSON') AS SELECT id, who FROM orders PARTITION BY "
     "NULL;",
     "plan.KEY_FORMAT_WITHOUT_KEY"),
    ("SELECT * FROM hourly WHERE who='a' AND yes=true AND WINDOWSTART > 1 AND WINDOWSTART > 2;",
     "query.BOUNDS_TWICE"),
    ("SELECT * FROM hourly WHERE who='a' AND yes=true AND WINDOWSTART = 1 AND WINDOWSTART > 2;",
     "query.BOUNDS_COMBINED"),
    ("SELECT * FROM spent WHERE who IN ('a') AND who = 'b';", "query.KEY_CONDITIONS_COMBINED"),
    ("SELECT * FROM spent WHERE UCASE(who) = 'A';", "query.KEY_WITHIN_EXPRESSION"),
    ("SELECT * FROM spent WHERE who IN (NULL);", "query.KEY_IS_NULL"),
    ("SELECT * FROM spent WHERE who = 'a' PARTITION BY who;", "service.CLAUSE_OF_PULL_QUERY"),
    ("INSERT INTO large VALUES (1);", "model.VALUE_COUNT"),
    ("INSERT INTO hourly (who) VALUES ('a');", "service.INSERT_INTO_COMPUTED"),
    ("INSERT INTO orders (id, id) VALUES (1, 2);", "service.INSERTED_TWICE"),
    ("INSERT INTO orders (ROWTIME, id) VALUES ('soon', 1);", "service.VALUE_FAILED"),
    ("INSERT INTO orders (ROWTIME, id) VALUES (-1, 1);", "service.ROWTIME_NEGATIVE"),
    ("COPY orders FROM '/no.csv' WITH (X=1);", "service.COPY_PROPERTY"),
    ("EXPLAIN CTAS_NONE_1;", "service.EXPLAINED_QUERY_MISSING"),
    ("TERMINATE QX;", "model.UNKNOWN_QUERY"),
    ("DESCRIBE nothing;", "service.DESCRIBED_MISSING"),
    ("PRINT nothing LIMIT 1;", "service.TOPIC_NOT_FOUND"),
    ("ASSERT TOPIC orders WITH (FOO=1);", "service.ASSERTED_PROPERTY"),
    ("ASSERT TOPIC orders WITH (PARTITIONS=7) TIMEOUT 0 SECONDS;", "service.ASSERTION_FAILED"),
    ("ASSERT SCHEMA SUBJECT 's' TIMEOUT 0 SECONDS;", "service.SCHEMAS_WITHOUT_REGISTRY"),
    ("DROP TYPE t;", "catalog.TYPE_MISSING"),
    ("DROP STREAM users;", "model.WRONG_KIND"),
    ("DROP STREAM ksql_processing_log;", "catalog.DROPPED_OWN"),
    ("CREATE TYPE address AS INT;", "catalog.TYPE_TAKEN"),
    ("SHOW CONNECTORS;", "service.CONNECT_MISSING"),
    ("UNSET 'auto.offset.reset';", "service.NOT_SET"),
    ("SET 'auto.offset.reset'='x';", "model.SETTING_VALUE"),
    ("SET 'nothing'='x';", "model.SETTING_MISSING"),
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
