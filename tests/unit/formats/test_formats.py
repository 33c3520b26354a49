"""One suite for all formats: what is written is read back, and the bytes are the agreed ones."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.catalog.source import Format
from millstream.formats.codec import DecodeSpec, EncodeSpec, decode, encode
from millstream.formats.validate import supports_type
from millstream.model.batch import PART, raw_batch
from millstream.model.physical import arrow_type, physical_names
from millstream.model.schema import Column, Role, Schema, WindowedKey, WindowKind
from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Map,
    Primitive,
    SqlType,
    Struct,
)
from tests.draws import draws

CON = duckdb.connect(config={"threads": 1})
SCALARS: list[SqlType] = [
    *(BOOLEAN, INTEGER, BIGINT, DOUBLE, STRING, BYTES, DATE, TIME, TIMESTAMP),
    Decimal(4, 2),
    Decimal(38, 10),
]
NESTED: list[SqlType] = [
    Array(INTEGER),
    Array(STRING),
    Map(STRING, DOUBLE),
    Struct((Field("F", INTEGER), Field("G", STRING))),
    Array(Struct((Field("F", DOUBLE), Field("T", TIMESTAMP)))),
    Struct((Field("D", DATE), Field("M", Map(STRING, STRING)), Field("B", BYTES))),
]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["", '"', ",", "a,b", " a ", "-1", "#x", "\n", "NULL", '""', "é😀", "x\ty"]
)


def values(sql_type: SqlType, inner: bool = False) -> st.SearchStrategy[Any]:
    match sql_type:
        case Decimal(precision, scale):
            found: st.SearchStrategy[Any] = st.integers(
                -(10**precision) + 1, 10**precision - 1
            ).map(lambda n: decimal.Decimal(n).scaleb(-scale, decimal.Context(prec=50)))
        case Array(element):
            found = st.lists(values(element, True), max_size=3)
        case Map(_, member):
            found = st.dictionaries(texts, values(member, True), max_size=3).map(
                lambda entries: list(entries.items())
            )
        case Struct(fields):
            names = [field.name for field in fields]
            found = st.tuples(*(values(field.type) for field in fields)).map(
                lambda members: dict(zip(names, members, strict=True))
            )
        case _:
            found = SIMPLE[sql_type]
    return found if inner else st.none() | found


SIMPLE: dict[SqlType, st.SearchStrategy[Any]] = {
    BOOLEAN: st.booleans(),
    INTEGER: st.integers(-(2**31), 2**31 - 1),
    BIGINT: st.integers(-(2**63), 2**63 - 1),
    DOUBLE: st.floats() | st.sampled_from([0.0, -0.0, 1e7, 9999999.5, 0.001, 1e-4, 123456789.25]),
    STRING: texts,
    BYTES: st.binary(max_size=5),
    DATE: st.dates(),
    TIME: st.integers(0, 86_399_999).map(
        lambda ms: (datetime.datetime.min + datetime.timedelta(milliseconds=ms)).time()
    ),
    TIMESTAMP: st.integers(-(10**13), 10**14).map(
        lambda ms: datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=ms)
    ),
}


def schema_of(*types: SqlType, key: SqlType | None = None) -> Schema:
    keys = [] if key is None else [Column("K", key, Role.KEY)]
    return Schema.of(keys + [Column(f"V{index}", t) for index, t in enumerate(types)])


def raw(records: list[tuple[bytes | None, bytes | None]], timestamp: int = 5) -> pa.Table:
    batch = raw_batch([(key, value, timestamp) for key, value in records])
    return batch.append_column(PART, pa.array([0] * len(records), pa.int32()))


def written(schema: Schema, rows: list[list[Any]], key: Format, value: Format) -> Any:
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(list(column), arrow_type(c.type))
        for column, c in zip(columns, schema.columns, strict=True)
    ]
    table = pa.table(arrays, names=list(physical_names(schema.names)))
    return encode(CON, table, EncodeSpec(key, value, schema), "t")


def read(schema: Schema, table: pa.Table, key: Format, value: Format, **more: Any) -> Any:
    columns = tuple((name, name) for name in schema.names)
    return decode(CON, table, DecodeSpec(key, value, schema, columns, **more), "t")


@pytest.mark.parametrize("name", ["JSON", "DELIMITED", "KAFKA", "MSGPACK", "PROTOBUF_NOSR"])
@pytest.mark.parametrize("sql_type", [*SCALARS, *NESTED], ids=str)
@settings(max_examples=draws(12))
@given(data=st.data())
def test_what_is_written_is_read_back(name: str, sql_type: SqlType, data: st.DataObject) -> None:
    if not supports_type(name, sql_type):
        return
    more = () if name == "KAFKA" else (STRING,)
    properties = {"nullableRepresentation": "OPTIONAL"} if name == "PROTOBUF_NOSR" else {}
    form = Format(name, properties=properties)
    schema = schema_of(sql_type, *more)
    row = st.tuples(*(values(column.type) for column in schema.columns)).map(list)
    rows = data.draw(st.lists(row, min_size=1, max_size=5))
    encoded = written(schema, rows, Format("NONE"), form)
    assert encoded.keep.to_pylist() == [True] * len(rows)
    found = read(schema, raw([(None, v) for v in encoded.value.to_pylist()]), Format("NONE"), form)
    assert found.problems == ()
    back = [[line[column] for column in schema.names] for line in found.table.to_pylist()]
    assert repr(back) == repr(
        [
            [_as_stored(v, name, t.type) for v, t in zip(line, schema.columns, strict=True)]
            for line in rows
        ]
    )


def _as_stored(value: Any, name: str, sql_type: SqlType) -> Any:
    """DELIMITED has no empty text, Protobuf no NULL arrays and maps."""
    if name == "DELIMITED" and value in ("", b""):
        return None
    if name == "PROTOBUF_NOSR":
        if isinstance(sql_type, Array | Map) and value is None:
            return []
        if isinstance(sql_type, Struct) and value is not None:
            members = zip(value.items(), sql_type.fields, strict=True)
            return {key: _as_stored(item, name, f.type) for (key, item), f in members}
    return value


ROW = [7, decimal.Decimal("1.50"), "x,y", datetime.date(2021, 3, 4), None, [1, None]]
ROW += [[("k", True)], {"H": 5}]
ROW_TYPES: list[SqlType] = [Decimal(4, 2), STRING, DATE, BIGINT, Array(INTEGER)]
ROW_TYPES += [Map(STRING, BOOLEAN), Struct((Field("H", INTEGER),))]


def test_json_text() -> None:
    schema = schema_of(*ROW_TYPES, key=INTEGER)
    encoded = written(schema, [ROW], Format("JSON"), Format("JSON"))
    assert encoded.key.to_pylist() == [b"7"]
    assert encoded.value.to_pylist() == [
        b'{"V0":1.50,"V1":"x,y","V2":18690,"V3":null,"V4":[1,null],"V5":{"k":true},"V6":{"H":5}}'
    ]


def test_delimited_text() -> None:
    schema = schema_of(*ROW_TYPES[:4], key=INTEGER)
    encoded = written(schema, [ROW[:5]], Format("DELIMITED"), Format("DELIMITED"))
    assert (encoded.key[0].as_py(), encoded.value[0].as_py()) == (b"7", b'1.50,"x,y",18690,')


@pytest.mark.parametrize(
    ("sql_type", "value", "content"),
    [
        (INTEGER, 7, b"\x00\x00\x00\x07"),
        (BIGINT, -2, b"\xff" * 7 + b"\xfe"),
        (DOUBLE, 1.5, b"\x3f\xf8" + b"\x00" * 6),
        (STRING, "é", "é".encode()),
        (BYTES, b"\x00", b"\x00"),
        (STRING, None, None),
    ],
)
def test_kafka_bytes(sql_type: SqlType, value: Any, content: bytes | None) -> None:
    encoded = written(schema_of(sql_type), [[value]], Format("NONE"), Format("KAFKA"))
    assert encoded.value.to_pylist() == [content]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1e7, "1.0E7"),
        (1e-3, "0.001"),
        (9.5e-4, "9.5E-4"),
        (-123456789.25, "-1.2345678925E8"),
        (100.0, "100.0"),
        (1e300, "1.0E300"),
        (float("nan"), '"NaN"'),
        (-0.0, "-0.0"),
        (float("-inf"), '"-Infinity"'),
        (12345678.0, "1.2345678E7"),
        (1.2e-7, "1.2E-7"),
    ],
)
def test_doubles_are_written_as_java_does(number: float, text: str) -> None:
    encoded = written(schema_of(DOUBLE), [[number]], Format("NONE"), Format("JSON", wrap=False))
    assert encoded.value.to_pylist() == [text.encode()]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (["-1", "-1"], b'"-1",-1'),
        (["", ""], b'"",'),
        ([None, "#"], b',"#"'),
        (['a"b', "c "], b'"a""b","c "'),
        (["x", "\n"], b'x,"\n"'),
    ],
)
def test_quotes_in_delimited_lines(fields: list[str | None], line: bytes) -> None:
    encoded = written(schema_of(STRING, STRING), [fields], Format("NONE"), Format("DELIMITED"))
    assert encoded.value.to_pylist() == [line]


@pytest.mark.parametrize(
    ("form", "schema", "key", "value", "reason"),
    [
        ("DELIMITED", schema_of(STRING, STRING), None, b"1,2,3", "expected 2 fields, got 3"),
        ("DELIMITED", schema_of(INTEGER, STRING), None, b"x,2", "V0: cannot read 'x' as INTEGER"),
        ("DELIMITED", schema_of(STRING, STRING), None, b'"a,b', "not closed"),
        ("KAFKA", schema_of(INTEGER), None, b"123", "expected 4 bytes, got 3"),
        ("KAFKA", schema_of(STRING), None, b"\xff", "not UTF-8"),
        ("JSON", schema_of(STRING), None, b"{", "not JSON"),
        ("MSGPACK", schema_of(INTEGER), None, b"\x81\xa2V0", "not MessagePack: Unpack failed"),
        ("MSGPACK", schema_of(INTEGER), None, b"\x81\xa2V0\xa1x", "V0: cannot read a string"),
        ("PROTOBUF_NOSR", schema_of(STRING), None, b"\x0a\x05a", "cut off"),
    ],
)
def test_bad_records_are_reported(
    form: str, schema: Schema, key: bytes | None, value: bytes, reason: str
) -> None:
    good = (
        written(
            schema,
            [["1" if c.type is STRING else 1 for c in schema.columns]],
            Format("NONE"),
            Format(form),
        )
        .value[0]
        .as_py()
    )
    found = read(schema, raw([(None, good), (key, value)]), Format("NONE"), Format(form))
    assert found.table.num_rows == 1
    (problem,) = found.problems
    assert (problem.kind, problem.topic, problem.partition) == ("DESERIALIZATION", "t", 0)
    assert (problem.offset, problem.raw_value) == (1, value)
    assert reason in problem.message


def test_other_delimiters() -> None:
    for name, text in (("TAB", b"1\ta b"), ("SPACE", b'1 "a b"'), ("|", b"1|a b")):
        form = Format("DELIMITED", properties={"delimiter": name})
        schema = schema_of(INTEGER, STRING)
        assert written(schema, [[1, "a b"]], Format("NONE"), form).value[0].as_py() == text
        assert (
            read(schema, raw([(None, text)]), Format("NONE"), form).table["V1"][0].as_py() == "a b"
        )


def test_protobuf_without_nulls_and_with_wrappers() -> None:
    schema = schema_of(INTEGER, STRING, Array(INTEGER))
    plain = Format("PROTOBUF_NOSR")
    encoded = written(schema, [[None, None, [None]], [3, "a", [1, 2]]], Format("NONE"), plain)
    assert encoded.keep.to_pylist() == [False, True]
    assert "NULL inside" in encoded.problems[0].message
    assert encoded.value[1].as_py() == b"\x08\x03\x12\x01a\x1a\x02\x01\x02"
    found = read(schema, raw([(None, b"")]), Format("NONE"), plain).table.to_pylist()[0]
    assert [found[name] for name in schema.names] == [0, "", []]
    wrapper = Format("PROTOBUF_NOSR", properties={"nullableRepresentation": "WRAPPER"})
    encoded = written(schema, [[None, "", []], [0, None, []]], Format("NONE"), wrapper)
    rows = raw([(None, value) for value in encoded.value.to_pylist()])
    found = read(schema, rows, Format("NONE"), wrapper).table.select(["V0", "V1"]).to_pylist()
    assert found == [{"V0": None, "V1": ""}, {"V0": 0, "V1": None}]


def test_single_values_without_a_record_around_them() -> None:
    bare = Format("JSON", wrap=False)
    schema = schema_of(Array(INTEGER))
    assert written(schema, [[[1, None]], [None]], Format("NONE"), bare).value.to_pylist() == [
        b"[1,null]",
        None,
    ]
    found = read(schema, raw([(None, b"[1,null]"), (None, None)]), Format("NONE"), bare)
    assert found.table["V0"].to_pylist() == [[1, None], None]


def test_keys_of_several_columns() -> None:
    schema = Schema.of(
        [Column("K1", INTEGER, Role.KEY), Column("K2", STRING, Role.KEY), Column("V", STRING)]
    )
    rows = [[7, "a", "x"], [None, None, "y"], [None, "b", "z"]]
    encoded = written(schema, rows, Format("JSON"), Format("JSON"))
    assert encoded.key.to_pylist() == [b'{"K1":7,"K2":"a"}', None, b'{"K1":null,"K2":"b"}']
    found = read(
        schema,
        raw(list(zip(encoded.key.to_pylist(), encoded.value.to_pylist(), strict=True))),
        Format("JSON"),
        Format("JSON"),
    )
    assert [list(row.values())[:3] for row in found.table.to_pylist()] == rows


@pytest.mark.parametrize("kind", list(WindowKind))
def test_windowed_keys(kind: WindowKind) -> None:
    session = kind is WindowKind.SESSION
    window = WindowedKey(kind, None if session else 10)
    schema = schema_of(STRING, key=STRING)
    end = 35 if session else 30
    table = pa.table(
        {"K": ["a", None], "V0": ["x", "y"], "WINDOWSTART": [20, 40], "WINDOWEND": [end, 50]}
    )
    spec = EncodeSpec(Format("KAFKA"), Format("KAFKA"), schema, window)
    encoded = encode(CON, table, spec, "t")
    suffix = (end.to_bytes(8, "big") if session else b"") + (20).to_bytes(8, "big")
    assert encoded.key.to_pylist() == [b"a" + suffix, None]
    columns = tuple((name, name) for name in ("K", "WINDOWSTART", "WINDOWEND", "V0"))
    source = DecodeSpec(Format("KAFKA"), Format("KAFKA"), schema, columns, window, None, True)
    found = decode(CON, raw([(b"a" + suffix, b"x"), (b"short", b"y"), (None, b"z")]), source, "t")
    assert [list(row.values())[:4] for row in found.table.to_pylist()] == [["a", 20, end, "x"]]
    assert [problem.kind for problem in found.problems] == ["DESERIALIZATION", "NULL_KEY"]


def test_types_of_empty_batches() -> None:
    schema = schema_of(*SCALARS, *NESTED, key=INTEGER)
    for name in ("JSON", "MSGPACK", "PROTOBUF_NOSR"):
        found = read(schema, raw([]), Format("KAFKA"), Format(name)).table
        for column in schema.columns:
            assert found.schema.field(column.name).type == arrow_type(column.type)
    assert Primitive.NULL not in SCALARS
