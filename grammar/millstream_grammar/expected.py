"""Computes the tokens that may come next, by following the productions over the tokens of an
incomplete text.

A state is a stack of nodes that are still to be matched. All states are kept in parallel, and
stacks share their lower ends: a rule with many alternatives costs no more than their number.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Items
from dataclasses import dataclass, field

from .grammar import (
    Choice,
    Keyword,
    Lexical,
    Node,
    Optional,
    Repeat,
    Rule,
    Sequence,
    Symbol,
    productions,
)
from .keywords import HARD


@dataclass(frozen=True, slots=True)
class Word:
    """A token: `kind` is word, quoted, string, integer, decimal, float, digit_word or symbol;
    `upper` is the text of words and symbols in upper case. A word of kind keyword is not
    interpreted as a name."""

    kind: str
    upper: str = ""


@dataclass(frozen=True, slots=True)
class Expected:
    """A token that may come next, and the rules that would contain it, innermost first."""

    item: Keyword | Symbol | Lexical
    rules: tuple[str, ...]


def expected(words: Iterable[Word], start: str = "statement") -> tuple[Expected, ...]:
    """The tokens that may follow these; none if they are not the beginning of a sentence.

    A semicolon marks the end.
    """
    walk = _Walk()
    cells = walk.spread([walk.cell(walk.rule(start), None)])
    for word in words:
        cells = walk.spread(
            [cell.below for cell in cells if cell is not None and _fits(cell, word)]
        )
    found: dict[Expected, None] = {}
    for cell in cells:
        match cell:
            case None:
                found[Expected(Symbol(";"), ())] = None
            case _Cell(Keyword() | Symbol() | Lexical() as item):
                found[Expected(item, _rules(cell))] = None
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Leave:
    """Below the body of a rule: where it ends."""

    rule: str


@dataclass(frozen=True, slots=True, eq=False)
class _Cell:
    item: Node | _Leave
    below: _Cell | None

    __match_args__ = ("item",)


@dataclass(slots=True)
class _Walk:
    """Equal stacks are one object, so that states are compared by identity."""

    cells: dict[tuple[int, int], _Cell] = field(default_factory=dict)
    made: dict[tuple[str, int], Node | _Leave] = field(default_factory=dict)
    rules: dict[str, Rule] = field(default_factory=dict)

    def cell(self, item: Node | _Leave, below: _Cell | None) -> _Cell:
        return self.cells.setdefault((id(item), id(below)), _Cell(item, below))

    def rule(self, name: str) -> Rule:
        return self.rules.setdefault(name, Rule(name))

    def spread(self, stacks: Iterable[_Cell | None]) -> list[_Cell | None]:
        """The stacks with a token on top that are reachable without consuming input."""
        seen: set[int] = set()
        ready: list[_Cell | None] = []
        waiting = list(stacks)
        while waiting:
            stack = waiting.pop()
            if id(stack) in seen:
                continue
            seen.add(id(stack))
            if stack is None or isinstance(stack.item, Keyword | Symbol | Lexical):
                ready.append(stack)
            else:
                waiting.extend(reversed(self._unfolded(stack.item, stack.below)))
        return ready

    def _unfolded(self, item: Node | _Leave, below: _Cell | None) -> Items[_Cell | None]:
        match item:
            case _Leave():
                return [below]
            case Rule(name):
                leave = self.made.setdefault(("leave " + name, 0), _Leave(name))
                return [self.cell(productions()[name].body, self.cell(leave, below))]
            case Sequence(items):
                for part in reversed(items):
                    below = self.cell(part, below)
                return [below]
            case Choice(items):
                return [self.cell(part, below) for part in items]
            case Optional(part):
                return [below, self.cell(part, below)]
            case Repeat(part, 0):
                return [below, self.cell(part, self.cell(item, below))]
            case Repeat(part, _):
                more = self.made.setdefault(("more", id(item)), Repeat(part, 0))
                return [self.cell(part, self.cell(more, below))]
            case _:
                return [self.cell(item, below)]


_KINDS = {
    "name": {"word", "quoted"},
    "digit_name": {"digit_word"},
    "string": {"string"},
    "text": {"string"},
    "character": {"string"},
    "decimal_text": {"string"},
    "integer": {"integer"},
    "small": {"integer"},
    "amount": {"integer"},
    "decimal": {"decimal"},
    "float": {"float"},
    "function": {"word", "quoted"},
    "topic": {"word", "quoted", "string"},
    "property": {"word", "quoted", "string"},
}
"""Token with a value -> its possible kinds."""


def _fits(cell: _Cell, word: Word) -> bool:
    match cell:
        case _Cell(Keyword(text)):
            return word.kind in ("word", "keyword") and word.upper == text
        case _Cell(Symbol(text)):
            return word.kind == "symbol" and word.upper == text
        case _Cell(Lexical(kind)) if word.kind == "word":
            if word.upper == "EMIT" and "alias" in _rules(cell)[:1]:
                return False  # Behind a source it begins a clause, though it could be a name.
            return "word" in _KINDS[kind] and word.upper not in HARD
        case _Cell(Lexical(kind)):
            return word.kind in _KINDS[kind]
        case _:
            return False


def _rules(cell: _Cell) -> tuple[str, ...]:
    names: list[str] = []
    below = cell.below
    while below is not None:
        if isinstance(below.item, _Leave):
            names.append(below.item.rule)
        below = below.below
    return tuple(names)
