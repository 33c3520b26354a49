"""The shell's own commands, given as lines at the prompt."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from rich.console import Console

import millstream
from millstream_cli.prompt import short_commands
from millstream_cli.prompt.commands import COMMANDS, OTHER_NAMES, find_command
from millstream_cli.prompt.entry import complete
from millstream_cli.prompt.shell import process
from millstream_cli.prompt.terminal import Terminal
from millstream_cli.screen.output import Output
from millstream_cli.screen.show import show
from millstream_cli.sessions.local import LocalSession
from millstream_cli.sessions.results import Live

LONG = "x" * 60
FILL = (
    "CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, FORMAT='JSON');"
    f"INSERT INTO s VALUES ('{LONG}', 1);"
)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
        yield made(db, Console(file=io.StringIO(), width=50))


def made(db: millstream.Database, console: Console) -> Terminal:
    out = Output(console)
    return Terminal(LocalSession(db), out, out)


def typed(terminal: Terminal, *lines: str) -> str:
    """What the lines print."""
    before = len(shown(terminal))
    for line in lines:
        process(terminal, line)
    return shown(terminal)[before:]


def shown(terminal: Terminal) -> str:
    screen = terminal.out.screen.file
    assert isinstance(screen, io.StringIO)
    return screen.getvalue()


def test_help_lists_every_command(terminal: Terminal) -> None:
    text = typed(terminal, "HELP;")
    assert all(command.words in text for command in COMMANDS)


def test_version_history_and_exit(terminal: Terminal) -> None:
    assert typed(terminal, "version") == f"Version: {version('millstream')}\n"
    terminal.history = lambda: ["SHOW STREAMS;", "SHOW\nTABLES;"]
    assert typed(terminal, "history").startswith("   0: SHOW STREAMS;\n   1: SHOW\nTABLES;")
    typed(terminal, "clear", "exit;")
    assert terminal.leaving


def test_output(terminal: Terminal) -> None:
    assert "TABULAR" in typed(terminal, "output")
    assert "JSON" in typed(terminal, "OUTPUT json")
    assert json.loads(typed(terminal, "CREATE TYPE t AS INT;"))["message"].startswith("Registered")
    text = typed(terminal, "output xml")
    assert "Invalid output format: 'xml'" in text and "TABULAR, JSON, CSV" in text
    assert terminal.look.form == "JSON"


def test_request_pipelining_is_only_remembered(terminal: Terminal) -> None:
    assert "OFF" in typed(terminal, "request-pipelining")
    assert "ON" in typed(terminal, "request-pipelining on;")
    assert "Invalid value" in typed(terminal, "request-pipelining maybe")


def test_cells_are_wrapped_or_cut(terminal: Terminal) -> None:
    typed(terminal, FILL)
    assert typed(terminal, "SELECT * FROM s;").count("x") == 60
    cut = typed(terminal, "set cli wrap off", "SELECT * FROM s;")
    assert "xxx..." in cut and 30 < cut.count("x") < 42
    narrow = typed(terminal, "SET CLI COLUMN-WIDTH 8;", "SELECT * FROM s;")
    assert "xxxxx... " in narrow and narrow.count("x") == 5
    assert "| xxxxx... |        1 |" in typed(terminal, "SELECT * FROM s EMIT CHANGES LIMIT 1;")
    assert typed(terminal, "set cli wrap on", "SELECT * FROM s;").count("x" * 8) == 7
    typed(terminal, "set cli wrap off", "set cli column-width 2")
    assert ".." in typed(terminal, "SELECT * FROM s;")
    assert "whole number" in typed(terminal, "set cli column-width wide")


def test_a_session_is_spooled(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "it's.log"
    typed(terminal, f"spool '{str(path).replace(chr(39), chr(39) * 2)}'")
    typed(terminal, "SHOW TYPES;", "nonsense;")
    assert "spooled to a file already" in typed(terminal, "spool other.log")
    typed(terminal, "SPOOL OFF;", "SHOW TABLES;", "SPOOL OFF")
    text = path.read_text()
    assert "millstream> SHOW TYPES;" in text and "Type Name" in text
    assert "nonsense" in text and "SPOOL OFF" in text and "Table Name" not in text
    assert "Cannot write to" in typed(terminal, f"spool '{tmp_path}/none/x.log'")
    assert terminal.out.copy is None


def test_a_copy_has_no_colours(terminal: Terminal, tmp_path: Path) -> None:
    terminal.out.screen = Console(file=io.StringIO(), width=50, force_terminal=True)
    typed(terminal, f"spool '{tmp_path}/log'", "nonsense;", "spool off")
    assert "\x1b[" in shown(terminal)
    assert "\x1b" not in (tmp_path / "log").read_text()


def test_run_script(terminal: Terminal, tmp_path: Path) -> None:
    script = tmp_path / "a.sql"
    script.write_text(FILL + "SELECT v FROM s;")
    assert "| 1 |" in typed(terminal, f"run script '{script}';")
    assert "No such file" in typed(terminal, "run script 'none.sql'")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("exit now", "leave the shell"),
        ("run script", "run script '<file>'"),
        ("spool a b", "'<file>'|OFF"),
        ("set cli wrap", "ON|OFF"),
        ("output a b", "[TABULAR|JSON|CSV|VERTICAL]"),
    ],
)
def test_wrong_arguments(terminal: Terminal, line: str, hint: str) -> None:
    text = typed(terminal, line)
    assert "takes other arguments" in text and hint in text
    assert not terminal.leaving


@pytest.mark.parametrize(
    "line",
    [
        "SET 'cli' = 'x';",
        "historys",
        "SHOW STREAMS; exit",
        "run script 'a'; SHOW STREAMS;",
        "SHOW STREAMS\\G",
        "SELECT 'exit';",
        "spool 'half",
        "",
    ],
)
def test_statements_are_no_commands(line: str) -> None:
    assert find_command(line) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("\\d", ["Stream Name", "Table Name", " S "]),
        (".tables", ["Stream Name", "Table Name"]),
        ("\\d s", ["Field", "V"]),
        ("\\d `S`;", ["Field", "V"]),
        ("\\d+ s", ["Name", "Kafka topic"]),
        ("\\ds", ["Stream Name"]),
        ("\\dt", ["Table Name"]),
        ("\\dT", ["Type Name"]),
        ("\\dq", ["Query ID"]),
        ("\\df", ["Function Name", "UCASE"]),
        ("\\df ucase", ["Name", "UCASE"]),
        ("\\?", ["\\watch", "also \\q, .quit, .exit"]),
        (".help", ["\\watch"]),
        ("\\d nothing", ["NOTHING"]),
        ("\\d a b", ["takes other arguments", "\\d [<name>]"]),
        ("\\d+", ["takes other arguments"]),
        ("\\DT", ["\\DT"]),
        (".mode", ["takes other arguments"]),
        (".mode duckbox", ["Invalid mode: 'duckbox'", "TABLE, BOX"]),
        ("\\c", ["Server: in memory"]),
        ("\\i nothing.sql", ["nothing.sql"]),
    ],
)
def test_short_commands(terminal: Terminal, line: str, words: list[str]) -> None:
    terminal.look = replace(terminal.look, width=40)
    terminal.execute(FILL)
    text = typed(terminal, line)
    assert [word for word in words if word not in text] == []


def test_short_commands_for_the_form(terminal: Terminal) -> None:
    assert "VERTICAL" in typed(terminal, "\\x") and "TABULAR" in typed(terminal, "\\x")
    for mode, form in (("json", "JSON"), ("line", "VERTICAL"), ("box", "TABULAR"), ("csv", "CSV")):
        typed(terminal, f".mode {mode}")
        assert terminal.look.form == form


def test_variables_by_a_short_command(terminal: Terminal) -> None:
    typed(terminal, "\\set topic 'my orders'")
    assert "my orders" in typed(terminal, "\\set")
    assert "No value is given for topic" in typed(terminal, "\\set topic")


def test_the_session_into_a_file_by_short_commands(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "session.txt"
    typed(terminal, f"\\o '{file}'", "version", "\\o", "help")
    text = file.read_text()
    assert "Version: " in text and "Keys: " not in text


@pytest.mark.parametrize("word", ["\\q", ".quit", ".exit", "\\q;"])
def test_leaving_by_a_short_command(terminal: Terminal, word: str) -> None:
    typed(terminal, word)
    assert terminal.leaving


def test_a_statement_is_repeated(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no statement yet" in typed(terminal, "\\watch")
    terminal.execute(FILL)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(short_commands.time, "sleep", sleep)
    typed(terminal, "SELECT v FROM s;")
    text = typed(terminal, "\\watch 0.5")
    assert slept == [0.5, 0.5, 0.5] and text.count("| V ") == 3
    assert text.endswith("No longer watching.\n")
    for wrong in ("fast", "0", "-1", "nan", "1e9"):
        assert f"a number of seconds, not '{wrong}'" in typed(terminal, f"\\watch {wrong}")


def test_a_statement_that_fails_is_not_repeated(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_commands.time, "sleep", lambda _: pytest.fail("it is repeated"))
    once = typed(terminal, "SELECT v FROM nothing;")
    assert "NOTHING" in once
    assert typed(terminal, "\\watch") == once


def test_timing_is_told_when_asked_for(terminal: Terminal) -> None:
    assert "Time:" not in typed(terminal, "SHOW TABLES;")
    assert typed(terminal, "\\timing") == "Timing is on.\n"
    assert re.search(r"Time: \d+\.\d ms\n$", typed(terminal, "SHOW TABLES;"))
    assert "Time:" in typed(terminal, "SELECT nothing FROM s;"), "of a statement that fails, too"
    typed(terminal, "\\timing off")
    assert "Time:" not in typed(terminal, "SHOW TABLES;")
    assert "Invalid value" in typed(terminal, "\\timing maybe")


def test_statements_are_edited_and_run(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    editor = tmp_path / "my editor"
    editor.write_text('#!/bin/sh\nsed -i s/TABLES/TYPES/ "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", f"'{editor}'")
    monkeypatch.delenv("VISUAL", raising=False)
    typed(terminal, "SHOW TABLES;")
    assert typed(terminal, "\\e").startswith("SHOW TYPES;\n")
    assert terminal.last.strip() == "SHOW TYPES;"
    monkeypatch.setenv("EDITOR", "false")
    assert "nothing was executed" in typed(terminal, "\\e")
    monkeypatch.setenv("EDITOR", "/nowhere/vi")
    assert "cannot be started" in typed(terminal, "\\e")


def test_a_query_without_rows_tells_where_it_began(terminal: Terminal) -> None:
    def empty(text: str) -> str:
        live = next(terminal.session.run(text))
        assert isinstance(live, Live)
        screen = Output(Console(file=io.StringIO(), width=200))
        show(replace(live, batches=iter(())), screen, terminal.look)
        live.close()
        return shown(replace(terminal, out=screen))

    typed(terminal, FILL)
    assert "records from now on" not in empty("SELECT v FROM s EMIT CHANGES;")
    typed(terminal, "SET 'auto.offset.reset' = 'latest';")
    assert "records from now on" in empty("SELECT v FROM s EMIT CHANGES;")


def test_every_name_is_a_command(terminal: Terminal) -> None:
    for name in OTHER_NAMES:
        assert find_command(name) is not None
        assert complete(name), "Enter runs it"
    for command in COMMANDS:
        assert find_command(command.words) is not None
