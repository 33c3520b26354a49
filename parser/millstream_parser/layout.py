"""SQL text in one layout, with its comments; it says the same before and after.

Only white space between lexemes and the case of keywords change. A statement that fits is one line;
of a longer one each clause begins a line, and what does not fit is broken at commas, AND, OR, WHEN.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from .lexemes import Lexeme, LexemeKind, lexemes
from .spacing import Spaced, spaced_lexemes

WIDTH = 100
ONE_LINE = 80
"""A statement of several clauses is one line up to this width."""
_INDENT = 2
_CLOSING = {"(": ")", "[": "]", "<": ">"}
"""A `<` opens the parts of a type where it follows a word without a space."""
_CLAUSES = frozenset(["SELECT", "FROM", "WHERE", "HAVING", "WINDOW", "LIMIT", "VALUES", "WITH"])
_NESTED_MAX = 128
"""As in the parser; statements beyond stay as they are."""
_JOINING = frozenset(["INNER", "LEFT", "RIGHT", "FULL", "OUTER", "JOIN"])


@dataclass(frozen=True, slots=True)
class Bracket:
    """A pair of brackets with what is between; no closing one if it is missing."""

    opening: Spaced
    inner: tuple[Item, ...]
    closing: tuple[Spaced, ...]


Item = Spaced | Bracket


def format_script(text: str) -> str:
    """The text of a script in the layout; each statement begins a line. Text that is no SQL is laid
    out as well as possible."""
    lines: list[str] = []
    end = 0
    for statement in _statements(list(lexemes(text)), text):
        if lines and text.count("\n", end, statement[0].start) > 1:
            lines.append("")
        end = statement[-1].end
        lines += _laid_out(statement, text)
    return "".join(f"{line}\n" for line in lines)


def _statements(all_: Sequence[Lexeme], text: str) -> Iterator[list[Lexeme]]:
    """The lexemes of each statement. Comments belong to what follows in the same paragraph, or to
    the statement that ends in their line."""
    held: list[Lexeme] = []
    ended = False
    for lexeme in all_:
        comment = lexeme.kind is LexemeKind.COMMENT
        breaks = text.count("\n", held[-1].end, lexeme.start) if held else 0
        apart = all(each.kind is LexemeKind.COMMENT for each in held) and breaks > 1
        if held and (apart or (ended and not (comment and breaks == 0))):
            yield held
            held, ended = [], False
        held.append(lexeme)
        ended |= lexeme.upper == ";"
    if held:
        yield held


def _laid_out(statement: list[Lexeme], text: str) -> list[str]:
    writer = _Writer(text)
    if _depth(statement) <= _NESTED_MAX:
        writer.statement(_nested(spaced_lexemes(statement)))
    lines = [line.rstrip() for line in writer.lines]
    # A statement that would be read in another way stays as it is, white space in strings included.
    same = _words(lexemes("\n".join(lines))) == _words(statement)
    return lines if same else [text[statement[0].start : statement[-1].end]]


def _depth(statement: Sequence[Lexeme]) -> int:
    """How deep brackets are nested."""
    deepest = depth = 0
    for lexeme in statement:
        depth += (lexeme.upper in _CLOSING) - (lexeme.upper in _CLOSING.values())
        deepest = max(deepest, depth)
    return deepest


def _words(found: Sequence[Lexeme] | Iterator[Lexeme]) -> list[str]:
    return [lexeme.upper or lexeme.text.rstrip() for lexeme in found]


def _nested(flat: Sequence[Spaced]) -> tuple[Item, ...]:
    """Lexemes with those between brackets put together."""
    stack: list[tuple[Spaced | None, list[Item]]] = [(None, [])]
    for spaced in flat:
        opening, inner = stack[-1]
        if spaced.upper in _CLOSING and (spaced.upper != "<" or spaced.glued):
            stack.append((spaced, []))
        elif opening is not None and spaced.upper == _CLOSING[opening.upper]:
            stack.pop()
            stack[-1][1].append(Bracket(opening, tuple(inner), (spaced,)))
        else:
            inner.append(spaced)
    while len(stack) > 1:
        opening, inner = stack.pop()
        assert opening is not None
        stack[-1][1].append(Bracket(opening, tuple(inner), ()))
    return tuple(stack[0][1])


def _flat(items: Sequence[Item]) -> str | None:
    """Items in one line; None if there is a comment, which ends a line."""
    found = ""
    for item in items:
        match item:
            case Spaced():
                if item.comment:
                    return None
                found += item.text if item.glued or not found else f" {item.text}"
            case Bracket(opening, inner, closing):
                within = _flat(inner)
                if within is None:
                    return None
                space = "" if opening.glued or not found else " "
                found += space + opening.text + within + "".join(each.text for each in closing)
    return found


def _upper(items: Sequence[Item], at: int) -> str:
    item = items[at] if 0 <= at < len(items) else None
    return item.upper if isinstance(item, Spaced) else ""


def _clauses(items: Sequence[Item]) -> list[tuple[Item, ...]]:
    """Items cut where a clause begins."""
    starts = [at for at in range(1, len(items)) if _begins(items, at)]
    bounds = zip([0, *starts], [*starts, len(items)], strict=True)
    return [tuple(items[first:stop]) for first, stop in bounds]


def _begins(items: Sequence[Item], at: int) -> bool:
    word, before, after = (_upper(items, each) for each in (at, at - 1, at + 1))
    match word:
        case "GROUP" | "PARTITION" | "ORDER":
            return after == "BY"
        case "EMIT":
            return after in {"CHANGES", "FINAL"}
        case _ if word in _JOINING:
            ahead = takewhile(lambda each: each in _JOINING, _uppers(items, at))
            return before not in _JOINING and "JOIN" in ahead
    return word in _CLAUSES and before not in {"EXPLAIN", "ASSERT"}


def _uppers(items: Sequence[Item], at: int) -> Iterator[str]:
    return (_upper(items, each) for each in range(at, len(items)))


def _elements(items: Sequence[Item]) -> list[tuple[Item, ...]]:
    """Items cut behind commas, and behind the comment in the line of a comma."""
    found: list[list[Item]] = [[]]
    for item in items:
        if isinstance(item, Spaced) and item.comment and len(found) > 1 and not found[-1]:
            found[-2].append(item)
            continue
        found[-1].append(item)
        if isinstance(item, Spaced) and item.upper == ",":
            found.append([])
    return [tuple(each) for each in found if each]


def _trailing(items: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item]]:
    """Items without the comments at their end, and these."""
    stop = len(items)
    while stop and isinstance(found := items[stop - 1], Spaced) and found.comment:
        stop -= 1
    return items[:stop], items[stop:]


def _breaks(items: Sequence[Item]) -> list[int]:
    """In front of which items a line that is too long is broken."""
    found, open_cases, between = [], 0, False
    for at, word in enumerate(_uppers(items, 0)):
        match word:
            case "CASE":
                open_cases += 1
            case "END":
                open_cases = max(0, open_cases - 1)
            case "BETWEEN":
                between = True
            case "AND" if between:
                # It connects no conditions.
                between = False
            case "WHEN" | "ELSE" if open_cases and at:
                found.append(at)
            case "OR" if _upper(items, at + 1) == "REPLACE":
                pass
            case "AND" | "OR" if not open_cases and at:
                found.append(at)
    return found


def _tail(items: Sequence[Item], at: int, breaks: Collection[int]) -> Sequence[Item]:
    """What stands in the line of the item in front of it."""
    stop = at
    while stop < len(items) and isinstance(items[stop], Spaced) and stop not in breaks:
        stop += 1
    return _trailing(items[at:stop])[0]


class _Writer:
    """Writes the lines of one statement. `text`: the source, which tells whether a comment has a
    line of its own."""

    def __init__(self, text: str) -> None:
        self.lines = [""]
        self._text = text
        self._ended = False
        """Whether the next lexeme has to begin a line, after a comment."""

    def statement(self, items: Sequence[Item]) -> None:
        """Write a statement behind the comments in front of it, in one line if it fits."""
        while items and isinstance(items[0], Spaced) and items[0].comment:
            self._comment(items[0], 0)
            items = items[1:]
        if not items:
            return
        if self._ended:
            self._line(0)
        body, comments = _trailing(items)
        flat, clauses = _flat(body), _clauses(items)
        if flat is not None and len(flat) <= (WIDTH if len(clauses) == 1 else ONE_LINE):
            self._put_flat(body, 0)
            for comment in comments:
                self._put(comment, 0)
        else:
            self._clauses(clauses, 0)

    def _clauses(self, clauses: Sequence[Sequence[Item]], indent: int) -> None:
        inner = indent if _upper(clauses[0], 0) == "SELECT" else indent + _INDENT
        for number, clause in enumerate(clauses):
            closed = self.lines[-1].strip() == ")" and _upper(clause, 0) == "WITH"
            if number and not (closed and self._fits(_trailing(clause)[0])):
                self._line(inner)
            self._clause(clause, inner if number else indent)

    def _clause(self, items: Sequence[Item], indent: int) -> None:
        """Write a clause, or an element of a list."""
        body, comments = _trailing(items)
        if body and self._fits(body):
            self._put_flat(body, indent)
            for comment in comments:
                self._put(comment, indent)
        elif _upper(items, 0) == "SELECT" and len(_elements(items)) > 1:
            self._put(items[0], indent)
            for element in _elements(items[1:]):
                self._line(indent + _INDENT)
                self._clause(element, indent + _INDENT)
        else:
            self._broken(items, indent)

    def _broken(self, items: Sequence[Item], indent: int) -> None:
        """Write items that do not fit in a line."""
        within = _breaks(items)
        places = frozenset(within)
        inner = indent + _INDENT if within else indent
        for at, item in enumerate(items):
            if at in places:
                self._line(inner)
            match item:
                case Spaced():
                    self._put(item, inner)
                case Bracket() if self._fits((item, *_tail(items, at + 1, places))):
                    self._put_flat((item,), inner)
                case Bracket():
                    self._bracket(item, inner if at and within and at >= within[0] else indent)

    def _bracket(self, bracket: Bracket, indent: int) -> None:
        self._put(bracket.opening, indent)
        inner = indent + _INDENT
        self._line(inner)
        if _upper(bracket.inner, 0) == "SELECT":
            self._clauses(_clauses(bracket.inner), inner)
        else:
            for number, element in enumerate(_elements(bracket.inner)):
                if number:
                    self._line(inner)
                self._clause(element, inner)
        if bracket.closing:
            self._line(indent)
            self._put(bracket.closing[0], indent)

    # ---- single lexemes

    def _fits(self, items: Sequence[Item]) -> bool:
        flat = _flat(items)
        return flat is not None and len(self.lines[-1]) + 1 + len(flat) <= WIDTH

    def _put_flat(self, items: Sequence[Item], indent: int) -> None:
        flat = _flat(items)
        assert flat is not None
        first = items[0]
        self._add(flat, (first.opening if isinstance(first, Bracket) else first).glued, indent)

    def _put(self, item: Item, indent: int) -> None:
        match item:
            case Bracket():
                self._bracket(item, indent)
            case Spaced() if item.comment:
                self._comment(item, indent)
            case Spaced():
                self._add(item.text, item.glued, indent)

    def _add(self, text: str, glued: bool, indent: int) -> None:
        if self._ended:
            self._line(indent)
        line = self.lines[-1]
        space = "" if glued or not line.strip() else " "
        self.lines[-1] = line + space + text

    def _comment(self, comment: Spaced, indent: int) -> None:
        start = self._text.rfind("\n", 0, comment.lexeme.start) + 1
        if not self._text[start : comment.lexeme.start].strip() or self._ended:
            if self.lines[-1].strip():
                self._line(indent)
            self.lines[-1] += comment.text
        else:
            self.lines[-1] += f"  {comment.text}" if self.lines[-1].strip() else comment.text
        self._ended = True

    def _line(self, indent: int) -> None:
        self._ended = False
        if self.lines[-1].strip():
            self.lines.append(" " * indent)
        else:
            self.lines[-1] = " " * indent
