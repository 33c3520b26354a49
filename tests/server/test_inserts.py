"""POST /inserts-stream: rows, acknowledgements, the first error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from millstream_server.results.framing import JSON
from tests.server.conftest import RunningServer

KINDS = (
    "CREATE STREAM kinds (id INT KEY, d DECIMAL(4, 2), b BYTES, day DATE, made TIMESTAMP, t TIME,"
    " l ARRAY<INT>, m MAP<STRING, INT>, `small` STRING)"
    " WITH (kafka_topic='kinds', value_format='JSON', partitions=1);"
)


def sent(door: RunningServer, target: str, *rows: Any, accept: str | None = None) -> list[Any]:
    lines = [{"target": target}, *rows]
    content = "\n".join(json.dumps(line) for line in lines).encode()
    headers = {} if accept is None else {"accept": accept}
    answer = door.http2.post("/inserts-stream", content=content, headers=headers)
    assert answer.status_code == 200, answer.text
    if accept == JSON:
        found: list[Any] = answer.json()
        return found
    return [json.loads(line) for line in answer.text.splitlines()]


def ok(count: int) -> list[dict[str, Any]]:
    return [{"status": "ok", "seq": number} for number in range(count)]


@pytest.mark.parametrize("accept", [None, JSON])
def test_each_row_is_acknowledged(shop: RunningServer, accept: str | None) -> None:
    rows = [{"customer": f"c{n}", "AMOUNT": n} for n in range(2_500)]
    assert sent(shop, "orders", *rows, accept=accept) == ok(2_500)
    found = shop.query("SELECT customer, amount FROM orders WHERE customer = 'c7';")
    assert found.splitlines()[1:] == ['["c7",7.00]']


def test_values_of_every_type(door: RunningServer) -> None:
    door.ksql(KINDS)
    row = {
        "ID": 1,
        "D": "1.5",
        "B": "AP8=",
        "DAY": "2024-02-29",
        "MADE": "2024-02-29T01:02:03.004",
        "T": "13:05:06",
        "L": [1, None],
        "M": {"a": 1},
        "small": "x",
        "ROWTIME": 77,
        "OTHER": 1,
    }
    assert sent(door, "KINDS", row, {}) == ok(2)
    first, second = door.query("SELECT *, ROWTIME FROM kinds;").splitlines()[1:]
    assert json.loads(first) == [
        1, 1.5, "AP8=", "2024-02-29", "2024-02-29T01:02:03.004", "13:05:06", [1, None], {"a": 1},
        "x", 77,
    ]  # fmt: skip
    assert json.loads(second)[:-1] == [None] * 9


@pytest.mark.parametrize(
    "bad", [{"ID": "x"}, {"D": 1000}, {"DAY": "yesterday"}, {"L": 3}, "text", [1]]
)
def test_the_first_error_is_the_end(door: RunningServer, bad: Any) -> None:
    door.ksql(KINDS)
    *good, error = sent(door, "kinds", {"ID": 1}, {"ID": 2}, bad, {"ID": 3})
    assert good == ok(2)
    assert (error["status"], error["seq"], error["error_code"]) == ("error", 2, 40001)
    assert len(door.query("SELECT id FROM kinds;").splitlines()) == 3


@pytest.mark.parametrize(
    "bad",
    [
        {"ID": 1.5},
        {"id": 1e0},
        {"ID": 2**31},
        {"ROWTIME": 1.0},
        {"L": [1, 1.5]},
        {"M": {"a": -(2**31) - 1}},
        {"S": {"b": 0.5}},
        {"S": {"C": [2**63]}},
    ],
)
def test_numbers_that_would_be_cut_are_refused(door: RunningServer, bad: Any) -> None:
    door.ksql(KINDS.replace("`small`", "s STRUCT<b INT, c ARRAY<BIGINT>>, `small`"))
    fitting = {"ID": -(2**31), "D": 1.5, "S": {"C": [2**63 - 1]}, "small": "1.5", "OTHER": 1.5}
    *good, error = sent(door, "kinds", fitting, bad, {"ID": 3})
    assert good == ok(1)
    assert (error["status"], error["seq"], error["error_code"]) == ("error", 1, 40001)
    assert re.search("does not fit into (INTEGER|BIGINT)", error["message"])


@pytest.mark.parametrize("time", [-1, 2**62 + 1, 2**63 - 1])
def test_a_row_of_a_time_that_no_record_has_is_refused(door: RunningServer, time: int) -> None:
    door.ksql(KINDS)
    *good, error = sent(door, "kinds", {"ID": 1}, {"ID": 2, "ROWTIME": time}, {"ID": 3})
    assert good == ok(1)
    assert (error["seq"], error["error_code"]) == (1, 40001)
    assert "ROWTIME must not be" in error["message"]
    assert len(door.query("SELECT id FROM kinds;").splitlines()) == 2


def test_acknowledgements_come_while_rows_are_sent(shop: RunningServer) -> None:
    def lines() -> Iterator[bytes]:
        yield b'{"target":"ORDERS"}\n{"CUSTOMER":"a","AMO'
        yield b'UNT":1}\n\n{"CUSTOMER":"b"'
        yield b"}"

    answer = shop.http2.post("/inserts-stream", content=lines())
    assert [json.loads(line) for line in answer.text.splitlines()] == ok(2)


@pytest.mark.parametrize(
    ("first", "code"),
    [
        (b"", 40000),
        (b"{", 40000),
        (b"[]", 40000),
        (b'{"target":1}', 40000),
        (b'{"target":"nothing"}', 40001),
        (b'{"target":"spending"}', 40001),
        (b'{"target":"x; DROP STREAM orders"}', 40001),
        (b'{"target":"orders VALUES (1); --"}', 40001),
        (b'{"target":"orders","properties":{"ksql.insert.into.values.enabled":false}}', 40001),
        (b'{"target":"orders","properties":{"nonsense":1}}', 40000),
    ],
)
def test_a_target_that_takes_no_rows(shop: RunningServer, first: bytes, code: int) -> None:
    answer = shop.http2.post("/inserts-stream", content=first)
    assert (answer.status_code, answer.json()["error_code"]) == (400, code)


@pytest.mark.parametrize("rows", [1, 80, 400], ids=["one by one", "as columns", "many"])
@pytest.mark.parametrize(
    "behind", [b" garbage", b'{"ID":9}', b"]", b",", b"\0", b" // x", b"\xff", b"}"]
)
def test_text_behind_a_row_is_refused(door: RunningServer, behind: bytes, rows: int) -> None:
    """A body is JSON as a request is: Vert.x, which reads it in ksqlDB, refuses what follows the
    first value. Of a record's value, Jackson's `readTree` ignores it (docs/limits.md)."""
    door.ksql(KINDS)
    good = [b'{"ID":%d} \r' % number for number in range(rows)]
    body = [b'{"target":"kinds"}', *good, b'{"ID":7}' + behind, b'{"ID":8}']
    answer = door.http2.post("/inserts-stream", content=b"\n".join(body))
    *accepted, error = map(json.loads, answer.text.splitlines())
    assert accepted == ok(rows)
    assert (error["status"], error["seq"], error["error_code"]) == ("error", rows, 40001)
    assert "followed by more text on its line" in error["message"]
    assert len(door.query("SELECT id FROM kinds;").splitlines()) == rows + 1


def test_http1_is_refused(shop: RunningServer) -> None:
    answer = shop.http.post("/inserts-stream", content=b'{"target":"orders"}')
    assert answer.json()["error_code"] == 40004


def test_half_a_character(door: RunningServer) -> None:
    """In the target it is refused; rows are read as records are, which replace it."""
    for target in ("\ud800", "`\udfff`"):
        content = json.dumps({"target": target}).encode()
        answer = door.http2.post("/inserts-stream", content=content)
        assert answer.status_code == 400
        assert "half a character" in answer.json()["message"]
    door.ksql(KINDS)
    door.engine.drain()
    assert sent(door, "kinds", {"id": 1, "small": "a\ud800"}) == ok(1)


def test_a_statement_with_half_a_character(door: RunningServer) -> None:
    for path, name in (("/ksql", "ksql"), ("/query-stream", "sql"), ("/query", "ksql")):
        answer = door.http2.post(path, content=json.dumps({name: "SELECT '\ud800';"}).encode())
        assert answer.status_code == 400
        assert "half a character" in answer.json()["message"]
