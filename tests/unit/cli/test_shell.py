"""The interactive shell, driven through a pipe in place of a keyboard."""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

import millstream
from millstream_cli.prompt.entry import complete, parts
from millstream_cli.prompt.shell import run_shell
from millstream_cli.prompt.terminal import Terminal
from millstream_cli.screen.output import Output
from millstream_cli.sessions.local import LocalSession
from tests.patience import PATIENCE_S

Run = Callable[[io.StringIO], int]
CREATE = (
    "CREATE STREAM s (k STRING KEY, v INT)\n"
    "WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');\n"
)


class Watched(io.StringIO):
    """Output that says when a text has been written."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.seen = threading.Event()

    def write(self, data: str) -> int:
        count = super().write(data)
        if self.text in self.getvalue():
            self.seen.set()
        return count


@pytest.fixture
def keyboard() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def shell(out: io.StringIO) -> int:
        with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
            output = Output(Console(file=out, width=120))
            return run_shell(Terminal(LocalSession(db), output, output), tmp_path / "history")

    return shell


def test_statements_over_several_lines(keyboard: PipeInput, run: Run) -> None:
    out = io.StringIO()
    keyboard.send_text(CREATE + "INSERT INTO s\nVALUES ('a; b', 1);\n\nSELECT * FROM s;\nexit\n")
    assert run(out) == 0
    text = out.getvalue()
    assert "Stream created" in text and "a; b" in text
    assert text.rstrip().endswith("Exiting Millstream.")


def test_a_backslash_continues_a_line(keyboard: PipeInput, run: Run) -> None:
    out = io.StringIO()
    keyboard.send_text(CREATE + "SHOW STREAMS; \\\nSHOW \\\nTYPES;\noutput \\\njson;\nexit\n")
    assert run(out) == 0
    assert "Stream Name" in out.getvalue() and "Type Name" in out.getvalue()
    assert "Output format: JSON" in out.getvalue()


def test_help_errors_and_the_end_of_input(keyboard: PipeInput, run: Run) -> None:
    out = io.StringIO()
    keyboard.send_text("help\nSELECT * FROM nothing;\nSHOW STREAMS;\n\x04")
    assert run(out) == 0
    assert "Ctrl-D" in out.getvalue() and "NOTHING does not exist" in out.getvalue()
    assert "Stream Name" in out.getvalue(), "an error does not end the shell"


def test_ctrl_c_drops_the_line(keyboard: PipeInput, run: Run) -> None:
    out = io.StringIO()
    keyboard.send_text("SELECT nonsense\n\x03SHOW TABLES;\nquit;\n")
    assert run(out) == 0
    assert "Table Name" in out.getvalue() and "nonsense" not in out.getvalue()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where the tests were started with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_a_push_query_and_not_the_shell(keyboard: PipeInput, run: Run) -> None:
    out = Watched("| first")

    def interrupt() -> None:
        if out.seen.wait(PATIENCE_S):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    keyboard.send_text(
        CREATE + "INSERT INTO s VALUES ('first', 1);\nSELECT * FROM s EMIT CHANGES;\n"
        "SHOW QUERIES;\nexit\n"
    )
    assert run(out) == 0
    thread.join(PATIENCE_S)
    text = out.getvalue()
    assert "Query terminated" in text and "Exiting Millstream." in text
    assert "PUSH" not in text.partition("Query terminated")[2]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "exit",
        "EXIT",
        "help",
        "exit now",
        "set cli wrap off",
        "output json;",
        "SELECT 1;",
        "SELECT ';';",
        "SELECT 1; -- done",
        "SELECT 1; /* done */",
        "-- only a comment",
        "SELECT 'it''s';",
        "SELECT '--';",
        'SELECT "odd \' name" FROM t;',
        "SELECT `a;b` FROM t;",
        "SELECT 1\n;",
        "SELECT 1\\G",
        "SELECT 1 \\G;",
    ],
)
def test_complete(text: str) -> None:
    assert complete(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT ';",
        "SELECT 'it''s;",
        "SELECT 1 -- ;",
        "SELECT 1 /* ;",
        "SELECT /* ' */ 'x;",
        'SELECT "a;',
        "SELECT `a;",
    ],
)
def test_incomplete(text: str) -> None:
    assert not complete(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SHOW TYPES;", ["SHOW TYPES;"]),
        ("SELECT 1;\nSELECT 2;", ["SELECT 1;\nSELECT 2;"]),
        ("output json; SELECT 1; exit;", ["output json;", " " * 12 + " SELECT 1; ", "exit;"]),
        ("SELECT 1;\n-- now\nspool off", ["SELECT 1;\n-- now\n", "spool off"]),
        ("-- nothing; at all", []),
        (" ; ;", []),
        ("SELECT 'spool off;'", ["SELECT 'spool off;'"]),
    ],
)
def test_parts_of_a_script(text: str, wanted: list[str]) -> None:
    assert list(parts(text)) == wanted


@pytest.mark.parametrize("before", ["", "SHOW TYPES; ", "SHOW TYPES;" * 20])
def test_carets_stand_under_the_word(before: str, keyboard: PipeInput, run: Run) -> None:
    out = io.StringIO()
    keyboard.send_text(f"{CREATE}{before}SELECT k, oops FROM s;\nexit\n")
    assert run(out) == 0
    lines = out.getvalue().splitlines()
    carets = next(index for index, line in enumerate(lines) if line.strip() == "^^^^")
    assert len(lines[carets - 1]) <= 120
    assert lines[carets - 1][lines[carets].index("^") :].startswith("oops FROM")
