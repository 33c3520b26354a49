"""The command as a user calls it: options, files, pipes, output, exit codes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from millstream_cli.main import main

CREATE = (
    "CREATE STREAM s (k STRING KEY, v INT) "
    "WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');"
)
FILL = CREATE + "INSERT INTO s VALUES ('a', 1); INSERT INTO s VALUES ('b', NULL);"


def test_execute(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-e", FILL + "SELECT * FROM s ORDER BY k"]) == 0
    out = capsys.readouterr().out
    assert "Stream created" in out and "1 row inserted" in out
    lines = [line.split() for line in out.splitlines()]
    assert ["|", "K", "|", "V", "|"] in lines and ["|", "a", "|", "1", "|"] in lines
    assert ["|", "b", "|", "null", "|"] in lines


def test_a_database_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = str(tmp_path / "shop.db")
    assert main([name, "-e", FILL]) == 0
    assert main([name, "-e", "SELECT k FROM s ORDER BY k;", "--output", "JSON"]) == 0
    rows = capsys.readouterr().out.splitlines()[-2:]
    assert [json.loads(row) for row in rows] == [{"K": "a"}, {"K": "b"}]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["localhost:8088"], "http://localhost:8088"),
        (["srever"], "no file srever"),
        (["script.sql"], "millstream run script.sql"),
        (["a.db", "--database", "b.db"], "two databases are given: b.db and a.db"),
        (["a.db", "b.db"], "got a.db b.db"),
        (["http://127.0.0.1:1", "--functions", "."], "a server has its own ones"),
    ],
)
def test_no_database_is_made_of_what_is_none(
    words: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main([*words, "-e", "SHOW STREAMS;"])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--output", "json", "-e", FILL + "SELECT k, v FROM s ORDER BY k;"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == {"message": "Stream created"}
    assert lines[-2:] == [{"K": "a", "V": 1}, {"K": "b", "V": None}]


def test_json_of_every_type(capsys: pytest.CaptureFixture[str]) -> None:
    script = (
        "CREATE STREAM t (m DECIMAL(4, 2), ts TIMESTAMP, d DATE, raw BYTES, a ARRAY<STRING>, "
        "o MAP<STRING, INT>, s STRING) WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');"
        "INSERT INTO t VALUES (1.50, '2024-01-02T03:04:05', '2024-01-02', 'aGk=', "
        "ARRAY['[red]x'], MAP('é' := 1), '" + "long " * 60 + "');"
    )
    assert main(["--output", "JSON", "-e", script + "SELECT * FROM t;"]) == 0
    row = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert row["M"] == 1.5 and row["D"] == "2024-01-02" and row["RAW"] == "aGk="
    assert row["TS"].startswith("2024-01-02T03:04:05")
    assert row["A"] == ["[red]x"] and len(row["S"]) == 300


def test_push_queries(capsys: pytest.CaptureFixture[str]) -> None:
    script = "SET 'auto.offset.reset' = 'earliest';" + FILL
    script += "SELECT k, v FROM s EMIT CHANGES LIMIT 2;"
    assert main(["-e", script]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[-5:]]
    assert lines[0] == ["|", "K", "|", "V", "|"] and lines[-1] == ["Limit", "Reached"]
    assert lines[2:4] == [["|", "a", "|", "1", "|"], ["|", "b", "|", "null", "|"]]
    assert main(["--output", "JSON", "-e", script]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == '{"K": "b", "V": null}'


def test_errors_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-e", CREATE + "SELECT nothing FROM s; SHOW TABLES;"]) == 1
    found = capsys.readouterr()
    assert "Stream created" in found.out and "Table" not in found.out, "stops at the first error"
    assert "'NOTHING' cannot be resolved" in found.err and "^" in found.err
    assert main(["-e", "SELECT [red]x[/red] FROM s"]) == 1
    assert "[red]" in capsys.readouterr().err, "text is never taken for markup"


def test_run_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "make.sql"
    script.write_text(f"-- a comment; with a semicolon\n{FILL}\nSELECT v FROM s;\n")
    database = str(tmp_path / "shop.db")
    assert main(["--database", database, "run", str(script)]) == 0
    assert main(["--database", database, "-e", "SHOW STREAMS;"]) == 0
    assert "JSON" in capsys.readouterr().out.splitlines()[-2], "the file keeps what was made"
    assert main(["--database", database, "-f", str(script)]) == 1, "it is there already"
    assert "already exists" in capsys.readouterr().err
    assert main(["run", str(tmp_path / "none.sql")]) == 1
    assert "No such file" in capsys.readouterr().err
    script.write_bytes(b"SHOW STREAMS; \xff\xfe")
    assert main(["run", str(script)]) == 1
    assert "Cannot read" in capsys.readouterr().err


def test_piped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(FILL + "SELECT v FROM s LIMIT 1;"))
    assert main([]) == 0
    assert "| 1 |" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.StringIO("nonsense;"))
    assert main([]) == 1


CONTINUED = """\
CREATE STREAM s (k STRING KEY, v STRING) \\
WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON'); \\
INSERT INTO s VALUES ('a', 'b\\
c'); -- no more \\
\\
SELECT v FROM s\\
  ; \\
"""


def test_a_backslash_continues_a_line_of_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.sql"
    script.write_text(CONTINUED)
    wanted = {"V": "b\\\nc"}
    for arguments in (
        ["-f", str(script)],
        ["run", str(script)],
        ["-e", CONTINUED.rstrip("\n\\ ")],
        ["-e", f"RUN SCRIPT '{script}'; SELECT v FROM s;"],
        [],
    ):
        if not arguments:
            monkeypatch.setattr("sys.stdin", io.StringIO(CONTINUED))
        assert main(["--output", "json", *arguments]) == 0, arguments
        assert json.loads(capsys.readouterr().out.splitlines()[-1]) == wanted


def test_an_error_behind_a_continuation_has_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-e", "SHOW STREAMS; \\\nSHOW \\\n  NONSENSE;"]) == 1
    assert "near 'NONSENSE' at line 3:3" in capsys.readouterr().err


def test_variables(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["-d", "name=s", "--define", "n=7", "-e", FILL + "SELECT v + ${n} FROM ${name};"]) == 0
    )
    assert "8" in capsys.readouterr().out.split()


WRONG = [
    ["--colour"],
    ["-d", "noequals"],
    ["--output", "XML"],
    ["walk"],
    ["-p", "secret"],
    ["-u", "me", "-t", "token"],
    ["--query-row-limit", "0"],
]


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_options(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(wrong)
    assert caught.value.code == 2
    assert "usage: millstream" in capsys.readouterr().err


def test_a_file_that_is_no_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "photos"
    path.write_bytes(b"photo" * 5000)
    assert main(["--database", str(path), "-e", "SHOW STREAMS;"]) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_as_a_process() -> None:
    command = [sys.executable, "-m", "millstream_cli.main", "--output", "JSON"]
    text = FILL + "SELECT v FROM s LIMIT 1; SELECT oops FROM s;"
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == '{"V": 1}'
    assert "OOPS" in done.stderr and "Traceback" not in done.stderr


def test_the_http_client_is_imported_for_servers_only() -> None:
    code = "import sys, millstream_cli.main; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_file_whose_queries_call_functions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Without the functions the log says which statement failed; with them the query runs."""
    name, own = str(tmp_path / "shop.db"), tmp_path / "own"
    own.mkdir(mode=0o755)
    (own / "doubling.py").write_text(
        "import millstream\n"
        "doubled = millstream.udf('DOUBLED', 'INTEGER -> INTEGER', lambda value: value * 2)\n"
    )
    (own / "doubling.py").chmod(0o644)
    made = "CREATE STREAM d AS SELECT k, DOUBLED(v) AS v FROM s EMIT CHANGES;"
    assert main([name, "--functions", str(own), "-e", CREATE + made]) == 0
    assert main([name, "-e", "SELECT * FROM d;"]) == 1
    assert any("--functions FOLDER" in record.getMessage() for record in caplog.records)
    capsys.readouterr()
    filled = "INSERT INTO s VALUES ('a', 21); wait; SELECT v FROM d;"
    assert main([name, "--functions", str(own), "--output", "JSON", "-e", filled]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"V": 42}
