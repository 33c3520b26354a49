"""Sample records that are alike are looked at once; the shapes are those of all of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.formats import json_shape
from millstream.formats.json_shape import learn_shapes
from millstream.formats.payload import Layout
from millstream.model.schema import Column
from millstream.model.types import Array, Decimal, Map, Primitive, Struct

COLUMNS = (
    Column("A", Primitive.BIGINT),
    Column("B", Primitive.STRING),
    Column("C", Primitive.DOUBLE),
    Column("D", Decimal(6, 2)),
    Column("E", Array(Primitive.INTEGER)),
    Column("F", Struct(())),
    Column("G", Map(Primitive.STRING, Primitive.BOOLEAN)),
)
scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3)
)
values = st.one_of(
    scalars, st.lists(scalars, max_size=2), st.dictionaries(st.sampled_from("xy"), scalars)
)
records = st.dictionaries(st.sampled_from(["A", "b", "B", "C", "D", "E", "F", "G", "h"]), values)
samples = st.lists(
    st.one_of(records, scalars, st.lists(scalars, max_size=2)).map(json.dumps).map(str.encode),
    max_size=12,
)
# Repeated records, as in a batch.
batches = samples.flatmap(lambda some: st.permutations(some * 3))


@given(batches, st.sets(st.integers(0, len(COLUMNS) - 1)))
def test_records_that_are_alike_have_one_shape(texts: list[bytes], wanted: set[int]) -> None:
    layout = Layout(COLUMNS, tuple(sorted(wanted)))
    found = learn_shapes(texts, layout)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_shape, "_likeness", lambda _record: None)
        assert found == learn_shapes(texts, layout)


def test_a_batch_of_like_records_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    look = json_shape._object

    def counted(*arguments: Any) -> Any:
        looked.append(arguments)
        return look(*arguments)

    monkeypatch.setattr(json_shape, "_object", counted)
    texts = [json.dumps({"A": number, "B": str(number)}).encode() for number in range(16)]
    assert learn_shapes(texts, Layout(COLUMNS, (0,))) is not None
    assert len(looked) == 1
