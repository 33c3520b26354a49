"""The shell's own commands: entries at the prompt that are not SQL."""

from __future__ import annotations

import re
from dataclasses import replace

from millstream.model.errors import MillstreamError, StatementError
from millstream.scripts.text import read_script
from millstream_cli.prompt.command import Command, choice
from millstream_cli.prompt.short_commands import SHORT
from millstream_cli.prompt.terminal import Terminal
from millstream_cli.screen.progress import wait
from millstream_cli.screen.show import FORMS, show_error

_WORD = re.compile(r"""'(?:[^']|'')*'|[^\s;']+|(?P<end>;\s*$)|(?P<other>\S)""")


def find_command(text: str) -> tuple[Command, list[str]] | None:
    """The command in a line, with its arguments; None for SQL."""
    found = list(_WORD.finditer(text.strip()))
    if any(match["other"] for match in found):
        return None
    words = [match.group() for match in found if not match["end"]]
    for command in (*COMMANDS, *_ALIASES):
        if command.named(words):
            arguments = words[len(command.words.split()) :]
            return command, [_unquoted(word) for word in arguments]
    return None


def run_command(terminal: Terminal, command: Command, arguments: list[str]) -> bool:
    """Run a command, or print an error and return False."""
    try:
        if not command.least <= len(arguments) <= command.most:
            raise StatementError(
                f"'{command.words}' takes other arguments.",
                hint=f"{command.words} {command.arguments}".rstrip() + f": {command.about}",
            )
        command.run(terminal, arguments)
    except MillstreamError as error:
        show_error(error, terminal.errors)
        return False
    return True


def _unquoted(word: str) -> str:
    return word[1:-1].replace("''", "'") if word.startswith("'") else word


def _help(terminal: Terminal, _arguments: list[str]) -> None:
    terminal.out.line(_INTRODUCTION)
    for command in COMMANDS:
        usage = f"{command.words} {command.arguments}".rstrip()
        also = ", ".join(name for name, meant in OTHER_NAMES.items() if meant == command.words)
        terminal.out.line(f"  {usage:36} {command.about}{f'; also {also}' if also else ''}")
    terminal.out.line(_KEYS)


_INTRODUCTION = """\
Type SQL, ended by a semicolon, over as many lines as you like; \\G in place of the semicolon
shows each value on a line of its own; a backslash at the end of a line continues the line. These
are commands of the shell, in any case:"""
_KEYS = """\
\\copy (<query>) to '<file>' and \\copy <stream> from '<file>' use files of this machine, also over
a server: CSV, JSON lines, Parquet or Arrow by their suffix; stdout and stdin, too.
Keys: Tab completes, Ctrl-R searches what was typed, Alt-Enter begins a line anywhere.
Ctrl-C ends a running query, Ctrl-D leaves. While a table changes: t shows its rows below each
other or in place, q ends."""


def _exit(terminal: Terminal, _arguments: list[str]) -> None:
    terminal.leaving = True


def _clear(terminal: Terminal, _arguments: list[str]) -> None:
    terminal.out.screen.clear()


def _history(terminal: Terminal, _arguments: list[str]) -> None:
    for number, line in enumerate(terminal.history()):
        terminal.out.line(f"{number:4d}: {line}")


def _version(terminal: Terminal, _arguments: list[str]) -> None:
    terminal.out.line(f"Version: {terminal.session.version()}")


def _output(terminal: Terminal, arguments: list[str]) -> None:
    if arguments:
        form = choice("output format", arguments[0], FORMS)
        terminal.look = replace(terminal.look, form=form)
    terminal.out.line(f"Output format: {terminal.look.form}")


def _pipelining(terminal: Terminal, arguments: list[str]) -> None:
    if arguments:
        terminal.session.pipelining = _on(arguments[0])
    terminal.out.line(f"Request pipelining: {'ON' if terminal.session.pipelining else 'OFF'}")


def _run_script(terminal: Terminal, arguments: list[str]) -> None:
    terminal.execute(read_script(arguments[0]))


def _spool(terminal: Terminal, arguments: list[str]) -> None:
    path = None if not arguments or arguments[0].upper() == "OFF" else arguments[0]
    if path is not None:
        terminal.out.line(f"The session is spooled to {path}")
    terminal.out.spool(path)


def _server(terminal: Terminal, arguments: list[str]) -> None:
    if arguments:
        if terminal.connect is None:
            raise StatementError("This shell cannot be connected to another server.")
        session = terminal.connect(arguments[0])
        terminal.session.close()
        terminal.session = session
    terminal.out.line(f"Server: {terminal.session.where}")


def _wait(terminal: Terminal, arguments: list[str]) -> None:
    wanted = arguments[0].upper() if arguments else None
    try:
        terminal.out.line(wait(terminal.session.status, terminal.out, wanted))
    except KeyboardInterrupt:
        terminal.out.line("No longer waiting.")


def _wrap(terminal: Terminal, arguments: list[str]) -> None:
    terminal.look = replace(terminal.look, wrap=_on(arguments[0]))


def _width(terminal: Terminal, arguments: list[str]) -> None:
    if not arguments[0].isdecimal():
        raise StatementError(f"A width is a whole number, 0 for automatic: {arguments[0]}")
    terminal.look = replace(terminal.look, width=int(arguments[0]))


def _live(terminal: Terminal, arguments: list[str]) -> None:
    terminal.look = replace(terminal.look, live=_on(arguments[0]))


def _pager(terminal: Terminal, arguments: list[str]) -> None:
    terminal.look = replace(terminal.look, pager=_on(arguments[0]))


def _editing(terminal: Terminal, arguments: list[str]) -> None:
    terminal.vi = choice("value", arguments[0], ("VI", "EMACS")) == "VI"


def _on(word: str) -> bool:
    return choice("value", word, ("ON", "OFF")) == "ON"


_OWN = (
    Command("help", "", "this text", 0, 0, _help),
    Command("clear", "", "clear the screen", 0, 0, _clear),
    Command("exit", "", "leave the shell", 0, 0, _exit),
    Command("quit", "", "leave the shell", 0, 0, _exit),
    Command("history", "", "list what was typed", 0, 0, _history),
    Command("version", "", "the version of Millstream", 0, 0, _version),
    Command(
        "output", "[TABULAR|JSON|CSV|VERTICAL]", "show or set how results are printed", 0, 1,
        _output,
    ),
    Command(
        "request-pipelining", "[ON|OFF]", "whether a server waits for what was sent before", 0, 1,
        _pipelining,
    ),
    Command("run script", "'<file>'", "run a file of statements", 1, 1, _run_script),
    Command("spool", "'<file>'|OFF", "copy the session to a file, or end that", 0, 1, _spool),
    Command("server", "[<url>]", "show the server, or go to another one", 0, 1, _server),
    Command("wait", "[<query>]", "wait until queries have processed all there is", 0, 1, _wait),
    Command("set cli wrap", "ON|OFF", "wrap the text of cells, or cut it", 1, 1, _wrap),
    Command("set cli column-width", "<n>", "the width of columns, 0 for automatic", 1, 1, _width),
    Command("set cli live", "ON|OFF", "tables of push queries change in place", 1, 1, _live),
    Command("set cli pager", "ON|OFF", "show long results in $PAGER", 1, 1, _pager),
    Command("set cli editing", "VI|EMACS", "the keys of the prompt", 1, 1, _editing),
)  # fmt: skip
OTHER_NAMES = {
    "\\?": "help",
    "\\q": "exit",
    "\\i": "run script",
    "\\o": "spool",
    "\\c": "server",
    ".help": "help",
    ".quit": "exit",
    ".exit": "exit",
    ".read": "run script",
    ".output": "spool",
}
"""What psql and DuckDB call some of them."""
COMMANDS = (*_OWN, *SHORT)
"""All commands, each once."""
_BY_NAME = {command.words: command for command in COMMANDS}
_ALIASES = tuple(replace(_BY_NAME[meant], words=name) for name, meant in OTHER_NAMES.items())
