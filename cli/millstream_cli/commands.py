"""The shell's own commands: what is typed at the prompt and is no SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import IO, TextIO, cast

from rich.console import Console
from rich.markup import escape

from millstream.model.errors import MillstreamError, StatementError
from millstream.service.database import Database
from millstream.service.text import read_text
from millstream_cli.render import FORMATS, Look, show, show_error
from millstream_cli.spool import Tee

PROMPT = "millstream> "
_WORD = re.compile(r"""'(?:[^']|'')*'|[^\s;']+|(?P<end>;\s*$)|(?P<other>\S)""")


@dataclass(slots=True)
class Terminal:
    """What one shell shows, and how."""

    database: Database
    console: Console
    look: Look
    history: Callable[[], Sequence[str]] = tuple
    """The lines typed so far, oldest first."""
    spooled: TextIO | None = None
    """Where a copy of the session goes."""
    pipelining: bool = False
    leaving: bool = False
    _screen: IO[str] | None = None

    def execute(self, text: str) -> None:
        """Run statements, printing each result or what was wrong; Ctrl-C ends a query."""
        try:
            for result in self.database.each(text):
                show(result, self.console, self.look)
        except MillstreamError as error:
            show_error(error, self.console)
        except KeyboardInterrupt:
            self.say("Query terminated")

    def say(self, text: str) -> None:
        """Print a line."""
        self.console.print(escape(text), highlight=False, soft_wrap=True)

    def echo(self, text: str) -> None:
        """Put what was typed into the copy of the session."""
        if self.spooled is not None:
            self.spooled.write(f"{PROMPT}{text}\n")

    def spool(self, path: str | None) -> None:
        """Start, or with None end, copying the session to a file."""
        if path is not None and self.spooled is not None:
            raise StatementError(
                "The session is spooled to a file already.", hint="SPOOL OFF ends that."
            )
        if path is not None:
            self.spooled = _opened(path)
            self._screen = self.console.file
            # Rich asks for no more of a file than this has.
            self.console.file = cast(IO[str], Tee(self._screen, self.spooled))
        elif self.spooled is not None:
            assert self._screen is not None
            self.console.file = self._screen
            self.spooled.close()
            self.spooled = None


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its words, how its arguments are told, and how many there may be."""

    words: str
    arguments: str
    about: str
    least: int
    most: int
    run: Callable[[Terminal, list[str]], None]


def find_command(text: str) -> tuple[Command, list[str]] | None:
    """The command that a line is, with its arguments; None for SQL."""
    found = list(_WORD.finditer(text.strip()))
    if any(match["other"] for match in found):
        return None
    words = [match.group() for match in found if not match["end"]]
    for command in COMMANDS:
        wanted = command.words.split()
        if [word.lower() for word in words[: len(wanted)]] == wanted:
            return command, [_unquoted(word) for word in words[len(wanted) :]]
    return None


def run_command(terminal: Terminal, command: Command, arguments: list[str]) -> None:
    """Run a command, or say what is wrong with it."""
    try:
        if not command.least <= len(arguments) <= command.most:
            raise StatementError(
                f"'{command.words}' takes other arguments.",
                hint=f"{command.words} {command.arguments}".rstrip() + f": {command.about}",
            )
        command.run(terminal, arguments)
    except MillstreamError as error:
        show_error(error, terminal.console)


def _unquoted(word: str) -> str:
    return word[1:-1].replace("''", "'") if word.startswith("'") else word


def _opened(path: str) -> TextIO:
    try:
        return Path(path).open("w", encoding="utf-8")
    except OSError as failure:
        raise StatementError(f"Cannot write to {path}: {failure.strerror}") from failure


def _help(terminal: Terminal, _arguments: list[str]) -> None:
    terminal.say("Type SQL, ended by a semicolon. Ctrl-C ends a running query, Ctrl-D leaves.")
    for command in COMMANDS:
        usage = f"{command.words} {command.arguments}".rstrip()
        terminal.say(f"  {usage:34} {command.about}")


def _exit(terminal: Terminal, _arguments: list[str]) -> None:
    terminal.leaving = True


def _clear(terminal: Terminal, _arguments: list[str]) -> None:
    terminal.console.clear()


def _history(terminal: Terminal, _arguments: list[str]) -> None:
    for number, line in enumerate(terminal.history()):
        terminal.say(f"{number:4d}: {line}")


def _version(terminal: Terminal, _arguments: list[str]) -> None:
    terminal.say(f"Version: {version('millstream')}")


def _output(terminal: Terminal, arguments: list[str]) -> None:
    if arguments:
        form = _choice("output format", arguments[0], FORMATS)
        terminal.look = replace(terminal.look, form=form)
    terminal.say(f"Output format: {terminal.look.form}")


def _pipelining(terminal: Terminal, arguments: list[str]) -> None:
    if arguments:
        terminal.pipelining = _on(arguments[0])
    terminal.say(f"Request pipelining: {'ON' if terminal.pipelining else 'OFF'}")


def _run_script(terminal: Terminal, arguments: list[str]) -> None:
    terminal.execute(read_text(arguments[0], "script"))


def _spool(terminal: Terminal, arguments: list[str]) -> None:
    path = None if arguments[0].upper() == "OFF" else arguments[0]
    if path is not None:
        terminal.say(f"The session is spooled to {path}")
    terminal.spool(path)


def _wrap(terminal: Terminal, arguments: list[str]) -> None:
    terminal.look = replace(terminal.look, wrap=_on(arguments[0]))


def _width(terminal: Terminal, arguments: list[str]) -> None:
    if not arguments[0].isdecimal():
        raise StatementError(f"A width is a whole number, 0 for automatic: {arguments[0]}")
    terminal.look = replace(terminal.look, width=int(arguments[0]))


def _on(word: str) -> bool:
    return _choice("value", word, ("ON", "OFF")) == "ON"


def _choice(what: str, word: str, allowed: Sequence[str]) -> str:
    if word.upper() not in allowed:
        raise StatementError(
            f"Invalid {what}: '{word}'", hint=f"Valid are {', '.join(allowed)}, in any case."
        )
    return word.upper()


COMMANDS = (
    Command("help", "", "this text", 0, 0, _help),
    Command("clear", "", "clear the screen", 0, 0, _clear),
    Command("exit", "", "leave the shell", 0, 0, _exit),
    Command("quit", "", "leave the shell", 0, 0, _exit),
    Command("history", "", "list what was typed", 0, 0, _history),
    Command("version", "", "the version of Millstream", 0, 0, _version),
    Command("output", "[TABULAR|JSON]", "show or set how results are printed", 0, 1, _output),
    Command(
        "request-pipelining", "[ON|OFF]", "for scripts of ksqlDB's; without effect", 0, 1,
        _pipelining,
    ),
    Command("run script", "'<file>'", "run a file of statements", 1, 1, _run_script),
    Command("spool", "'<file>'|OFF", "copy the session to a file, or end that", 1, 1, _spool),
    Command("set cli wrap", "ON|OFF", "wrap the text of cells, or cut it", 1, 1, _wrap),
    Command("set cli column-width", "<n>", "the width of columns, 0 for automatic", 1, 1, _width),
)  # fmt: skip
