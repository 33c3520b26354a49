"""Splits an entry at the prompt, or a script, into statements and commands of the shell."""

from __future__ import annotations

from collections.abc import Iterator

from millstream_cli.prompt.commands import find_command
from millstream_parser.continuation import is_continued
from millstream_parser.lexemes import Lexeme, LexemeKind, lexemes


def complete(text: str) -> bool:
    """Whether Enter ends an entry: it is a command, is empty, or its last statement ends in `;` or
    `\\G` outside quotes and comments. A final backslash continues it."""
    if is_continued(text):
        return False
    scanned = list(lexemes(text))
    if any(not lexeme.closed and not lexeme.text.startswith("--") for lexeme in scanned):
        return False
    bare = [lexeme for lexeme in scanned if lexeme.kind is not LexemeKind.COMMENT]
    if not bare or ("\n" not in text.strip() and find_command(text) is not None):
        return True
    return bare[-1].text == ";" or _is_vertical(bare)


def parts(text: str) -> Iterator[str]:
    """A script split into pieces to run one after another: each command of the shell, and the
    statements between them, at their original lines."""
    begin, start = 0, None
    for lexeme in lexemes(text):
        if lexeme.kind is LexemeKind.COMMENT:
            continue
        start = lexeme.start if start is None else start
        if lexeme.text != ";":
            continue
        if find_command(text[start : lexeme.end]) is not None:
            yield from _filled(text, begin, start)
            yield text[start : lexeme.end]
            begin = lexeme.end
        start = None
    rest = text[begin if start is None else start :]
    if start is not None and find_command(rest) is not None:
        yield from _filled(text, begin, start)
        yield rest
    else:
        yield from _filled(text, begin, len(text))


def _filled(text: str, begin: int, end: int) -> Iterator[str]:
    """The statements of a range, padded to their line and column in the whole script."""
    if any(p.kind is not LexemeKind.COMMENT and p.text != ";" for p in lexemes(text[begin:end])):
        before = text[:begin]
        column = begin - (before.rfind("\n") + 1)
        yield "\n" * before.count("\n") + " " * column + text[begin:end]


def _is_vertical(scanned: list[Lexeme]) -> bool:
    match scanned:
        case (*_, Lexeme(text="\\"), Lexeme(text="G")):
            return True
        case _:
            return False
