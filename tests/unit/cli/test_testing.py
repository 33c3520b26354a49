"""`millstream test`: what passes, and above all what must fail, with what it then says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from millstream_cli.main import main

SETUP = """\
CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
INSERT INTO s VALUES ('a', 1);
INSERT INTO s VALUES ('b', 2);
"""
RIGHT = """\
SELECT * FROM s EMIT CHANGES;
-- | K | V |
-- | a | 1 |
-- | b | 2 |
"""
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Writes the text into a file, runs it, and gives the exit code and what is printed."""
    monkeypatch.chdir(tmp_path)

    def ran(text: str, *options: str) -> tuple[int, str]:
        Path("file.sql").write_text(text)
        code = main(["test", "file.sql", *options])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return ran


def test_what_is_right_passes(run: Run) -> None:
    code, printed = run(SETUP + RIGHT)
    assert code == 0
    assert "file.sql: 1 passed\n1 passed, 0 failed in" in printed


def test_each_case_has_a_database_of_its_own_and_the_setup(run: Run) -> None:
    added = "INSERT INTO s VALUES ('c', 3);\n"
    code, printed = run(f"{SETUP}\n--@test: one\n{added}{RIGHT}-- | c | 3 |\n--@test: two\n{RIGHT}")
    assert (code, "2 passed" in printed) == (0, True), printed


def test_wrong_rows_are_shown_with_the_line_and_both_sides(run: Run) -> None:
    code, printed = run(SETUP + RIGHT.replace("b | 2", "b | 7"))
    assert code == 1
    assert "file.sql:5: file: the rows differ: 1 missing, 1 not expected" in printed
    assert "    | a | 1 |\n  - | b | 7 |\n  + | b | 2 |" in printed


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("-- | K | V |\n-- | a | 1 |\n", "+ | b | 2 |"),
        ("-- | K | V |\n-- | a | 1 |\n-- | b | 2 |\n-- | c | 3 |\n", "- | c | 3 |"),
        ("-- | K | V |\n-- | b | 2 |\n-- | a | 1 |\n", "the order of the rows differs"),
        ("-- | K | W |\n-- | a | 1 |\n-- | b | 2 |\n", "- | K | W |"),
        ("-- | K |\n-- | a |\n-- | b |\n", "the columns differ"),
        ("-- | K | V |\n-- | a | NULL |\n-- | b | 2 |\n", "- | a | NULL |"),
        ("-- error: unknown\n", "an error was expected"),
        ("-- ok: done\n", "a message was expected"),
        ("", "no expected rows are given"),
    ],
)
def test_what_else_fails(run: Run, rows: str, said: str) -> None:
    code, printed = run(f"{SETUP}SELECT * FROM s EMIT CHANGES;\n{rows}")
    assert code == 1 and said in printed, printed


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT * FROM nothing;\n-- | A |\n", "+ error: NOTHING does not exist"),
        ("DROP STREAM s;\n-- error: may not\n", "an error was expected"),
        ("DROP STREAM t;\n-- error: may not\n", "another error was expected"),
        ("DROP STREAM t;\n", "the statement failed"),
        ("DROP STREAM s;\n-- ok: eaten\n", "- ok: eaten"),
        ("SELEC * FROM s;\n", "file.sql:4: "),
        ("ASSERT VALUES s (k) VALUES ('z');\n", "Assertion"),
    ],
)
def test_statements_that_do_not_do_as_expected(run: Run, statement: str, said: str) -> None:
    code, printed = run(SETUP + statement)
    assert code == 1 and said in printed, printed


def test_errors_point_into_the_file(run: Run) -> None:
    _, printed = run(f"{SETUP}SELECT *\n  FORM s;\n")
    assert "line 5:3" in printed and "  FORM s;\n" in printed


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("-- | A |\n", 1, "No statement is right above"),
        (f"{SETUP}\n-- | K |\n", 5, "No statement is right above"),
        (f"{SETUP}SELECT 'open FROM s;", 4, "is not closed"),
        (f"{SETUP}SELECT * FROM s", 4, "does not end with ';'"),
        (f"{SETUP}SELECT * FROM s;\n-- | K | V |\n-- | a |\n", 6, "has 1 cells"),
        (f"{SETUP}SELECT * FROM s;\n-- | K | V |\n-- | a | 1\n", 6, "is not a row"),
        (f"{SETUP}SELECT * FROM s;\n-- | K |\n-- error: x\n", 5, "not several of them"),
        (f"{SETUP}--@tset: name\n", 4, "--@tset: name"),
        (f"--@test: a\n{SETUP}--@test: a\n{SETUP}", 5, "two cases with the name 'a'"),
        (f"--@test: a\n--@test: b\n{SETUP}", 1, "has no statement"),
        ("-- nothing\n", 1, "has no statement"),
    ],
)
def test_files_that_cannot_be_read(run: Run, text: str, line: int, said: str) -> None:
    code, printed = run(text, "--junit", "out.xml")
    assert code == 1
    assert f"file.sql:{line}: " in printed and said in printed, printed
    assert "1 files could not be read" in printed
    assert ElementTree.parse("out.xml").find(".//error") is not None


def test_a_file_that_is_not_there(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "missing.sql"]) == 1
    assert "missing.sql:1: " in capsys.readouterr().out
    Path("empty").mkdir()
    assert main(["test", "empty"]) == 1
    assert "The folder empty has no test file" in capsys.readouterr().err


def test_a_query_that_comes_to_no_end(run: Run) -> None:
    loop = "INSERT INTO s SELECT * FROM s;\nSHOW QUERIES;\n"
    code, printed = run(SETUP + loop, "--timeout", "0.5")
    assert code == 1
    assert "file.sql:5: file: the statement failed" in printed
    assert "No result within 0.5 s" in printed


def test_a_query_that_stops(run: Run) -> None:
    text = """\
SET 'ksql.fail.on.deserialization.error' = 'true';
CREATE STREAM raw (line STRING) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='KAFKA');
CREATE STREAM t (v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
CREATE STREAM o AS SELECT * FROM t;
INSERT INTO raw VALUES ('no JSON');
"""
    code, printed = run(f"{text}SHOW STREAMS;\n")
    assert code == 1 and "file.sql:6: " in printed and "has stopped" in printed
    assert run(f"{text}-- error: has stopped\n")[0] == 0


def test_rows_in_any_order(run: Run) -> None:
    rows = "-- | K | V |\n-- | b | 2 |\n-- | a | 1 |\n"
    assert run(f"{SETUP}SELECT * FROM s EMIT CHANGES;\n-- unordered\n{rows}")[0] == 0
    assert run(f"{SETUP}SELECT * FROM s;\n{rows}")[0] == 0
    assert run(f"{SETUP}SELECT * FROM s;\n-- ordered\n{rows}")[0] == 1
    assert run(f"{SETUP}SELECT * FROM s ORDER BY v DESC;\n{rows}")[0] == 0
    assert run(f"{SETUP}SELECT * FROM s ORDER BY v;\n{rows}")[0] == 1
    twice = f"{SETUP}SELECT v > 0 AS p FROM s;\n-- | P |\n-- | true |\n"
    code, printed = run(twice)
    assert code == 1 and "1 not expected" in printed


def test_what_the_shell_prints_is_an_expectation(run: Run) -> None:
    table = "-- +---+------+\n-- | K |    V |\n-- +---+------+\n-- | x | null |\n-- +---+------+\n"
    setup = SETUP.split("INSERT")[0] + "INSERT INTO s (k) VALUES ('x');\n"
    assert run(f"{setup}SELECT * FROM s EMIT CHANGES;\n{table}")[0] == 0


def test_expectations_are_written_anew(run: Run) -> None:
    wrong = f"""{SETUP}-- Kept.
SELECT * FROM s EMIT CHANGES;

SELECT k FROM s;
-- unordered
-- | K |
-- | z |
SELECT nothing FROM s EMIT CHANGES;
-- | A |
ASSERT VALUES s (k) VALUES ('a');
"""
    code, printed = run(wrong, "--update")
    assert code == 1 and "updated" in printed
    text = Path("file.sql").read_text()
    assert "EMIT CHANGES;\n-- | K | V |\n-- |---|---|\n-- | a | 1 |\n-- | b | 2 |\n\nSELECT" in text
    assert "-- Kept.\nSELECT *" in text and "-- unordered\n-- | K |\n-- |---|\n-- | a |" in text
    assert "-- error: SELECT column 'NOTHING'" in text
    code, printed = run(text, "--update")
    assert code == 0 and "updated" not in printed
    assert Path("file.sql").read_text() == text


def test_a_failed_assertion_is_not_updated(run: Run) -> None:
    text = f"{SETUP}ASSERT VALUES s (k) VALUES ('z');\n"
    assert run(text, "--update")[0] == 1
    assert Path("file.sql").read_text() == text


def test_junit(run: Run) -> None:
    cases = f"{SETUP}--@test: good\n{RIGHT}--@test: bad\n{RIGHT.replace('2', '3')}"
    assert run(cases, "--junit", "out.xml")[0] == 1
    (suite,) = ElementTree.parse("out.xml").getroot()
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("file.sql", "2", "1")
    good, bad = suite
    assert (good.get("name"), len(good), bad.get("name")) == ("good", 0, "bad")
    assert "- | b | 3 |" in (bad[0].text or "") and "the rows" in (bad[0].get("message") or "")


def test_one_case_alone(run: Run) -> None:
    cases = f"{SETUP}--@test: good one\n{RIGHT}--@test: bad one\n{RIGHT.replace('2', '3')}"
    code, printed = run(cases, "--only", "GOOD*")
    assert code == 0 and "1 passed" in printed


@pytest.mark.parametrize("options", [["--batch", "1"], ["--batch", "all"], ["--restart"]])
def test_other_ways_to_run(run: Run, options: list[str]) -> None:
    assert run(SETUP + RIGHT, *options)[0] == 0


@pytest.mark.parametrize("options", [["--batch", "0"], ["--timeout", "x"], ["-s", "a.sql"], []])
def test_wrong_options(options: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["test", *options])
    assert ended.value.code == 2


def test_the_clock_moves_with_the_records(run: Run) -> None:
    text = """\
CREATE STREAM s (k STRING KEY) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='NONE', KEY_FORMAT='KAFKA');
"""
    text = (
        SETUP + "INSERT INTO s (ROWTIME, k) VALUES (5000, 'c');\nINSERT INTO s VALUES ('d', 4);\n"
    )
    rows = "-- | T |\n-- | 0 |\n-- | 1 |\n-- | 5000 |\n-- | 5001 |\n"
    assert run(f"{text}SELECT ROWTIME AS t FROM s EMIT CHANGES;\n{rows}")[0] == 0


KSQLDB = """\
--@test: joins
CREATE STREAM s (id INT KEY, foo INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE t (id INT PRIMARY KEY, bar INT) WITH (kafka_topic='t', value_format='JSON');
CREATE STREAM j AS SELECT s.id, s.foo, t.bar FROM s JOIN t ON s.id = t.id;
INSERT INTO t (rowtime, id, bar) VALUES (1, 1, 10);
INSERT INTO s (rowtime, id, foo) VALUES (2, 1, 20);
ASSERT VALUES j (s_id, foo, bar, rowtime) VALUES (1, 20, 10, 2);
ASSERT STREAM j (s_id INT KEY, foo INT, bar INT) WITH (kafka_topic='J', value_format='JSON');

--@test: refused
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: does not exist
CREATE STREAM bad AS SELECT * FROM foo;
"""


def test_files_of_run_ksql_test(run: Run) -> None:
    code, printed = run(KSQLDB)
    assert code == 0, printed
    code, printed = run(KSQLDB.replace("FROM foo", "FROM s").replace("--@test: joins", "-- joins"))
    assert code == 1 and "no statement failed as expected" in printed
    code, printed = run(KSQLDB.replace("does not exist", "is no stream"))
    assert code == 1 and "- error: is no stream" in printed


STATEMENTS = """\
CREATE STREAM s (k INT KEY, v DOUBLE) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE TABLE sums AS SELECT k, SUM(v) AS total FROM s GROUP BY k;
"""
INPUTS = [{"topic": "s", "key": 7, "value": {"v": v}, "timestamp": t} for v, t in ((1, 5), (2, 6))]
OUTPUTS = [
    {"topic": "SUMS", "key": 7, "value": {"TOTAL": 1.0}, "timestamp": 5},
    {"topic": "SUMS", "key": 7, "value": {"TOTAL": 3}},
]


def write_records(folder: Path, inputs: object, outputs: object) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "statements.sql").write_text(STATEMENTS)
    (folder / "input.json").write_text(json.dumps({"inputs": inputs}))
    (folder / "output.json").write_text(json.dumps({"outputs": outputs}))


def test_files_of_ksql_test_runner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_records(tmp_path / "case", INPUTS, OUTPUTS)
    assert main(["test", str(tmp_path)]) == 0
    names = {"-s": "statements.sql", "-i": "input.json", "-o": "output.json"}
    words = [word for o, name in names.items() for word in (o, str(tmp_path / "case" / name))]
    assert main(["test", *words]) == 0
    capsys.readouterr()
    write_records(tmp_path / "case", INPUTS, [*OUTPUTS[:1], {**OUTPUTS[1], "timestamp": 9}])
    assert main(["test", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert '- {"topic": "SUMS", "key": 7, "value": {"TOTAL": 3}, "timestamp": 9}' in printed
    assert '+ {"topic": "SUMS", "key": 7, "value": {"TOTAL": 3.0}, "timestamp": 6}' in printed


@pytest.mark.parametrize(
    ("inputs", "outputs", "said"),
    [
        (INPUTS, OUTPUTS[:1], "1 expected, 2 found"),
        (INPUTS, [*OUTPUTS, OUTPUTS[1]], "3 expected, 2 found"),
        (INPUTS, list(reversed(OUTPUTS)), "differ"),
        (INPUTS, [], "expects no record"),
        (INPUTS, [{"topic": "none", "key": 1}], "No stream or table has the topic 'none'"),
        ([{"topic": "none"}], OUTPUTS, "No stream or table has the topic 'none'"),
        ([{"tropic": "s"}], OUTPUTS, "is not a file of inputs"),
        (7, OUTPUTS, "is not a file of inputs"),
    ],
)
def test_records_that_are_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], inputs: object, outputs: object, said: str
) -> None:
    write_records(tmp_path / "case", inputs, outputs)
    assert main(["test", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert said in printed.out + printed.err
