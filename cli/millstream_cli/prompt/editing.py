"""The prompt: several lines, completion, colours, keys, the bar at the bottom."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import has_completions, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from millstream_cli.prompt.commands import COMMANDS
from millstream_cli.prompt.completion import Candidate, candidates
from millstream_cli.prompt.entry import complete
from millstream_cli.prompt.terminal import PROMPT, Terminal
from millstream_cli.sessions.names import Names
from millstream_grammar.keywords import HARD, SOFT
from millstream_parser.lexemes import Lexeme, LexemeKind, lexemes

_STYLE = Style.from_dict(
    {
        "keyword": "bold ansiblue",
        "string": "ansigreen",
        "number": "ansicyan",
        "comment": "italic ansibrightblack",
        "quoted": "ansiyellow",
        "open": "ansired",
        "bottom-toolbar": "noreverse bg:ansibrightblack ansiwhite",
        "bottom-toolbar.bad": "bg:ansired ansiwhite",
    }
)
_CLASSES = {
    LexemeKind.STRING: "class:string",
    LexemeKind.QUOTED: "class:quoted",
    LexemeKind.COMMENT: "class:comment",
    LexemeKind.INTEGER: "class:number",
    LexemeKind.DECIMAL: "class:number",
    LexemeKind.FLOAT: "class:number",
}
_TYPES = frozenset("BOOLEAN INT BIGINT DOUBLE VARCHAR BYTES".split())  # noqa: SIM905


class SqlCompleter(Completer):
    """Candidates by grammar position, and the shell's own commands at the beginning."""

    def __init__(self, names: Callable[[], Names]) -> None:
        self.names = names

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        """No automatic completion before a word has begun."""
        before = document.text_before_cursor
        if not event.completion_requested and before[-1:] in ("", " ", "\n", ";", ",", "(", ")"):
            return
        length, found = candidates(document.text, document.cursor_position, self.names())
        for candidate in found:
            yield Completion(candidate.text, -length, display_meta=candidate.about)
        for length, command in command_candidates(before):
            yield Completion(command.text, -length, display_meta=command.about)


def command_candidates(before: str) -> Iterable[tuple[int, Candidate]]:
    """Commands of the shell with the entry as prefix, and values of their arguments."""
    typed = before.lstrip().lower()
    for command in COMMANDS:
        rest = command.words[len(typed) :]
        if typed and command.words.startswith(typed) and rest:
            word = typed.rpartition(" ")[2]
            yield len(word), Candidate(word + rest, command.about)
        elif typed.startswith(command.words + " "):
            argument = typed[len(command.words) + 1 :].upper()
            for choice in command.arguments.strip("[]").split("|"):
                if choice.isupper() and choice.startswith(argument) and choice != argument:
                    yield len(argument), Candidate(choice)


class SqlLexer(Lexer):
    """Colours by token."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """The coloured pieces of each line."""
        lines = coloured(document.text)
        return lambda number: lines[number] if number < len(lines) else []


def coloured(text: str) -> list[StyleAndTextTuples]:
    """Each line of a text as pieces with their styles."""
    lines: list[StyleAndTextTuples] = [[]]
    at = 0
    for lexeme in [*lexemes(text), Lexeme(LexemeKind.SYMBOL, "", len(text), len(text))]:
        for style, part in (("", text[at : lexeme.start]), (_style(lexeme), lexeme.text)):
            first, *more = part.split("\n")
            lines[-1].append((style, first))
            lines.extend([(style, line)] for line in more)
        at = lexeme.end
    return lines


def _style(lexeme: Lexeme) -> str:
    if lexeme.kind is LexemeKind.WORD:
        return "class:keyword" if lexeme.upper in HARD | SOFT | _TYPES else ""
    if not lexeme.closed and lexeme.kind is not LexemeKind.COMMENT:
        return "class:open"
    return _CLASSES.get(lexeme.kind, "")


def prompt_session(
    terminal: Terminal, history: Path, toolbar: Callable[[], StyleAndTextTuples]
) -> PromptSession[str]:
    """The reader of entries from the keyboard."""
    session: PromptSession[str] = PromptSession(
        PROMPT,
        multiline=True,
        history=_history(history),
        lexer=SqlLexer(),
        style=_STYLE,
        completer=SqlCompleter(lambda: terminal.session.names()),
        complete_while_typing=True,
        auto_suggest=AutoSuggestFromHistory(),
        key_bindings=_keys(),
        bottom_toolbar=toolbar,
        refresh_interval=1.0,
        prompt_continuation=lambda width, _line, wraps: "" if wraps else "> ".rjust(width),
        editing_mode=EditingMode.VI if terminal.vi else EditingMode.EMACS,
        enable_open_in_editor=True,
        search_ignore_case=True,
        reserve_space_for_menu=6,
    )
    return session


def _history(path: Path) -> History:
    """The history of earlier sessions, in a file that only the user can read; without a writable
    file, of this session only."""
    try:
        path.touch(mode=0o600)
        path.open("ab").close()
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=has_focus("DEFAULT_BUFFER"))
    def _(event: KeyPressEvent) -> None:
        """Take the selected candidate; otherwise run a complete entry, or begin a new line."""
        buffer = event.current_buffer
        chosen = buffer.complete_state and buffer.complete_state.current_completion
        if chosen:
            buffer.complete_state = None
        elif complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=False)

    @keys.add("tab", filter=has_focus("DEFAULT_BUFFER"))
    def _(event: KeyPressEvent) -> None:
        """Take a single candidate; with several, select the next one."""
        buffer = event.current_buffer
        asked = CompleteEvent(completion_requested=True)
        found = list(buffer.completer.get_completions(buffer.document, asked))
        if len(found) == 1:
            buffer.cancel_completion()
            buffer.apply_completion(found[0])
        elif buffer.complete_state:
            buffer.complete_next()
        else:
            buffer.start_completion(insert_common_part=True)

    @keys.add("escape", "enter", filter=has_focus("DEFAULT_BUFFER"))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("escape", filter=has_completions, eager=True)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.cancel_completion()

    @keys.add("f4")
    def _(event: KeyPressEvent) -> None:
        app = get_app()
        vi = app.editing_mode is EditingMode.VI
        app.editing_mode = EditingMode.EMACS if vi else EditingMode.VI

    return keys
