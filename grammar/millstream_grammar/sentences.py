"""Random statements drawn from the productions: valid by construction, the same for a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from random import Random

from .grammar import (
    Choice,
    Keyword,
    Lexical,
    Node,
    Optional,
    Production,
    Repeat,
    Rule,
    Sequence,
    Symbol,
    productions,
)
from .keywords import HARD, SOFT

_PLAIN = ("a", "b2", "orders", "Customer", "_x", "PRICE", "t@1", "é", "SELECT", "two words", "1st")
_ODD = ("a`b", 'say "x"', "it's", "", "lower", "a.b", "--", "/*", "${v}", "a\n   b", "😀", "$$")
_TEXTS = (
    *("", "x", "it's", "a -- b", "two\nlines", "/* no */", "ü", "${v}", '"', "`", ";", "100%"),
    *(
        "one\n   two\n\n  three",
        "\r\n  x",
        "'\n  '",
        "*/\n  -- '",
        "$$",
        "$1 ? :x",
        "\\n\\",
        "nul\0",
    ),
    *("😀\n  👩‍👧", "\\ud800", "\u2028  x", "\t\ty", "{0}", "%s", "  two spaces  ", '"in_0"'),
)
_FUNCTIONS = ("count", "SUM", "Concat", "REPLACE", "date", "my_fn", "STRING", "IF", "`odd-fn`")
_UNSIGNED = ("0", "1", "42", "007", "2147483648", "9223372036854775807")


def sentence(seed: int, start: str = "statement", *, depth: int = 20) -> str:
    """One sentence of a production. Past `depth` nested rules the shortest way out is taken, so
    every sentence is finite. Text that is valid by the productions alone: names need not exist."""
    return " ".join(_draw(_Drawing(Random(seed), depth), Rule(start)))


@dataclass(slots=True)
class _Drawing:
    random: Random
    depth: int
    properties: set[str] = field(default_factory=set)


def _draw(drawing: _Drawing, node: Node) -> list[str]:
    match node:
        case Keyword(text):
            return [text.lower() if drawing.random.random() < 0.3 else text]
        case Symbol(text):
            return [text]
        case Lexical(kind):
            return [_LEXICAL[kind](drawing)]
        case Rule(name):
            drawing.depth -= 1
            words = _draw(drawing, productions()[name].body)
            drawing.depth += 1
            return words
        case Sequence(items):
            return [word for item in items for word in _draw(drawing, item)]
        case Choice(items):
            return _draw(drawing, _chosen(drawing, items))
        case Optional(item):
            return _draw(drawing, item) if _goes_on(drawing, 0.4) else []
        case Repeat(item, least):
            words = _draw(drawing, item) if least else []
            while _goes_on(drawing, 0.25):
                words += _draw(drawing, item)
            return words


def _goes_on(drawing: _Drawing, chance: float) -> bool:
    return drawing.depth > 0 and drawing.random.random() < chance


def _chosen(drawing: _Drawing, items: tuple[Node, ...]) -> Node:
    if drawing.depth > 0:
        return drawing.random.choice(items)
    return min(items, key=lambda item: _height(item, _heights()))


@cache
def _heights() -> Mapping[str, int]:
    """Per production, the nesting depth of its shortest sentence."""
    heights: dict[str, int] = {}
    rules: tuple[Production, ...] = tuple(productions().values())
    changed = True
    while changed:
        changed = False
        for rule in rules:
            height = _height(rule.body, heights) + 1
            if height < heights.get(rule.name, _FAR):
                heights[rule.name] = height
                changed = True
    return heights


_FAR = 1_000


def _height(node: Node, heights: Mapping[str, int]) -> int:
    match node:
        case Rule(name):
            return heights.get(name, _FAR)
        case Sequence(items):
            return max(_height(item, heights) for item in items)
        case Choice(items):
            return min(_height(item, heights) for item in items)
        case Repeat(item, 1):
            return _height(item, heights)
        case _:
            return 0


# --- tokens with values ------------------------------------------------------------------------


def _name(drawing: _Drawing) -> str:
    random = drawing.random
    chance = random.random()
    if chance < 0.15:
        return random.choice(sorted(SOFT))
    if chance < 0.25:
        text = random.choice((*_ODD, *sorted(HARD)))
        mark = random.choice('`"')
        return mark + text.replace(mark, mark * 2) + mark if text else "`x`"
    text = random.choice(_PLAIN)
    return (
        text
        if text.isascii() and text.replace("@", "_").isidentifier() and (text.upper() not in HARD)
        else f"`{text}`"
    )


def _string(drawing: _Drawing) -> str:
    return "'" + drawing.random.choice(_TEXTS).replace("'", "''") + "'"


def _integer(drawing: _Drawing) -> str:
    return drawing.random.choice(_UNSIGNED)


def _decimal(drawing: _Drawing) -> str:
    return drawing.random.choice(("1.5", ".5", "1.", "0.10", "12345678901234567890.5"))


def _float(drawing: _Drawing) -> str:
    return drawing.random.choice(("1e3", "1.5E-3", ".5e2", "2E+10"))


def _topic(drawing: _Drawing) -> str:
    return drawing.random.choice(("orders", "Orders", "'my-topic'", "`a.b`", "'x''y'", "DATE"))


def _property(drawing: _Drawing) -> str:
    """Names are never repeated: a property may be set only once."""
    name = drawing.random.choice(("kafka_topic", "FORMAT", "'a.b'", "`Quoted`", "partitions"))
    while name.upper() in drawing.properties:
        name = f"p{len(drawing.properties)}"
    drawing.properties.add(name.upper())
    return name


_LEXICAL: dict[str, Callable[[_Drawing], str]] = {
    "name": _name,
    "digit_name": lambda drawing: drawing.random.choice(("1R", "2nd")),
    "string": _string,
    "text": lambda drawing: drawing.random.choice(("'my-connector'", "'it''s'", "'SOURCE'")),
    "character": lambda drawing: drawing.random.choice(("'!'", "''''", "'\\'")),
    "integer": _integer,
    "small": lambda drawing: str(drawing.random.randint(1, 38)),
    "amount": lambda drawing: drawing.random.choice(("0", "1", "007", str(2**62 // 86_400_000))),
    "decimal": _decimal,
    "decimal_text": lambda drawing: drawing.random.choice(("'1.20'", "'-0.5'", "'7'")),
    "float": _float,
    "function": lambda drawing: drawing.random.choice(_FUNCTIONS),
    "topic": _topic,
    "property": _property,
}
"""Kind of token -> how to draw one."""
