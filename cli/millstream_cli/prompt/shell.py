"""The interactive shell: a prompt that executes each entry."""

from __future__ import annotations

from pathlib import Path

from prompt_toolkit.application import get_app_or_none
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.formatted_text import StyleAndTextTuples

from millstream.model.errors import MillstreamError
from millstream_cli.options import VERSION
from millstream_cli.prompt.commands import find_command, run_command
from millstream_cli.prompt.copying import find_copy, run_copy
from millstream_cli.prompt.editing import prompt_session
from millstream_cli.prompt.entry import parts
from millstream_cli.prompt.terminal import Terminal
from millstream_cli.prompt.toolbar import Watch, toolbar
from millstream_cli.screen.keys import quiet
from millstream_cli.screen.show import show_error
from millstream_cli.sessions.results import Status
from millstream_parser import without_continuations

HISTORY = Path.home() / ".millstream-history"


def run_shell(terminal: Terminal, history: Path = HISTORY) -> int:
    """Read entries until the end of input; returns the exit code."""
    out = terminal.out
    _greet(terminal)
    with Watch(lambda: terminal.session.status(), Status(terminal.session.where)) as watch:

        def bar() -> StyleAndTextTuples:
            app = get_app_or_none()
            vi = app is not None and app.editing_mode is EditingMode.VI
            return toolbar(watch.latest, terminal.look.form, vi)

        session = prompt_session(terminal, history, bar)
        terminal.history = session.history.get_strings
        try:
            while not terminal.leaving:
                try:
                    editing = EditingMode.VI if terminal.vi else EditingMode.EMACS
                    entry = session.prompt(vi_mode=editing is EditingMode.VI)
                    terminal.vi = session.app.editing_mode is EditingMode.VI
                except KeyboardInterrupt:
                    out.line("^C")
                    continue
                except EOFError:
                    break
                with quiet():
                    process(terminal, entry)
        finally:
            out.spool(None)
    out.line("Exiting Millstream.")
    return 0


def _greet(terminal: Terminal) -> None:
    """Print the version and the connection; the shell also starts without a reachable server."""
    out = terminal.out
    out.line(f"Millstream {VERSION}, {terminal.session.where}", "bold")
    try:
        version = terminal.session.version()
        if version != VERSION:
            out.line(f"The server's version is {version}.")
    except MillstreamError as error:
        show_error(error, out)
    out.line("Type SQL ended by ';', 'help' for help, 'exit' to leave.")


def process(terminal: Terminal, text: str) -> bool:
    """Execute one entry, up to the first statement that fails; returns whether none failed."""
    if not text.strip(" \n\t;"):
        return True
    terminal.echo(text.strip())
    return run_parts(terminal, text)


def run_parts(terminal: Terminal, text: str) -> bool:
    """Run the statements and commands of a text, up to the first that fails; returns whether none
    failed. A backslash at the end of a line continues it."""
    text = without_continuations(text)
    is_command = find_command(text) is not None or text.lstrip().startswith("\\copy")
    for part in [text] if is_command else parts(text):
        match find_command(part):
            case command, arguments:
                done = run_command(terminal, command, arguments)
            case None:
                copied = _copied(terminal, part)
                done = terminal.execute(part) if copied is None else copied
        if not done:
            return False
        if terminal.leaving:
            break
    return True


def _copied(terminal: Terminal, text: str) -> bool | None:
    """Copy to or from a file; None if the text asks for something else."""
    try:
        copy = find_copy(text)
        if copy is None:
            return None
        told = run_copy(copy, terminal.session)
    except MillstreamError as error:
        show_error(error, terminal.errors)
        return False
    if told:
        terminal.out.line(told)
    return True
