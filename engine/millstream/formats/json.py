"""Reads JSON as columns: whole batches by DuckDB, unusual records one by one."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.json_cut import cut_columns
from millstream.formats.json_rows import read_json_rows
from millstream.formats.json_shape import Shapes, carrier, learn_shapes
from millstream.formats.json_tokens import GAP
from millstream.formats.kafka import read_text
from millstream.formats.payload import Bytes, Layout, Read, one_array, present_rows
from millstream.model.physical import arrow_type
from millstream.model.types import Array, Map, Primitive, SqlType, Struct

_FEW_ROWS = 64
"""Below this many rows the fixed cost of a statement exceeds reading them one by one."""
_SAMPLES = 16
_CLOSED = rf'^{GAP}["{{\[]'
"""The first characters of self-terminating values; other values must be followed by white space or
nothing."""
_NULL = f"^{GAP}null{GAP}$"
_BEHIND = "(?:[ \\t\\r\\n]|$)"
_DAY_MS = 86_400_000

Mask = npt.NDArray[np.bool_]


def read_json(con: duckdb.DuckDBPyConnection, payload: Bytes, layout: Layout) -> Read:
    """Read the requested columns of a batch; a faster `read_json_rows` with the same result."""
    if len(payload) < _FEW_ROWS or not layout.columns:
        return read_json_rows(payload.to_pylist(), layout)
    shapes = learn_shapes(_samples(payload), layout)
    if shapes is None:
        return read_json_rows(payload.to_pylist(), layout)
    text = _text(payload, shapes)
    matched = exact = np.ones(len(text), np.bool_)
    carried = cut_columns(text, shapes)
    if carried is None:
        text, compact, matched = _fitting(payload, text, shapes)
        chosen = text if matched.all() else text.filter(pa.array(matched))
        exact = np.ones(len(chosen), np.bool_)
        if compact and len(chosen) < len(text):
            carried = cut_columns(chosen, shapes)
        if carried is None:
            carried, exact = _parsed(con, chosen, layout, shapes)
    fast, fine = _typed(carried, layout, len(exact))
    exact = exact & fine
    if matched.all() and exact.all():
        return Read(fast)
    rest = present_rows(payload) & ~matched
    rest[np.flatnonzero(matched)[~exact]] = True
    return _combined(fast, matched, rest, payload, layout)


def _samples(payload: Bytes) -> list[bytes]:
    places = {0, 1, *np.linspace(0, len(payload) - 1, _SAMPLES, dtype=int).tolist()}
    values = (payload[place].as_py() for place in sorted(places))
    return [value for value in values if value is not None]


def _text(payload: Bytes, shapes: Shapes) -> pa.Array:
    """The payloads that are text, or that begin with a record of the shapes, without trailing
    bytes."""
    try:
        return payload.cast(pa.string())
    except pa.ArrowInvalid:
        return read_text(leading_records(payload, shapes))[0]


def _fitting(payload: Bytes, text: pa.Array, shapes: Shapes) -> tuple[pa.Array, bool, Mask]:
    """The texts without the bytes behind their records, which of them have one of the shapes, and
    whether all of these are compact."""
    matched = _matches(text, shapes.compact)
    if matched.all():
        return text, True, matched
    others = np.flatnonzero(~matched)
    found = _matches(text.take(pa.array(others)), shapes.pattern)
    matched[others] = found
    compact = not found.any()
    if matched.all():
        return text, compact, matched
    others = np.flatnonzero(~matched & present_rows(payload))
    cut, _ = read_text(leading_records(payload.take(pa.array(others)), shapes))
    found = present_rows(cut)
    if found.any():
        places = np.arange(len(text))
        places[others[found]] = len(text) + np.flatnonzero(found)
        text = pa.concat_arrays([text, cut]).take(pa.array(places))
        matched[others] = found
        compact = compact and bool(_matches(cut.drop_null(), shapes.compact).all())
    return text, compact, matched


def leading_records(payload: Bytes, shapes: Shapes) -> Bytes:
    """The records of the shapes at the beginning of payloads, NULL where there is none."""
    closed = pc.match_substring_regex(payload, _CLOSED)
    either = [
        pc.struct_field(pc.extract_regex(payload, shapes.leading + behind), "first")
        for behind in ("", _BEHIND)
    ]
    return pc.if_else(closed, *either)


def _matches(text: pa.Array, pattern: str) -> Mask:
    fits = pc.match_substring_regex(text, pattern).fill_null(False)
    return np.array(fits.to_numpy(zero_copy_only=False), np.bool_)


def _parsed(
    con: duckdb.DuckDBPyConnection, text: pa.Array, layout: Layout, shapes: Shapes
) -> tuple[dict[str, pa.Array], Mask]:
    """The requested columns that the shapes have, by name and in their carrier types, of texts that
    have one of the shapes; and which of their rows are valid."""
    every = np.ones(len(text), np.bool_)
    columns = layout.picked
    if not (layout.wrapped or columns):
        return {}, ~_matches(text, _NULL)
    structure = carrier(layout, shapes.names)
    if structure is None or not columns:
        spelt = {column.name for column in columns} & set(shapes.names.fields)
        return {}, every if not spelt else ~every
    quoted = structure.replace("'", "''")
    rows = con.from_arrow(pa.table({"j": text}))
    read = one_array(
        rows.project(f"TRY(from_json_strict(j, '{quoted}')) AS r").to_arrow_table()["r"]
    )
    if not layout.wrapped:
        return {columns[0].name: read}, present_rows(read)
    names = [shapes.names.fields.get(column.name) for column in columns]
    members = dict(zip((f.name for f in read.type), read.flatten(), strict=True))
    found = {
        column.name: members[name]
        for column, name in zip(columns, names, strict=True)
        if name is not None
    }
    return found, present_rows(read)


def _typed(
    carried: Mapping[str, pa.Array], layout: Layout, rows: int
) -> tuple[tuple[pa.Array, ...], Mask]:
    """The requested columns, NULL where no record has the field, and which of their rows are
    valid."""
    exact = np.ones(rows, np.bool_)
    typed = []
    for column in layout.picked:
        if column.name in carried:
            array, fine = from_carrier(carried[column.name], column.type)
            exact &= fine
        else:
            array = pa.nulls(rows, arrow_type(column.type))
        typed.append(array)
    return tuple(typed), exact


def from_carrier(array: pa.Array, sql_type: SqlType) -> tuple[pa.Array, Mask | np.bool_]:
    """A column that DuckDB read, converted to its final type, and where that was possible."""
    target = arrow_type(sql_type)
    match sql_type:
        case Primitive.DATE:
            return array.cast(target), np.bool_(True)
        case Primitive.TIME:
            fine = pc.and_(pc.greater_equal(array, 0), pc.less(array, _DAY_MS)).fill_null(True)
            return _scaled(array, fine, target)
        case Primitive.TIMESTAMP:
            limit = 2**63 // 1000 - 1
            fine = pc.and_(pc.greater(array, -limit), pc.less(array, limit)).fill_null(True)
            return _scaled(array, fine, target)
        case Primitive.BYTES:
            return _decoded(array), np.bool_(True)
        case Array() | Map() | Struct():
            return _renamed(array, target), np.bool_(True)
    return array if array.type == target else array.cast(target), np.bool_(True)


def _scaled(array: pa.Array, fine: pa.Array, target: pa.DataType) -> tuple[pa.Array, Mask]:
    usable = pc.if_else(fine, array, pa.scalar(None, pa.int64()))
    mask = np.asarray(fine.to_numpy(zero_copy_only=False), np.bool_)
    return pc.multiply(usable, 1000).cast(target), mask


def _decoded(array: pa.Array) -> pa.Array:
    return pa.array(
        [None if text is None else base64.b64decode(text) for text in array.to_pylist()],
        pa.binary(),
    )


def _renamed(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The array with the field names of `target`, which has the same structure."""
    array = one_array(array)
    valid = array.buffers()[0]
    if pa.types.is_struct(target):
        children = [
            _renamed(array.field(index), target.field(index).type)
            for index in range(target.num_fields)
        ]
        return pa.Array.from_buffers(
            target, len(array), [valid], null_count=array.null_count, children=children
        )
    if pa.types.is_list(target) or pa.types.is_map(target):
        inner = target.value_type if pa.types.is_list(target) else _entries(target)
        values = array.values if pa.types.is_list(target) else _map_entries(array)
        return pa.Array.from_buffers(
            target,
            len(array),
            array.buffers()[:2],
            null_count=array.null_count,
            children=[_renamed(values, inner)],
        )
    return array if array.type == target else array.cast(target)


def _entries(target: pa.MapType) -> pa.StructType:
    return pa.struct([target.key_field, target.item_field])


def _map_entries(array: pa.MapArray) -> pa.StructArray:
    return pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])


def _combined(
    fast: tuple[pa.Array, ...], matched: Mask, rest: Mask, payload: Bytes, layout: Layout
) -> Read:
    """The columns with the rows of `rest` read one by one; NULL where nothing was read."""
    slow_rows = np.flatnonzero(rest)
    slow = read_json_rows(payload.take(pa.array(slow_rows)).to_pylist(), layout)
    source = np.full(len(payload), -1, np.int64)
    source[matched] = np.arange(int(matched.sum()))
    source[slow_rows] = int(matched.sum()) + np.arange(len(slow_rows))
    places = pa.array(source, mask=source < 0)
    columns = tuple(
        pa.concat_arrays([quick, odd]).take(places)
        for quick, odd in zip(fast, slow.columns, strict=True)
    )
    bad = {int(slow_rows[row]): reason for row, reason in slow.bad.items()}
    return Read(columns, bad, frozenset(int(slow_rows[row]) for row in slow.absent))
