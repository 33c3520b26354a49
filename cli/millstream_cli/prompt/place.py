"""Where the cursor is in a statement: the tokens before it, and the sources of the statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from millstream_grammar.expected import Expected, Word, expected
from millstream_grammar.keywords import HARD
from millstream_parser.lexemes import Lexeme, LexemeKind, lexemes

_WORDS = (LexemeKind.WORD, LexemeKind.DIGIT_WORD, LexemeKind.INTEGER)
_NAMES = (LexemeKind.WORD, LexemeKind.QUOTED)


@dataclass(frozen=True, slots=True)
class Place:
    """A cursor: `before` are the tokens of its statement before the current word, `prefix` is that
    word (with its opening quote, if any), `statement` all tokens of the statement."""

    before: tuple[Lexeme, ...]
    prefix: str
    statement: tuple[Lexeme, ...]

    @property
    def qualifier(self) -> str:
        """`a` if the cursor is behind `a.`, else ""."""
        match self.before:
            case (*_, Lexeme(kind=LexemeKind.WORD | LexemeKind.QUOTED) as name, Lexeme(text=".")):
                return plain(name)
            case _:
                return ""

    @property
    def last(self) -> str:
        """The keyword or symbol just before, in upper case."""
        return self.before[-1].upper if self.before else ""


def place(text: str, cursor: int) -> Place | None:
    """The context of a cursor; None within a comment or a number."""
    scanned = list(lexemes(text[:cursor]))
    if scanned and scanned[-1].kind is LexemeKind.COMMENT and not scanned[-1].closed:
        return None
    tokens = [lexeme for lexeme in scanned if lexeme.kind is not LexemeKind.COMMENT]
    prefix = ""
    if tokens and _touches(tokens[-1], cursor):
        prefix = tokens.pop().text
        if prefix[0].isdecimal():
            return None
    before = tuple(_statement(tokens))
    begin = before[0].start if before else cursor - len(prefix)
    following = [
        lexeme for lexeme in lexemes(text[begin:]) if lexeme.kind is not LexemeKind.COMMENT
    ]
    ends = next((i for i, lexeme in enumerate(following) if lexeme.text == ";"), len(following))
    return Place(before, prefix, tuple(following[:ends]))


def follows(words: Iterable[Lexeme], *keywords: str) -> tuple[Expected, ...]:
    """What the grammar allows behind these tokens, and keywords behind them."""
    tokens = (Word(word.kind.value, word.upper) for word in words)
    return expected([*tokens, *(Word("keyword", keyword) for keyword in keywords)])


def plain(name: Lexeme) -> str:
    """The name of a word or quoted name."""
    if name.kind is LexemeKind.WORD:
        return name.text.upper()
    mark = name.text[0]
    return name.text.strip(mark).replace(mark * 2, mark)


def sources_in(statement: Sequence[Lexeme]) -> dict[str, str]:
    """Name or alias -> source, for all in FROM and JOIN."""
    found: dict[str, str] = {}
    for index, word in enumerate(statement):
        if word.upper not in ("FROM", "JOIN") or index + 1 == len(statement):
            continue
        name, *rest = statement[index + 1 : index + 4]
        if name.kind not in _NAMES or name.upper in HARD:
            continue
        if rest and rest[0].upper == "AS":
            rest = rest[1:]
        aliased = rest and rest[0].kind in _NAMES and rest[0].upper not in _AFTER_SOURCE
        found[plain(rest[0]) if aliased else plain(name)] = plain(name)
    return found


_AFTER_SOURCE = HARD | {"EMIT"}


def _touches(lexeme: Lexeme, cursor: int) -> bool:
    """Whether the cursor is in a lexeme, so that typing continues it."""
    if not lexeme.closed:
        return True
    return lexeme.end == cursor and lexeme.kind in _WORDS


def _statement(tokens: list[Lexeme]) -> list[Lexeme]:
    """The tokens behind the last semicolon."""
    ends = [index for index, token in enumerate(tokens) if token.text == ";"]
    return tokens[ends[-1] + 1 :] if ends else tokens
