"""SQL text with one clause on each line, for EXPLAIN.

Only the space between tokens changes, so the text stays the statement that runs. Printing sqlglot's
tree of it would give another one: that printer renames functions and types and rewrites operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import tokenize
from sqlglot.tokenizer_core import Token, TokenType

WIDTH = 100
_INDENT = "  "
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_QUOTED = {TokenType.STRING, TokenType.IDENTIFIER}
_BEGINNINGS = {"SELECT", "FROM", "WITH", "PARTITION BY", "ORDER BY", "DELETE", "INSERT"}
"""What begins with one of them consists of clauses."""
_LISTS = {"SELECT", "GROUP BY", "PARTITION BY", "ORDER BY"}
"""Clauses of which each item begins a line, unless all fit on one."""
_OF_JOINS = {"ON", "USING"}
_CLAUSES = {
    *("FROM", "WHERE", "HAVING", "WINDOW", "QUALIFY", "LIMIT", "UNION", "JOIN", "ROWS"),
    *_LISTS,
    *_OF_JOINS,
}
_KINDS_OF_JOIN = {"ASOF", "LEFT", "RIGHT", "FULL", "INNER", "SEMI", "ANTI", "CROSS"}


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A token. `word`: its text in upper case, "" for literals and quoted names; `spaced`: there is
    space before it."""

    flat: str
    word: str
    spaced: bool
    commented: bool = False


@dataclass(frozen=True, slots=True)
class _Group:
    """Two parentheses with what is between them; `commented`: a comment is somewhere inside."""

    opening: _Leaf
    items: _Items
    closing: _Leaf
    comments: Sequence[str]

    @property
    def flat(self) -> str:
        """On one line."""
        space = " " if self.items and self.items[0].spaced and self.opening.flat == "{" else ""
        return f"{self.opening.flat}{space}{_flat(self.items)}{self.closing.flat}"

    @property
    def word(self) -> str:
        """It is no keyword."""
        return ""

    @property
    def spaced(self) -> bool:
        """Whether there is space before it."""
        return self.opening.spaced

    @property
    def commented(self) -> bool:
        """Whether it cannot be on one line."""
        return bool(self.comments) or any(item.commented for item in self.items)


_Items = Sequence[_Leaf | _Group]
Comments = Callable[[str], Sequence[str]]
"""The lines above a nested SELECT, from its text."""


def laid_out(text: str, comments: Comments = lambda _: ()) -> str:
    """The same tokens with each clause on a line of its own; long lists, conditions and nested
    queries are broken into lines, too."""
    return _sequence(_parsed(text, comments), 0)


def _parsed(text: str, comments: Comments) -> _Items:
    """The tokens, with those in parentheses as groups."""
    items: list[_Leaf | _Group] = []
    opened: list[tuple[Token, _Leaf, list[_Leaf | _Group]]] = []
    end = 0
    for token in tokenize(text, read="duckdb"):
        own = text[token.start : token.end + 1]
        word = "" if token.token_type in _QUOTED else " ".join(own.upper().split())
        leaf = _Leaf(own, word, token.start > end)
        end = token.end + 1
        if token.token_type in _OPENING:
            opened.append((token, leaf, items))
            items = []
        elif token.token_type in _CLOSING and opened:
            first, opening, outer = opened.pop()
            inner = text[first.end + 1 : token.start]
            outer.append(_Group(opening, items, leaf, comments(inner)))
            items = outer
        else:
            items.append(leaf)
    return items


def _flat(items: _Items) -> str:
    return "".join(
        f" {item.flat}" if item.spaced and place else item.flat for place, item in enumerate(items)
    )


def _fits(items: _Items, column: int) -> bool:
    commented = any(item.commented for item in items)
    return not commented and column + len(_flat(items)) <= WIDTH


def _margin(depth: int) -> str:
    return f"\n{_INDENT * depth}"


def _sequence(items: _Items, depth: int) -> str:
    """Items that begin a line: clauses or the members of a list."""
    if not items or items[0].word not in _BEGINNINGS:
        return _list(items, depth)
    lines = []
    for part in _split(items, _clause_starts(items)):
        inner = depth + (part[0].word in _OF_JOINS)
        lines.append(_INDENT * (inner - depth) + _clause(part, inner))
    return _margin(depth).join(lines)


def _list(items: _Items, depth: int) -> str:
    parts = _split(items, [at + 1 for at, item in enumerate(items) if item.word == ","])
    return _margin(depth).join(_expression(part, depth) for part in parts)


def _split(items: _Items, starts: Sequence[int]) -> Iterator[_Items]:
    for start, end in pairwise((0, *starts, len(items))):
        if start < end:
            yield items[start:end]


def _clause_starts(items: _Items) -> list[int]:
    words = [item.word for item in items]
    found = []
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        joins = word in _KINDS_OF_JOIN and "JOIN" in words[place + 1 : place + 3]
        follows = before in _KINDS_OF_JOIN or (word == "FROM" and before in ("DISTINCT", "DELETE"))
        if (joins or word in _CLAUSES) and not follows:
            found.append(place)
    return found


def _clause(items: _Items, depth: int) -> str:
    if items[0].word in _LISTS and not _fits(items, len(_INDENT) * depth):
        head = 2 if len(items) > 1 and items[1].word == "DISTINCT" else 1
        return f"{_flat(items[:head])}{_margin(depth + 1)}{_list(items[head:], depth + 1)}"
    return _expression(items, depth)


def _expression(items: _Items, depth: int) -> str:
    """Items that fit on a line stay there. Of others, AND and OR begin lines, and what is too long
    by itself is broken."""
    if _fits(items, len(_INDENT) * depth):
        return _flat(items)
    out, place, level, between = _INDENT * depth, 0, depth, False
    while place < len(items):
        item = items[place]
        end = _case_end(items, place) if item.word == "CASE" else place + 1
        joins = item.word == "OR" and items[place - 1].word != "INSERT"
        if joins or (item.word == "AND" and not between):
            level = depth + 1
            out += _margin(level)
        elif item.spaced and place:
            out += " "
        between = item.word == "BETWEEN" or (between and item.word != "AND")
        out += _piece(items[place:end], level, len(out) - out.rfind("\n") - 1)
        place = end
    return out.removeprefix(_INDENT * depth)


def _case_end(items: _Items, place: int) -> int:
    """Behind the END of the CASE at a place."""
    cases = 0
    for at in range(place, len(items)):
        cases += (items[at].word == "CASE") - (items[at].word == "END")
        if cases == 0:
            return at + 1
    return len(items)


def _piece(items: _Items, depth: int, column: int) -> str:
    """A token, a group or a whole CASE that begins at a column."""
    first, last = items[0], items[-1]
    if isinstance(first, _Group):
        if _fits(items, column):
            return first.flat
        lines = (*first.comments, _sequence(first.items, depth + 1))
        inner = "".join(f"{_margin(depth + 1)}{line}" for line in lines)
        return f"{first.opening.flat}{inner}{_margin(depth)}{first.closing.flat}"
    if len(items) == 1 or _fits(items, column):
        return _flat(items)
    branches = _split(items[:-1], _branches(items))
    cased = _margin(depth + 1).join(_expression(branch, depth + 1) for branch in branches)
    return f"{cased}{_margin(depth)}{last.flat}"


def _branches(items: _Items) -> list[int]:
    """Where the branches of a CASE begin, without those of the ones inside of it."""
    found, cases = [], 0
    for place, item in enumerate(items):
        cases += (item.word == "CASE") - (item.word == "END")
        if cases == 1 and item.word in ("WHEN", "ELSE"):
            found.append(place)
    return found
