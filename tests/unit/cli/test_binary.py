"""`--output ARROW` and `--output PARQUET`."""

from __future__ import annotations

import io
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millstream
from millstream_cli.prompt.binary import write_result
from millstream_cli.prompt.terminal import Terminal
from tests.unit.cli.test_copying import ALL, ROWS, SETUP
from tests.unit.cli.test_copying import terminal as terminal  # the fixture


def read(form: str, content: bytes) -> pa.Table:
    """The table in these bytes."""
    if form == "PARQUET":
        return pq.read_table(pa.BufferReader(content))
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()


@pytest.mark.parametrize("form", ["ARROW", "PARQUET"])
def test_values_have_their_types(terminal: Terminal, form: str) -> None:
    sink = io.BytesIO()
    terminal.session.define("from", "0")
    text = f"{ROWS} {ALL.replace('OFFSETS 0', 'OFFSETS ${from}')};"
    write_result(terminal.session.database, text, form, sink)
    table = read(form, sink.getvalue())
    assert table["N"].to_pylist() == [12345678901234567, None]
    assert table["PRICE"].to_pylist() == [Decimal("1.50"), None]
    assert table.schema.field("TAGS").type == pa.list_(pa.string())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SET 'auto.offset.reset' = 'earliest';", "the last statement is no query"),
        ("SELECT * FROM s EMIT CHANGES;", "LIMIT"),
        ("SELECT * FROM nowhere;", "NOWHERE does not exist"),
    ],
)
def test_without_a_result_nothing_is_written(terminal: Terminal, text: str, why: str) -> None:
    sink = io.BytesIO()
    with pytest.raises(millstream.MillstreamError, match=why):
        write_result(terminal.session.database, text, "ARROW", sink)
    assert sink.getvalue() == b""


def test_a_push_query_with_a_limit(terminal: Terminal) -> None:
    sink = io.BytesIO()
    text = f"{ROWS} SELECT n FROM s EMIT CHANGES LIMIT 2;"
    write_result(terminal.session.database, text, "ARROW", sink)
    assert read("ARROW", sink.getvalue()).num_rows == 2


def command(path: Path, *more: str, given: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run the command with a file."""
    words = [sys.executable, "-m", "millstream_cli.main", str(path), *more]
    return subprocess.run(words, input=given.encode(), capture_output=True, check=False)


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with millstream.connect(path) as db:
        db.execute(SETUP + ROWS)
    done = command(path, "--execute", ALL, "--output", "arrow")
    assert done.returncode == 0 and read("ARROW", done.stdout).num_rows == 2, done.stderr
    done = command(path, "--output", "parquet", given=f"{ALL};")
    assert done.returncode == 0 and read("PARQUET", done.stdout).num_rows == 2, done.stderr
    done = command(path, "--execute", "SELECT 1 FROM x", "--output", "arrow")
    assert done.returncode == 1 and done.stdout == b"" and b"X does not exist" in done.stderr
