"""JSON Schema as shapes whose changes can be compared: what its words mean for a value, with
references followed and lists of types as alternatives."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import regex

from millstream.formats.schema_error import SchemaError

_NUMBER_WORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_TEXT_WORDS = ("minLength", "maxLength", "pattern")
_ARRAY_WORDS = ("items", "additionalItems", "minItems", "maxItems", "uniqueItems", "prefixItems")
_OBJECT_WORDS = (
    *("properties", "required", "additionalProperties", "patternProperties"),
    *("minProperties", "maxProperties", "dependencies", "propertyNames"),
)
_WORDS_OF = {
    "string": _TEXT_WORDS,
    "number": _NUMBER_WORDS,
    "object": _OBJECT_WORDS,
    "array": _ARRAY_WORDS,
}
REFERENCES_MAX = 100
_MATCH_SECONDS = 0.5
"""How long a pattern may look at a name."""


@dataclass(frozen=True, slots=True)
class Document:
    """A schema as JSON. `imported`: others, by the names under which it refers to them."""

    root: Any
    imported: Mapping[str, Any] = field(default_factory=dict)

    @property
    def node(self) -> Node:
        """The whole of it."""
        return Node(self.root, self)


@dataclass(frozen=True, slots=True)
class Node:
    """A schema within a document."""

    given: Any
    within: Document


@dataclass(frozen=True, slots=True)
class Anything:
    """Every value is valid."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """No value is."""


@dataclass(frozen=True, slots=True)
class Plain:
    """Values of a type: string, number, integer, boolean or null. `limits`: by their words."""

    type: str
    limits: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OneOfValues:
    """Certain values, as JSON."""

    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class Object:
    """An object. `more`: the schema of properties that have no other; None if there are none.
    `patterned`: schemas by patterns of names."""

    properties: Mapping[str, Node]
    required: frozenset[str]
    more: Node | None
    patterned: Mapping[str, Node]
    limits: Mapping[str, Any]

    @property
    def open(self) -> bool:
        """Whether it may have any other property."""
        return self.more is not None and not self.patterned and self.more.given in (True, {})

    def covering(self, name: str) -> Node | None:
        """The schema of a property that has none by its name."""
        for pattern, node in self.patterned.items():
            if _matches(pattern, name):
                return node
        return self.more


@dataclass(frozen=True, slots=True)
class Array:
    """An array. `items`: those of the first places; `more`: of all others; None for none."""

    items: tuple[Node, ...]
    more: Node | None
    limits: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Combined:
    """`allOf`, `anyOf` or `oneOf` of several."""

    word: str
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """What another one is not."""

    of: Node


Shape = Anything | Nothing | Plain | OneOfValues | Object | Array | Combined | Negated


def document(text: str, imported: Mapping[str, str]) -> Document:
    """Read a schema. Raises SchemaError for what is none."""
    others = {name: _parsed(other) for name, other in imported.items()}
    return Document(_parsed(text), others)


def shape_of(node: Node) -> Shape:
    """What a schema demands. Raises SchemaError for a reference to nothing."""
    node = _followed(node)
    given = node.given
    if given is False:
        return Nothing()
    if given is True or not given:
        return Anything()
    parts = list(_parts(given, node.within))
    if not parts:
        return Anything()
    if len(parts) == 1:
        return parts[0]
    alone = [Node(_alone(given, word), node.within) for word in _alone_words(given)]
    return Combined("allOf", tuple(alone))


def _parsed(text: str) -> Any:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise SchemaError("the schema is not JSON") from None
    if not isinstance(given, dict | bool):
        raise SchemaError("the schema is neither an object nor true or false")
    return given


def _followed(node: Node) -> Node:
    for _ in range(REFERENCES_MAX):
        given = node.given
        if not isinstance(given, dict | bool):
            raise SchemaError(f"{json.dumps(given)[:100]} is no schema")
        if not isinstance(given, dict) or not isinstance(given.get("$ref"), str):
            return node
        node = _target(given["$ref"], node.within)
    raise SchemaError("the schema has references that lead in a circle")


def _target(name: str, within: Document) -> Node:
    other, _, path = name.partition("#")
    if other and other not in within.imported:
        raise SchemaError(f"the schema refers to {other}, which it does not import")
    found = within.imported[other] if other else within.root
    home = Document(found, within.imported) if other else within
    for part in path.split("/")[1:]:
        step = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or step not in found:
            raise SchemaError(f"the schema refers to {name}, which it does not have")
        found = found[step]
    return Node(found, home)


def _alone_words(given: Mapping[str, Any]) -> list[str]:
    """The words that demand something by themselves."""
    found = [word for word in ("enum", "const", "allOf", "anyOf", "oneOf", "not") if word in given]
    return (["type"] if _types(given) else []) + found


def _alone(given: Mapping[str, Any], word: str) -> dict[str, Any]:
    """A schema with one of its demands."""
    if word != "type":
        return {word: given[word]}
    others = ("enum", "const", "allOf", "anyOf", "oneOf", "not")
    return {name: value for name, value in given.items() if name not in others}


def _parts(given: Mapping[str, Any], within: Document) -> Sequence[Shape]:
    return [_of_word(word, given, within) for word in _alone_words(given)]


def _of_word(word: str, given: Mapping[str, Any], within: Document) -> Shape:
    match word:
        case "enum":
            values = given["enum"] if isinstance(given["enum"], list) else [given["enum"]]
            return OneOfValues(frozenset(json.dumps(each, sort_keys=True) for each in values))
        case "const":
            return OneOfValues(frozenset({json.dumps(given["const"], sort_keys=True)}))
        case "not":
            return Negated(Node(given["not"], within))
        case "allOf" | "anyOf" | "oneOf":
            parts = given[word]
            if not isinstance(parts, list) or not parts:
                raise SchemaError(f"{word} of the schema is no list of schemas")
            return Combined(word, tuple(Node(each, within) for each in parts))
    types = _types(given)
    if len(types) == 1:
        return _typed(types[0], given, within)
    alone = [Node({**_alone(given, "type"), "type": each}, within) for each in types]
    return Combined("anyOf", tuple(alone))


def _types(given: Mapping[str, Any]) -> list[str]:
    """The types that a schema names, or that its other words are about."""
    kind = given.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list) and kind:
        return [str(each) for each in kind]
    return [name for name, words in _WORDS_OF.items() if any(word in given for word in words)]


def _typed(kind: str, given: Mapping[str, Any], within: Document) -> Shape:
    match kind:
        case "object":
            return _object(given, within)
        case "array":
            return _array(given, within)
        case "string":
            return Plain(kind, _limits(given, _TEXT_WORDS))
        case "number" | "integer":
            return Plain(kind, _limits(given, _NUMBER_WORDS))
        case "boolean" | "null":
            return Plain(kind, {})
    raise SchemaError(f"the schema has the unknown type {kind}")


def _object(given: Mapping[str, Any], within: Document) -> Object:
    more = given.get("additionalProperties", True)
    patterned = _nodes(given.get("patternProperties"), within)
    for pattern in patterned:
        _matches(pattern, "")
    required = given.get("required", [])
    return Object(
        _nodes(given.get("properties"), within),
        frozenset(map(str, required)) if isinstance(required, list) else frozenset(),
        None if more is False else Node(more, within),
        patterned,
        _limits(given, ("minProperties", "maxProperties")),
    )


def _array(given: Mapping[str, Any], within: Document) -> Array:
    items, first = given.get("items", True), given.get("prefixItems", [])
    more = items
    if isinstance(items, list):
        first, more = items, given.get("additionalItems", True)
    return Array(
        tuple(Node(each, within) for each in first if isinstance(first, list)),
        None if more is False else Node(more, within),
        _limits(given, ("minItems", "maxItems", "uniqueItems")),
    )


def _nodes(given: Any, within: Document) -> dict[str, Node]:
    if not isinstance(given, dict):
        return {}
    return {name: Node(each, within) for name, each in given.items()}


def _limits(given: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    return {word: given[word] for word in words if word in given}


def _matches(pattern: str, name: str) -> bool:
    try:
        return regex.search(pattern, name, timeout=_MATCH_SECONDS) is not None
    except TimeoutError:
        raise SchemaError(f"the pattern {pattern} takes too long to compare with {name}") from None
    except regex.error as error:
        raise SchemaError(f"{pattern} is no pattern: {error}") from None
