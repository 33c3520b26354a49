"""Candidates by position: (text with | for the cursor) -> what is offered."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream_cli.prompt.completion import candidates
from millstream_cli.prompt.editing import coloured, command_candidates
from millstream_cli.prompt.place import place
from millstream_cli.sessions.names import ColumnName, Names, SourceName, builtin_names, written

ORDERS = SourceName(
    "ORDERS", "STREAM", (ColumnName("CUSTOMER", "STRING", True), ColumnName("AMOUNT", "DOUBLE"))
)
SPENDING = SourceName(
    "SPENDING", "TABLE", (ColumnName("CUSTOMER", "STRING", True), ColumnName("total", "DOUBLE"))
)
NAMES = Names(
    {"ORDERS": ORDERS, "SPENDING": SPENDING},
    types=("ADDRESS",),
    topics=("orders", "spent"),
    queries=("CTAS_SPENDING_1",),
    functions=builtin_names(),
)


def offered(text: str) -> list[str]:
    cursor = text.index("|")
    _, found = candidates(text.replace("|", "", 1), cursor, NAMES)
    return [candidate.text for candidate in found]


EXACT = [
    ("sel|", ["select"]),
    ("SEL|", ["SELECT"]),
    ("SHOW TYPES; sel|", ["select"]),
    ("SELECT * FROM |", ["ORDERS", "SPENDING", "PROCESS"]),
    ("select * from o|", ["orders"]),
    ("SELECT * FROM orders g|", ["group by"]),
    ("SELECT * FROM orders p|", ["partition by"]),
    ("SELECT * FROM orders EMIT |", ["CHANGES", "FINAL"]),
    ("SELECT o.| FROM orders o", ["CUSTOMER", "AMOUNT"]),
    ("SELECT orders.a| FROM orders", ["amount"]),
    ("SELECT x.| FROM orders o", []),
    ("SELECT `to| FROM spending", ["`total`"]),
    ("SELECT a FROM orders WHERE am|", ["amount"]),
    ("SELECT s.| FROM orders o JOIN spending AS s ON", ["CUSTOMER", "`total`"]),
    ("SELECT sub|", ["substring("]),
    ("DROP STREAM |", ["ORDERS", "IF EXISTS"]),
    ("DROP TABLE IF EXISTS s|", ["spending"]),
    ("DESCRIBE FUNCTION substr|", ["substring"]),
    ("INSERT INTO orders (|", ["CUSTOMER", "AMOUNT"]),
    ("TERMINATE |", ["CTAS_SPENDING_1", "ALL"]),
    ("PEEK |", ["CTAS_SPENDING_1"]),
    ("PEEK ctas_spending_1 |", ["AT"]),
    ("PEEK ctas_spending_1 AT |", []),
    ("CREATE STREAM x (a b|", ["bigint", "boolean", "bytes"]),
    ("CREATE STREAM x (a ad|", ["address"]),
    ("CREATE STREAM x (a INT) WITH (KAF|", ["KAFKA_TOPIC"]),
    ("CREATE STREAM x (a INT) WITH (VALUE_FORMAT='J|", ["'JSON'", "'JSON_SR'"]),
    ("CREATE STREAM x (a INT) WITH (VALUE_FORMAT='A|", ["'AVRO'"]),
    ("CREATE STREAM x (a INT) WITH (VALUE_FORMAT='P|", ["'PROTOBUF'", "'PROTOBUF_NOSR'"]),
    ("CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='o|", ["'orders'"]),
    ("SET 'auto.|", ["'auto.offset.reset'"]),
    ("SET 'auto.offset.reset' = '|", ["'earliest'", "'latest'"]),
    ("SET 'ksql.query.pull.stream.enabled' = |", ["'true'", "'false'"]),
    ("PRINT |", ["'orders'", "'spent'"]),
    ("ALTER TOPIC |", ["'orders'", "'spent'"]),
    ("ALTER TOPIC orders SET ('ret|", ["'retention.ms'", "'retention.bytes'"]),
    ("csas|", ["CREATE STREAM s AS SELECT * FROM "]),
    ("-- sel|", []),
    ("/* sel|", []),
    ("SELECT 'sel|", []),
    ("SELECT 12|", []),
    ("SELECT * FROM orders LIMIT |", []),
]


@pytest.mark.parametrize(("text", "wanted"), EXACT)
def test_what_is_offered(text: str, wanted: list[str]) -> None:
    assert offered(text) == wanted


FIRST = [
    ("SELECT | FROM orders", ["CUSTOMER", "AMOUNT", "ORDERS."]),
    ("SELECT c| FROM orders", ["customer"]),
    ("SELECT * FROM orders WHERE |", ["CUSTOMER", "AMOUNT", "ORDERS."]),
    ("SELECT SUM(|) FROM spending", ["CUSTOMER", "`total`"]),
    ("SELECT a FROM FROM |", ["CUSTOMER", "AMOUNT"]),
]


@pytest.mark.parametrize(("text", "wanted"), FIRST)
def test_columns_come_first(text: str, wanted: list[str]) -> None:
    assert offered(text)[: len(wanted)] == wanted


def test_what_is_said_beside_a_candidate() -> None:
    def about(text: str, name: str) -> str:
        return next(c.about for c in candidates(text, len(text), NAMES)[1] if c.text == name)

    assert about("SELECT SUBSTR", "SUBSTRING(") == "(STRING, INTEGER) → STRING  +3"
    assert about("SELECT CUS", "CUSTOMER") == "STRING key of ORDERS"
    assert about("SELECT * FROM ", "ORDERS") == "stream (CUSTOMER, AMOUNT)"
    assert about("SET 'auto.offset.reset' = ", "'latest'") == "default"


def test_a_candidate_replaces_the_word() -> None:
    assert candidates("SELECT cust", 11, NAMES)[0] == 4
    assert candidates("SET 'auto", 9, NAMES)[0] == 5
    assert candidates("SELECT ", 7, NAMES)[0] == 0


def test_every_offer_is_a_way_on() -> None:
    """Each offered keyword is valid: the grammar continues behind it."""
    for text in ("", "CREATE ", "SHOW ", "SELECT a FROM b ", "ASSERT ", "CREATE STREAM a "):
        for word in offered(text + "|"):
            assert offered(f"{text}{word} |") or place(f"{text}{word};", 0), word


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("outp", ["output"]),
        ("output v", ["VERTICAL"]),
        ("set cli w", ["wrap"]),
        ("SELECT", []),
        ("", []),
    ],
)
def test_commands_of_the_shell(typed: str, wanted: list[str]) -> None:
    assert [candidate.text for _, candidate in command_candidates(typed)] == wanted


@pytest.mark.parametrize(
    ("name", "wanted"), [("A", "A"), ("a", "`a`"), ("FROM", "`FROM`"), ("A`B", "`A``B`")]
)
def test_names_as_they_are_written(name: str, wanted: str) -> None:
    assert written(name) == wanted


def test_colours() -> None:
    lines = coloured("SELECT 'a\nb' -- x\n, 12 FROM `t")
    assert [[part for part in line if part[1].strip()] for line in lines] == [
        [("class:keyword", "SELECT"), ("class:string", "'a")],
        [("class:string", "b'"), ("class:comment", "-- x")],
        [("", ","), ("class:number", "12"), ("class:keyword", "FROM"), ("class:open", "`t")],
    ]
    assert "".join(part[1] for part in lines[2]) == ", 12 FROM `t"


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.csv").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "2023.csv").touch()
    assert offered("COPY orders FROM 'o|") == ["'old/", "'orders.csv'"]
    assert offered("RUN SCRIPT 'old/|") == ["'old/2023.csv'"]
    assert offered("COPY orders FROM 'none/|") == []
