"""What is refused of pull queries, one statement or more for each template."""

from __future__ import annotations

from tests.refusals.table.row import NO_SCANS, Refused

ROWS = (
    Refused(
        "SELECT * FROM hourly WHERE «WINDOWSTART <> 1 AND who = 'a' AND yes = true»;",
        "query.BOUND_UNSUPPORTED",
        {"bound": "WINDOWSTART", "direction": "NOT_EQUAL"},
        given=NO_SCANS,
    ),
    Refused(
        "SELECT «ROWPARTITION» FROM spent;",
        "query.COLUMN_OF_LOG",
        {"clause": "SELECT", "columns": "`ROWPARTITION`"},
        given=NO_SCANS,
    ),
    Refused(
        "SELECT * FROM spent WHERE «who = NULL»;",
        "query.WHERE_OF_PULL_QUERY",
        {
            "message": "Comparison with NULL not supported: STRING = NULL",
            "expression": "(WHO = null)",
        },
        given=NO_SCANS,
    ),
    Refused(
        "SELECT * FROM hourly WHERE «who = 12»;",
        "query.WHERE_OF_PULL_QUERY",
        {
            "message": "Cannot compare WHO (STRING) to 12 (INTEGER) with EQUAL.",
            "expression": "(WHO = 12)",
        },
        given=NO_SCANS,
    ),
    Refused(
        "SELECT * FROM spent;",
        "query.WHERE_MISSING",
        {},
        given=NO_SCANS,
    ),
    Refused(
        "SELECT * FROM spent WHERE «who > 'a' OR who < 'b'»;",
        "query.SCAN_DISABLED",
        {},
        given=NO_SCANS,
    ),
    Refused(
        "SELECT * FROM hourly WHERE «who = 'a'»;",
        "query.KEYS_NOT_IN_WHERE",
        {"specified": "`WHO` STRING KEY", "expected": "`WHO` STRING KEY, `YES` BOOLEAN KEY"},
        given=NO_SCANS,
    ),
    Refused(
        "SELECT * FROM spent WHERE «who <> 'a'»;",
        "query.KEY_BOUND",
        {"listed": "`WHO` STRING KEY"},
        given=NO_SCANS,
    ),
    Refused(
        "SELECT * FROM spent WHERE «total > 1»;",
        "query.KEY_NOT_IN_WHERE",
        {"shown": "(TOTAL > 1)"},
        given=NO_SCANS,
    ),
    Refused(
        "SELECT * FROM spent WHERE FROM_DAYS(1) = «'soon'»;",
        "query.NO_TIME",
        {"text": "soon", "type": "DATE"},
    ),
    Refused(
        (
            "SELECT * FROM hourly WHERE «who='a' AND yes=true AND WINDOWSTART > 1 AND "
            "WINDOWSTART > 2»;"
        ),
        "query.BOUNDS_TWICE",
        {
            "bound": "WINDOWSTART",
            "direction": "GREATER_THAN",
            "listed": "(WINDOWSTART > 1), (WINDOWSTART > 2)",
        },
        given=NO_SCANS,
    ),
    Refused(
        (
            "SELECT * FROM hourly WHERE «who='a' AND yes=true AND WINDOWSTART = 1 AND "
            "WINDOWSTART > 2»;"
        ),
        "query.BOUNDS_COMBINED",
        {"expression": "(WINDOWSTART = 1)", "bound": "WINDOWSTART"},
        given=NO_SCANS,
    ),
    Refused(
        "SELECT * FROM spent WHERE «who IN ('a') AND who = 'b'»;",
        "query.KEY_CONDITIONS_COMBINED",
        {},
        given=NO_SCANS,
    ),
    Refused(
        "SELECT * FROM spent WHERE «UCASE(who) = 'A'»;",
        "query.KEY_WITHIN_EXPRESSION",
        {},
        given=NO_SCANS,
    ),
    Refused(
        "SELECT * FROM counted WHERE «k IN ('10', 8)»;",
        "query.KEY_TYPE",
        {"expression": "'10'", "column": "K", "type": "INTEGER"},
        given=NO_SCANS,
    ),
    Refused(
        "SELECT * FROM spent WHERE «who IN (NULL)»;",
        "query.KEY_IS_NULL",
        {"expression": "(WHO = null)"},
        given=NO_SCANS,
    ),
    Refused(
        "SELECT * FROM spent WHERE «who = CAST(total AS STRING)»;",
        "query.KEY_COMPARED_WITH_COLUMN",
        {},
        given=NO_SCANS,
    ),
    Refused(
        "WITH a AS (SELECT 1) DELETE FROM spent;",
        "query.ONE_SELECT",
        {},
    ),
    Refused(
        "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r) SELECT * FROM r;",
        "query.RECURSION",
        {},
    ),
    Refused(
        "SELECT «READ_TEXT»('x') FROM spent s, spent u;",
        "query.FUNCTION_NOT_ALLOWED",
        {"name": "READ_TEXT"},
    ),
    Refused(
        # Deeper than any limit of Python's that Hypothesis may have left behind.
        "SELECT " + "s." * 9000 + "x AS a FROM spent s, spent t;",
        "query.NESTED_TOO_DEEP",
        {},
    ),
    Refused(
        "SELECT * FROM spent JOIN READ_CSV('x') ON 1=1;",
        "query.NOT_QUERIED",
        {"sql": "READ_CSV('x')"},
    ),
    Refused(
        "SELECT * FROM spent FOR VERSION AS OF 7;",
        "query.FOR_VERSION",
        {},
    ),
    Refused(
        "SELECT COUNT(*) /* /* */ FROM spent;",
        "query.UNREADABLE",
        {"first": "Error tokenizing 'SELECT COUNT(*) /* /* */ FROM spen'"},
    ),
    Refused(
        "SELECT * FROM spent USING SAMPLE 5;",
        "query.NOT_ALLOWED",
        {"name": "TableSample"},
    ),
    Refused(
        "PRINT «nothing» LIMIT 1;",
        "query.TOPIC_NOT_FOUND",
        {"topic": "nothing"},
    ),
    Refused(
        "SELECT nope FROM spent s, spent t;",
        "query.PULL_FAILED",
        {},
    ),
    Refused(
        "«SELECT CAST(o.who AS INT) AS a FROM orders o, orders p»;",
        "query.QUERY_FAILED",
        {},
    ),
    Refused(
        (
            "SELECT a.id FROM orders BETWEEN OFFSETS 1 AND 2 a JOIN «again BETWEEN "
            "OFFSETS 1 AND 3 b» WITHIN 1 HOUR ON a.id = b.id;"
        ),
        "query.TOPIC_IN_TWO_RANGES",
        {"topic": "orders"},
    ),
    Refused(
        "SELECT * FROM «silent.lost»;",
        "query.STORE_MISSING",
        {"owner": "SILENT", "store": "LOST"},
    ),
    Refused(
        "SELECT * FROM «silent.last AS OF TIMESTAMP '2026-01-01'»;",
        "query.STORE_RANGE",
        {"store": "SILENT.LAST"},
    ),
    Refused(
        "SELECT * FROM «people» WHERE id = 'a';",
        "query.NOT_QUERYABLE",
        {"source": "PEOPLE"},
    ),
)
