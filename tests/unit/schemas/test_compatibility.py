"""Which changes of schemas are compatible, for each kind, and that these can be read."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import jsonschema
import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from millstream.formats.registered_rows import ResolvedSchema
from millstream.formats.schema_error import SchemaError
from millstream.schemas.compatibility import Level, check_schema, incompatibilities, normal
from millstream.schemas.json_changes import json_changes
from millstream.schemas.json_shapes import Document, document
from tests.conformance.messages import messages_of
from tests.draws import draws

INT, TEXT, NUMBER = {"type": "integer"}, {"type": "string"}, {"type": "number"}
NULL = {"type": "null"}


def avro(*fields: Any, **more: Any) -> str:
    """A record; fields are (name, type) or (name, type, default)."""
    made = [
        dict(zip(("name", "type", "default"), each, strict=False))
        if isinstance(each, tuple)
        else each
        for each in fields
    ]
    return json.dumps({"type": "record", "name": "r", "fields": made, **more})


def enum(*symbols: str, **more: Any) -> str:
    return json.dumps({"type": "enum", "name": "e", "symbols": symbols, **more})


def proto(fields: str, more: str = "", package: str = "p", syntax: str = "proto3") -> str:
    return f'syntax = "{syntax}"; package {package}; message M {{ {fields} }} {more}'


def obj(properties: dict[str, Any], **more: Any) -> str:
    return json.dumps({"type": "object", "properties": properties, **more})


CLOSED = {"additionalProperties": False}
CASES: dict[str, list[tuple[str, str, bool, bool]]] = {
    # The old schema, the new one, whether the new one reads the old one's, and the other way round.
    "AVRO": [
        (avro(("a", "int")), avro(("a", "int"), ("b", "int")), False, True),
        (avro(("a", "int")), avro(("a", "int"), ("b", "int", 0)), True, True),
        (avro(("a", "int")), avro(("a", "long")), True, False),
        (avro(("a", "int")), avro(("a", "string")), False, False),
        (avro(("a", "int")), avro(("a", ["null", "int"])), True, False),
        (avro(("a", "bytes")), avro(("a", "string")), True, True),
        (avro(("a", "int")), avro({"name": "b", "type": "int", "aliases": ["a"]}), True, False),
        (enum("A", "B"), enum("A", "B", "C"), True, False),
        (enum("A", "B"), enum("A", default="A"), True, True),
        ('"int"', '"double"', True, False),
        ('{"type": "array", "items": "int"}', '{"type": "map", "values": "int"}', False, False),
        (
            '{"type": "fixed", "name": "f", "size": 2}',
            '{"type": "fixed", "name": "f", "size": 3}',
            *(False, False),
        ),
    ],
    "PROTOBUF": [
        (proto("int32 a = 1;"), proto("int32 a = 1; string b = 2;"), True, True),
        (proto("int32 a = 1; string b = 2;"), proto("int32 a = 1;"), True, True),
        (proto("int32 a = 1;"), proto("int32 other = 1;", package="q"), True, True),
        (proto("int32 a = 1;"), proto("int64 a = 1;"), True, True),
        (proto("int32 a = 1;"), proto("bool a = 1;"), True, True),
        (proto("int32 a = 1;"), proto("E a = 1; enum E { Z = 0; }"), True, True),
        (proto("int32 a = 1;"), proto("sint32 a = 1;"), False, False),
        (proto("int32 a = 1;"), proto("string a = 1;"), False, False),
        (proto("string a = 1;"), proto("bytes a = 1;"), True, True),
        (proto("string a = 1;"), proto("repeated string a = 1;"), True, True),
        (proto("int32 a = 1;"), proto("repeated int32 a = 1;"), False, False),
        (
            proto("N a = 1;", "message N {}"),
            proto("O a = 1;", "message N {} message O {}"),
            False,
            False,
        ),
        (proto("", "message N {}"), proto(""), False, True),
        (proto("message N {}"), proto(""), False, True),
        (proto("map<string, int32> a = 1;"), proto("map<string, string> a = 1;"), False, False),
        (proto("int32 a = 1;"), proto("oneof c { int32 a = 1; }"), True, True),
        (
            proto("int32 a = 1; int32 b = 2;"),
            proto("oneof c { int32 a = 1; int32 b = 2; }"),
            *(False, True),
        ),
        (
            proto("oneof c { int32 a = 1; int32 b = 2; }"),
            proto("oneof c { int32 a = 1; }"),
            *(False, True),
        ),
        (
            proto("oneof c { int32 a = 1; } int32 b = 2;"),
            proto("oneof c { int32 a = 1; int32 b = 2; }"),
            *(False, False),
        ),
        (
            proto("optional int32 a = 1;", syntax="proto2"),
            proto("optional int32 a = 1; required int32 b = 2;", syntax="proto2"),
            *(False, False),
        ),
    ],
    "JSON": [
        (obj({"a": INT}), obj({"a": INT, "b": TEXT}), False, True),
        (obj({"a": INT}), obj({"a": INT, "b": {}}), True, True),
        (obj({"a": INT}, **CLOSED), obj({"a": INT, "b": TEXT}, **CLOSED), True, False),
        (
            obj({"a": INT}, **CLOSED),
            obj({"a": INT, "b": TEXT}, required=["b"], **CLOSED),
            False,
            False,
        ),
        (
            obj({"a": INT}, **CLOSED),
            obj({"a": INT, "b": {**TEXT, "default": ""}}, required=["b"], **CLOSED),
            *(True, False),
        ),
        (obj({"a": INT}, **CLOSED), obj({"a": INT}), True, False),
        (obj({"a": INT}), obj({"a": INT}, required=["a"]), False, True),
        (obj({"a": INT}), obj({"a": NUMBER}), True, False),
        (obj({"a": INT}), obj({"a": TEXT}), False, False),
        (
            obj({"a": INT}, additionalProperties=TEXT),
            obj({"a": INT, "b": TEXT}, additionalProperties=TEXT),
            True,
            True,
        ),
        (
            obj({"a": INT}, additionalProperties=TEXT),
            obj({"a": INT, "b": INT}, additionalProperties=TEXT),
            False,
            False,
        ),
        (json.dumps(INT), json.dumps({"oneOf": [NULL, INT]}), True, False),
        (json.dumps(INT), '{"type": ["null", "integer"]}', True, False),
        ('{"oneOf": [{"type": "null"}]}', '{"type": "null"}', True, True),
        ('{"type": "string", "maxLength": 3}', '{"type": "string", "maxLength": 5}', True, False),
        ('{"type": "string"}', '{"type": "string", "pattern": "a"}', False, True),
        ('{"enum": ["a"]}', '{"enum": ["a", "b"]}', True, False),
        ('{"type": "integer", "minimum": 1}', '{"type": "integer"}', True, False),
        (
            '{"type": "number", "multipleOf": 10}',
            '{"type": "number", "multipleOf": 5}',
            True,
            False,
        ),
        ('{"type": "array", "items": {"type": "integer"}}', '{"type": "array"}', True, False),
        ('{"type": "array"}', '{"type": "array", "uniqueItems": true}', False, True),
        ("true", '{"type": "string"}', False, True),
        ("false", '{"type": "string"}', True, False),
        ('{"not": {"type": "string"}}', '{"not": {"type": "string", "maxLength": 1}}', True, False),
        (
            '{"$ref": "#/definitions/x", "definitions": {"x": {"type": "integer"}}}',
            '{"$ref": "#/definitions/y", "definitions": {"y": {"type": "number"}}}',
            *(True, False),
        ),
        ('{"allOf": [{"type": "object"}, {"required": ["a"]}]}', '{"type": "object"}', True, False),
    ],
}
PAIRS = [(kind, *case) for kind, cases in CASES.items() for case in cases]


def schema(kind: str, text: str) -> ResolvedSchema:
    return ResolvedSchema(kind, text)


@pytest.mark.parametrize(("kind", "old", "new", "backward", "forward"), PAIRS)
def test_changes(kind: str, old: str, new: str, backward: bool, forward: bool) -> None:
    before, after = schema(kind, old), schema(kind, new)
    for each in (before, after):
        check_schema(each)
    expected = {
        Level.BACKWARD: backward,
        Level.FORWARD: forward,
        Level.FULL: backward and forward,
        Level.NONE: True,
    }
    for level, fits in expected.items():
        reasons = incompatibilities(level, after, [before])
        assert (reasons == []) is fits, (level, reasons)
    for each in (before, after):
        assert incompatibilities(Level.FULL, each, [each]) == []


def test_which_versions_count() -> None:
    texts = [
        avro(("a", "int")),
        avro(("a", "int"), ("b", "int", 0)),
        avro(("a", "int"), ("b", "int")),
    ]
    first, second, third = (schema("AVRO", text) for text in texts)
    assert incompatibilities(Level.BACKWARD, third, [first, second]) == []
    (reason,) = incompatibilities(Level.BACKWARD_TRANSITIVE, third, [first, second])
    assert "b" in reason and "default" in reason
    assert incompatibilities(Level.BACKWARD, first, []) == []
    (reason,) = incompatibilities(Level.BACKWARD, schema("JSON", "{}"), [first])
    assert "AVRO" in reason and "JSON" in reason


@pytest.mark.parametrize(
    ("kind", "old", "new", "told"),
    [
        ("AVRO", avro(("a", "int")), avro(("a", "string")), ("a", "int", "string")),
        ("PROTOBUF", proto("int32 a = 1;"), proto("string a = 1;"), ("(a)", "int32", "string")),
        ("JSON", obj({"a": INT}), obj({"a": TEXT}), ("/properties/a", "integer", "string")),
    ],
)
def test_a_reason_names_the_field_and_both_types(
    kind: str, old: str, new: str, told: tuple[str, ...]
) -> None:
    (reason,) = incompatibilities(Level.BACKWARD, schema(kind, new), [schema(kind, old)])
    assert all(word in reason for word in told)


def test_what_is_no_schema() -> None:
    wrong = {
        "AVRO": ["{", '"unknown"', '{"type": "record"}', "[" * 2_000],
        "PROTOBUF": ["{", 'syntax = "proto3"; message M { Unknown a = 1; }'],
        "JSON": ["{", "[]", '"x"', '{"$ref": "#/nowhere"}', '{"type": "unknown"}'],
    }
    for kind, texts in wrong.items():
        for text in texts:
            with pytest.raises(SchemaError):
                check_schema(schema(kind, text))


def test_schemas_that_double_at_each_reference_end() -> None:
    defined: dict[str, Any] = {"a0": INT}
    for n in range(1, 80):
        last = {"$ref": f"#/d/a{n - 1}"}
        defined[f"a{n}"] = {"oneOf": [last, {"type": "array", "items": last}, obj_of(last)]}
    other = {**defined, "a0": TEXT}
    first, second = (
        document(json.dumps({"$ref": "#/d/a60", "d": d}), {}) for d in (defined, other)
    )
    assert json_changes(first, first) == []
    assert json_changes(second, first)
    circle = document(
        '{"$ref": "#/d/a", "d": {"a": {"$ref": "#/d/b"}, "b": {"$ref": "#/d/a"}}}', {}
    )
    with pytest.raises(SchemaError, match="circle"):
        json_changes(circle, circle)


def obj_of(of: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": of, "y": of}}


def test_recursion() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "n": INT}, **CLOSED}
    wider = {**tree, "properties": {"left": {"$ref": "#"}, "n": NUMBER}}
    one, two = (document(json.dumps(each), {}) for each in (tree, wider))
    assert json_changes(two, one) == []
    assert json_changes(one, two)


def test_what_fits_only_if_something_else_did() -> None:
    """While `p` is compared, `r` within it fits, because what it has is assumed to fit. Another
    alternative takes what `p` was, but none takes what `r` was elsewhere."""

    def given(kind: Any, first: Any) -> Document:
        defined = {
            "q": obj_closed({"p": {"$ref": "#/d/p"}}),
            "p": obj_closed({"r": {"$ref": "#/d/r"}, "c": kind}),
            "r": obj_closed({"q": {"$ref": "#/d/q"}}),
        }
        root = obj_closed({"first": first, "second": {"$ref": "#/d/r"}})
        return document(json.dumps({"d": defined, **root}), {})

    of_q = {"$ref": "#/d/q"}
    old, new = given(INT, of_q), given(TEXT, {"anyOf": [of_q, {"type": "object"}]})
    assert json_changes(new, old)
    assert json_changes(given(INT, {"anyOf": [of_q, {"type": "object"}]}), old) == []


def obj_closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **CLOSED}


PATTERNED = {"type": "object", "patternProperties": {"^x": INT}}


@pytest.mark.parametrize(
    ("old", "new", "backward"),
    [
        (PATTERNED, {**PATTERNED, "patternProperties": {"^x": NUMBER}}, True),
        (PATTERNED, {**PATTERNED, "patternProperties": {"^x": TEXT}}, False),
        (PATTERNED, {"type": "object"}, True),
        ({"type": "object"}, PATTERNED, False),
        ({**PATTERNED, **CLOSED}, {"type": "object", **CLOSED}, False),
        ({"type": "object", **CLOSED}, {**PATTERNED, **CLOSED}, True),
        ({"type": "object", "additionalProperties": INT}, PATTERNED, True),
        ({"type": "object", "additionalProperties": TEXT}, PATTERNED, False),
    ],
)
def test_patterns(old: Any, new: Any, backward: bool) -> None:
    before, after = (schema("JSON", json.dumps(each)) for each in (old, new))
    assert (incompatibilities(Level.BACKWARD, after, [before]) == []) is backward


def test_patterns_that_cannot_be_used() -> None:
    for pattern, told in (("(", "no pattern"), ("^(a|aa)+$", "takes too long")):
        given = {"type": "object", "patternProperties": {pattern: INT}, **CLOSED}
        more = {**given, "properties": {"a" * 60 + "!": TEXT}}
        before, after = (schema("JSON", json.dumps(each)) for each in (given, more))
        with pytest.raises(SchemaError, match=told):
            incompatibilities(Level.BACKWARD, after, [before])


PLAIN = st.one_of(
    st.sampled_from([INT, NUMBER, TEXT, NULL, {"type": "boolean"}, True]),
    st.builds(lambda n: {"type": "integer", "minimum": n}, st.integers(0, 2)),
    st.builds(lambda n: {"type": "integer", "maximum": n}, st.integers(0, 2)),
    st.builds(lambda n: {"type": "string", "maxLength": n}, st.integers(0, 2)),
    st.builds(
        lambda v: {"enum": v},
        st.lists(st.sampled_from([0, 1, "a", None]), min_size=1, unique_by=repr),
    ),
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda properties, required, more: {
            "type": "object",
            "properties": properties,
            "required": required,
            **({} if more is None else {"additionalProperties": more}),
        },
        st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        st.lists(st.sampled_from("ab"), max_size=2, unique=True),
        st.one_of(st.none(), st.just(False), inner),
    )


SCHEMAS = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        _objects(inner),
        st.builds(lambda of: {"type": "array", "items": of}, inner),
        st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"allOf": parts}, st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=5,
)
VALUES = st.recursive(
    st.sampled_from([0, 1, 2, 3, -1, 1.5, "", "a", "abc", None, True]),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("ab"), inner, max_size=2), st.lists(inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=draws(500), deadline=None, suppress_health_check=list(HealthCheck))
@given(SCHEMAS, SCHEMAS, st.lists(VALUES, min_size=20, max_size=20))
def test_what_is_valid_by_the_old_schema_is_by_a_compatible_one(
    old: Any, new: Any, values: list[Any]
) -> None:
    assume(not json_changes(Document(new), Document(old)))
    before, after = (jsonschema.Draft7Validator(each) for each in (old, new))
    for value in values:
        assert after.is_valid(value) or not before.is_valid(value), value


AVRO_TYPES = st.recursive(
    st.sampled_from(["int", "long", "double", "string", "bytes", "null"]),
    lambda inner: st.one_of(
        st.builds(lambda of: {"type": "array", "items": of}, inner),
        st.builds(
            lambda of: ["null", of],
            inner.filter(lambda of: of != "null" and not isinstance(of, list)),
        ),
    ),
    max_leaves=3,
)
RECORDS = st.lists(
    st.tuples(st.sampled_from("abc"), AVRO_TYPES, st.booleans()),
    max_size=3,
    unique_by=lambda f: f[0],
)
AVRO_VALUES = {"int": 1, "long": 2, "double": 0.5, "string": "s", "bytes": b"b", "null": None}


def _record(fields: list[tuple[str, Any, bool]]) -> dict[str, Any]:
    nullable = [
        {"name": name, "type": kind, **({"default": None} if given and _has_null(kind) else {})}
        for name, kind, given in fields
    ]
    return {"type": "record", "name": "r", "fields": nullable}


def _has_null(kind: Any) -> bool:
    return kind == "null" or (isinstance(kind, list) and kind[0] == "null")


def _value(kind: Any) -> Any:
    if isinstance(kind, list):
        return _value(kind[1])
    return [_value(kind["items"])] if isinstance(kind, dict) else AVRO_VALUES[kind]


@settings(max_examples=draws(400), deadline=None, suppress_health_check=list(HealthCheck))
@given(RECORDS, RECORDS)
def test_avro_s_other_library_reads_what_is_compatible(old: Any, new: Any) -> None:
    before, after = _record(old), _record(new)
    texts = [schema("AVRO", json.dumps(each)) for each in (before, after)]
    assume(incompatibilities(Level.BACKWARD, texts[1], [texts[0]]) == [])
    out = io.BytesIO()
    fastavro.schemaless_writer(out, before, {name: _value(kind) for name, kind, _ in old})
    out.seek(0)
    found = fastavro.schemaless_reader(out, before, after)
    assert set(found) == {name for name, _, _ in new}


FIELDS = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from(["int32", "int64", "bool", "sint32", "string", "bytes", "fixed32"]),
        st.booleans(),
    ),
    max_size=3,
    unique_by=lambda field: field[0],
)


@settings(max_examples=draws(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(FIELDS, FIELDS)
def test_google_s_library_reads_what_is_compatible(old: Any, new: Any) -> None:
    texts = [
        proto(
            " ".join(
                f"{'repeated ' if many else ''}{kind} f{number} = {number};"
                for number, kind, many in fields
            )
        )
        for fields in (old, new)
    ]
    assume(
        incompatibilities(
            Level.BACKWARD, schema("PROTOBUF", texts[1]), [schema("PROTOBUF", texts[0])]
        )
        == []
    )
    kinds = [GetMessageClass(messages_of(text, ())[0]) for text in texts]
    values = {"bool": True, "string": "1", "bytes": b"1"}
    given_values = {
        f"f{number}": [values.get(kind, 1)] if many else values.get(kind, 1)
        for number, kind, many in old
    }
    found = kinds[1].FromString(kinds[0](**given_values).SerializeToString())
    for number, kind, many in new:
        if f"f{number}" in given_values:
            value = getattr(found, f"f{number}")
            value = value[-1] if many else value
            assert value in (1, True, "1", b"1"), (number, kind)


def test_equal_schemas_have_equal_texts() -> None:
    from millstream.model.schema_text import SchemaText

    spaced = SchemaText("AVRO", '{"type": "map",\n "values" : "int"}')
    assert normal(spaced).text == '{"type":"map","values":"int"}'
    assert normal(SchemaText("JSON", "{ }")) == SchemaText("JSON", "{}")
