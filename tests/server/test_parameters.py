"""Parameters in requests: lists and objects of values beside the statement."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream_server.failures import BAD_STATEMENT, MALFORMED
from tests.server.conftest import RunningServer
from tests.server.test_websocket import frames

BY_KEY = "SELECT total FROM spending WHERE customer = ?;"


def rows(shop: RunningServer, sql: str, parameters: Any, path: str = "/query-stream") -> list[Any]:
    body = {"sql": sql, "parameters": parameters}
    answer = shop.http.post(path, json=body, headers={"accept": "application/json"})
    assert answer.status_code == 200, answer.text
    return list(json.loads(answer.text, parse_float=str)[1:])


@pytest.mark.parametrize(
    ("sql", "parameters", "expected"),
    [
        (BY_KEY, ["ann"], [["3.75"]]),
        (BY_KEY, ["nobody"], []),
        (BY_KEY, ["ann' OR 'a' = 'a"], []),
        ("SELECT total FROM spending WHERE customer = $1", ["bob"], [["20.00"]]),
        ("SELECT total FROM spending WHERE customer = :who", {"who": "bob"}, [["20.00"]]),
        ("SELECT customer FROM spending WHERE total > ? LIMIT ?", [5.5, 1], [["bob"]]),
        ("SELECT customer FROM orders WHERE amount > ? EMIT CHANGES LIMIT ?", [2, 2],
         [["bob"], ["ann"]]),
    ],
)  # fmt: skip
def test_queries(shop: RunningServer, sql: str, parameters: Any, expected: list[Any]) -> None:
    assert rows(shop, sql, parameters) == expected


def test_keys_and_parameters_share_what_is_prepared(shop: RunningServer) -> None:
    """Whichever arrives first, the other one gets the same."""
    literal = BY_KEY.replace("?", "'ann'")
    for _ in range(2):
        assert rows(shop, BY_KEY, ["ann"]) == rows(shop, literal, None) == [["3.75"]]


def test_statements(shop: RunningServer) -> None:
    shop.ksql("INSERT INTO orders VALUES (?, ?);", parameters=["cleo", 7])
    (made,) = shop.ksql(
        "CREATE STREAM big AS SELECT * FROM orders WHERE amount > $1;", parameters=[5]
    )
    assert made["statementText"].startswith("CREATE STREAM BIG AS SELECT")
    assert "(AMOUNT > 5)" in made["statementText"]
    shop.engine.drain()
    assert rows(shop, "SELECT customer FROM big WHERE customer = ?", ["cleo"]) == [["cleo"]]


def test_a_websocket(shop: RunningServer) -> None:
    request = {"ksql": BY_KEY, "parameters": ["ann"]}
    found, code, _ = frames(shop, json.dumps(request))
    assert found[1] == '{"row":{"columns":[3.75]}}' and code == 1000


@pytest.mark.parametrize(
    ("parameters", "code", "message"),
    [
        ("ann", MALFORMED, "parameters must be a list, or an object"),
        ([], BAD_STATEMENT, "There is no value for parameter 1"),
        (["a", "b"], BAD_STATEMENT, "Parameter 2 has a value"),
        ([["a"]], BAD_STATEMENT, "Cannot compare"),
        ([[]], BAD_STATEMENT, "it is a list without an element"),
        ([{}], BAD_STATEMENT, "it is an object"),
        ([None], BAD_STATEMENT, "Comparison with NULL"),
        ([5], BAD_STATEMENT, "Cannot compare"),
    ],
)
def test_refused(shop: RunningServer, parameters: Any, code: int, message: str) -> None:
    body = {"sql": BY_KEY, "parameters": parameters}
    error = shop.http.post("/query-stream", json=body).json()
    assert error["error_code"] == code
    assert message in error["message"]
