"""`\\copy` and COPY (query) TO, over a database in this process and over a server."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import millstream
from millstream.model.clock import now_ms
from millstream.model.errors import StatementError
from millstream.model.settings import EngineSettings
from millstream.remote.http import Credentials
from millstream.service.execution import open_engine
from millstream_cli.prompt.copying import find_copy
from millstream_cli.prompt.shell import run_parts
from millstream_cli.prompt.terminal import Terminal
from millstream_cli.screen.output import Output
from millstream_cli.sessions.local import LocalSession
from millstream_cli.sessions.remote import RemoteSession
from tests.patience import until
from tests.served import served

SETUP = (
    "CREATE STREAM s (k STRING KEY, n BIGINT, price DECIMAL(10, 2), t TIMESTAMP,"
    " tags ARRAY<STRING>, m MAP<STRING, INT>)"
    " WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');"
    "SET 'auto.offset.reset' = 'earliest';"
)
ROWS = (
    "INSERT INTO s VALUES ('a,\"b\"', 12345678901234567, 1.50, '2026-01-02T03:04:05',"
    " ARRAY['x', 'y'], MAP('p' := 1));"
    "INSERT INTO s (k) VALUES ('');"
)
ALL = "SELECT * FROM s BETWEEN OFFSETS 0 AND 100"


@pytest.fixture(params=["here", "server"])
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    out = Output(Console(file=io.StringIO(), width=200))
    if request.param == "here":
        with millstream.connect() as db:
            yield made(Terminal(LocalSession(db), out, out))
        return
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    engine.start()
    with served(engine) as door:
        session = RemoteSession.connect(door.url, Credentials())
        yield made(Terminal(session, out, out))
        session.close()
    engine.close()


def made(terminal: Terminal) -> Terminal:
    assert run_parts(terminal, SETUP)
    return terminal


def said(terminal: Terminal, text: str, *, fails: bool = False) -> str:
    screen = terminal.out.screen.file
    assert isinstance(screen, io.StringIO)
    before = len(screen.getvalue())
    assert run_parts(terminal, text) is not fails, screen.getvalue()[before:]
    return screen.getvalue()[before:]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow"])
def test_rows_go_out_and_come_back(terminal: Terminal, tmp_path: Path, suffix: str) -> None:
    said(terminal, ROWS)
    file = tmp_path / f"it's.{suffix}"
    quoted = str(file).replace("'", "''")
    assert "2 rows copied" in said(terminal, f"\\copy ({ALL}) to '{quoted}'")
    assert list(tmp_path.iterdir()) == [file]
    assert "2 rows copied into S" in said(terminal, f"\\copy s from '{quoted}'")
    again = tmp_path / f"again.{suffix}"
    said(terminal, f"COPY (SELECT * FROM s BETWEEN OFFSETS 2 AND 100) TO '{again}';")
    assert again.read_bytes() == file.read_bytes()


def test_csv_and_json_have_the_texts_of_the_shell(terminal: Terminal, tmp_path: Path) -> None:
    said(terminal, ROWS)
    said(
        terminal,
        f"\\copy (SELECT k, n, price, tags FROM s BETWEEN OFFSETS 0 AND 9) to '{tmp_path}/a.csv'",
    )
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert lines == ["K,N,PRICE,TAGS", '"a,""b""",12345678901234567,1.50,"[""x"", ""y""]"', '"",,,']
    said(terminal, f"\\copy (SELECT n FROM s BETWEEN OFFSETS 0 AND 0) to '{tmp_path}/a.json'")
    assert (tmp_path / "a.json").read_text() == '{"N": 12345678901234567}\n'


def test_a_file_of_another_name_takes_a_format(terminal: Terminal, tmp_path: Path) -> None:
    said(terminal, ROWS)
    said(terminal, f"\\copy ({ALL}) to {tmp_path}/plain parquet")
    assert pq.read_table(tmp_path / "plain").num_rows == 2


def test_standard_output_and_input(
    terminal: Terminal, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b'k,n,price\nann,1,2.50\n"bob, ""b""",,3\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert "2 rows copied" in said(terminal, "\\copy s from stdin")
    assert (
        said(terminal, "\\copy (SELECT k, n, price FROM s BETWEEN OFFSETS 0 AND 9) to stdout") == ""
    )
    assert capsys.readouterr().out == 'K,N,PRICE\nann,1,2.50\n"bob, ""b""",,3.00\n'


def test_a_pull_query_over_a_table(terminal: Terminal, tmp_path: Path) -> None:
    said(terminal, "CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;" + ROWS)
    expected = 'K,N\n"",1\n"a,""b""",1\n'

    def copied() -> str:
        said(terminal, f"COPY (SELECT * FROM t ORDER BY k) TO '{tmp_path}/t.csv';")
        return (tmp_path / "t.csv").read_text()

    # A server shows what is committed, which is a moment after it was processed.
    until(lambda: copied() == expected)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("\\copy s to 'x'", "cannot be read"),
        ("\\copy", "cannot be read"),
        ("\\copy (SELECT 1) to 'x' xml", "Invalid format"),
        ("\\copy (SELECT nothing FROM s BETWEEN OFFSETS 0 AND 1) to 'x.csv'", "NOTHING"),
        ("\\copy (SELECT * FROM s EMIT CHANGES) to 'x.csv'", "query that ends"),
        (f"\\copy ({ALL}) to stdout parquet", "not for a screen"),
        (f"\\copy ({ALL}) to '/nowhere/x.csv'", "Could not copy"),
        ("\\copy s from '/nowhere/x.csv'", "Could not copy"),
        ("\\copy s from 'bad.parquet'", "Could not copy"),
        ("\\copy s from 'bad.json'", "Not one JSON object"),
        ("\\copy s from 'wrong.csv'", "COLOUR"),
        ("\\copy s from 'wrong_value.csv'", "many"),
        ("\\copy nothing from 'good.csv'", "NOTHING"),
    ],
)
def test_what_goes_wrong(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("as it was")
    Path("bad.parquet").write_bytes(b"PAR1 no")
    Path("bad.json").write_text("{}\n[")
    Path("wrong.csv").write_text("k,colour\na,b\n")
    Path("wrong_value.csv").write_text("k,n\na,1\nb,many\n")
    Path("good.csv").write_text("k\na\n")
    before = sorted(tmp_path.iterdir())
    assert why in said(terminal, text, fails=True)
    assert sorted(tmp_path.iterdir()) == before, "nothing half written is left"
    assert Path("x.csv").read_text() == "as it was"
    said(terminal, f"\\copy ({ALL}) to 'after.jsonl'")
    assert Path("after.jsonl").read_text() == "", "all rows or none"


def test_other_lines_are_not_copies() -> None:
    for text in ("COPY s FROM 'x';", "SELECT '\\copy (x) to y';", "copying", "\\c http://x"):
        assert find_copy(text) is None
    with pytest.raises(StatementError):
        find_copy("\\copy ) to (")


def test_a_large_result_keeps_its_order(terminal: Terminal, tmp_path: Path) -> None:
    table = pa.table({"k": [str(n) for n in range(3000)], "n": list(range(3000))})
    terminal.session.database.insert("S", table)
    said(terminal, f"\\copy (SELECT n FROM s BETWEEN OFFSETS 0 AND 5000) to '{tmp_path}/n.csv'")
    assert (tmp_path / "n.csv").read_text() == "N\n" + "".join(f"{n}\n" for n in range(3000))
