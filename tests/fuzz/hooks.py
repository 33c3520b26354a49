"""Extra information about the API for schemathesis."""

from __future__ import annotations

import os
from typing import Any

import schemathesis
from hypothesis import strategies as st

STATEMENTS = (
    "SHOW STREAMS;",
    "SHOW ALL TOPICS;",
    "LIST QUERIES EXTENDED;",
    "SHOW FUNCTIONS;",
    "SHOW PROPERTIES;",
    "DESCRIBE orders EXTENDED;",
    "DESCRIBE FUNCTION SUBSTRING;",
    "EXPLAIN SELECT * FROM orders EMIT CHANGES;",
    "SELECT * FROM spending;",
    "SELECT * FROM spending WHERE customer = 'ann';",
    "SELECT total / 0 FROM spending LIMIT 1;",
    "SELECT * FROM orders;",
    "SELECT customer, COUNT(*) FROM orders GROUP BY customer EMIT CHANGES LIMIT 1;",
    "SELECT o.customer FROM orders o JOIN spending s ON o.customer = s.customer;",
    "SELECT * FROM orders EMIT CHANGES LIMIT 2;",
    "PRINT 'orders' FROM BEGINNING LIMIT 1;",
    "INSERT INTO orders VALUES ('cleo', 1.00);",
    "INSERT INTO orders (amount) VALUES ('x');",
    "CREATE STREAM IF NOT EXISTS more (id INT KEY)"
    " WITH (kafka_topic='more', value_format='JSON', partitions=1);",
    "DROP STREAM IF EXISTS more;",
    "CREATE TYPE IF NOT EXISTS place AS STRUCT<x INT>;",
    "ASSERT TOPIC nothing TIMEOUT 0 SECONDS;",
    "TERMINATE nothing;",
    "DEFINE name = 'value'; SHOW VARIABLES;",
)
INSERTED = (
    '{"target":"orders"}\n{"CUSTOMER":"dora","AMOUNT":1}',
    '{"target":"orders"}\n{"CUSTOMER":[]}',
    '{"target":"spending"}',
    '{"target":"orders","properties":{"auto.offset.reset":1}}\n',
)


@st.composite
def damaged(draw: Any) -> str:
    """A misspelt statement."""
    text = draw(st.sampled_from(STATEMENTS))
    begin = draw(st.integers(0, len(text)))
    end = draw(st.integers(begin, min(len(text), begin + 6)))
    return str(text[:begin] + draw(st.text(max_size=4)) + text[end:])


sql = st.one_of(st.sampled_from(STATEMENTS), damaged(), st.text(max_size=60))
# An endless response is correct for some requests, and would delay all others.
schemathesis.openapi.format("sql", sql.filter(lambda text: _ends(text)))


def _ends(text: str) -> bool:
    words = text.upper()
    live = "EMIT" in words or "PRINT" in words or "CHANGES" in words
    return not live or text in STATEMENTS


@schemathesis.serializer("application/vnd.ksqlapi.delimited.v1")
def lines(context: Any, value: Any) -> Any:
    """The lines of /inserts-stream."""
    return str(value).encode("utf-8", "replace")


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """Without waiting for commands that do not exist, which ends with a 503 as it should."""
    if isinstance(body, dict):
        body.pop("commandSequenceNumber", None)
    return body


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Rows that are sent as a whole may come over HTTP/1.1."""
    if case.path == "/inserts-stream" and case.method == "POST":
        case.headers["Upgrade"] = "h2c"
        if len(str(case.body)) % 2:
            case.body = INSERTED[len(str(case.body)) % len(INSERTED)]


@schemathesis.check
def nobody_is_let_in(context: Any, response: Any, case: Any) -> None:
    """Where the paths are listed that the caller may be given a 2xx for, others give none."""
    listed = os.environ.get("FUZZ_OPEN_PATHS")
    allowed = listed is None or case.path in listed.split(",")
    if not allowed and 200 <= response.status_code < 300:
        raise AssertionError(f"{case.method} {case.path} gave {response.status_code}")
