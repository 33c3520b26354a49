"""`--output ARROW` and `--output PARQUET`."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millstream
from millstream.model.errors import StatementError
from millstream.query.results import History
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
        ("SELECT * FROM nowhere;", "NOWHERE does not exist"),
    ],
)
def test_without_a_result_nothing_is_written(terminal: Terminal, text: str, why: str) -> None:
    sink = io.BytesIO()
    with pytest.raises(millstream.MillstreamError, match=why):
        write_result(terminal.session.database, text, "ARROW", sink)
    assert sink.getvalue() == b""


def test_a_file_of_a_push_query_without_a_limit_has_no_end(terminal: Terminal) -> None:
    sink = io.BytesIO()
    with pytest.raises(millstream.MillstreamError, match="LIMIT"):
        write_result(terminal.session.database, "SELECT * FROM s EMIT CHANGES;", "PARQUET", sink)
    assert sink.getvalue() == b""


class Reader(io.BytesIO):
    """Reads what is written, and interrupts the one who writes once there are rows of `enough`."""

    def __init__(self, enough: int) -> None:
        super().__init__()
        self._enough = enough
        self.rows = 0

    def flush(self) -> None:
        """Called after each table."""
        with pa.ipc.open_stream(self.getvalue()) as reader, contextlib.suppress(StopIteration):
            self.rows = 0
            while True:
                self.rows += reader.read_next_batch().num_rows
        if self.rows == self._enough:
            self._enough = -1
            raise KeyboardInterrupt


def test_rows_of_a_push_query_are_written_as_they_come(terminal: Terminal) -> None:
    """Before it ends, which it does when it is interrupted: then the stream has its end."""
    sink = Reader(2)
    text = f"{ROWS} SELECT n, tags FROM s EMIT CHANGES;"
    write_result(terminal.session.database, text, "ARROW", sink)
    content = sink.getvalue()
    assert sink.rows == 2 and content.endswith(b"\xff\xff\xff\xff\0\0\0\0")
    assert read("ARROW", content).column_names == ["N", "TAGS"]


@pytest.mark.parametrize("failure", [StatementError("the disk is gone"), KeyboardInterrupt()])
def test_a_query_that_fails_later_has_no_end(failure: BaseException) -> None:
    """A reader must not take what there is for all rows."""
    sink = io.BytesIO()

    def broken(history: History) -> Iterator[pa.Table]:
        yield history.empty
        raise failure

    with millstream.connect() as db, pytest.MonkeyPatch.context() as patch:
        patch.setattr(History, "batches", broken)
        with pytest.raises(type(failure)) as caught:
            write_result(db, f"{SETUP} {ROWS} {ALL};", "ARROW", sink)
    assert caught.value is failure
    assert not sink.getvalue().endswith(b"\xff\xff\xff\xff\0\0\0\0")
    assert read("ARROW", sink.getvalue()).num_rows == 0


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


ENDLESS = "SET 'auto.offset.reset'='earliest'; SELECT n FROM s EMIT CHANGES;"


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command, writing a push query without LIMIT."""
    path = tmp_path / "a.db"
    with millstream.connect(path) as db:
        db.execute(SETUP + ROWS)
    words = [sys.executable, "-m", "millstream_cli.main", str(path), "--execute", ENDLESS]
    pipe = subprocess.PIPE
    with subprocess.Popen([*words, "--output", "arrow"], stdout=pipe, stderr=pipe) as running:
        yield running
        running.kill()


def test_an_endless_stream_is_interrupted(endless: subprocess.Popen[bytes]) -> None:
    assert endless.stdout is not None and endless.stderr is not None
    with pa.ipc.open_stream(endless.stdout) as reader:
        assert any(reader.read_next_batch().num_rows for _ in range(3))
        endless.send_signal(signal.SIGINT)
        assert endless.wait() == 0
        assert sum(batch.num_rows for batch in reader) in (0, 1)
    assert endless.stderr.read() == b""


def test_who_reads_may_have_read_enough(endless: subprocess.Popen[bytes]) -> None:
    assert endless.stdout is not None and endless.stderr is not None
    endless.stdout.close()
    assert endless.wait() == 0
    assert endless.stderr.read() == b""
