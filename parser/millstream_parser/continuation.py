"""Joins lines of a script that end in a backslash with the next line."""

from __future__ import annotations

from .lexemes import LexemeKind, lexemes

_LINE_ENDS = ("\n", "\r\n")


def without_continuations(text: str) -> str:
    """The text with a blank for each backslash at the end of a line, so that everything else keeps
    its position. In a string, a quoted name and a comment a backslash is a character like any
    other."""
    if "\\" not in text:
        return text
    characters = list(text)
    for lexeme in lexemes(text):
        if (
            lexeme.kind is LexemeKind.SYMBOL
            and lexeme.text == "\\"
            and _ends_line(text, lexeme.end)
        ):
            characters[lexeme.start] = " "
    return "".join(characters)


def is_continued(text: str) -> bool:
    """Whether the last line of a text is continued in a line that is not typed yet."""
    last = None
    for lexeme in lexemes(text):
        last = lexeme
    return last is not None and last.text == "\\" and last.end == len(text)


def _ends_line(text: str, end: int) -> bool:
    return end == len(text) or text.startswith(_LINE_ENDS, end)
