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
from millstream.model.types import BIGINT, INTEGER, STRING, Array, Field, Map, SqlType, Struct

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
@pytest.mark.parametrize("seed", range(8))
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
    one_by_one = json_sr._read_entries(framed(payload).contents(), layout)
    given = Read(one_by_one.columns, {**one_by_one.bad, **framed(payload).bad}, one_by_one.absent)
    assert shown(read_json_sr(con, payload, layout)) == shown(given)
