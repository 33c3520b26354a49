"""Whether messages of one Protobuf schema are read right by another one, by the rules of the
registry of Confluent: numbers of fields decide, names do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from millstream.formats.proto_schema import ProtoFile
from millstream.formats.proto_types import (
    Enumerated,
    Known,
    Label,
    MapOf,
    Message,
    ProtoField,
    ProtoType,
    Recursion,
    Scalar,
    Unrepeatable,
    Wrapper,
)

_ALIKE = (
    frozenset(("int32", "uint32", "int64", "uint64", "bool", "enum")),
    frozenset(("sint32", "sint64")),
    frozenset(("string", "bytes")),
    frozenset(("fixed32", "sfixed32")),
    frozenset(("fixed64", "sfixed64")),
)
"""Types that are written alike."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field. `written`: what decides how its values are written."""

    field: ProtoField
    written: str
    is_number: bool


_Message = Mapping[int, _Field]
"""Fields by number."""


def proto_changes(reader: ProtoFile, writer: ProtoFile) -> list[str]:
    """Why a reader cannot use what a writer writes; empty if it can."""
    before, after = _messages(writer), _messages(reader)
    found: list[str] = []
    for name, old in before.items():
        new = after.get(name)
        if new is None:
            found.append(f"message {name} is removed")
        else:
            found += _of_message(name, old, new)
    return found


def _messages(file: ProtoFile) -> Mapping[str, _Message]:
    """By their names without the package, which may change."""
    found = {}
    for message in file.nested.values():
        fields = [
            _Field(each, _written(each.type, file.package), _is_number(each.type))
            for each in message.fields
        ]
        found[_local(message.name, file.package)] = {each.field.number: each for each in fields}
    return found


def _local(name: str, package: str) -> str:
    return name.removeprefix(f"{package}.") if package else name


def _of_message(name: str, before: _Message, after: _Message) -> Iterator[str]:
    for number in sorted(before.keys() | after.keys()):
        was, now = before.get(number), after.get(number)
        if was is None:
            if now is not None and now.field.required:
                yield f"field {number} ({now.field.name}) of {name} is new and required"
        elif now is None:
            if was.field.required:
                yield f"field {number} ({was.field.name}) of {name} was required and is removed"
        else:
            yield from _of_field(name, was, now)
    yield from _of_choices(name, before, after)


def _of_field(name: str, was: _Field, now: _Field) -> Iterator[str]:
    place = f"field {now.field.number} ({now.field.name}) of {name}"
    if not _alike(was.written, now.written):
        yield f"{place} was {was.written} and is {now.written}"
        return
    lists = was.field.label is Label.REPEATED, now.field.label is Label.REPEATED
    # Of several texts the last one is taken; numbers of a list are written in another way.
    if (lists[0] != lists[1] and was.is_number) or was.field.required != now.field.required:
        yield f"{place} was {_occurs(was.field)} and is {_occurs(now.field)}"


def _of_choices(name: str, before: _Message, after: _Message) -> Iterator[str]:
    """What changes about the groups of fields of which one is there."""
    old = {each.field.choice for each in before.values()} - {""}
    new = {each.field.choice for each in after.values()} - {""}
    for number, was in sorted(before.items()):
        choice, now = was.field.choice, after.get(number)
        if choice in new and (now is None or now.field.choice != choice):
            yield f"field {number} ({was.field.name}) of {name} has left the oneof {choice}"
    for choice in sorted(new):
        moved = [
            number
            for number, now in sorted(after.items())
            if now.field.choice == choice and number in before and not before[number].field.choice
        ]
        if moved and (choice in old or len(moved) > 1):
            numbers = ", ".join(map(str, moved))
            yield f"the fields {numbers} of {name} have moved to the oneof {choice}"


def _alike(old: str, new: str) -> bool:
    return old == new or any(old in each and new in each for each in _ALIKE)


def _written(kind: ProtoType, package: str) -> str:
    """What decides how a value is written."""
    match kind:
        case Scalar(name):
            return name
        case Enumerated():
            return "enum"
        case MapOf(key, value):
            return f"map of {key.name} and {_written(value, package)}"
        case Message(name=name) | Recursion(name):
            return f"message {_local(name, package)}"
        case Wrapper(of):
            return f"wrapper of {of.name}"
        case Known(type) | Unrepeatable(type):
            return str(type)


def _is_number(kind: ProtoType) -> bool:
    match kind:
        case Scalar(name):
            return name not in ("string", "bytes")
        case _:
            return isinstance(kind, Enumerated)


def _occurs(field: ProtoField) -> str:
    return "required" if field.required else field.label.value.lower()
