"""The interactive shell: a prompt, history, statements over several lines, commands of its own."""

from __future__ import annotations

import re
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory
from rich.console import Console

from millstream.service.database import Database
from millstream_cli.commands import PROMPT, Terminal, find_command, run_command
from millstream_cli.render import Look

HISTORY = Path.home() / ".millstream-history"
_CLOSED = re.compile(
    r"""--[^\n]* | /\*.*?\*/ | (?P<quoted>'(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*`)""",
    re.VERBOSE | re.DOTALL,
)
_OPEN = re.compile(r"['\"`]|/\*")


def run_shell(database: Database, console: Console, form: str) -> int:
    """Read statements until the end of input; returns the exit code."""
    console.print("Millstream. Type SQL ended by ';', 'help' for help, 'exit' to leave.")
    session: PromptSession[str] = PromptSession(history=FileHistory(str(HISTORY)))
    terminal = Terminal(database, console, Look(form), session.history.get_strings)
    try:
        while not terminal.leaving:
            try:
                process(terminal, read_statement(session))
            except KeyboardInterrupt:
                continue
            except EOFError:
                break
    finally:
        terminal.spool(None)
    console.print("Exiting Millstream.")
    return 0


def process(terminal: Terminal, text: str) -> None:
    """Do what one entry at the prompt says."""
    text = text.strip()
    if text in ("", ";"):
        return
    terminal.echo(text)
    match find_command(text):
        case None:
            terminal.execute(text)
        case command, arguments:
            run_command(terminal, command, arguments)


def read_statement(session: PromptSession[str]) -> str:
    """Lines up to one that completes a statement or a shell command."""
    lines = [session.prompt(PROMPT)]
    while not complete("\n".join(lines)):
        lines.append(session.prompt("> "))
    return "\n".join(lines)


def complete(text: str) -> bool:
    """Whether the text is a shell command, empty, or ends a statement outside of quotes."""
    bare = _CLOSED.sub(lambda found: "q" if found["quoted"] else " ", text).strip()
    if not bare or ("\n" not in text and find_command(text) is not None):
        return True
    return bare.endswith(";") and not _OPEN.search(bare)
