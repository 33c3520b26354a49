"""Raw batches of every kind, and how Kafka gives them back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from millstream.model.batch import RAW_SCHEMA, raw_batch


def shown(batch: pa.Table, first: int = 0) -> list[dict[str, Any]]:
    rows = batch.to_pylist()
    for offset, row in enumerate(rows, first):
        row |= {"offset": offset, "timestamp": row["timestamp"] or 1}
        row |= {"headers": row["headers"] or None}
    return rows


HEADER = st.fixed_dictionaries(
    {"key": st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=5)}
    | {"value": st.none() | st.binary(max_size=5)}
)
RECORD = st.tuples(
    st.none() | st.binary(max_size=9),
    st.none() | st.binary(max_size=40),
    st.none() | st.integers(0, 2**40),
    st.none() | st.lists(HEADER, max_size=3),
)


@st.composite
def batches(draw: st.DrawFn) -> pa.Table:
    """Raw batches, also as parts of others and in several chunks."""
    chunks = []
    for records in draw(st.lists(st.lists(RECORD, min_size=1, max_size=30), max_size=3)):
        chunk = raw_batch([record[:3] for record in records], [record[3] for record in records])
        begin = draw(st.integers(0, len(records)))
        chunks.append(chunk.slice(begin, draw(st.integers(0, len(records)))))
    return pa.concat_tables([RAW_SCHEMA.empty_table(), *chunks])
