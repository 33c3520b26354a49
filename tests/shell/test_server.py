"""The shell in a terminal, connected to a server whose rows a test sends one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.shell.screen import CTRL_C, Screen
from tests.shell.served import Served

Start = Callable[..., Screen]
FIELDS = [
    {"name": "CUSTOMER", "type": "KEY", "schema": {"type": "STRING"}},
    {"name": "AMOUNT", "schema": {"type": "DOUBLE"}},
]
SOURCE = {"name": "ORDERS", "type": "STREAM", "fields": FIELDS, "windowType": None}


def answer(text: str) -> tuple[int, Any]:
    """This server's responses to statements."""
    if text.startswith("LIST"):
        return 200, [{"@type": "source_descriptions", "sourceDescriptions": [SOURCE]}]
    if text.startswith("SHOW QUERIES"):
        query = {"id": "CTAS_1", "queryType": "PERSISTENT", "state": "RUNNING"}
        return 200, [{"@type": "queries", "queries": [query]}]
    message = "line 1:6: no column CSTOMER"
    refused = {"@type": "statement_error", "error_code": 40001, "statementText": text}
    return 400, {**refused, "message": message, "entities": []}


@pytest.fixture
def served() -> Iterator[Served]:
    with Served(answer) as server:
        yield server


def row(*values: Any) -> dict[str, Any]:
    return {"row": {"columns": list(values)}}


HEADER = {"header": {"queryId": "q7", "schema": "`CUSTOMER` STRING, `N` BIGINT"}}
COUNTS = "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer EMIT CHANGES;"


def counts(screen: Screen) -> dict[str, int]:
    """The table on the screen."""
    cells = [
        line.strip("| ").split() for line in screen.text.splitlines() if line.startswith("| c")
    ]
    return {name: int(number) for name, _, number in cells}


def test_a_table_changes_in_place(start: Start, served: Served) -> None:
    screen = start(served.url)
    screen.line(COUNTS)
    served.rows.put(HEADER)
    served.rows.put(row("c1", 1))
    screen.until(lambda s: counts(s) == {"c1": 1})
    served.rows.put(row("c2", 1))
    served.rows.put(row("c1", 2))
    screen.until(lambda s: counts(s) == {"c1": 2, "c2": 1})
    assert screen.text.count("CUSTOMER |") == 1 and "3 rows in" in screen.text
    screen.type("t")
    screen.until("t rows in place")
    served.rows.put(row("c2", 5))
    screen.until(lambda s: s.text.count("| c2") == 2)
    screen.type("t")
    screen.until("t rows below each other")
    screen.type(CTRL_C)
    screen.until("Query terminated")
    assert served.closed.wait(PATIENCE_S), "the server is told"
    closing = next(body for _, path, body, _ in served.requests if path == "/close-query")
    assert closing == {"queryId": "q7"}
    screen.line("version")
    screen.until("Version: 7.5")


def test_the_toolbar_and_completion_use_the_server(start: Start, served: Served) -> None:
    screen = start(served.url)
    screen.until(lambda s: served.url in s.text and "1 of 1 query running" in s.text)
    screen.type("SELECT * FROM orders WHERE am")
    screen.until("DOUBLE of ORDERS")
    screen.type(CTRL_C)
    screen.until("^C")
    screen.line("DROP CSTOMER x;")
    screen.until("DROP CSTOMER x;\n     ^^^^^^^")


def test_a_server_that_is_not_there(start: Start) -> None:
    screen = start("http://127.0.0.1:9")
    screen.until("not reachable")
    assert "Cannot reach the server" in screen.text and "Type SQL" in screen.text
    screen.line("SHOW STREAMS;")
    screen.until("Cannot reach the server http://127.0.0.1:9")
    screen.line("server")
    screen.until("Server: http://127.0.0.1:9")
