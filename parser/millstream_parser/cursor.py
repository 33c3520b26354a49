"""A position in a list of tokens, and the basic operations of every production."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from sqlglot import exp

from millstream_grammar.keywords import HARD, TIME_UNITS

from .failure import SyntaxFailure
from .other_dialects import Place, hint_for
from .statements import Span
from .tokens import Kind, Lines, Token

MAX_DEPTH = 128
_SHOWN_ALTERNATIVES = 8
_SHOWN_STATEMENT = 2_000
_SHOWN_TOKEN = 100

T = TypeVar("T")
E = TypeVar("E", bound=exp.Expression)


@dataclass(slots=True)
class Cursor:
    """The only mutable thing in the parser: `at` moves over `tokens`, `depth` counts nesting."""

    text: str
    lines: Lines
    tokens: list[Token]
    at: int = 0
    depth: int = 0
    extended: bool = False
    test_statements: bool = True
    """Whether the statements of the test tool are accepted."""
    first: int = field(default=0)
    """Index of the first token of the statement being read, for error messages."""

    @property
    def token(self) -> Token:
        """The token under the cursor."""
        return self.tokens[self.at]

    def ahead(self, n: int) -> Token:
        """The token n positions ahead; END past the end."""
        return self.tokens[min(self.at + n, len(self.tokens) - 1)]

    def advance(self) -> Token:
        """Step over the current token and return it."""
        token = self.tokens[self.at]
        if token.kind is not Kind.END:
            self.at += 1
        return token

    def looking_at(self, *words: str) -> bool:
        """Whether the next tokens are these keywords or symbols."""
        return all(self.ahead(i).upper == word for i, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Step over these keywords or symbols if all of them follow."""
        if not self.looking_at(*words):
            return False
        self.at += len(words)
        return True

    def expect(self, *words: str) -> Token:
        """Step over these keywords or symbols, or fail naming the first that is missing."""
        token = self.token
        for word in words:
            if self.token.upper != word:
                raise self.unexpected(f"'{word}'")
            token = self.advance()
        return token

    def expect_one(self, *words: str) -> str:
        """Step over one of these keywords and return it."""
        if self.token.upper not in words:
            raise self.unexpected(*(f"'{word}'" for word in words))
        return self.advance().upper

    def comma_list(self, item: Callable[[Cursor], T], closing: str) -> tuple[T, ...]:
        """`item, item … closing`, at least one; the closing symbol is consumed."""
        items = [item(self)]
        while not self.accept(closing):
            if not self.accept(","):
                raise self.unexpected("','", f"'{closing}'")
            items.append(item(self))
        return tuple(items)

    @contextmanager
    def nested(self) -> Iterator[None]:
        """One nesting level deeper; fails past the limit, long before Python's stack overflows."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.too_deep()
        yield
        self.depth -= 1

    # --- names and literals ------------------------------------------------------------------

    def is_name(self, n: int = 0) -> bool:
        """Whether the token n positions ahead can be a name."""
        token = self.ahead(n)
        return token.kind is Kind.QUOTED or (token.kind is Kind.WORD and token.upper not in HARD)

    def name(self, what: str = "identifier") -> str:
        """A name in stored form: folded to upper case unless quoted."""
        if not self.is_name():
            raise self.unexpected(what)
        token = self.advance()
        return token.upper or token.text

    def name_or_string(self, what: str) -> str:
        """A name or a string that keeps the case it was typed in (topics, subjects)."""
        if self.token.kind is not Kind.STRING and not self.is_name():
            raise self.unexpected(what, "STRING")
        return self.advance().text

    def string(self) -> str:
        """A string literal."""
        if self.token.kind is not Kind.STRING:
            raise self.unexpected("STRING")
        return self.advance().text

    def integer(self) -> int:
        """An integer literal without a sign, of at most 64 bits."""
        token = self.token
        if token.kind is not Kind.INTEGER:
            raise self.unexpected("INTEGER_VALUE")
        check_integer(self, token, negative=False)
        return int(self.advance().text)

    def time_unit(self) -> str:
        """A time unit in the plural."""
        unit = TIME_UNITS.get(self.token.upper)
        if unit is None:
            raise self.unexpected(*(f"'{u}'" for u in dict.fromkeys(TIME_UNITS.values())))
        self.advance()
        return unit

    # --- places ------------------------------------------------------------------------------

    def span_from(self, index: int) -> Span:
        """The span from token `index` up to the cursor."""
        last = self.tokens[max(self.at - 1, index)]
        return self.lines.span(self.tokens[index].start, last.end)

    def marked(self, node: E, index: int) -> E:
        """The node, annotated with its character range."""
        last = self.tokens[max(self.at - 1, index)]
        node.meta["span"] = (self.tokens[index].start, last.end)
        return node

    # --- failures ----------------------------------------------------------------------------

    def fail(self, reason: str, token: Token | None = None, hint: str = "") -> SyntaxFailure:
        """The error for text that is grammatical but can have no valid meaning."""
        token = token or self.token
        failure = self.lines.failure(reason, token.start, token.end, hint or token.about)
        span = failure.span
        # For errors after parsing, ksqlDB counts columns from 2.
        place = f"line {span.line}:{span.column + 1}: " if span else ""
        failure.message = f"Failed to prepare statement: {place}{reason}"
        return failure

    def too_deep(self, token: Token | None = None) -> SyntaxFailure:
        """The error for nesting past the limit."""
        return self.fail(
            f"The expression is nested too deeply: the limit is {MAX_DEPTH} levels",
            token,
            "Simplify it, or split it over several statements.",
        )

    def unexpected(self, *expected: str, hint: str = "") -> SyntaxFailure:
        """The error for an unexpected token; `expected` are the allowed ones."""
        token = self.token
        span = self.lines.span(token.start, token.end)
        shown = self.shown(token)
        alternatives = ""
        if expected and len(expected) <= _SHOWN_ALTERNATIVES:
            listed = ", ".join(expected)
            alternatives = f"Expecting {{{listed}}}" if len(expected) > 1 else f"Expecting {listed}"
        reason = (
            f"Syntax Error\n{alternatives}\nStatement: {self._statement()}\n"
            f"Syntax error at or near '{shown}' at line {span.line}:{span.column}"
        )
        if not hint:
            hint = token.about or hint_for(self._place(expected)) or _nearest_hint(token, expected)
            hint = hint or _quoting_hint(token, expected)
        return self.lines.failure(reason, token.start, token.end, hint, unexpected=True)

    def shown(self, token: Token) -> str:
        """A token as it was written, shortened."""
        if token.kind is Kind.END:
            return token.text
        return shortened(self.text[token.start : token.end], _SHOWN_TOKEN)

    def _statement(self) -> str:
        """The text of the statement being read, up to and with its semicolon."""
        start = self.tokens[min(self.first, len(self.tokens) - 1)].start
        text = self.text[start : self.tokens[self._end()].end].strip()
        return shortened(text, _SHOWN_STATEMENT)

    def _end(self) -> int:
        """The token that ends the statement being read."""
        index = self.at
        while self.tokens[index].kind is not Kind.END and self.tokens[index].upper != ";":
            index += 1
        return index

    def _place(self, expected: tuple[str, ...]) -> Place:
        first = min(self.first, self.at)
        words = [token.upper or token.text for token in self.tokens[first : self._end() + 1]]
        return Place(words, self.at - first, expected)


def shortened(text: str, limit: int) -> str:
    """A text of at most `limit` characters, with an ellipsis where it was cut."""
    return text if len(text) <= limit else text[:limit] + "…"


def _nearest_hint(token: Token, expected: tuple[str, ...]) -> str:
    """The most similar allowed keyword, as the correction of a misspelt one."""
    words = [e.strip("'") for e in expected if e[1:2].isalpha() and e.startswith("'")]
    near = difflib.get_close_matches(token.upper, words, n=1, cutoff=0.7) if token.upper else []
    return f"Did you mean {near[0]}?" if near else ""


def _quoting_hint(token: Token, expected: tuple[str, ...]) -> str:
    if token.kind is Kind.DIGIT_WORD:
        return (
            f"A name that starts with a digit must be quoted: write `{token.text}` in backticks"
            " or double quotes."
        )
    if token.kind is Kind.VARIABLE:
        name = token.text[token.text.index("$") :]
        return f"The variable {name} is not defined: DEFINE it first."
    wants_name = not expected or any(not e.startswith("'") for e in expected)
    if wants_name and token.upper in HARD:
        return (
            f'"{token.text}" is a reserved keyword and cannot be used as a name as it stands:'
            f" write `{token.text}` in backticks or double quotes."
        )
    return ""


def check_integer(cursor: Cursor, token: Token, *, negative: bool) -> None:
    """Refuse an integer literal that does not fit 64 bits."""
    # Bounding the length first prevents int() from converting (or refusing) thousands of digits.
    digits = token.text.lstrip("0")
    if len(digits) > 19 or int(digits or "0") > 2**63 - (0 if negative else 1):
        sign = "-" if negative else ""
        raise cursor.fail(f"Invalid numeric literal: {sign}{cursor.shown(token)}", token)
