"""The productions of `statements.ebnf` as data, for documentation, completion and generators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Keyword:
    """A literal word, in upper case."""

    text: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """Literal punctuation."""

    text: str


@dataclass(frozen=True, slots=True)
class Lexical:
    """A token with a value, such as a name or a string."""

    kind: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A reference to another production."""

    name: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Optional:
    """Once or not at all."""

    item: Node


@dataclass(frozen=True, slots=True)
class Repeat:
    """Any number of times, but at least `least` times (0 or 1)."""

    item: Node
    least: int


Node = Keyword | Symbol | Lexical | Rule | Sequence | Choice | Optional | Repeat


@dataclass(frozen=True, slots=True)
class Production:
    """One rule; `title` is its line of comment, empty for rules that are only parts."""

    name: str
    body: Node
    title: str = ""


_TOKEN = re.compile(r"\s*(?:'([^']+)'|<([a-z_]+)>|([A-Z]+)|([a-z_]+)|([][()|*+]))")
_HEAD = re.compile(r"([a-z_]+)\s*::=")


@cache
def productions() -> Mapping[str, Production]:
    """Every production of the language by name, in the order of the file; `script` is first."""
    text = files("millstream_grammar").joinpath("statements.ebnf").read_text(encoding="utf-8")
    return MappingProxyType(read(text))


@cache
def statement_names() -> tuple[str, ...]:
    """The productions of the statements, in the order of the file."""
    body = productions()["statement"].body
    items = body.items if isinstance(body, Choice) else (body,)
    return tuple(item.name for item in items if isinstance(item, Rule))


def read(text: str) -> dict[str, Production]:
    """The productions of an EBNF text. Raises ValueError if it is not in the notation, defines a
    rule twice or refers to one that does not exist."""
    found: dict[str, Production] = {}
    title, rule, body, titled = "", "", "", ""
    for line in [*text.splitlines(), "end ::="]:
        head = _HEAD.match(line)
        if head:
            if rule:
                found[rule] = Production(rule, _body(rule, body), titled)
            if head[1] in found:
                raise ValueError(f"the rule {head[1]} is defined twice")
            rule, body, titled = head[1], line[head.end() :], title
        elif line.startswith((" ", "\t")):
            body += "\n" + line
        title = line[1:].strip() if line.startswith("# ") else ""
    for production in found.values():
        for name in references(production.body):
            if name not in found:
                raise ValueError(f"{production.name} refers to {name}, which is not a rule")
    return found


def references(node: Node) -> tuple[str, ...]:
    """The names of the rules that a body refers to."""
    match node:
        case Rule(name):
            return (name,)
        case Sequence(items) | Choice(items):
            return tuple(name for item in items for name in references(item))
        case Optional(item) | Repeat(item, _):
            return references(item)
        case _:
            return ()


def _body(rule: str, text: str) -> Node:
    tokens: list[re.Match[str]] = []
    at = 0
    stripped = text.rstrip()
    while at < len(stripped):
        token = _TOKEN.match(stripped, at)
        if token is None:
            raise ValueError(f"{rule}: cannot read {stripped[at : at + 20]!r}")
        tokens.append(token)
        at = token.end()
    node, rest = _choice(rule, tokens)
    if rest:
        raise ValueError(f"{rule}: nothing opens {rest[0].group().strip()!r}")
    return node


_Rest = list[re.Match[str]]


def _choice(rule: str, tokens: _Rest) -> tuple[Node, _Rest]:
    first, tokens = _sequence(rule, tokens)
    items = [first]
    while tokens and tokens[0][5] == "|":
        item, tokens = _sequence(rule, tokens[1:])
        items.append(item)
    return (items[0] if len(items) == 1 else Choice(tuple(items))), tokens


def _sequence(rule: str, tokens: _Rest) -> tuple[Node, _Rest]:
    items: list[Node] = []
    while tokens and tokens[0][5] not in ("|", ")", "]"):
        item, tokens = _item(rule, tokens)
        items.append(item)
    if not items:
        raise ValueError(f"{rule}: an alternative is empty")
    return (items[0] if len(items) == 1 else Sequence(tuple(items))), tokens


def _item(rule: str, tokens: _Rest) -> tuple[Node, _Rest]:
    symbol, lexical, keyword, name, mark = tokens[0].groups()
    tokens = tokens[1:]
    node: Node
    if mark in ("(", "["):
        node, tokens = _choice(rule, tokens)
        closing = ")" if mark == "(" else "]"
        if not tokens or tokens[0][5] != closing:
            raise ValueError(f"{rule}: {mark} is never closed")
        tokens = tokens[1:]
        node = Optional(node) if mark == "[" else node
    elif mark:
        raise ValueError(f"{rule}: {mark} follows nothing")
    elif symbol:
        node = Symbol(symbol)
    elif lexical:
        node = Lexical(lexical)
    else:
        node = Keyword(keyword) if keyword else Rule(name)
    if tokens and tokens[0][5] in ("*", "+"):
        node = Repeat(node, 0 if tokens[0][5] == "*" else 1)
        tokens = tokens[1:]
    return node, tokens
