"""Whether values of one JSON Schema are valid by another one, by the rules of Confluent's registry:
what an object may have besides its properties decides whether some can be added or removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from millstream.formats.schema_error import SchemaError
from millstream.schemas.json_shapes import (
    Anything,
    Array,
    Combined,
    Document,
    Negated,
    Node,
    Nothing,
    Object,
    OneOfValues,
    Plain,
    Shape,
    shape_of,
)

DEPTH_MAX = 100
CHANGES_MAX = 20
"""The changes that are told."""
PARTS_MAX = 50
"""The alternatives that are compared with one another; of more, in their order."""
_UPPER = ("maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties")
_LOWER = ("minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties")


def json_changes(reader: Document, writer: Document) -> list[str]:
    """Why a reader cannot use what a writer writes; empty if it can. Raises SchemaError for a
    reference to nothing."""
    return list(islice(_Comparison().changes(writer.node, reader.node, "#"), CHANGES_MAX))


class _Comparison:
    """Compares schemas; `old` is the one by which values were written."""

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Node, Shape]] = {}
        """By the identity of what describes it, which stays alive in them."""
        self._fine: dict[tuple[int, int], None] = {}
        """What fits, or is assumed to while it is compared, in the order in which that began."""
        self._bad: set[tuple[int, int]] = set()
        self._depth = 0

    def changes(self, old: Node, new: Node, path: str) -> Iterator[str]:
        """The changes that make values invalid. Where schemas are within themselves, the comparison
        that is under way decides."""
        pair = id(old.given), id(new.given)
        if pair in self._fine:
            return
        if self._depth > DEPTH_MAX:
            raise SchemaError(f"the schema is nested more than {DEPTH_MAX} levels deep")
        self._fine[pair] = None
        self._depth += 1
        try:
            for change in self._compared(old, new, path):
                self._bad.add(pair)
                yield change
        finally:
            self._depth -= 1
            if pair in self._bad:
                self._forget(pair)

    def _forget(self, pair: tuple[int, int]) -> None:
        """What was compared within a pair that does not fit may have relied on that it does."""
        while self._fine and self._fine.popitem()[0] != pair:
            pass

    def _fits(self, old: Node, new: Node) -> bool:
        pair = id(old.given), id(new.given)
        return pair not in self._bad and next(self.changes(old, new, ""), None) is None

    def _shape(self, node: Node) -> Shape:
        found = self._shapes.get(id(node.given))
        if found is None:
            found = self._shapes[id(node.given)] = node, shape_of(node)
        return found[1]

    def _compared(self, old: Node, new: Node, path: str) -> Iterator[str]:
        before, after = self._shape(old), self._shape(new)
        if isinstance(before, Nothing) or isinstance(after, Anything):
            return
        match before, after:
            case Combined(), Combined():
                yield from self._combined(before, after, path)
            case _, Combined():
                if not self._alternative(old, after):
                    yield f"{path}: {_said(before)} is none of the alternatives any more"
            case Combined(), _:
                if not self._narrower(before, new):
                    yield f"{path}: not all that was possible is {_said(after)}"
            case Plain(), Plain():
                yield from _plain(before, after, path)
            case OneOfValues(), OneOfValues():
                for value in sorted(before.values - after.values):
                    yield f"{path}: {value} is no value any more"
            case Object(), Object():
                yield from self._objects(before, after, path)
            case Array(), Array():
                yield from self._arrays(before, after, path)
            case Negated(), Negated():
                if not self._fits(after.of, before.of):
                    yield f"{path}: what it must not be has changed"
            case _:
                yield f"{path}: it was {_said(before)} and is {_said(after)}"

    def _alternative(self, old: Node, after: Combined) -> bool:
        """Whether a combination has a place for what was not one."""
        if after.word == "allOf" and len(after.parts) > 1:
            return False
        return any(self._fits(old, part) for part in after.parts)

    def _narrower(self, before: Combined, new: Node) -> bool:
        """Whether a combination is within what is not one any more."""
        if len(before.parts) > 1 and before.word != "allOf":
            return False
        return any(self._fits(part, new) for part in before.parts)

    def _combined(self, before: Combined, after: Combined, path: str) -> Iterator[str]:
        """Every alternative needs one that it fits; all that is demanded was demanded before."""
        wider = before.word in ("allOf", "oneOf") and after.word == "anyOf"
        if before.word != after.word and not wider and len(before.parts) != 1:
            yield f"{path}: it was {before.word} and is {after.word}"
            return
        narrowed = len(before.parts) > len(after.parts) and before.word != "allOf"
        extended = len(before.parts) < len(after.parts) and after.word == "allOf"
        if narrowed or extended:
            word = "fewer alternatives" if narrowed else "more demands"
            yield f"{path}: {after.word} has {word}"
            return
        matched = self._matched(before.parts, after.parts)
        if matched < min(len(before.parts), len(after.parts)):
            yield f"{path}: the schemas of {after.word} have changed"

    def _matched(self, before: Sequence[Node], after: Sequence[Node]) -> int:
        """How many of the schemas have one of their own that they fit, at most."""
        if max(len(before), len(after)) > PARTS_MAX:
            pairs = zip(before, after, strict=False)
            return sum(self._fits(old, new) for old, new in pairs)
        fits = [[self._fits(old, new) for new in after] for old in before]
        taken: dict[int, int] = {}

        def place(row: int, seen: set[int]) -> bool:
            for column, good in enumerate(fits[row]):
                if good and column not in seen:
                    seen.add(column)
                    if column not in taken or place(taken[column], seen):
                        taken[column] = row
                        return True
            return False

        return sum(place(row, set()) for row in range(len(before)))

    def _objects(self, before: Object, after: Object, path: str) -> Iterator[str]:
        yield from _limits(before.limits, after.limits, path)
        for name in sorted(after.required - before.required):
            if "default" not in _words(after.properties.get(name)):
                yield f"{path}/required: {name} is required now and has no default"
        yield from self._more(before, after, path)
        yield from self._patterned(before, after, path)
        for name in dict.fromkeys((*before.properties, *after.properties)):
            place = f"{path}/properties/{name}"
            if name not in before.properties:
                yield from self._added(before, after, name, place)
            elif name not in after.properties:
                yield from self._removed(before, after, name, place)
            else:
                yield from self.changes(before.properties[name], after.properties[name], place)

    def _more(self, before: Object, after: Object, path: str) -> Iterator[str]:
        if before.more is not None:
            where = f"{path}/additionalProperties"
            if after.more is None:
                yield f"{where}: there may be no other properties any more"
            else:
                yield from self.changes(before.more, after.more, where)

    def _patterned(self, before: Object, after: Object, path: str) -> Iterator[str]:
        """What has no property by its name, but a pattern before or now."""
        for pattern in dict.fromkeys((*before.patterned, *after.patterned)):
            where = f"{path}/patternProperties/{pattern}"
            old, new = before.patterned.get(pattern, before.more), after.patterned.get(pattern)
            if old is None:
                continue
            if new is None and (new := after.more) is None:
                yield f"{where}: it is removed, and there may be no other properties"
            else:
                yield from self.changes(old, new, where)

    def _added(self, before: Object, after: Object, name: str, path: str) -> Iterator[str]:
        new = after.properties[name]
        if before.open:
            if not isinstance(self._shape(new), Anything):
                yield f"{path}: it is new, and what was written may have any value there"
            return
        covering = before.covering(name)
        if covering is not None and not self._fits(covering, new):
            yield f"{path}: it is new, and what was written may have another type there"

    def _removed(self, before: Object, after: Object, name: str, path: str) -> Iterator[str]:
        old = before.properties[name]
        if after.open:
            return
        covering = after.covering(name)
        if covering is None:
            if not isinstance(self._shape(old), Nothing):
                yield f"{path}: it is removed, and there may be no other properties"
        elif not self._fits(old, covering):
            yield f"{path}: it is removed, and other properties have another type"

    def _arrays(self, before: Array, after: Array, path: str) -> Iterator[str]:
        yield from _limits(before.limits, after.limits, path)
        if after.limits.get("uniqueItems") and not before.limits.get("uniqueItems"):
            yield f"{path}/uniqueItems: equal items are not valid any more"
        for place in range(max(len(before.items), len(after.items))):
            old = before.items[place] if place < len(before.items) else before.more
            new = after.items[place] if place < len(after.items) else after.more
            if old is None:
                continue
            if new is None:
                yield f"{path}/items/{place}: there may be no such item any more"
            else:
                yield from self.changes(old, new, f"{path}/items/{place}")
        if before.more is not None:
            if after.more is None:
                yield f"{path}/items: there may be no more items"
            else:
                yield from self.changes(before.more, after.more, f"{path}/items")


def _plain(before: Plain, after: Plain, path: str) -> Iterator[str]:
    if before.type != after.type and (before.type, after.type) != ("integer", "number"):
        yield f"{path}: it was {before.type} and is {after.type}"
        return
    yield from _limits(before.limits, after.limits, path)
    old, new = before.limits.get("pattern"), after.limits.get("pattern")
    if new is not None and new != old:
        yield f"{path}/pattern: it is {new}, and was {old or 'none'}"
    old, new = before.limits.get("multipleOf"), after.limits.get("multipleOf")
    if new is not None and (old is None or not _divides(new, old)):
        yield f"{path}/multipleOf: it is {new}, and was {old or 'none'}"


def _limits(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[str]:
    for word in (*_UPPER, *_LOWER):
        old, new = before.get(word), after.get(word)
        if not isinstance(new, int | float):
            continue
        tighter = not isinstance(old, int | float) or (new < old if word in _UPPER else new > old)
        if tighter:
            yield f"{path}/{word}: it is {new}, and was {'none' if old is None else old}"


def _divides(new: Any, old: Any) -> bool:
    try:
        return bool(new) and not old % new
    except TypeError:
        return False


def _words(node: Node | None) -> Mapping[str, Any]:
    return node.given if node is not None and isinstance(node.given, dict) else {}


def _said(shape: Shape) -> str:
    match shape:
        case Plain(type=kind):
            return kind
        case Object():
            return "object"
        case Array():
            return "array"
        case OneOfValues():
            return "certain values"
        case Combined(word=word):
            return word
        case Negated():
            return "not another"
        case Nothing():
            return "nothing"
        case Anything():
            return "anything"
