"""Splits incomplete text into pieces, for highlighting, completion, line editing.

Unlike `tokens.tokenize` this never fails: an unclosed string or comment is a piece with a flag.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from .tokens import SCAN


class LexemeKind(Enum):
    """The kind of a piece of text, as far as it is independent of its context."""

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
    """A piece and its half-open range of characters. `closed` is False for a string, a quoted name
    or a block comment whose end is not written yet; it reaches to the end of the text."""

    piece: LexemeKind
    text: str
    start: int
    end: int
    closed: bool = True

    @property
    def upper(self) -> str:
        """The text of a word or symbol in upper case, "" for every other piece."""
        return self.text.upper() if self.piece in (LexemeKind.WORD, LexemeKind.SYMBOL) else ""

    @property
    def decoded(self) -> str:
        """What a string or a quoted name that is closed stands for; the text of other pieces."""
        if self.piece not in (LexemeKind.STRING, LexemeKind.QUOTED):
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
    """The pieces of a text in order, separated by white space."""
    for found in SCAN.finditer(text):
        start = found.start()
        opened = found.group("open")
        if opened:
            yield Lexeme(_OPENINGS[opened], text[start:], start, len(text), closed=False)
            return
        piece = found.group()
        kind = _kind(piece)
        # A line comment continues as long as the line does.
        ends = not (piece.startswith("--") and found.end() == len(text))
        yield Lexeme(kind, piece, start, found.end(), closed=ends)


def _kind(piece: str) -> LexemeKind:
    if piece.startswith(("--", "/*")):
        return LexemeKind.COMMENT
    first = piece[0]
    if first in "'`\"":
        return _OPENINGS[first]
    if first.isdecimal() or (first == "." and len(piece) > 1):
        return _number(piece)
    return LexemeKind.WORD if first.isalpha() or first in "_@$" else LexemeKind.SYMBOL


def _number(piece: str) -> LexemeKind:
    if piece.isdecimal():
        return LexemeKind.INTEGER
    try:
        float(piece)
    except ValueError:
        return LexemeKind.DIGIT_WORD
    return LexemeKind.FLOAT if "e" in piece.lower() else LexemeKind.DECIMAL
