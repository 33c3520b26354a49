"""Splits incomplete text into lexemes, for highlighting, completion, line editing.

Unlike `tokens.tokenize` this never fails: an unclosed string or comment is a lexeme with a flag.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from .tokens import SCAN


class LexemeKind(Enum):
    """The kind of a lexeme, as far as it is independent of its context."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    DIGIT_WORD = "digit_word"
    SYMBOL = "symbol"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A lexeme and its half-open range of characters. `closed` is False for a string, a quoted name
    or a block comment whose end is not written yet; it reaches to the end of the text."""

    kind: LexemeKind
    text: str
    start: int
    end: int
    closed: bool = True

    @property
    def upper(self) -> str:
        """The text of a word or symbol in upper case, "" for every other lexeme."""
        return self.text.upper() if self.kind in (LexemeKind.WORD, LexemeKind.SYMBOL) else ""

    @property
    def decoded(self) -> str:
        """What a string or a quoted name that is closed stands for; the text of other lexemes."""
        if self.kind not in (LexemeKind.STRING, LexemeKind.QUOTED):
            return self.text
        mark = self.text[0]
        return self.text[1:-1].replace(mark * 2, mark)


_OPENINGS = {
    "'": LexemeKind.STRING,
    "`": LexemeKind.QUOTED,
    '"': LexemeKind.QUOTED,
    "/*": LexemeKind.COMMENT,
}


def lexemes(text: str) -> Iterator[Lexeme]:
    """The lexemes of a text in order, separated by white space."""
    for found in SCAN.finditer(text):
        start = found.start()
        opened = found.group("open")
        if opened:
            yield Lexeme(_OPENINGS[opened], text[start:], start, len(text), closed=False)
            return
        scanned = found.group()
        # A line comment continues as long as the line does.
        ends = not (scanned.startswith("--") and found.end() == len(text))
        yield Lexeme(_kind(scanned), scanned, start, found.end(), closed=ends)


def code_lexemes(text: str) -> list[Lexeme]:
    """The same without comments."""
    return [lexeme for lexeme in lexemes(text) if lexeme.kind is not LexemeKind.COMMENT]


def _kind(text: str) -> LexemeKind:
    if text.startswith(("--", "/*")):
        return LexemeKind.COMMENT
    first = text[0]
    if first in "'`\"":
        return _OPENINGS[first]
    if first.isdecimal() or (first == "." and len(text) > 1):
        return _number(text)
    return LexemeKind.WORD if first.isalpha() or first in "_@$" else LexemeKind.SYMBOL


def _number(text: str) -> LexemeKind:
    if text.isdecimal():
        return LexemeKind.INTEGER
    try:
        float(text)
    except ValueError:
        return LexemeKind.DIGIT_WORD
    return LexemeKind.FLOAT if "e" in text.lower() else LexemeKind.DECIMAL
