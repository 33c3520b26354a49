"""What is refused of sources, properties and formats, one statement or more for each template."""

from __future__ import annotations

from tests.refusals.table.row import Refused

ROWS = (
    Refused(
        "DROP STREAM «orders»;",
        "catalog.DROPPED_READ",
        {
            "name": "ORDERS",
            "readers": "CSAS_BOTH_18, CSAS_LARGE_4, CTAS_HOURLY_6, CTAS_SPENT_5, OTHER",
            "writers": "",
        },
    ),
    Refused(
        "DROP TABLE «users» DELETE TOPIC;",
        "catalog.TOPIC_OF_READ_ONLY",
        {"source": "USERS"},
    ),
    Refused(
        (
            "CREATE STREAM x (a INT, h BYTES HEADER('a'), «i BYTES HEADER('a')») WITH "
            "(KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');"
        ),
        "catalog.HEADER_TWICE",
        {"key": "a"},
    ),
    Refused(
        "CREATE STREAM «`a b`» (a INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');",
        "catalog.ILLEGAL_NAME",
        {"source": "a b"},
    ),
    Refused(
        (
            "CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='orders', "
            "VALUE_FORMAT='DELIMITED', «WRAP_SINGLE_VALUE=true»);"
        ),
        "catalog.FORMAT_AND_WRAPPING",
        {"name": "DELIMITED", "wrap": "true"},
    ),
    Refused(
        (
            "CREATE STREAM x (a INT, «b BOOLEAN») WITH (KAFKA_TOPIC='orders', "
            "VALUE_FORMAT='JSON', TIMESTAMP='b');"
        ),
        "catalog.TIMESTAMP_TYPE",
        {"column": "B"},
    ),
    Refused(
        "CREATE STREAM x WITH («PARTITION_COLUMN='whom'») AS SELECT * FROM orders;",
        "catalog.PARTITION_COLUMN_MISSING",
        {"column": "WHOM", "source": "X"},
    ),
    Refused(
        (
            "CREATE STREAM x (a INT, b STRING) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', "
            "«PARTITION_COLUMN='b'»);"
        ),
        "catalog.PARTITION_COLUMN_TYPE",
        {"column": "B", "type": "STRING"},
    ),
    Refused(
        (
            "CREATE TABLE x WITH («PARTITION_COLUMN='n'») AS SELECT who, COUNT(*) AS n FROM "
            "orders GROUP BY who;"
        ),
        "catalog.PARTITION_COLUMN_OF_TABLE",
        {"source": "X"},
    ),
    Refused(
        (
            "CREATE OR REPLACE STREAM «large» (id INT KEY, v INT) WITH "
            "(KAFKA_TOPIC='LARGE', VALUE_FORMAT='JSON');"
        ),
        "catalog.REPLACED_WRITTEN",
        {"noun": "stream", "name": "LARGE", "query": "CSAS_LARGE_4"},
    ),
    Refused(
        "INSERT INTO orders WITH (QUERY_ID=«'a-b'») SELECT * FROM orders;",
        "catalog.QUERY_ID_CHARACTERS",
        {"text": "a-b"},
    ),
    Refused(
        "INSERT INTO orders WITH (QUERY_ID=«'CSAS_1'») SELECT * FROM orders;",
        "catalog.QUERY_ID_RESERVED",
        {"text": "CSAS_1"},
    ),
    Refused(
        "ALTER STREAM orders ADD COLUMN «id» INT;",
        "catalog.COLUMN_EXISTS",
        {"column": "ID"},
    ),
    Refused(
        "ALTER STREAM «large» ADD COLUMN x INT;",
        "catalog.ALTERED_WRITTEN",
        {"source": "LARGE", "query_id": "CSAS_LARGE_4"},
    ),
    Refused(
        "ALTER TABLE «users» ADD COLUMN x INT;",
        "catalog.ALTERED_READ_ONLY",
        {"noun": "table", "source": "USERS"},
    ),
    Refused(
        (
            "CREATE TABLE x (a INT PRIMARY KEY, b INT) WITH (KAFKA_TOPIC='orders', "
            "VALUE_FORMAT='JSON', «RETENTION_MS=1000»);"
        ),
        "catalog.RETENTION_OF_TABLE",
        {},
    ),
    Refused(
        (
            "CREATE STREAM x (a INT, b ARRAY<STRUCT<key STRING, value BYTES>> HEADERS, «c "
            "ARRAY<STRUCT<key STRING, value BYTES>> HEADERS») WITH (KAFKA_TOPIC='orders', "
            "VALUE_FORMAT='JSON');"
        ),
        "catalog.HEADERS_TWICE",
        {},
    ),
    Refused(
        (
            "CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='orders', FORMAT='AVRO', "
            "«VALUE_SCHEMA_FULL_NAME=''»);"
        ),
        "catalog.EMPTY_SCHEMA_NAME",
        {},
    ),
    Refused(
        (
            "CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO', "
            "«VALUE_SCHEMA_FULL_NAME='a'», VALUE_AVRO_SCHEMA_FULL_NAME='a');"
        ),
        "catalog.SCHEMA_NAME_TWICE",
        {},
    ),
    Refused(
        "DROP TYPE «t»;",
        "catalog.TYPE_MISSING",
        {"name": "T"},
    ),
    Refused(
        "DROP STREAM «ksql_processing_log»;",
        "catalog.DROPPED_OWN",
        {"name": "KSQL_PROCESSING_LOG"},
    ),
    Refused(
        "CREATE TYPE «address» AS INT;",
        "catalog.TYPE_TAKEN",
        {"name": "ADDRESS", "types": "STRUCT<`STREET` STRING, `TOWN` STRING>"},
    ),
    Refused(
        (
            "CREATE STREAM x (a STRING) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', "
            "TIMESTAMP='a');"
        ),
        "catalog.TIMESTAMP_FORMAT_MISSING",
        {},
    ),
    Refused(
        (
            "CREATE STREAM x (a BIGINT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', "
            "TIMESTAMP='a', «TIMESTAMP_FORMAT='yyyy'»);"
        ),
        "catalog.TIMESTAMP_FORMAT_MISPLACED",
        {},
    ),
    Refused(
        "INSERT INTO both WITH (QUERY_ID=«'other'») SELECT id, who FROM orders;",
        "catalog.QUERY_ID_TAKEN",
        {"query_id": "OTHER"},
    ),
    Refused(
        "CREATE OR REPLACE STREAM «both» AS SELECT id, who FROM orders;",
        "catalog.REPLACED_SHARED",
        {"noun": "stream", "name": "BOTH"},
    ),
    Refused(
        "DROP STREAM «nothing»;",
        "catalog.DROPPED_MISSING",
        {"titled": "Stream", "name": "NOTHING"},
    ),
    Refused(
        "DROP STREAM «base»;",
        "catalog.DROPPED_NEEDED",
        {"name": "BASE", "made": "DERIVED"},
    ),
    Refused(
        "DROP TABLE «people» DELETE TOPIC;",
        "catalog.TOPIC_SHARED",
        {"topic": "people", "others": "PETS"},
    ),
    Refused(
        (
            "CREATE OR REPLACE STREAM heads (k INT KEY, v INT, h BYTES HEADER('h')) WITH "
            "(KAFKA_TOPIC='heads', «VALUE_FORMAT='DELIMITED'»);"
        ),
        "catalog.REPLACED_DIFFERENT",
        {
            "noun": "stream",
            "name": "HEADS",
            "what": "value format",
            "before": "JSON",
            "after": "DELIMITED",
        },
    ),
    Refused(
        "CREATE STREAM x AS SELECT * FROM orders «o» JOIN wide w WITHIN 1 HOUR ON o.id = w.k;",
        "catalog.PARTITIONS_DIFFER",
        {"left": "O", "right": "W", "ours": "1", "theirs": "2"},
    ),
    Refused(
        "CREATE STREAM x AS SELECT «o».id, b.v FROM orders o JOIN base b WITHIN 1 HOUR "
        "ON o.id = b.k UNION ALL SELECT k, v FROM wide;",
        "catalog.PARTITIONS_OF_BRANCHES",
        {"left": "O", "right": "WIDE", "ours": "1", "theirs": "2"},
    ),
)
