"""The short commands that psql and the shell of DuckDB have taught."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from millstream.model.errors import StatementError
from millstream_cli.prompt.command import Command, choice
from millstream_cli.prompt.terminal import Terminal
from millstream_cli.screen.show import FORMS

WATCH_SECONDS = 2.0
_MODES = {
    "TABLE": "TABULAR",
    "BOX": "TABULAR",
    "LINE": "VERTICAL",
    **dict(zip(FORMS, FORMS, strict=True)),
}
"""The modes of DuckDB's shell, as forms of ours."""


def _sql(text: str, of_one: str = "") -> Callable[[Terminal, list[str]], None]:
    """Runs statements; `of_one` with the argument, if there is one, in place of {}."""

    def run(terminal: Terminal, arguments: list[str]) -> None:
        terminal.execute(of_one.format(arguments[0]) if arguments else text)

    return run


def _expanded(terminal: Terminal, _arguments: list[str]) -> None:
    form = "TABULAR" if terminal.look.form == "VERTICAL" else "VERTICAL"
    terminal.look = replace(terminal.look, form=form)
    terminal.out.line(f"Output format: {form}")


def _mode(terminal: Terminal, arguments: list[str]) -> None:
    form = _MODES[choice("mode", arguments[0], tuple(_MODES))]
    terminal.look = replace(terminal.look, form=form)
    terminal.out.line(f"Output format: {form}")


def _set(terminal: Terminal, arguments: list[str]) -> None:
    match arguments:
        case [name, value]:
            terminal.session.define(name, value)
        case [name]:
            raise StatementError(f"No value is given for {name}.", hint=f"\\set {name} <value>")
        case _:
            terminal.execute("SHOW VARIABLES;")


def _watch(terminal: Terminal, arguments: list[str]) -> None:
    if not terminal.last:
        raise StatementError("There is no statement yet to be repeated.")
    try:
        seconds = float(arguments[0]) if arguments else WATCH_SECONDS
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 86_400:
        raise StatementError(f"\\watch takes a number of seconds, not '{arguments[0]}'.")
    try:
        while terminal.execute(terminal.last):
            time.sleep(seconds)
    except KeyboardInterrupt:
        terminal.out.line("No longer watching.")


def _timing(terminal: Terminal, arguments: list[str]) -> None:
    on = choice("value", arguments[0], ("ON", "OFF")) == "ON" if arguments else not terminal.timing
    terminal.timing = on
    terminal.out.line(f"Timing is {'on' if on else 'off'}.")


def _edit(terminal: Terminal, _arguments: list[str]) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "statements.sql"
        file.write_text(terminal.last, encoding="utf-8")
        try:
            status = subprocess.run([*shlex.split(editor), str(file)], check=False).returncode
        except OSError as error:
            raise StatementError(
                f"The editor '{editor}' cannot be started: {error.strerror}.",
                hint="Set EDITOR in the environment.",
            ) from error
        text = file.read_text(encoding="utf-8")
    if status:
        raise StatementError(f"The editor ended with {status}; nothing was executed.")
    if text.strip():
        terminal.out.line(text.rstrip())
        terminal.execute(text)


SHORT = (
    Command("\\d", "[<name>]", "a stream or table, or all of them", 0, 1,
            _sql("SHOW STREAMS; SHOW TABLES;", "DESCRIBE {};")),
    Command("\\d+", "<name>", "the same with its queries and metrics", 1, 1,
            _sql("", "DESCRIBE {} EXTENDED;")),
    Command("\\ds", "", "SHOW STREAMS", 0, 0, _sql("SHOW STREAMS;")),
    Command("\\dt", "", "SHOW TABLES", 0, 0, _sql("SHOW TABLES;")),
    Command("\\dq", "[<query>]", "SHOW QUERIES, or EXPLAIN of one", 0, 1,
            _sql("SHOW QUERIES;", "EXPLAIN {};")),
    Command("\\df", "[<function>]", "SHOW FUNCTIONS, or DESCRIBE of one", 0, 1,
            _sql("SHOW FUNCTIONS;", "DESCRIBE FUNCTION {};")),
    Command("\\dT", "", "SHOW TYPES", 0, 0, _sql("SHOW TYPES;")),
    Command("\\set", "[<name> <value>]", "DEFINE a variable, or SHOW VARIABLES", 0, 2, _set),
    Command("\\x", "", "each value on a line of its own, or no longer", 0, 0, _expanded),
    Command("\\timing", "[ON|OFF]", "tell how long each statement took", 0, 1, _timing),
    Command("\\e", "", "edit the last statements in $EDITOR, and run them", 0, 0, _edit),
    Command("\\watch", "[<seconds>]", "repeat the last statement until Ctrl-C", 0, 1, _watch),
    Command(".tables", "", "all streams and tables", 0, 0, _sql("SHOW STREAMS; SHOW TABLES;")),
    Command(".mode", "<mode>", f"one of {', '.join(_MODES).lower()}", 1, 1, _mode),
)  # fmt: skip
"""Those that do what no other command does; `commands.py` has those that are other names."""
