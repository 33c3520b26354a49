"""What is refused of statements as they are executed, one statement or more for each template."""

from __future__ import annotations

from tests.refusals.table.row import NO_SCANS, Refused, without

ROWS = (
    Refused(
        "ALTER SYSTEM 'auto.offset.reset'='earliest';",
        "service.ALTER_SYSTEM",
        {},
    ),
    Refused(
        "EXPLAIN SHOW STREAMS;",
        "service.EXPLAINED_KIND",
        {},
    ),
    Refused(
        "COPY orders FROM «'/no/such.csv'»;",
        "service.FILE_MISSING",
        {"path": "/no/such.csv"},
    ),
    Refused(
        "COPY orders FROM «'/no/such.xml'»;",
        "service.FILE_FORMAT_UNKNOWN",
        {"path": "/no/such.xml"},
    ),
    Refused(
        "INSERT INTO «users» VALUES ('a', 'b');",
        "service.INSERT_INTO_READ_ONLY",
        {"action": "insert values into", "noun": "table", "source": "USERS"},
    ),
    Refused(
        "INSERT INTO heads (k, v, «h») VALUES (1, 2, 'AA==');",
        "service.INSERTED_HEADER",
        {"names": "H"},
    ),
    Refused(
        "INSERT INTO orders (id) VALUES («CAST('x' AS TIMESTAMP)»);",
        "service.VALUE_FAILED",
        {"column": "ID", "type": "TIMESTAMP"},
    ),
    Refused(
        "CREATE OR REPLACE STREAM «heads» AS SELECT * FROM orders;",
        "ddl.REPLACED_WITHOUT_QUERY",
        {"noun": "stream", "existing": "HEADS"},
    ),
    Refused(
        "SPOOL OFF;",
        "service.SPOOL",
        {},
    ),
    Refused(
        "SELECT * FROM spent WHERE who = 'a' PARTITION BY «who»;",
        "service.CLAUSE_OF_PULL_QUERY",
        {"clause": "PARTITION BY"},
        given=NO_SCANS,
    ),
    Refused(
        "INSERT INTO «hourly» (who) VALUES ('a');",
        "service.INSERT_INTO_COMPUTED",
        {
            "action": "insert values into",
            "noun": "table",
            "source": "HOURLY",
            "query_id": "CTAS_HOURLY_6",
        },
    ),
    Refused(
        "INSERT INTO orders (id, id) VALUES (1, 2);",
        "service.INSERTED_TWICE",
        {"statement": "INSERT INTO … VALUES"},
    ),
    Refused(
        "INSERT INTO orders (ROWTIME, id) VALUES («'soon'», 1);",
        "service.VALUE_FAILED",
        {"column": "ROWTIME", "type": "BIGINT"},
    ),
    Refused(
        "INSERT INTO orders (ROWTIME, id) VALUES («-1», 1);",
        "service.ROWTIME_NEGATIVE",
        {"rowtime": "-1"},
    ),
    Refused(
        "COPY orders FROM '/no.csv' WITH («X»=1);",
        "service.COPY_PROPERTY",
        {"unknown": "X"},
    ),
    Refused(
        "EXPLAIN «CTAS_NONE_1»;",
        "service.EXPLAINED_QUERY_MISSING",
        {"query_id": "CTAS_NONE_1"},
    ),
    Refused(
        "DESCRIBE «nothing»;",
        "service.DESCRIBED_MISSING",
        {"name": "NOTHING"},
    ),
    Refused(
        "PRINT «nothing» LIMIT 1;",
        "service.TOPIC_NOT_FOUND",
        {"topic": "nothing"},
    ),
    Refused(
        "ASSERT TOPIC orders WITH («FOO»=1);",
        "service.ASSERTED_PROPERTY",
        {"name": "FOO"},
    ),
    Refused(
        "ASSERT TOPIC orders WITH (PARTITIONS=7) TIMEOUT 0 SECONDS;",
        "service.ASSERTION_FAILED",
        {"reason": "topic orders has PARTITIONS 1, expected 7"},
    ),
    Refused(
        "ASSERT SCHEMA SUBJECT 's' TIMEOUT 0 SECONDS;",
        "service.SCHEMAS_WITHOUT_REGISTRY",
        {},
    ),
    Refused(
        "SHOW CONNECTORS;",
        "service.CONNECT_MISSING",
        {},
    ),
    Refused(
        "UNSET «'auto.offset.reset'»;",
        "service.NOT_SET",
        {"name": "auto.offset.reset"},
    ),
    Refused(
        "INSERT INTO orders (id) VALUES («CAST('2020-01-01' AS TIMESTAMP)»);",
        "service.VALUE_TYPE",
        {
            "target": "INTEGER",
            "column": "ID",
            "type": "TIMESTAMP",
            "value": "2020-01-01T00:00:00.000",
        },
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
        "EXPLAIN («PLAN») SELECT * FROM spent WHERE who = 'a';",
        "service.EXPLAINED_STAGE",
        {"stage": "PLAN"},
    ),
    Refused(
        "SELECT nope FROM spent s, spent t;",
        "service.PULL_FAILED",
        {},
    ),
    Refused(
        "«SELECT CAST(o.who AS INT) AS a FROM orders o, orders p»;",
        "service.QUERY_FAILED",
        {},
    ),
    Refused(
        "INSERT INTO orders (id) VALUES (1);",
        "service.INSERTS_DISABLED",
        {},
        given=without("ksql.insert.into.values.enabled"),
    ),
    Refused(
        "INSERT INTO «nothing» VALUES (1);",
        "service.INSERT_INTO_UNKNOWN",
        {"name": "NOTHING"},
    ),
    Refused(
        "INSERT INTO orders (ROWTIME, id) VALUES («9223372036854775807», 1);",
        "service.ROWTIME_TOO_LATE",
        {"latest": "4611686018427387904", "rowtime": "9223372036854775807"},
    ),
    Refused(
        "COPY orders FROM 'x.csv';",
        "service.COPY_OVER_NETWORK",
        {},
        local=False,
    ),
    Refused(
        "INSERT INTO hops (k, v) VALUES ('a', 1);",
        "service.INSERT_INTO_WINDOWED",
        {"action": "insert values into"},
    ),
    Refused(
        "INSERT INTO orders («ROWOFFSET», id) VALUES (1, 1);",
        "service.INSERTED_PSEUDO_COLUMN",
        {"name": "ROWOFFSET"},
    ),
    Refused(
        "COPY orders FROM 'tests/refusals/sources.py' WITH (FORMAT='CSV', ROWTIME=«'soon'»);",
        "service.ROWTIME_UNREADABLE",
        {"text": "soon"},
    ),
    Refused(
        "INSERT INTO «people» (name) VALUES ('a');",
        "service.PRIMARY_KEY_NOT_INSERTED",
        {"source": "PEOPLE", "key": "ID"},
    ),
    Refused(
        "COPY orders FROM «'docs/no.csv'»;",
        "service.FILE_MISSING",
        {"path": "docs/no.csv"},
    ),
    Refused(
        "COPY orders FROM «'README.md'» WITH (FORMAT='PARQUET');",
        "service.FILE_UNREADABLE",
        {"name": "README.md", "kind": "PARQUET"},
    ),
    Refused(
        "COPY orders FROM «'README.md'» WITH (FORMAT='XML');",
        "service.FILE_UNREADABLE",
        {"name": "README.md", "kind": "XML"},
    ),
    Refused(
        "SELECT * FROM spent «LIMIT 1»;",
        "service.LIMIT_DISABLED",
        {"limits": "ksql.query.pull.limit.clause.enabled"},
        given=without("ksql.query.pull.limit.clause.enabled"),
    ),
    Refused(
        "SELECT * FROM spent;",
        "service.PULL_DISABLED",
        {"name": "ksql.pull.queries.enable"},
        given=without("ksql.pull.queries.enable"),
    ),
    Refused(
        "SELECT * FROM orders;",
        "service.PULL_ON_STREAM",
        {},
        given=without("ksql.query.pull.stream.enabled"),
    ),
    Refused(
        "RUN SCRIPT 'x.sql';",
        "service.RUN_SCRIPT",
        {},
        local=False,
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
        "COPY orders FROM «'s3://x.csv'»;",
        "service.FILE_PATH",
        {"path": "s3://x.csv"},
    ),
    Refused(
        (
            "SELECT a.id FROM orders BETWEEN OFFSETS 1 AND 2 a JOIN «again BETWEEN "
            "OFFSETS 1 AND 3 b» WITHIN 1 HOUR ON a.id = b.id;"
        ),
        "service.TOPIC_IN_TWO_RANGES",
        {"topic": "orders"},
    ),
    Refused(
        "SELECT * FROM «people» WHERE id = 'a';",
        "query.NOT_QUERYABLE",
        {"source": "PEOPLE"},
    ),
)
