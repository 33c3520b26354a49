"""What is refused of statements as they are executed, one statement or more for each template."""

from __future__ import annotations

from tests.refusals.table.row import NO_SCANS, Refused, without

ROWS = (
    Refused(
        "SELECT * FROM «PROCESS(orders, 'Silence')»;",
        "statements.PROCESSOR_OF_PULL",
        {"processor": "Silence"},
    ),
    Refused(
        "PEEK «nowhere» AT here;",
        "statements.PEEKED_QUERY_MISSING",
        {"query_id": "NOWHERE"},
    ),
    Refused(
        "PEEK «other» AT here;",
        "statements.PEEKED_WITHOUT_NODES",
        {"query_id": "OTHER"},
    ),
    Refused(
        "ALTER SYSTEM 'auto.offset.reset'='earliest';",
        "statements.ALTER_SYSTEM",
        {},
    ),
    Refused(
        "REPLAY «orders» FROM orders;",
        "statements.REPLAYED_FROM_ITSELF",
        {"topic": "orders"},
    ),
    Refused(
        "EXPLAIN SHOW STREAMS;",
        "statements.EXPLAINED_KIND",
        {},
    ),
    Refused(
        "COPY orders FROM «'/no/such.csv'»;",
        "statements.FILE_MISSING",
        {"path": "/no/such.csv"},
    ),
    Refused(
        "COPY orders FROM «'/no/such.xml'»;",
        "statements.FILE_FORMAT_UNKNOWN",
        {"path": "/no/such.xml"},
    ),
    Refused(
        "INSERT INTO «users» VALUES ('a', 'b');",
        "statements.INSERT_INTO_READ_ONLY",
        {"action": "insert values into", "noun": "table", "source": "USERS"},
    ),
    Refused(
        "INSERT INTO heads (k, v, «h») VALUES (1, 2, 'AA==');",
        "statements.INSERTED_HEADER",
        {"names": "H"},
    ),
    Refused(
        "INSERT INTO orders (id) VALUES («CAST('x' AS TIMESTAMP)»);",
        "statements.VALUE_FAILED",
        {"column": "ID", "type": "TIMESTAMP"},
    ),
    Refused(
        "SELECT * FROM spent WHERE who = 'a' PARTITION BY «who»;",
        "statements.CLAUSE_OF_PULL_QUERY",
        {"clause": "PARTITION BY"},
        given=NO_SCANS,
    ),
    Refused(
        "INSERT INTO «hourly» (who) VALUES ('a');",
        "statements.INSERT_INTO_COMPUTED",
        {
            "action": "insert values into",
            "noun": "table",
            "source": "HOURLY",
            "query_id": "CTAS_HOURLY_6",
        },
    ),
    Refused(
        "INSERT INTO orders (id, id) VALUES (1, 2);",
        "statements.INSERTED_TWICE",
        {"statement": "INSERT INTO … VALUES"},
    ),
    Refused(
        "INSERT INTO orders (ROWTIME, id) VALUES («'soon'», 1);",
        "statements.VALUE_FAILED",
        {"column": "ROWTIME", "type": "BIGINT"},
    ),
    Refused(
        "INSERT INTO orders (ROWTIME, id) VALUES («-1», 1);",
        "statements.ROWTIME_NEGATIVE",
        {"rowtime": "-1"},
    ),
    Refused(
        "COPY orders FROM '/no.csv' WITH («X»=1);",
        "statements.COPY_PROPERTY",
        {"unknown": "X"},
    ),
    Refused(
        "EXPLAIN «CTAS_NONE_1»;",
        "statements.EXPLAINED_QUERY_MISSING",
        {"query_id": "CTAS_NONE_1"},
    ),
    Refused(
        "DESCRIBE «nothing»;",
        "statements.DESCRIBED_MISSING",
        {"name": "NOTHING"},
    ),
    Refused(
        "ASSERT TOPIC orders WITH («FOO»=1);",
        "statements.ASSERTED_PROPERTY",
        {"name": "FOO"},
    ),
    Refused(
        "ASSERT TOPIC orders WITH (PARTITIONS=7) TIMEOUT 0 SECONDS;",
        "statements.ASSERTION_FAILED",
        {"reason": "topic orders has PARTITIONS 1, expected 7"},
    ),
    Refused(
        "ASSERT SCHEMA SUBJECT 's' TIMEOUT 0 SECONDS;",
        "statements.ASSERTION_FAILED",
        {"reason": "a schema of subject s does not exist"},
    ),
    Refused(
        "UNSET «'auto.offset.reset'»;",
        "statements.NOT_SET",
        {"name": "auto.offset.reset"},
    ),
    Refused(
        "INSERT INTO orders (id) VALUES («CAST('2020-01-01' AS TIMESTAMP)»);",
        "statements.VALUE_TYPE",
        {
            "target": "INTEGER",
            "column": "ID",
            "type": "TIMESTAMP",
            "value": "2020-01-01T00:00:00.000",
        },
    ),
    Refused(
        "EXPLAIN («PLAN») SELECT * FROM spent WHERE who = 'a';",
        "statements.EXPLAINED_STAGE",
        {"stage": "PLAN"},
    ),
    Refused(
        "INSERT INTO orders (id) VALUES (1);",
        "statements.INSERTS_DISABLED",
        {},
        given=without("ksql.insert.into.values.enabled"),
    ),
    Refused(
        "INSERT INTO «nothing» VALUES (1);",
        "statements.INSERT_INTO_UNKNOWN",
        {"name": "NOTHING"},
    ),
    Refused(
        "INSERT INTO orders (ROWTIME, id) VALUES («9223372036854775807», 1);",
        "statements.ROWTIME_TOO_LATE",
        {"latest": "4611686018427387904", "rowtime": "9223372036854775807"},
    ),
    Refused(
        "COPY orders FROM 'x.csv';",
        "statements.COPY_OVER_NETWORK",
        {},
        local=False,
    ),
    Refused(
        "INSERT INTO hops (k, v) VALUES ('a', 1);",
        "statements.INSERT_INTO_WINDOWED",
        {"action": "insert values into"},
    ),
    Refused(
        "INSERT INTO orders («ROWOFFSET», id) VALUES (1, 1);",
        "statements.INSERTED_PSEUDO_COLUMN",
        {"name": "ROWOFFSET"},
    ),
    Refused(
        "COPY orders FROM 'tests/refusals/sources.py' WITH (FORMAT='CSV', ROWTIME=«'soon'»);",
        "statements.ROWTIME_UNREADABLE",
        {"text": "soon"},
    ),
    Refused(
        "INSERT INTO «people» (name) VALUES ('a');",
        "statements.PRIMARY_KEY_NOT_INSERTED",
        {"source": "PEOPLE", "key": "ID"},
    ),
    Refused(
        "COPY orders FROM «'docs/no.csv'»;",
        "statements.FILE_MISSING",
        {"path": "docs/no.csv"},
    ),
    Refused(
        "COPY orders FROM «'README.md'» WITH (FORMAT='PARQUET');",
        "statements.FILE_UNREADABLE",
        {"name": "README.md", "kind": "PARQUET"},
    ),
    Refused(
        "COPY orders FROM «'README.md'» WITH (FORMAT='XML');",
        "statements.FILE_UNREADABLE",
        {"name": "README.md", "kind": "XML"},
    ),
    Refused(
        "SELECT * FROM spent «LIMIT 1»;",
        "statements.LIMIT_DISABLED",
        {"limits": "ksql.query.pull.limit.clause.enabled"},
        given=without("ksql.query.pull.limit.clause.enabled"),
    ),
    Refused(
        "SELECT * FROM spent;",
        "statements.PULL_DISABLED",
        {"name": "ksql.pull.queries.enable"},
        given=without("ksql.pull.queries.enable"),
    ),
    Refused(
        "SELECT * FROM orders;",
        "statements.PULL_ON_STREAM",
        {},
        given=without("ksql.query.pull.stream.enabled"),
    ),
    Refused(
        "COPY orders FROM «'s3://x.csv'»;",
        "statements.FILE_PATH",
        {"path": "s3://x.csv"},
    ),
)
