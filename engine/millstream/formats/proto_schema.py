"""Reads Protobuf's language: the messages of a file, with those that it imports.

The syntax is read by proto-schema-parser; names are resolved here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from antlr4.error.ErrorListener import ErrorListener
from proto_schema_parser import ast
from proto_schema_parser.parser import Parser

from millstream.formats.proto_descriptor_read import descriptor_text, is_descriptor
from millstream.formats.proto_types import (
    DECIMAL_DIGITS,
    SCALARS,
    Enumerated,
    Known,
    Label,
    MapOf,
    Message,
    ProtoField,
    ProtoType,
    Recursion,
    Scalar,
    Wrapper,
)
from millstream.formats.schema_error import SchemaError, Size
from millstream.model.types import DATE, TIME, TIMESTAMP, Decimal

DEPTH_MAX = 100
LENGTH_MAX = 1 << 20
"""The longest text that is read."""
_BUILT_IN = """
syntax = "proto3";
package google.protobuf;
message Duration { int64 seconds = 1; int32 nanos = 2; }
message Any { string type_url = 1; bytes value = 2; }
message Empty {}
message FieldMask { repeated string paths = 1; }
"""
_KNOWN = {
    ".google.type.Date": Known(DATE),
    ".google.type.TimeOfDay": Known(TIME),
    ".google.protobuf.Timestamp": Known(TIMESTAMP),
}
_WRAPPERS = {
    f".google.protobuf.{name}Value": Wrapper(Scalar(of))
    for name, of in (
        ("Double", "double"),
        ("Float", "float"),
        ("Int64", "int64"),
        ("UInt64", "uint64"),
        ("Int32", "int32"),
        ("UInt32", "uint32"),
        ("Bool", "bool"),
        ("String", "string"),
        ("Bytes", "bytes"),
    )
}
_DECIMAL = ".confluent.type.Decimal"
_WELL_KNOWN = {f".google.protobuf.{name}" for name in ("Duration", "Any", "Empty", "FieldMask")}


@dataclass(frozen=True, slots=True)
class ProtoFile:
    """A file. `messages`: those of its outermost level, in order; `nested`: by the path of their
    numbers, such as (0, 2) for the third one within the first."""

    messages: tuple[Message, ...]
    nested: Mapping[tuple[int, ...], Message]
    package: str = ""

    def path_of(self, name: str) -> tuple[int, ...]:
        """The path of the message with a name, full or without its package. Raises SchemaError."""
        for path, message in self.nested.items():
            if message.name == name or message.name.endswith(f".{name}"):
                return path
        raise SchemaError(f"the schema has no message {name}")


def parse_proto(text: str, imported: Sequence[tuple[str, str]] = ()) -> ProtoFile:
    """Read a file; `imported`: the names and texts of those that it imports. Raises SchemaError,
    also for a file without a message."""
    file = parse_any_proto(text, imported)
    if not file.messages:
        raise SchemaError("the schema has no message")
    return file


def parse_any_proto(text: str, imported: Sequence[tuple[str, str]] = ()) -> ProtoFile:
    """As `parse_proto`, also for files that others import, which may have enums only."""
    file = read_syntax(text)
    names = names_of(file, (_BUILT_IN, *(each for _, each in imported)))
    found: dict[tuple[int, ...], Message] = {}
    for path, full in _paths(of_kind(file.file_elements, ast.Message), _package(file), ()):
        made = names.resolved(full)
        assert isinstance(made, Message)
        found[path] = made
    outer = tuple(message for path, message in found.items() if len(path) == 1)
    return ProtoFile(outer, found, _package(file)[1:])


def read_syntax(text: str) -> ast.File:
    """Parse a text, or a descriptor in base64. Raises SchemaError."""
    if len(text) > LENGTH_MAX:
        raise SchemaError(f"the schema has more than {LENGTH_MAX} characters")
    if is_descriptor(text):
        text = descriptor_text(text)
    try:
        return Parser(setup_lexer=_strictly, setup_parser=_strictly).parse(text)
    except SchemaError:
        raise
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
    except Exception as error:
        # The parser raises exceptions of several libraries.
        raise SchemaError(f"the schema is not Protobuf's language: {error}") from error


def names_of(file: ast.File, others: Iterable[str]) -> Names:
    """What a file and the texts of others define. Raises SchemaError."""
    names = Names()
    for other in others:
        names.add(read_syntax(other))
    names.add(file)
    return names


class _Strict(ErrorListener):  # type: ignore[misc]
    """Raises at a mistake, where ANTLR would print it and go on."""

    def syntaxError(  # noqa: N802
        self, recognizer: Any, symbol: Any, line: int, column: int, message: str, error: Any
    ) -> None:
        del recognizer, symbol, error
        shown = message.partition(" expecting ")[0]
        raise SchemaError(f"line {line}, column {column + 1} of the schema: {shown}")


def _strictly(reader: Any) -> None:
    reader.removeErrorListeners()
    reader.addErrorListener(_Strict())


def _package(file: ast.File) -> str:
    found = of_kind(file.file_elements, ast.Package)
    return f".{found[0].name}" if found else ""


def of_kind(elements: Sequence[Any], kind: type[Any]) -> list[Any]:
    """The elements of a file, message or enum that are of a kind."""
    return [each for each in elements if isinstance(each, kind)]


def _paths(
    messages: Sequence[ast.Message], space: str, before: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], str]]:
    for number, message in enumerate(messages):
        full = f"{space}.{message.name}"
        yield (*before, number), full
        inner = of_kind(message.elements, ast.Message)
        yield from _paths(inner, full, (*before, number))


@dataclass(slots=True)
class Names:
    """What files define, by full names with a point before them."""

    defined: dict[str, ast.Message | ast.Enum] = field(default_factory=dict)
    proto2: set[str] = field(default_factory=set)
    size: Size = field(default_factory=Size)

    def add(self, file: ast.File) -> None:
        """Note what a file defines. One that names no syntax is in that of proto2."""
        self._add(file.file_elements, _package(file), proto2=file.syntax != "proto3")

    def _add(self, elements: Sequence[Any], space: str, *, proto2: bool) -> None:
        for each in elements:
            if isinstance(each, ast.Message | ast.Enum):
                full = f"{space}.{each.name}"
                self.defined[full] = each
                if proto2:
                    self.proto2.add(full)
                if isinstance(each, ast.Message):
                    self._add(each.elements, full, proto2=proto2)

    def resolved(self, full: str, around: tuple[str, ...] = ()) -> Message | Enumerated | Recursion:
        """What a full name means; `around`: the messages around its use."""
        self.size.count()
        if full in around:
            return Recursion(full[1:])
        if len(around) > DEPTH_MAX:
            raise SchemaError(f"the schema is nested more than {DEPTH_MAX} levels deep")
        given = self.defined[full]
        if isinstance(given, ast.Enum):
            values = of_kind(given.elements, ast.EnumValue)
            return Enumerated(tuple((value.number, value.name) for value in values))
        fields = tuple(self._fields(given.elements, full, (*around, full)))
        return Message(full[1:], fields)

    def found(self, name: str, full: str) -> tuple[str, bool] | None:
        """The full name of what a name means within a message, and whether it is an enum."""
        for each in _absolute(name, full):
            if each in self.defined:
                return each, isinstance(self.defined[each], ast.Enum)
            if each in _KNOWN or each in _WRAPPERS or each == _DECIMAL or each in _WELL_KNOWN:
                return each, False
        return None

    def _fields(
        self, elements: Sequence[Any], full: str, around: tuple[str, ...], choice: str = ""
    ) -> Iterator[ProtoField]:
        """`choice`: the name of the alternatives that they are, so that each may be missing."""
        for each in elements:
            match each:
                case ast.Field():
                    kind = self._type(each.type, full, around, each.options)
                    label = self._label(each, full, alone=bool(choice))
                    required = each.cardinality is ast.FieldCardinality.REQUIRED
                    yield ProtoField(each.number, each.name, kind, label, choice, required)
                case ast.MapField():
                    key = self._type(each.key_type, full, around, ())
                    value = self._type(each.value_type, full, around, each.options)
                    if not isinstance(key, Scalar):
                        raise SchemaError(f"the keys of the map {each.name} are no scalars")
                    yield ProtoField(each.number, each.name, MapOf(key, value))
                case ast.OneOf():
                    yield from self._fields(each.elements, full, around, each.name)

    def _label(self, given: ast.Field, full: str, *, alone: bool) -> Label:
        match given.cardinality:
            case ast.FieldCardinality.REPEATED:
                return Label.REPEATED
            case ast.FieldCardinality.OPTIONAL:
                return Label.OPTIONAL
        return Label.OPTIONAL if alone or full in self.proto2 else Label.SINGULAR

    def _type(
        self, name: str, full: str, around: tuple[str, ...], options: Sequence[Any]
    ) -> ProtoType:
        if name in SCALARS:
            return Scalar(name)
        for each in _absolute(name, full):
            if each in _KNOWN:
                return _KNOWN[each]
            if each in _WRAPPERS:
                return _WRAPPERS[each]
            if each == _DECIMAL:
                return Known(_decimal(options))
            if each in self.defined:
                return self.resolved(each, around)
        raise SchemaError(f"there is no message or enum {name}")


def _absolute(name: str, full: str) -> Iterator[str]:
    """The full names that a name may mean within a message, the innermost first."""
    if name.startswith("."):
        yield name
        return
    space = full
    while space:
        yield f"{space}.{name}"
        space = space.rpartition(".")[0]
    yield f".{name}"


def _decimal(options: Sequence[Any]) -> Decimal:
    """The type of a decimal by the parameters in its options."""
    found: dict[str, str] = {}
    for option in options:
        found |= dict(params_of(option))
    try:
        scale = int(found.get("scale", 0))
        precision = int(found.get("precision", DECIMAL_DIGITS))
    except ValueError:
        raise SchemaError("the parameters of a decimal are no numbers") from None
    if not 0 <= scale <= precision:
        raise SchemaError(f"there is no decimal of {precision} digits with {scale} after the point")
    return Decimal(precision, scale)


def params_of(option: ast.Option) -> list[tuple[str, str]]:
    """The parameters in Confluent's option of a field, each with its value; none in others."""
    found = []
    if option.name.partition(".")[0] == "(confluent":
        for each in getattr(option.value, "elements", ()):
            if each.name == "params":
                for entry in each.value if isinstance(each.value, list) else [each.value]:
                    parts = {part.name: str(part.value) for part in entry.elements}
                    found.append((parts.get("key", ""), parts.get("value", "")))
    return found
