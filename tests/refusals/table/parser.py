"""What the parser refuses, one statement or more for each template."""

from __future__ import annotations

from tests.refusals.table.row import Refused

ROWS = (
    Refused(
        "SELECT 1 FROM orders WINDOW TUMBLING (SIZE 1 «MONTH») EMIT CHANGES;",
        "P_CALENDAR_UNIT",
        {"unit": "MONTH"},
    ),
    Refused(
        "SELECT TRANSFORM(l, x => x, «1») FROM orders EMIT CHANGES;",
        "P_LAMBDA_LAST",
        {},
    ),
    Refused(
        "CREATE STREAM x AS SELECT id, «1e400» AS d FROM orders;",
        "P_OVERFLOW",
        {"text": "1e400"},
    ),
    Refused(
        "SELECT " + "(" * 128 + "«(»(1" + ")" * 130 + " AS a FROM orders EMIT CHANGES;",
        "P_TOO_DEEP",
        {"count": "128"},
    ),
    Refused(
        "SHOW TYPES;" * 500 + "«SHOW» TYPES;",
        "P_SCRIPT_TOO_LONG",
        {"count": "500"},
    ),
    Refused(
        "SELECT * FROM spent LIMIT «-»1;",
        "P_LIMIT",
        {"kind": "Pull"},
    ),
    Refused(
        "SELECT * FROM orders EMIT CHANGES LIMIT «-»1;",
        "P_LIMIT",
        {"kind": "Push"},
    ),
    Refused(
        "SELECT TRANSFORM(l, «(»a, b, c, d, e) => 1) AS a FROM orders EMIT CHANGES;",
        "P_LAMBDA_PARAMETERS",
        {"count": "3", "number": "5"},
    ),
    Refused(
        "SELECT DECIMAL «'x'» AS a FROM orders EMIT CHANGES;",
        "P_DECIMAL",
        {"text": "'x'"},
    ),
    Refused(
        "ASSERT TOPIC orders TIMEOUT «99999999999999» DAYS;",
        "P_TOO_LONG",
        {"count": "99999999999999", "unit": "DAYS"},
    ),
    Refused(
        (
            "CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='orders', «kafka_topic»='orders', "
            "VALUE_FORMAT='JSON');"
        ),
        "P_PROPERTY_TWICE",
        {"name": "KAFKA_TOPIC"},
    ),
    Refused(
        "SELECT who LIKE 'a' ESCAPE «'xx'» AS a FROM orders EMIT CHANGES;",
        "P_ESCAPE",
        {"text": "xx"},
    ),
)
