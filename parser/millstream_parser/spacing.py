"""Where a space stands between two lexemes in the layout, and which words are in capitals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from millstream_grammar.keywords import HARD, TIME_UNITS

from .lexemes import Lexeme, LexemeKind

_NAMES = frozenset({LexemeKind.WORD, LexemeKind.QUOTED, LexemeKind.DIGIT_WORD})
_CALLED = frozenset({"CAST", "DECIMAL", "LEFT", "RIGHT"})
"""Keywords whose bracket follows at once."""
_NESTED = frozenset({"ARRAY", "MAP", "STRUCT"})
_TYPES = frozenset(
    {
        *("BOOLEAN", "BOOL", "INT", "INTEGER", "BIGINT", "DOUBLE", "DECIMAL", "VARCHAR", "STRING"),
        *("BYTES", "DATE", "TIME", "TIMESTAMP", "ARRAY", "MAP", "STRUCT"),
    }
)
_ELEMENTS = "elements"
"""Stands for the word in front of a bracket with columns."""
_DECLARED = frozenset({"STREAM", "TABLE", "INTO", "EXISTS"})
"""Behind these and a name, a bracket is no call."""
_PAIRS = frozenset(
    {
        *(("EMIT", "CHANGES"), ("EMIT", "FINAL"), ("PRIMARY", "KEY"), ("PARTITION", "BY")),
        *(("GRACE", "PERIOD"), ("IF", "EXISTS"), ("IF", "NOT"), ("OR", "REPLACE")),
        *(("WINDOW", "SESSION"), ("WINDOW", "SLIDING"), ("SOURCE", "STREAM"), ("SOURCE", "TABLE")),
        *(("ADD", "COLUMN"), ("SET", "("), ("RESET", "(")),
    }
)
"""Words that are keywords next to each other."""


@dataclass(frozen=True, slots=True)
class Spaced:
    """A lexeme as it is written. `glued`: it follows the one before it without a space."""

    lexeme: Lexeme
    text: str
    glued: bool

    @property
    def upper(self) -> str:
        """See `Lexeme.upper`."""
        return self.lexeme.upper

    @property
    def comment(self) -> bool:
        """Whether it is a comment."""
        return self.lexeme.kind is LexemeKind.COMMENT


def spaced_lexemes(statement: Sequence[Lexeme]) -> list[Spaced]:
    """The lexemes of a statement as they are written. Comments are left out where it is looked at
    what is next to each other."""
    words = [lexeme for lexeme in statement if lexeme.kind is not LexemeKind.COMMENT]
    laid = _Spaces(words).spaced_lexemes()
    return [
        Spaced(lexeme, lexeme.text.rstrip(), glued=False)
        if lexeme.kind is LexemeKind.COMMENT
        else next(laid)
        for lexeme in statement
    ]


class _Spaces:
    """Goes through the words of a statement once, and remembers which brackets are open."""

    def __init__(self, words: Sequence[Lexeme]) -> None:
        self._words = words
        self._brackets: list[str] = []
        """The word in front of each open bracket."""
        self._types: list[str] = []
        """Which types with parts are open: ARRAY<…>."""

    def spaced_lexemes(self) -> Iterator[Spaced]:
        """The words as they are written."""
        for at, word in enumerate(self._words):
            glued = at > 0 and self._glued(at)
            yield Spaced(word, self._cased(at), glued)
            match word.upper:
                case "(" | "[":
                    declared = self._upper(at - 2) in _DECLARED
                    self._brackets.append(_ELEMENTS if declared else self._upper(at - 1))
                case ")" | "]" if self._brackets:
                    self._brackets.pop()

    def _upper(self, at: int) -> str:
        return self._words[at].upper if 0 <= at < len(self._words) else ""

    def _glued(self, at: int) -> bool:
        before, word = self._words[at - 1], self._words[at]
        together = before.end == word.start
        match before.upper, word.upper:
            case ("-", "-") | ("+", "+"):
                return False
            case ("<", ">"):
                # Together they would be another symbol.
                if self._types:
                    self._types.pop()
                return False
            case (_, ")" | "]" | "," | ";" | "." | "->") | ("(" | "[" | "." | "->", _):
                return True
            case ("{" | "}" | ":" | "?", _) | (_, "{" | "}" | ":" | "?"):
                return together
            case (opening, "<") if opening in _NESTED:
                self._types.append(opening)
                return True
            case ("<", _) if self._upper(at - 2) in _NESTED:
                return True
            case (_, ">") if self._types:
                self._types.pop()
                return True
            case ("=", _) | (_, "=") if self._brackets and self._brackets[-1] == "WITH":
                return True
            case (_, "("):
                return self._called(at)
            case (_, "["):
                return before.kind in _NAMES or before.upper in {"]", ")"}
            case ("-" | "+", _):
                return not self._operand(at - 2)
        return before.text.endswith("$") and together

    def _called(self, at: int) -> bool:
        """Whether the bracket is that of a function or type."""
        before = self._words[at - 1]
        if before.kind not in _NAMES:
            return False
        window = self._upper(at - 2) == "WINDOW"
        if window or before.upper == "SET" or self._upper(at - 2) in _DECLARED:
            return False
        return before.upper not in HARD or before.upper in _CALLED

    def _operand(self, at: int) -> bool:
        """Whether a sign behind this is that of an operation, and not of a number."""
        if at < 0:
            return False
        word = self._words[at]
        if word.kind is LexemeKind.SYMBOL:
            return word.text in {")", "]", "*"} and not (
                word.text == "*" and at and self._operand(at - 1)
            )
        return word.upper not in HARD

    def _typed(self, at: int) -> bool:
        """Whether a word that may name a type does so."""
        before, place = self._words[at - 1], self._brackets[-1] if self._brackets else ""
        if self._types:
            part = before.upper in {"<", ","} and self._types[-1] in {"ARRAY", "MAP"}
            return part or before.kind in _NAMES
        named = place == _ELEMENTS and before.kind in _NAMES and before.upper not in HARD
        return named or (place == "CAST" and before.upper == "AS")

    def _cased(self, at: int) -> str:
        word = self._words[at]
        if word.kind is not LexemeKind.WORD or self._upper(at - 1) in {".", "->"}:
            return word.text
        before, after = self._upper(at - 1), self._upper(at + 1)
        keyword = at == 0 or word.upper in HARD or (word.upper in _TYPES and self._typed(at))
        keyword |= word.upper in TIME_UNITS and self._words[at - 1].kind is LexemeKind.INTEGER
        keyword |= (word.upper, after) in _PAIRS or (before, word.upper) in _PAIRS
        in_elements = word.upper in {"KEY", "HEADERS"} and after in {",", ")"}
        keyword |= in_elements and before not in {",", "(", "AS", ""}
        return word.upper if keyword else word.text
