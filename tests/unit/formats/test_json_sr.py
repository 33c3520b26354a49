"""JSON_SR read by columns is that of one by one, whichever form maps have."""

from __future__ import annotations

import json
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from millstream.formats import json_sr
from millstream.formats.json_sr import read_json_sr
from millstream.formats.payload import Layout, Read
from millstream.formats.registered import framed, prefix_of
from millstream.model.schema import Column, Role
from millstream.model.types import (
    BIGINT,
    DOUBLE,
    INTEGER,
    STRING,
    Array,
    Field,
    Map,
    SqlType,
    Struct,
)
from tests.draws import draws

COLUMNS: tuple[tuple[str, SqlType], ...] = (
    ("ID", BIGINT),
    ("M", Map(STRING, INTEGER)),
    ("N", Array(Map(STRING, Struct((Field("X", Map(STRING, STRING)),))))),
)
ROWS = 200


def a_value(rng: random.Random, kind: SqlType, entries: float) -> Any:
    """A value as JSON; its maps are lists of entries with a probability."""
    match kind:
        case Map(_, member):
            made = {k: a_value(rng, member, entries) for k in rng.sample("abk", rng.randint(0, 3))}
            if rng.random() < entries:
                listed: list[Any] = [{"key": key, "value": value} for key, value in made.items()]
                return [*listed, {"key": 5}] if rng.random() < 0.05 else listed
            return made
        case Array(element):
            return [a_value(rng, element, entries) for _ in range(rng.randint(0, 2))]
        case Struct(fields):
            return {each.name: a_value(rng, each.type, entries) for each in fields}
    if rng.random() < 0.05:
        return [None, "odd", 1.5][rng.randrange(3)]
    return rng.choice(["", "text"]) if kind == STRING else rng.randint(-5, 5)


def shown(read: Read) -> str:
    columns = [column.to_pylist() for column in read.columns]
    for row in read.bad:
        for column in columns:
            column[row] = "bad"
    return repr((columns, sorted(read.bad.items()), sorted(read.absent)))


@pytest.mark.parametrize("entries", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("seed", range(draws(8)))
def test_maps_in_both_forms(seed: int, entries: float) -> None:
    rng, con = random.Random(seed), duckdb.connect()
    payloads: list[bytes | None] = []
    for _ in range(ROWS):
        record = {name: a_value(rng, kind, entries) for name, kind in COLUMNS}
        text = rng.choice([json.dumps(record)] * 30 + ["null", "[", "7", ""])
        payloads.append(rng.choice([prefix_of(1) + text.encode()] * 30 + [None, b"\1"]))
    payload = pa.array(payloads, pa.binary())
    wanted = tuple(index for index in range(3) if rng.random() < 0.8)
    layout = Layout(tuple(Column(name, kind, Role.VALUE) for name, kind in COLUMNS), wanted)
    one_by_one = json_sr._read_forms(framed(payload).contents(), layout)
    given = Read(one_by_one.columns, {**one_by_one.bad, **framed(payload).bad}, one_by_one.absent)
    assert shown(read_json_sr(con, payload, layout)) == shown(given)


def member(number: int) -> str:
    return f"io.confluent.connect.json.OneOf.field.{number}"


CHOICE = Struct(
    (
        Field(member(0), STRING),
        Field(member(1), BIGINT),
        Field(member(2), DOUBLE),
        Field(member(3), Struct((Field("X", INTEGER),))),
        Field(member(4), Struct((Field("X", INTEGER), Field("Y", STRING)))),
        Field(member(5), Array(INTEGER)),
    )
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a", {0: "a"}),
        (7, {1: 7}),
        (1.5, {2: 1.5}),
        ({"x": 1}, {3: {"X": 1}}),
        ({"x": 1, "y": "t"}, {4: {"X": 1, "Y": "t"}}),
        ({}, {3: {"X": None}}),
        ([1, 2], {5: [1, 2]}),
        (None, None),
        (True, "a value is none of"),
        ({"y": 5, "x": "t"}, "expected"),
    ],
)
def test_a_value_of_several_types_is_one_member(value: Any, expected: Any) -> None:
    text = json.dumps({"V": value, "L": [value]}).encode()
    columns = (Column("V", CHOICE, Role.VALUE), Column("L", Array(CHOICE), Role.VALUE))
    payload = pa.array([prefix_of(1) + text] * 100, pa.binary())
    read = read_json_sr(duckdb.connect(), payload, Layout(columns, (0, 1)))
    if isinstance(expected, str):
        assert len(read.bad) == 100
        assert expected in read.bad[0] or "INTEGER" in read.bad[0]
        return
    assert not read.bad
    row = None
    if expected is not None:
        row = {member(number): expected.get(number) for number in range(6)}
    assert [column[99].as_py() for column in read.columns] == [row, [row]]


def test_numbers_that_are_not_whole_take_whole_ones_too() -> None:
    kinds = Struct((Field("connect_union_field_0", DOUBLE), Field("connect_union_field_1", STRING)))
    payload = pa.array([prefix_of(1) + b"5", prefix_of(1) + b'"t"'], pa.binary())
    layout = Layout((Column("V", kinds, Role.VALUE),), (0,), wrapped=False)
    read = read_json_sr(duckdb.connect(), payload, layout)
    assert [list(row.values()) for row in read.columns[0].to_pylist()] == [[5.0, None], [None, "t"]]
