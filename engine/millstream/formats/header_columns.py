"""Computes HEADERS and HEADER('k') columns from the headers of raw records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.payload import one_array
from millstream.model.physical import arrow_type
from millstream.model.schema import Column
from millstream.model.types import HEADERS


def header_column(headers: pa.Array, column: Column) -> pa.Array:
    """All headers of each record, or for HEADER('k') the value of the last one named k."""
    if column.header is None:
        flat = pc.list_flatten(headers)
        names, values = flat.field("key"), flat.field("value")
        wanted = arrow_type(HEADERS)
        entries = pa.StructArray.from_arrays(
            [one_array(names), one_array(values)], fields=list(wanted.value_type)
        )
        lengths = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), entries, type=wanted)
    return header_values(headers, column.header)


def header_values(headers: pa.Array, name: str) -> pa.Array:
    """The value of the last header of each record with a name; NULL where there is none."""
    flat = pc.list_flatten(headers)
    names, values = flat.field("key"), flat.field("value")
    hits = np.flatnonzero(pc.equal(names, name).fill_null(False).to_numpy(zero_copy_only=False))
    parents = pc.list_parent_indices(headers).to_numpy(zero_copy_only=False)
    last = np.full(len(headers), -1, np.int64)
    np.maximum.at(last, parents[hits], hits)
    return pc.take(values, pa.array(last, mask=last < 0))
