"""Text -> tokens: sqlglot's tokenizer, configured for this dialect, plus what it does not do.

sqlglot decodes strings, quoted names, numbers, comments and operators. This module does the rest:
words are not classified (keywords depend on their position), `1abc` becomes one token, `.5` a
number, `${x}` a variable, `?`, `$1` and `:x` parameters, and characters outside the language are
refused with their position.
"""

# ruff: noqa: RUF012 - the class attributes of a sqlglot tokenizer are declared there

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token as RawToken
from sqlglot.tokenizer_core import TokenType
from sqlglot.tokens import Tokenizer

from .failure import SyntaxFailure
from .statements import Span

MAX_CHARACTERS = 1 << 20
MAX_TOKENS = 20_000


class Kind(Enum):
    """The kind of a token, independent of its position in the statement."""

    WORD = "word"
    QUOTED = "quoted name"
    DIGIT_WORD = "name that starts with a digit"
    VARIABLE = "variable"
    PARAMETER = "parameter"
    STRING = "STRING"
    INTEGER = "INTEGER_VALUE"
    DECIMAL = "DECIMAL_VALUE"
    FLOAT = "FLOATING_POINT_VALUE"
    SYMBOL = "symbol"
    END = "<EOF>"


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is decoded for strings and quoted names; `upper` is the text of words and symbols in
    upper case and empty for every other kind, so that it can be compared with keywords. `about`
    describes, in messages, a token that replaces another."""

    kind: Kind
    text: str
    upper: str
    start: int
    end: int
    about: str = ""


class MillstreamTokenizer(Tokenizer):
    """Every word is a VAR, and operators are only those of the dialect."""

    IDENTIFIERS = ['"', "`"]
    QUOTES = ["'"]
    STRING_ESCAPES = ["'"]
    COMMENTS = ["--", ("/*", "*/")]
    NESTED_COMMENTS = False
    VAR_SINGLE_TOKENS = {"@"}
    COMMANDS = set()
    KEYWORDS = {
        "||": TokenType.DPIPE,
        "<=": TokenType.LTE,
        ">=": TokenType.GTE,
        "<>": TokenType.NEQ,
        "!=": TokenType.NEQ,
        ":=": TokenType.COLON_EQ,
        "->": TokenType.ARROW,
        "=>": TokenType.FARROW,
    }


SCAN = re.compile(
    r"""'(?:[^']|'')*' | `(?:[^`]|``)*` | "(?:[^"]|"")*" | --[^\n\r]* | /\*.*?\*/
      | (?P<open>['`"] | /\*)
      | (?<![\w`"\])])\.[0-9]+(?:[eE][+-]?[0-9]+)?[A-Za-z0-9_@]*
      | [0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?[A-Za-z0-9_@]* | [A-Za-z_@$][A-Za-z0-9_@$]*
      | \|\| | [<>!:]= | <> | [-=]> | [^\s]""",
    re.VERBOSE | re.DOTALL,
)
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""A code point that UTF-8 cannot encode: neither the log nor DuckDB can store it."""
_GAP = re.compile(r"(?:\s+|--[^\n\r]*|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_@]*")
_PARAMETER = re.compile(r"\?|\$[0-9]{1,9}(?![\w@$])|:[A-Za-z_][A-Za-z0-9_]*(?![@$])")
_SYMBOLS = frozenset("()[],.-+*/%=<>;") | frozenset(MillstreamTokenizer.KEYWORDS)
_OPENED = {"'": "string", "`": "quoted name", '"': "quoted name", "/*": "comment"}


@dataclass(frozen=True, slots=True)
class Lines:
    """Turns character offsets of one text into lines and columns."""

    text: str
    starts: tuple[int, ...]

    @staticmethod
    def of(text: str) -> Lines:
        """Index the lines of a text."""
        return Lines(text, (0, *(m.end() for m in re.finditer("\n", text))))

    def span(self, start: int, end: int) -> Span:
        """The span of a character range."""
        row = bisect_right(self.starts, start)
        return Span(row, start - self.starts[row - 1] + 1, start, end)

    def caret(self, span: Span) -> str:
        """The line of a span, shortened around it, with a caret below its first character."""
        first = self.starts[span.line - 1]
        last = self.starts[span.line] - 1 if span.line < len(self.starts) else len(self.text)
        left = max(first, span.start - 80)
        shown = self.text[left : min(last, span.start + 80)].rstrip()
        indent = "".join(c if c == "\t" else " " for c in shown[: span.start - left])
        width = max(1, min(span.end, left + len(shown)) - span.start)
        return f"{shown}\n{indent.ljust(span.start - left)}{'^' * width}"

    def failure(
        self, reason: str, start: int, end: int, hint: str = "", *, unexpected: bool = False
    ) -> SyntaxFailure:
        """An error at a character range: `line L:C: reason`."""
        span = self.span(start, end)
        message = f"line {span.line}:{span.column}: {reason}"
        return SyntaxFailure(message, span, hint, self.caret(span), unexpected=unexpected)


def tokenize(text: str, lines: Lines) -> list[Token]:
    """The tokens of a script, ended by one END token. Raises SyntaxFailure."""
    _check_size(text, lines)
    try:
        raw = MillstreamTokenizer().tokenize(text)
    except TokenError as error:
        raise lines.failure("Syntax Error: the text cannot be read", 0, 1) from error
    result: list[Token] = []
    at = 0
    index = 0
    while index < len(raw):
        token, index = _next(text, raw, index, lines)
        _check_gap(text, at, token.start, lines)
        at = token.end
        result.append(token)
    _check_gap(text, at, len(text), lines)
    result.append(Token(Kind.END, "<EOF>", "", len(text), len(text)))
    return result


def _check_size(text: str, lines: Lines) -> None:
    """Refuse text that is too large or not Unicode before any slow work, and find unterminated
    strings."""
    if len(text) > MAX_CHARACTERS or len(text.encode(errors="replace")) > MAX_CHARACTERS:
        raise lines.failure(
            f"The script is too long: the limit is {MAX_CHARACTERS} bytes",
            0,
            1,
            "Send the statements in several requests.",
        )
    lone = LONE_SURROGATE.search(text)
    if lone is not None:
        # The line in the error must itself be encodable and printable.
        readable = Lines.of(LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text))
        raise readable.failure(
            f"Syntax Error: {lone.group()!r} is half a character (a lone surrogate)",
            lone.start(),
            lone.end(),
            "Send the text as valid UTF-8; both halves together make one character.",
        )
    count = 0
    for found in SCAN.finditer(text):
        opened = found.group("open")
        if opened:
            raise lines.failure(
                f"Syntax Error: the {_OPENED[opened]} that starts here is never closed",
                found.start(),
                found.end(),
                f"Close it with {'*/' if opened == '/*' else opened}",
            )
        count += not found.group().startswith(("--", "/*"))
        if count > MAX_TOKENS:
            raise lines.failure(
                f"The script has too many words: the limit is {MAX_TOKENS} tokens",
                found.start(),
                found.end(),
                "Send the statements in several requests.",
            )


def _check_gap(text: str, start: int, end: int, lines: Lines) -> None:
    """Only white space and comments are allowed between two tokens (sqlglot skips `{# … #}`
    too)."""
    if start == end:
        return
    found = _GAP.match(text, start, end)
    reached = found.end() if found else start
    if reached < end:
        raise _unexpected(text, reached, lines)


def _unexpected(text: str, at: int, lines: Lines) -> SyntaxFailure:
    hint = "Types are converted by CAST(value AS INT)." if text.startswith("::", at) else ""
    return lines.failure(f"Syntax Error: unexpected character {text[at]!r}", at, at + 1, hint)


def _next(text: str, raw: Sequence[RawToken], index: int, lines: Lines) -> tuple[Token, int]:
    """The token of raw[index], merged with its neighbours if they belong together."""
    token = raw[index]
    start, end = token.start, token.end + 1
    match token.token_type:
        case TokenType.STRING:
            return Token(Kind.STRING, token.text, "", start, end), index + 1
        case TokenType.IDENTIFIER if not token.text:
            raise lines.failure("Syntax Error: a name may not be empty", start, end)
        case TokenType.IDENTIFIER if "\0" in token.text:
            # Arrow cuts the names of columns there.
            raise lines.failure("Syntax Error: a name may not contain NUL", start, end)
        case TokenType.IDENTIFIER:
            return Token(Kind.QUOTED, token.text, "", start, end), index + 1
        case TokenType.NUMBER:
            return _number(text, raw, index, start, lines)
        case TokenType.NATIONAL_STRING:
            # The dialect has no N'…': the word N followed by a string, which no production accepts.
            raise lines.failure("Syntax Error: a string may not follow a name", start + 1, end)
    if token.text == "." and _is_leading_dot(text, raw, index):
        return _number(text, raw, index + 1, start, lines)
    if token.text.endswith("$") and text.startswith("{", end):
        # Also the beginning of a name that continues with a variable: x${n}.
        closing = text.find("}", end)
        if closing > 0 and _WORD.fullmatch(text, end + 1, closing):
            index = next((i for i in range(index, len(raw)) if raw[i].start > closing), len(raw))
            return Token(Kind.VARIABLE, text[start : closing + 1], "", start, closing + 1), index
    if _WORD.fullmatch(token.text):
        return Token(Kind.WORD, token.text, token.text.upper(), start, end), index + 1
    if token.text not in _SYMBOLS:
        parameter = _PARAMETER.match(text, start)
        if parameter is not None and parameter.end() >= end:
            end = parameter.end()
            index = next((i for i in range(index, len(raw)) if raw[i].start >= end), len(raw))
            return Token(Kind.PARAMETER, parameter.group(), "", start, end), index
        odd = re.search(r"[^A-Za-z0-9_@]", token.text)
        raise _unexpected(text, start + (odd.start() if odd else 0), lines)
    return Token(Kind.SYMBOL, token.text, token.text, start, end), index + 1


def _is_leading_dot(text: str, raw: Sequence[RawToken], index: int) -> bool:
    """Whether the dot at `index` starts a number such as .5 rather than following a name."""
    dot = raw[index]
    if index + 1 >= len(raw) or raw[index + 1].token_type is not TokenType.NUMBER:
        return False
    before = text[dot.start - 1] if dot.start else " "
    return raw[index + 1].start == dot.end + 1 and not re.match(r"[\w`\"\])]", before)


def _number(
    text: str, raw: Sequence[RawToken], index: int, start: int, lines: Lines
) -> tuple[Token, int]:
    """A number, or a digit identifier if letters follow directly."""
    end = raw[index].end + 1
    index += 1
    tail = re.compile(r"[A-Za-z0-9_@]*").match(text, end)
    written = text[start:end]
    if (tail and tail.end() > end) or written[-1] in "eE":
        end = tail.end() if tail else end
        while index < len(raw) and raw[index].start < end:
            index += 1
        return Token(Kind.DIGIT_WORD, text[start:end], "", start, end), index
    if written.isdigit():
        kind = Kind.INTEGER
    else:
        kind = Kind.FLOAT if "e" in written.lower() else Kind.DECIMAL
    return Token(kind, written, "", start, end), index
