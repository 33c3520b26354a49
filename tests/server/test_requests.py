"""Bodies and media types."""

from __future__ import annotations

import pytest

from millstream_server.failures import RefusedError
from millstream_server.requests import accepted, asked, check_depth, parsed_body
from millstream_server.results.framing import DELIMITED, JSON, KSQL

OFFERED = (KSQL, JSON, DELIMITED)


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", KSQL),
        ("*/*", KSQL),
        ("application/*", KSQL),
        (JSON, JSON),
        ("Application/JSON; charset=utf-8", JSON),
        (f"text/html, {DELIMITED}", DELIMITED),
        (f"{JSON};q=0.5, {DELIMITED}", DELIMITED),
        (f"{JSON};q=0, */*;q=0.1", KSQL),
    ],
)
def test_the_best_liked_type_is_chosen(accept: str, chosen: str) -> None:
    assert accepted(accept, OFFERED, KSQL) == chosen


@pytest.mark.parametrize("accept", ["text/html", f"{JSON};q=0", f"{JSON};q=x", ","])
def test_no_type_is_chosen(accept: str) -> None:
    with pytest.raises(RefusedError) as refused:
        accepted(accept, OFFERED, KSQL)
    assert refused.value.status == 406


def test_a_request_is_read() -> None:
    found = asked(
        {
            "ksql": "SHOW STREAMS",
            "streamsProperties": {"a": True, "b": 2, "c": "x"},
            "sessionVariables": {"v": 1.5},
            "commandSequenceNumber": 3,
            "unknown": [],
        }
    )
    assert found.sql == "SHOW STREAMS;"
    assert found.properties == {"a": "true", "b": "2", "c": "x"}
    assert found.variables == {"v": "1.5"}
    assert found.after_command == 3


LONE = [
    rb"""{"ksql": "SELECT '\ud800' FROM s;"}""",
    rb'{"ksql": "SHOW STREAMS;", "streamsProperties": {"a": "\uDFFF x"}}',
    rb'{"ksql": "SHOW STREAMS;", "sessionVariables": {"\udc00\ud800": "x"}}',
    rb'{"sql": "SELECT ?;", "parameters": ["\ud83dx"]}',
]


@pytest.mark.parametrize("body", LONE)
def test_half_a_character_is_refused(body: bytes) -> None:
    with pytest.raises(RefusedError, match="half a character") as refused:
        parsed_body(body)
    assert refused.value.status == 400
    str(refused.value).encode()


def test_both_halves_of_a_character_are_one() -> None:
    assert parsed_body(rb'{"ksql": "\ud83d\ude00"}') == {"ksql": "\N{GRINNING FACE}"}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"1", b"\xff", b"[" * 100_000, b" " * (10 << 20)]
)
def test_a_body_that_is_no_object(body: bytes) -> None:
    with pytest.raises(RefusedError) as refused:
        parsed_body(body)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"ksql": " "},
        {"ksql": 1},
        {"ksql": "x", "streamsProperties": []},
        {"ksql": "x", "streamsProperties": {"a": None}},
        {"ksql": "x", "commandSequenceNumber": "1"},
        {"ksql": "x", "commandSequenceNumber": True},
    ],
)
def test_a_request_that_is_none(value: dict[str, object]) -> None:
    with pytest.raises(RefusedError) as refused:
        asked(value)
    assert refused.value.code == 40000


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_json_is_nested_so_deeply_at_most(opening: bytes) -> None:
    levels = opening.count(b"[") + opening.count(b"{")
    closing = opening.replace(b'"a":', b"").translate(bytes.maketrans(b"[{", b"]}"))[::-1]
    fit = 64 // levels
    check_depth(opening * fit + b"1" + closing * fit)
    for body in (opening * (fit + 1), opening * 100_000, opening * (fit + 1) + closing * fit):
        with pytest.raises(RefusedError, match="nested more than 64"):
            check_depth(body)


def test_what_does_not_nest_is_not_counted() -> None:
    for body in (b'{"ksql": "' + b"[{" * 1_000 + b'"}', b'{"a": "\\"' + b"[" * 100 + b'"}'):
        check_depth(body)
    check_depth(b"[" + b"[1]," * 10_000 + b"[]]")
    check_depth(b'"' + b"[" * 100_000)
