"""The interactive shell in its plainest form: a prompt, history, statements over several lines."""

from __future__ import annotations

import re
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory
from rich.console import Console
from rich.markup import escape

from millstream.model.errors import MillstreamError
from millstream.service.database import Database
from millstream_cli.render import show, show_error

HISTORY = Path.home() / ".millstream-history"
_CLOSED = re.compile(
    r"""--[^\n]* | /\*.*?\*/ | (?P<quoted>'(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*`)""",
    re.VERBOSE | re.DOTALL,
)
_OPEN = re.compile(r"['\"`]|/\*")
HELP = """Type SQL, ended by a semicolon. Ctrl-C ends a running query, Ctrl-D leaves.
  help     this text
  exit     leave the shell"""


def run_shell(database: Database, console: Console, form: str) -> int:
    """Read statements until the end of input; returns the exit code."""
    console.print("Millstream. Type SQL ended by ';', 'help' for help, 'exit' to leave.")
    session: PromptSession[str] = PromptSession(history=FileHistory(str(HISTORY)))
    while True:
        try:
            text = read_statement(session)
        except KeyboardInterrupt:
            continue
        except EOFError:
            break
        match text.strip().rstrip(";").lower():
            case "":
                continue
            case "exit" | "quit":
                break
            case "help":
                console.print(escape(HELP))
            case _:
                _execute(database, text, console, form)
    console.print("Exiting Millstream.")
    return 0


def read_statement(session: PromptSession[str]) -> str:
    """Lines up to one that completes a statement or a shell command."""
    lines = [session.prompt("millstream> ")]
    while not complete("\n".join(lines)):
        lines.append(session.prompt("> "))
    return "\n".join(lines)


def complete(text: str) -> bool:
    """Whether the text is a shell command, empty, or ends a statement outside of quotes."""
    bare = _CLOSED.sub(lambda found: "q" if found["quoted"] else " ", text).strip()
    if bare.lower() in ("", "exit", "quit", "help"):
        return True
    return bare.endswith(";") and not _OPEN.search(bare)


def _execute(database: Database, text: str, console: Console, form: str) -> None:
    try:
        for result in database.each(text):
            show(result, console, form)
    except MillstreamError as error:
        show_error(error, console)
    except KeyboardInterrupt:
        console.print("Query terminated")
