"""What several rooms refuse, one statement or more for each template."""

from __future__ import annotations

from tests.refusals.table.row import Refused

ROWS = (
    Refused(
        "CREATE STREAM x (`1a` INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO');",
        "model.SCHEMA_NOT_OF_FORMAT",
        {"format": "Avro", "reason": "Illegal initial character: 1a"},
    ),
    Refused(
        "CREATE STREAM x WITH («BACKFILL='moon'») AS SELECT * FROM orders;",
        "model.INVALID_PROPERTY",
        {"property": "BACKFILL", "reason": "'moon' is not one of duckdb, spark."},
    ),
    Refused(
        (
            "CREATE OR REPLACE STREAM «heads» (k INT KEY, v INT) WITH "
            "(KAFKA_TOPIC='heads', VALUE_FORMAT='JSON');"
        ),
        "model.COLUMNS_CHANGED",
        {"noun": "stream", "name": "HEADS", "columns": "`H` BYTES HEADER('h')"},
    ),
    Refused(
        "CREATE STREAM x AS SELECT id, «GREATEST(1, 'x')» FROM orders;",
        "model.NO_SIGNATURE",
        {
            "name": "greatest",
            "arguments": "INTEGER, STRING",
            "alternatives": (
                "greatest(INTEGER, INTEGER...)\ngreatest(BIGINT, "
                "BIGINT...)\ngreatest(DOUBLE, DOUBLE...)\ngreatest(DECIMAL, "
                "DECIMAL...)\ngreatest(STRING, STRING...)\ngreatest(BYTES, "
                "BYTES...)\ngreatest(DATE, DATE...)\ngreatest(TIME, "
                "TIME...)\ngreatest(TIMESTAMP, TIMESTAMP...)"
            ),
        },
    ),
    Refused(
        (
            "CREATE STREAM x (a INT, b INT) WITH (KAFKA_TOPIC='orders', "
            "VALUE_FORMAT='JSON', «WRAP_SINGLE_VALUE=true»);"
        ),
        "model.WRAPPED_COLUMNS",
        {},
    ),
    Refused(
        "CREATE STREAM x AS SELECT id, «REDUCE(l, 0, (a, b) => 'x')» AS b FROM orders;",
        "model.LAMBDA_RESULT",
        {"name": "reduce", "substitute": "INTEGER", "body": "STRING"},
    ),
    Refused(
        "INSERT INTO «large» VALUES (1);",
        "model.VALUE_COUNT",
        {
            "source": "LARGE",
            "columns": (
                "`ID`, `WHO`, `AMOUNT`, `LIVES`, `RAW`, `DAY`, `MADE`, `T`, `L`, `M`, `YES`"
            ),
            "count": "1",
        },
    ),
    Refused(
        "TERMINATE «QX»;",
        "model.UNKNOWN_QUERY",
        {"query": "QX"},
    ),
    Refused(
        "DROP STREAM users;",
        "model.WRONG_KIND",
        {"kind": "TABLE", "statement": "DROP STREAM"},
    ),
    Refused(
        "SET «'auto.offset.reset'»='x';",
        "model.SETTING_VALUE",
        {"value": "x", "known": "auto.offset.reset", "allowed": "earliest, latest"},
    ),
    Refused(
        "SET «'nothing'»='x';",
        "model.SETTING_MISSING",
        {"name": "nothing"},
    ),
    Refused(
        "SET «'ksql.streams.num.standby.replicas'»='1';",
        "model.SETTING_OF_INSTANCE",
        {"name": "ksql.streams.num.standby.replicas"},
    ),
    Refused(
        "SET «'rack.aware.assignment.tags'»='zone';",
        "model.SETTING_UNSUPPORTED",
        {
            "name": "rack.aware.assignment.tags",
            "reason": "a task goes to an instance that has its state, in whatever rack; its "
            "standby tasks go to other racks, by client.rack among the settings of the Kafka "
            "client",
        },
    ),
    Refused(
        "CREATE TABLE x AS «SELECT k, COUNT(*) AS c FROM plain GROUP BY k»;",
        "model.VALUE_FORMAT_CLAUSE",
        {"sources": "PLAIN", "format": "KAFKA", "clause": "GROUP BY"},
    ),
    Refused(
        "CREATE STREAM x AS «SELECT * FROM plain JOIN csv WITHIN 1 HOUR ON plain.k = csv.k»;",
        "model.VALUE_FORMAT_CLAUSE",
        {"sources": "PLAIN", "format": "KAFKA", "clause": "JOIN"},
    ),
    Refused(
        (
            "CREATE TABLE x AS SELECT who, COUNT(*) AS c FROM orders WINDOW «TUMBLING "
            "(SIZE 53375995583 DAYS, GRACE PERIOD 53375995583 DAYS)» GROUP BY who;"
        ),
        "model.WINDOW_TOO_LONG",
        {"clause": "WINDOW", "ms": "9223372036742400000", "longest": "4611686018427387903"},
    ),
    Refused(
        (
            "CREATE STREAM x AS SELECT a.id FROM orders a JOIN «large b WITHIN "
            "(53375995583 DAYS, 53375995583 DAYS) ON a.id = b.id»;"
        ),
        "model.WINDOW_TOO_LONG",
        {"clause": "WITHIN", "ms": "9223372036742400000", "longest": "4611686018427387903"},
    ),
    Refused(
        "INSERT INTO orders (id, «nope») VALUES (1, 2);",
        "model.UNKNOWN_INSERT_COLUMN",
        {"column": "NOPE"},
    ),
    Refused(
        "CREATE STREAM x (a INT) WITH (KAFKA_TOPIC=«'nope'», VALUE_FORMAT='JSON');",
        "model.UNKNOWN_TOPIC",
        {"topic": "nope"},
    ),
    Refused(
        "REPLAY orders FROM «nope»;",
        "model.UNKNOWN_TOPIC",
        {"topic": "nope"},
    ),
    Refused(
        (
            "CREATE STREAM x (a INT) WITH (KAFKA_TOPIC=«'orders'», VALUE_FORMAT='JSON', "
            "PARTITIONS=7);"
        ),
        "model.TOPIC_DIFFERS",
        {"topic": "orders", "there": "1", "wanted": "7"},
    ),
    Refused(
        "CREATE STREAM x WITH (KAFKA_TOPIC=«'orders'», PARTITIONS=7) AS SELECT * FROM heads;",
        "model.TOPIC_DIFFERS",
        {"topic": "orders", "there": "1", "wanted": "7"},
    ),
    Refused(
        "SELECT «CONCAT(NULL, NULL)» FROM orders EMIT CHANGES;",
        "model.AMBIGUOUS_SIGNATURE",
        {"name": "concat", "arguments": "null, null"},
    ),
    Refused(
        (
            "CREATE STREAM x (a STRING) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', "
            "TIMESTAMP='a', «TIMESTAMP_FORMAT='yyyy''x'»);"
        ),
        "model.TIME_FORMAT_QUOTE",
        {"text": "yyyy'x"},
    ),
    Refused(
        (
            "CREATE STREAM x (a STRING) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', "
            "TIMESTAMP='a', «TIMESTAMP_FORMAT='yyyy]'»);"
        ),
        "model.TIME_FORMAT_CLOSED",
        {"text": "yyyy]"},
    ),
    Refused(
        (
            "CREATE STREAM x (a STRING) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', "
            "TIMESTAMP='a', «TIMESTAMP_FORMAT='MMMMMMM'»);"
        ),
        "model.TIME_FORMAT_COUNT",
        {"text": "MMMMMMM", "flaw": "the letter M may not stand 7 times"},
    ),
    Refused(
        (
            "CREATE STREAM x (a STRING) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', "
            "TIMESTAMP='a', «TIMESTAMP_FORMAT='ppp-yyyy'»);"
        ),
        "model.TIME_FORMAT_COUNT",
        {"text": "ppp-yyyy", "flaw": "the letter p must be followed by a letter to pad"},
    ),
    Refused(
        (
            "CREATE STREAM x (a STRING) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', "
            "TIMESTAMP='a', «TIMESTAMP_FORMAT='yyyy{'»);"
        ),
        "model.TIME_FORMAT_RESERVED",
        {"text": "yyyy{", "char": "{"},
    ),
    Refused(
        (
            "CREATE STREAM x WITH (TIMESTAMP='who', «TIMESTAMP_FORMAT='yyyyb'») AS SELECT "
            "* FROM orders;"
        ),
        "model.TIME_FORMAT_LETTER",
        {"char": "b", "text": "yyyyb"},
    ),
    Refused(
        "SELECT «LPAD»(" + "LPAD(" * 29 + "who" + ", 5, who)" * 30 + " FROM orders EMIT CHANGES;",
        "model.CALL_TOO_DEEP",
        {"function": "LPAD"},
    ),
)
