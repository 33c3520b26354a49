"""`millstream format` and `millstream lint`, as they are typed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from millstream_cli.main import main
from millstream_cli.sql_files.rules import findings

Captured = pytest.CaptureFixture[str]
ORDERS = (
    "CREATE STREAM orders (id STRING KEY, amount DOUBLE)"
    " WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');\n"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(captured: Captured, line: str, code: int = 0) -> str:
    """The output of a command, which ends with this code."""
    assert main(line.split()) == code
    found = captured.readouterr()
    return found.out + found.err


def test_files_are_laid_out(folder: Path, capsys: Captured) -> None:
    for name in ("a.sql", "sub/b.sql", "sub/c.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("select 1 from s;")
    (folder / "a.sql").chmod(0o640)
    told = "would be changed: a.sql\nwould be changed: sub/b.sql\n"
    assert run(capsys, "format --check a.sql sub", 1) == told
    assert (folder / "a.sql").read_text() == "select 1 from s;"
    assert run(capsys, "format a.sql sub") == "changed: a.sql\nchanged: sub/b.sql\n"
    assert (folder / "a.sql").read_text() == "SELECT 1 FROM s;\n"
    assert (folder / "a.sql").stat().st_mode & 0o777 == 0o640
    assert (folder / "sub/c.txt").read_text() == "select 1 from s;"
    assert run(capsys, "format a.sql sub") == run(capsys, "format --check a.sql sub") == ""
    assert sorted(path.name for path in folder.rglob("*.*")) == ["a.sql", "b.sql", "c.txt"]


def test_standard_input_is_laid_out(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("select 1 from s;"))
    assert run(capsys, "format") == "SELECT 1 FROM s;\n"


@pytest.mark.parametrize("content", [b"select 'a", b"/* no end", b"\xff\xfe"])
def test_what_cannot_be_read_is_left_alone(folder: Path, capsys: Captured, content: bytes) -> None:
    (folder / "a.sql").write_bytes(content)
    (folder / "b.sql").write_text("select 1 from s;")
    assert "a.sql:" in run(capsys, "format a.sql b.sql", 1)
    assert (folder / "a.sql").read_bytes() == content
    assert (folder / "b.sql").read_text() == "SELECT 1 FROM s;\n", "the others are laid out"
    assert "no such file" in run(capsys, "format none.sql", 1).lower()


def rules(text: str) -> list[tuple[int, int, str]]:
    return [(found.line, found.column, found.rule) for found in findings(text)]


def test_all_that_is_wrong_is_found_at_its_place() -> None:
    text = (
        f"-- a script\n{ORDERS}SELEC 1;\n"
        "CREATE STREAM bad AS\n  SELECT nosuch FROM orders EMIT CHANGES;\n"
        "CREATE STREAM more AS SELECT * FROM bad EMIT CHANGES;\n"
        "INSERT INTO orders VALUES ('a', 'b');\n"
        "CREATE STREAM orders (a INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');\n"
    )
    assert rules(text) == [
        (3, 1, "syntax"),
        (5, 10, "error"),
        (7, 33, "error"),
        (8, 1, "error"),
    ]


def test_a_good_script_has_no_findings() -> None:
    text = f"""
        SET 'auto.offset.reset' = 'earliest';
        DEFINE name = 'large';
        {ORDERS}
        CREATE TABLE people (id STRING PRIMARY KEY, name STRING)
          WITH (KAFKA_TOPIC='people', PARTITIONS=4, VALUE_FORMAT='JSON');
        CREATE STREAM ${{name}} AS SELECT o.id, name, amount FROM orders o
          JOIN people p ON o.id = p.id WHERE amount > 100 EMIT CHANGES;
        CREATE TABLE by_hour AS SELECT name, COUNT(*) AS c FROM ${{name}}
          WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 MINUTE) GROUP BY name EMIT FINAL;
        INSERT INTO orders VALUES ('a', 1.5);
        PAUSE ALL; DESCRIBE by_hour; SHOW QUERIES;
        DROP TABLE by_hour DELETE TOPIC;
    """
    assert findings(text) == []


def test_what_only_a_registry_knows_is_not_checked() -> None:
    source = "CREATE STREAM x WITH (KAFKA_TOPIC='t', VALUE_FORMAT='AVRO');"
    assert findings(f"{source} CREATE STREAM y AS SELECT a FROM x EMIT CHANGES;") == []


def test_a_topic_that_the_script_does_not_make_has_the_partitions_of_the_others() -> None:
    text = ORDERS + ORDERS.replace("orders", "more").replace("WITH (", "WITH (PARTITIONS=6, ")
    joined = (
        "SELECT o.id, o.amount FROM orders o JOIN more m WITHIN 1 HOUR ON o.id = m.id EMIT CHANGES;"
    )
    assert findings(f"{text} CREATE STREAM j AS {joined}") == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "CREATE STREAM s AS SELECT * FROM orders EMIT CHANGES;\n"
            "SET 'auto.offset.reset'='earliest';",
            [(3, 1, "late-setting")],
        ),
        (
            "SET 'auto.offset.reset'='earliest';\n"
            "CREATE STREAM s AS SELECT * FROM orders EMIT CHANGES;\n"
            "SET 'auto.offset.reset'='latest';",
            [],
        ),
        ("DEFINE a = '1';", [(2, 1, "unused-variable")]),
        ("DEFINE a = 'orders'; PRINT ${a};", []),
        (
            "CREATE TABLE t AS SELECT id, COUNT(*) AS c FROM orders"
            " WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id EMIT FINAL;",
            [(2, 1, "final-without-grace")],
        ),
        (
            "CREATE TABLE t AS SELECT id, COUNT(*) AS c FROM orders"
            " WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id EMIT CHANGES;",
            [],
        ),
    ],
)
def test_what_is_most_likely_not_meant(text: str, found: list[tuple[int, int, str]]) -> None:
    assert rules(ORDERS + text) == found


def test_findings_as_they_are_shown(folder: Path, capsys: Captured) -> None:
    (folder / "a.sql").write_text(ORDERS + "DEFINE a = '1';\nSELEC;")
    shown = run(capsys, "lint a.sql", 1)
    assert "a.sql:2:1: unused-variable: The variable 'A' is not used\n" in shown
    assert "a.sql:3:1: syntax: " in shown and "Did you mean SELECT?" in shown
    assert shown.endswith("2 findings\n")
    (folder / "a.sql").write_text(ORDERS)
    assert run(capsys, "lint a.sql") == "all is well\n"
    assert [path.name for path in folder.iterdir()] == ["a.sql"], "nothing is made"
    (folder / "a.sql").write_text("select 'a")
    assert "never closed" in run(capsys, "lint a.sql", 1)


SHOUTED = """
import millstream

@millstream.udf("SHOUTED", "STRING -> STRING")
def shouted(text):
    return text.upper()
"""


def test_functions_of_a_folder_are_known(folder: Path, capsys: Captured) -> None:
    (folder / "own").mkdir(mode=0o755)
    (folder / "own" / "shouting.py").write_text(SHOUTED)
    (folder / "own" / "shouting.py").chmod(0o644)
    calls = "CREATE STREAM l AS SELECT SHOUTED(id) AS k, id FROM orders EMIT CHANGES;"
    (folder / "a.sql").write_text(f"{ORDERS}{calls}")
    assert "any functions with the name 'SHOUTED'" in run(capsys, "lint a.sql", 1)
    assert run(capsys, "lint --functions own a.sql") == "all is well\n"
    assert "--functions 'none' is no folder" in run(capsys, "lint --functions none a.sql", 1)
