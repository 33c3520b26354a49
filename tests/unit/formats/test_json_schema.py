"""JSON Schema as types of SQL."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream.formats.json_schema import ALTERNATIVE, json_text, json_type
from millstream.formats.registered_rows import ResolvedSchema
from millstream.formats.schema_error import SchemaError
from millstream.model.types import BIGINT, BOOLEAN, BYTES, DOUBLE, STRING, Array, Field, Map, Struct
from tests.unit.formats.columns import COLUMNS


def type_of(schema: Any, **imported: Any) -> Any:
    others = tuple((name, json.dumps(each)) for name, each in imported.items())
    return json_type(ResolvedSchema("JSON", json.dumps(schema), others))


def test_the_schema_of_columns_is_read_as_them() -> None:
    text = json_text(COLUMNS, wrapped=True)
    expected = Struct(tuple(Field(*column) for column in COLUMNS))
    assert json_type(ResolvedSchema("JSON", text)) == expected
    for column in COLUMNS:
        bare = json_text((column,), wrapped=False)
        assert json_type(ResolvedSchema("JSON", bare)) == column[1]


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "integer"}, BIGINT),
        ({"type": ["null", "number"]}, DOUBLE),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, BOOLEAN),
        ({"type": "string", "connect.type": "bytes"}, BYTES),
        ({"enum": ["a", "b"]}, STRING),
        ({"type": "array", "items": {"$ref": "#/definitions/x"},
          "definitions": {"x": {"type": "string"}}}, Array(STRING)),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, Map(STRING, BIGINT)),
        ({"type": "array", "connect.type": "map", "items": {"type": "object", "properties": {
            "key": {"type": "string"}, "value": {"type": "number"}}}}, Map(STRING, DOUBLE)),
        ({"oneOf": [{"type": "string"}, {"type": "null"}, {"type": "integer"}]},
         Struct((Field(f"{ALTERNATIVE}0", STRING), Field(f"{ALTERNATIVE}1", BIGINT)))),
        ({"type": ["boolean", "number"]},
         Struct((Field(f"{ALTERNATIVE}0", BOOLEAN), Field(f"{ALTERNATIVE}1", DOUBLE)))),
        ({"anyOf": [True, {}]}, None),
        ({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"type": "string"}}},
         Struct((Field("b", STRING),))),
        (True, None),
    ],
)  # fmt: skip
def test_types(schema: Any, kind: Any) -> None:
    assert type_of(schema) == kind


def test_properties_are_in_the_order_of_connect() -> None:
    one = {"type": "string", "connect.index": 1}
    other = {"type": "string", "connect.index": 0}
    schema = {"type": "object", "properties": {"z": {"type": "string"}, "b": one, "a": other}}
    assert [field.name for field in type_of(schema).fields] == ["a", "b", "z"]


def test_other_documents_are_those_that_are_imported() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "x#/definitions/n"}}}
    other = {"definitions": {"n": {"type": "number"}}}
    assert type_of(schema, x=other) == Struct((Field("a", DOUBLE),))
    with pytest.raises(SchemaError, match="refers to x, which it does not import"):
        type_of(schema)
    with pytest.raises(SchemaError, match="which it does not have"):
        type_of(schema, x={})


def test_types_that_double_at_each_name_are_refused() -> None:
    made = {"r0": {"type": "string"}} | {
        f"r{n}": {
            "type": "object",
            "properties": {name: {"$ref": f"#/definitions/r{n - 1}"} for name in "ab"},
        }
        for n in range(1, 40)
    }
    with pytest.raises(SchemaError, match="more than 10000 types"):
        type_of({"$ref": "#/definitions/r39", "definitions": made})
