"""Which code and which HTTP status each family of refusals has.

By shared/reference, sql-statements 22: whatever is wrong with a statement is 40001 unless noted,
and rest-api 13: the status is the code without its last two digits.
"""

from __future__ import annotations

from string import Formatter
from typing import Any

import pytest

from millstream.model.errors import ConflictError, StatementError, UnavailableError
from millstream.model.refusals import ConflictTemplate, Template
from millstream_server.failures import refusal
from tests.refusals.families import MODULES
from tests.server.conftest import RunningServer

EVERY = [
    (f"{module.__name__}.{name}", template)
    for module in MODULES
    for name, template in module.TEMPLATES.items()
]
CODES = {
    "DROP STREAM no_such;": (400, 40001),
    "CREATE STREAM orders (a INT KEY, b INT) WITH (KAFKA_TOPIC='o', FORMAT='JSON');": (400, 40001),
    "CREATE STREAM x (a INT KEY, b INT) WITH (KAFKA_TOPIC='o', FORMAT='FOO');": (400, 40001),
    "CREATE STREAM x AS SELECT no_such FROM orders;": (400, 40001),
    "CREATE STREAM x AS SELECT customer, no_such(1) FROM orders;": (400, 40001),
    "INSERT INTO orders (no_such) VALUES (1);": (400, 40001),
    "DROP STREAM orders": (400, 40001),
    "TERMINATE no_such;": (400, 40001),
    "EXPLAIN no_such;": (400, 40001),
    "SELECT * FROM orders;": (400, 40002),
    "PRINT orders;": (400, 40002),
    "ASSERT TOPIC 'no-such' TIMEOUT 0 SECONDS;": (417, 41700),
    "ASSERT SCHEMA SUBJECT 's' TIMEOUT 0 SECONDS;": (417, 41700),
    "CREATE STREAM x WITH (KAFKA_TOPIC='o', VALUE_FORMAT='AVRO');": (400, 40001),
    "DESCRIBE CONNECTOR c;": (400, 40001),
    "DROP CONNECTOR c;": (400, 40001),
}
"""What statements sent to /ksql are refused with."""


@pytest.mark.parametrize(("name", "template"), EVERY, ids=[name for name, _ in EVERY])
def test_a_refused_statement_is_a_bad_one(name: str, template: Template | ConflictTemplate) -> None:
    parameters: dict[str, Any] = dict.fromkeys(template.parameters, "x")
    error = template(**parameters)
    found = refusal(error, "the statement")
    assert (found.status, found.code) == (400, 40001)
    assert found.entity()["@type"] == "statement_error"
    literal = [text for text, _, _, _ in Formatter().parse(template.text) if text]
    assert all(text in found.message for text in literal)


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("E-ASSERT", (417, 41700)),
        ("E-NOT-READY", (503, 50302)),
        ("E-NO-REGISTRY", (428, 42801)),
        ("E-SLOW-CONSUMER", (429, 42900)),
        ("E-RESULT-LIMIT", (400, 40001)),
        ("E-SQL-LIMIT", (400, 40001)),
    ],
)
def test_codes_of_the_engine(code: str, wanted: tuple[int, int]) -> None:
    found = refusal(StatementError("x", code=code), None)
    assert (found.status, found.code) == wanted


def test_what_is_no_fault_of_a_statement() -> None:
    assert refusal(ConflictError("x"), None).code == 40001
    found = refusal(UnavailableError("x"), None)
    assert (found.status, found.code, found.headers) == (503, 50300, {"retry-after": "1"})


@pytest.mark.parametrize("statement", CODES)
def test_over_http(shop: RunningServer, statement: str) -> None:
    answer = shop.http.post("/ksql", json={"ksql": statement})
    assert (answer.status_code, answer.json()["error_code"]) == CODES[statement]
