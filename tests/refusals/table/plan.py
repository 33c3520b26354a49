"""What is refused of queries that cannot be planned, one statement or more for each template."""

from __future__ import annotations

from tests.refusals.table.row import Refused, without

ROWS = (
    Refused(
        "SELECT * FROM «PROCESS(orders, 'Nobody')» EMIT CHANGES;",
        "plan.PROCESSOR_UNKNOWN",
        {"processor": "Nobody"},
    ),
    Refused(
        "SELECT * FROM «PROCESS(spent, 'Doubled')» EMIT CHANGES;",
        "plan.PROCESSOR_OVER_TABLE",
        {"source": "SPENT"},
    ),
    Refused(
        "SELECT * FROM «PROCESS(hops, 'Silence')» EMIT CHANGES;",
        "plan.PROCESSOR_OVER_WINDOWS",
        {"source": "HOPS"},
    ),
    Refused(
        "SELECT * FROM «PROCESS(orders, orders, 'Silence')» EMIT CHANGES;",
        "plan.PROCESSOR_OVER_ONE_TWICE",
        {"source": "ORDERS"},
    ),
    Refused(
        "SELECT * FROM «PROCESS(orders, both, 'Doubled')» EMIT CHANGES;",
        "plan.BATCHES_OF_SEVERAL",
        {"processor": "DOUBLED"},
    ),
    Refused(
        "CREATE STREAM x AS SELECT id FROM orders UNION ALL «SELECT total FROM spent»;",
        "plan.UNION_UNSUPPORTED",
        {"what": "tables"},
    ),
    Refused(
        "CREATE STREAM x AS SELECT id, who FROM orders UNION ALL «SELECT who, id FROM orders»;",
        "plan.UNION_COLUMNS",
        {"ours": "INTEGER, STRING", "theirs": "STRING, INTEGER"},
    ),
    Refused(
        "SELECT id, 1 AS n FROM orders UNION ALL «SELECT 1 AS n, id FROM orders» EMIT CHANGES;",
        "plan.UNION_KEYS",
        {"ours": "ID", "theirs": "ID"},
    ),
    Refused(
        "INSERT INTO «no_such» SELECT * FROM orders;",
        "plan.SINK_MISSING",
        {"name": "NO_SUCH"},
    ),
    Refused(
        "INSERT INTO «spent» SELECT who, amount AS total FROM orders PARTITION BY who;",
        "plan.SINK_IS_TABLE",
        {"sink": "SPENT"},
    ),
    Refused(
        "INSERT INTO «heads» SELECT id, 1 AS v FROM orders;",
        "plan.SINK_WITH_HEADERS",
        {"sink": "HEADS"},
    ),
    Refused(
        "INSERT INTO orders «SELECT who, SUM(amount) FROM orders GROUP BY who»;",
        "plan.SINK_KIND",
        {"sink": "ORDERS", "kind": "STREAM", "result": "TABLE"},
    ),
    Refused(
        "CREATE TABLE x AS «SELECT who, LATEST_BY_OFFSET(total) FROM spent GROUP BY who»;",
        "plan.AGGREGATE_ON_TABLE",
        {"plural": "", "refused": "LATEST_BY_OFFSET"},
    ),
    Refused(
        "CREATE STREAM x AS SELECT id, «made AT TIME ZONE 'UTC'» FROM orders;",
        "plan.AT_TIME_ZONE",
        {"expression": "MADE AT TIME ZONE 'UTC'"},
    ),
    Refused(
        "CREATE STREAM x AS SELECT «CASE id WHEN 1 THEN 2 END» FROM orders;",
        "plan.CASE_WITH_OPERAND",
        {},
    ),
    Refused(
        "CREATE STREAM x AS SELECT id, «CAST(1 AS DECIMAL(0, 0))» FROM orders;",
        "plan.DECIMAL_PRECISION",
        {"precision": "0", "scale": "0"},
    ),
    Refused(
        "CREATE STREAM x AS SELECT id, «m[1]» FROM orders;",
        "plan.MAP_INDEX_TYPE",
        {"source": "M", "key": "STRING", "index": "1", "kind": "INTEGER"},
    ),
    Refused(
        "CREATE STREAM x AS SELECT id FROM orders PARTITION BY «NULL», id;",
        "plan.PARTITIONED_BY_NULL_AND_MORE",
        {},
    ),
    Refused(
        "CREATE STREAM x AS SELECT id FROM orders PARTITION BY id, «id»;",
        "plan.PARTITIONED_TWICE",
        {"text": "ORDERS.ID"},
    ),
    Refused(
        "CREATE STREAM x AS «SELECT who, n FROM hourly»;",
        "plan.QUERY_ON_WINDOWED_TABLE",
        {},
    ),
    Refused(
        "CREATE TABLE x AS «SELECT * FROM hourly»;",
        "plan.QUERY_ON_WINDOWED_TABLE",
        {},
    ),
    Refused(
        "CREATE STREAM x AS SELECT *, «ROWTIME» FROM orders;",
        "plan.RESERVED_IN_SELECT",
        {"name": "ROWTIME"},
    ),
    Refused(
        "CREATE STREAM x AS SELECT * FROM users u JOIN «orders o ON u.id = o.who»;",
        "plan.JOIN_ORDER",
        {"alias": "U", "written": "[INNER] JOIN", "alias_2": "O"},
    ),
    Refused(
        "CREATE STREAM x AS SELECT * FROM orders o JOIN «users u ON o.who = u.name»;",
        "plan.STREAM_TABLE_JOIN_KEY",
        {"got": "Got O.WHO = U.NAME."},
    ),
    Refused(
        "CREATE TABLE x AS SELECT who, COUNT(*) FROM orders GROUP BY who HAVING «id > 1»;",
        "plan.UNGROUPED_HAVING",
        {"expression": "(ID > 1)"},
    ),
    Refused(
        "CREATE STREAM x AS SELECT * FROM orders o FULL JOIN «users u ON o.who = u.id»;",
        "plan.STREAM_TABLE_FULL_JOIN",
        {},
    ),
    Refused(
        "CREATE STREAM x AS SELECT id, «CASE WHEN id THEN 1 END» FROM orders;",
        "plan.WHEN_TYPE",
        {"source": "ID", "type": "INTEGER"},
    ),
    Refused(
        (
            "CREATE STREAM x AS SELECT id, «CASE WHEN true THEN 1 WHEN false THEN 'a' "
            "END» FROM orders;"
        ),
        "plan.CASE_TYPES",
        {"branch": "WHEN false THEN 'a'", "type": "STRING", "then": "INTEGER"},
    ),
    Refused(
        (
            "CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='orders', «VALUE_FORMAT='JSON'», "
            "VALUE_SCHEMA_ID=1);"
        ),
        "plan.INFERENCE_IMPOSSIBLE",
        {"part": "VALUE", "name": "JSON"},
    ),
    Refused(
        (
            "CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO', "
            "«VALUE_SCHEMA_ID=1»);"
        ),
        "plan.COLUMNS_AND_SCHEMA_ID",
        {"part": "VALUE"},
    ),
    Refused(
        (
            "CREATE SOURCE TABLE x (a INT PRIMARY KEY, b INT) WITH (KAFKA_TOPIC='orders', "
            "VALUE_FORMAT='JSON', «WINDOW_TYPE='SESSION'»);"
        ),
        "plan.WINDOWED_SOURCE_TABLE",
        {},
    ),
    Refused(
        "CREATE TABLE x AS SELECT * FROM spent s JOIN «users u ON s.who = u.name»;",
        "plan.TABLE_TABLE_JOIN_KEY",
        {"got": "Got S.WHO = U.NAME."},
    ),
    Refused(
        "CREATE STREAM x AS SELECT * FROM orders o RIGHT JOIN «users u ON o.who = u.id»;",
        "plan.STREAM_TABLE_JOIN_KIND",
        {"written": "RIGHT [OUTER] JOIN"},
    ),
    Refused(
        "CREATE STREAM x AS SELECT * FROM orders a JOIN «large a» WITHIN 1 HOUR ON a.id = a.id;",
        "plan.ALIAS_TWICE",
        {"alias": "A"},
    ),
    Refused(
        "SELECT * FROM orders o JOIN «hourly h ON o.who = h.who» EMIT CHANGES;",
        "plan.ONE_SIDE_WINDOWED",
        {"left": "`O` is not windowed", "right": "`H` is TUMBLING windowed"},
    ),
    Refused(
        "CREATE STREAM x AS SELECT id, «who LIKE 'a!' ESCAPE '!'» FROM orders;",
        "plan.ESCAPE_AT_END",
        {"source": "'a!'"},
    ),
    Refused(
        "CREATE TABLE x AS SELECT who, TOPK(id, «id») FROM orders GROUP BY who;",
        "plan.CONSTANT_NEEDED",
        {"number": "2", "name": "TOPK", "expression": "ID"},
    ),
    Refused(
        (
            "CREATE STREAM x WITH («KEY_FORMAT='JSON'») AS SELECT id, who FROM orders "
            "PARTITION BY NULL;"
        ),
        "plan.KEY_FORMAT_WITHOUT_KEY",
        {},
    ),
    Refused(
        "CREATE TABLE x AS «SELECT COUNT(*) AS c FROM orders»;",
        "plan.GROUP_BY_MISSING",
        {"used": "COUNT"},
    ),
    Refused(
        (
            "CREATE TABLE x AS SELECT k, COUNT(*) AS c FROM hops WINDOW «TUMBLING (SIZE 1 "
            "HOUR)» GROUP BY k;"
        ),
        "plan.WINDOW_ON_WINDOWED",
        {},
    ),
    Refused(
        (
            "CREATE TABLE x AS SELECT who, COUNT(*) AS c FROM orders WINDOW TUMBLING "
            "(SIZE 1 HOUR) GROUP BY who «EMIT FINAL»;"
        ),
        "plan.SUPPRESS_DISABLED",
        {"setting": "ksql.suppress.enabled"},
        given=without("ksql.suppress.enabled"),
    ),
    Refused(
        "SELECT id, TRANSFORM(l, «y => y + 1») AS c FROM orders EMIT CHANGES;",
        "plan.LAMBDAS_DISABLED",
        {"setting": "ksql.lambdas.enabled"},
        given=without("ksql.lambdas.enabled"),
    ),
    Refused(
        (
            "CREATE STREAM x (k INT KEY, v INT, «h BYTES HEADER('h')») WITH "
            "(KAFKA_TOPIC='heads', VALUE_FORMAT='JSON');"
        ),
        "plan.HEADER_COLUMNS_DISABLED",
        {},
        given=without("ksql.headers.columns.enabled"),
    ),
    Refused(
        "SELECT «EXTRACTJSONFIELD(who, 'x')» FROM orders EMIT CHANGES;",
        "plan.CALL_IMPOSSIBLE",
        {"name": "extractjsonfield", "error": "JSON path 'x' does not start with $"},
    ),
    Refused(
        "SELECT * FROM orders WHERE «ROWTIME > 'soon'» EMIT CHANGES;",
        "plan.UNREADABLE_TIMESTAMP",
        {"text": "soon"},
    ),
    Refused(
        "CREATE TABLE x AS «SELECT k, COLLECT_LIST(v) AS c FROM csv GROUP BY k»;",
        "plan.INTERMEDIATE_TYPE",
        {},
    ),
    Refused(
        (
            "CREATE TABLE x AS SELECT * FROM people a JOIN pets b ON a.id = b.id JOIN "
            "«users r ON a.boss = r.id»;"
        ),
        "plan.FOREIGN_KEY_AMONG_MANY",
        {"got": "Got A.BOSS = R.ID."},
    ),
    Refused(
        "SELECT * FROM people a JOIN «hour h ON a.boss = h.who» EMIT CHANGES;",
        "plan.FOREIGN_KEY_ON_WINDOWS",
        {},
    ),
    Refused(
        "CREATE TABLE x AS SELECT a.id FROM people a RIGHT JOIN «users u ON a.boss = u.id»;",
        "plan.FOREIGN_KEY_JOIN_KIND",
        {"kind": "RIGHT"},
    ),
    Refused(
        "SELECT * FROM hops JOIN «sess WITHIN 1 HOUR ON hops.k = sess.k» EMIT CHANGES;",
        "plan.WINDOWS_DIFFER",
        {"left": "HOPPING", "right": "SESSION"},
    ),
    Refused(
        (
            "CREATE STREAM x AS SELECT * FROM orders o JOIN large l WITHIN 1 HOUR ON o.id "
            "= l.id JOIN heads h WITHIN 1 HOUR ON «o.id = l.id»;"
        ),
        "plan.JOIN_SOURCE",
        {"alias": "H", "alias_2": "L", "alias_3": "O"},
    ),
    Refused(
        (
            "CREATE TABLE x AS SELECT * FROM people a LEFT JOIN pets b ON a.id = b.id "
            "JOIN «users r ON b.id = r.id»;"
        ),
        "plan.TABLE_MOVED",
        {"columns": "A_ID"},
    ),
    Refused(
        "CREATE TABLE x AS «SELECT a.name AS n FROM people a JOIN users r ON a.boss = r.id»;",
        "plan.PRIMARY_KEY_NOT_SELECTED",
        {"plural": "", "table": "A", "listed": "`ID`"},
    ),
    Refused(
        "SELECT «-(-9223372036854775808)» AS a FROM orders EMIT CHANGES;",
        "plan.INVALID_NUMBER",
        {"text": "9223372036854775808"},
    ),
    Refused(
        "SELECT «9223372036854775808» AS a FROM orders EMIT CHANGES;",
        "plan.INVALID_NUMBER",
        {"text": "9223372036854775808"},
    ),
    Refused(
        (
            "CREATE TABLE x WITH (KEY_FORMAT='JSON') AS «SELECT id AS a, who AS a, "
            "COUNT(*) AS c FROM orders GROUP BY id, who»;"
        ),
        "plan.KEY_COLUMNS_TWICE",
        {"columns": "`A` INTEGER KEY"},
    ),
    Refused(
        "INSERT INTO «fixed» SELECT k, v FROM csv;",
        "plan.SINK_READ_ONLY",
        {"sink": "FIXED"},
    ),
    Refused(
        "INSERT INTO hops «SELECT k, v FROM csv»;",
        "plan.SINK_WINDOW",
        {"sink": "HOPS"},
    ),
    Refused(
        "CREATE STREAM x AS SELECT * FROM orders «BETWEEN OFFSETS 1 AND 2»;",
        "plan.HISTORY_KEPT_RUNNING",
        {"source": "ORDERS"},
    ),
    Refused(
        (
            "CREATE STREAM x («a STRUCT<b INT, c INT, b STRING>») WITH "
            "(KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');"
        ),
        "plan.FIELDS_TWICE",
        {"field": "`B` INTEGER", "again": "`B` STRING"},
    ),
    Refused(
        "SELECT «STRUCT(a := 1, a := 'x')» AS s FROM orders EMIT CHANGES;",
        "plan.FIELDS_TWICE",
        {"field": "`A` INTEGER", "again": "`A` STRING"},
    ),
    Refused(
        "SELECT «-who» AS a FROM orders EMIT CHANGES;",
        "plan.NEGATED_TYPE",
        {"expression": "-WHO", "type": "STRING"},
    ),
    Refused(
        (
            "CREATE OR REPLACE TABLE «spent» AS SELECT who, SUM(amount) AS total, "
            "COUNT(*) AS n FROM orders GROUP BY who;"
        ),
        "plan.UPGRADE_OF_NODE",
        {"name": "SPENT", "what": "queries whose aggregation or window changes"},
    ),
    Refused(
        (
            "CREATE TABLE x AS «SELECT who, unmerged(id) AS n FROM orders WINDOW SESSION "
            "(1 HOUR) GROUP BY who»;"
        ),
        "plan.AGGREGATE_IN_SESSIONS",
        {"function": "UNMERGED"},
    ),
)
