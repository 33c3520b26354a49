"""What is refused of changes of the catalog, one statement or more for each template."""

from __future__ import annotations

from tests.refusals.table.row import Refused, without

ROWS = (
    Refused(
        "CREATE STREAM x WITH («KAFKA_TOPIC='orders'», VALUE_FORMAT='AVRO', PARTITIONS=1);",
        "ddl.SCHEMA_MISSING",
        {"side": "values", "topic": "orders", "subject": "orders-value"},
    ),
    Refused(
        "CREATE STREAM x WITH («KAFKA_TOPIC='numbers'», VALUE_FORMAT='PROTOBUF');",
        "ddl.SCHEMA_OF_OTHER_FORMAT",
        {"side": "values", "topic": "numbers", "kind": "AVRO", "format": "PROTOBUF"},
    ),
    Refused(
        "CREATE STREAM x WITH («KAFKA_TOPIC='wrong'», VALUE_FORMAT='JSON_SR');",
        "ddl.SCHEMA_UNREADABLE",
        {
            "side": "values",
            "topic": "wrong",
            "reason": "the parameters of a decimal are no numbers",
        },
    ),
    Refused(
        "CREATE STREAM x WITH («KAFKA_TOPIC='nulls'», VALUE_FORMAT='AVRO');",
        "ddl.SCHEMA_WITHOUT_COLUMNS",
        {"side": "values", "topic": "nulls"},
    ),
    Refused(
        "CREATE STREAM x WITH («KAFKA_TOPIC='numbers'», VALUE_FORMAT='AVRO');",
        "ddl.SCHEMA_NOT_WRAPPED",
        {"side": "values", "topic": "numbers", "type": "INTEGER"},
    ),
    Refused(
        (
            "CREATE STREAM x WITH (VALUE_FORMAT='AVRO', VALUE_SCHEMA_ID=4) AS "
            "SELECT k, «v» FROM heads;"
        ),
        "ddl.SCHEMA_OF_OTHER_COLUMNS",
        {"side": "value", "columns": "[`V` INTEGER]", "schema": "[`V` STRING]"},
    ),
    Refused(
        "CREATE OR REPLACE STREAM «heads» AS SELECT * FROM orders;",
        "ddl.REPLACED_WITHOUT_QUERY",
        {"noun": "stream", "existing": "HEADS"},
    ),
    Refused(
        (
            "CREATE OR REPLACE STREAM «large» WITH (BACKFILL='duckdb') AS SELECT * FROM "
            "orders WHERE amount > 10;"
        ),
        "ddl.STREAM_RECOMPUTED",
        {"name": "LARGE"},
    ),
    Refused(
        (
            "CREATE OR REPLACE TABLE «spent» WITH (BACKFILL='duckdb') AS SELECT who, "
            "SUM(total) AS total FROM spent GROUP BY who;"
        ),
        "ddl.TABLE_FROM_ITSELF",
        {"name": "SPENT"},
    ),
    Refused(
        "TERMINATE «CST_USERS_2»;",
        "ddl.QUERY_OF_SOURCE_TABLE",
        {"wanted": "CST_USERS_2"},
    ),
    Refused(
        "CREATE OR REPLACE STREAM «large» AS SELECT * FROM orders;",
        "ddl.REPLACING_DISABLED",
        {"kind": "stream", "statement": "LARGE"},
        given=without("ksql.create.or.replace.enabled"),
    ),
    Refused(
        (
            "CREATE STREAM x (a INT) WITH (KAFKA_TOPIC=«'_millstream_x'», "
            "VALUE_FORMAT='JSON', PARTITIONS=1);"
        ),
        "ddl.INTERNAL_TOPIC",
        {"action": "create", "topic": "_millstream_x"},
    ),
    Refused(
        "CREATE STREAM x AS SELECT * FROM PROCESS(orders, 'Hourly');",
        "ddl.WALL_CLOCK_BY_ARRIVAL",
        {},
        given={"millstream.input.order": "arrival"},
    ),
    Refused(
        "CREATE STREAM x AS SELECT * FROM orders;",
        "ddl.IDLE_WINDOWS_BY_ARRIVAL",
        {},
        given={"millstream.input.order": "arrival", "idle.window.close.ms": "1000"},
    ),
    Refused(
        "CREATE STREAM «x» AS SELECT * FROM orders;",
        "ddl.DEAD_LETTERS_OF_ITSELF",
        {"topic": "X"},
        given={"errors.dead.letter.queue.topic.name": "X"},
    ),
)
