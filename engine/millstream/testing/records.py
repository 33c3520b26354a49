"""The records of a topic as objects, decoded with the columns of a stream or table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from millstream.catalog.source import Source
from millstream.formats.codec import OFFSET, WINDOW_BOUNDS, DecodeSpec, decode
from millstream.model.batch import ARRIVAL, DIFF, PART
from millstream.model.python_values import python_values
from millstream.model.schema_text import Schemas
from millstream.state.store import Store

Headers = tuple[tuple[str, bytes | None], ...]
GivenHeaders = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]
"""Headers of a record that is piped; text is encoded as UTF-8."""
RawHeaders = list[dict[str, bytes | str | None]]
"""Headers as `raw_batch` takes them."""


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a record's key, in ms since 1970. The end of a session is its last record."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """A record that was read from a topic.

    `key`: the key column; a tuple of several; None without any. `value`: the other columns by name;
    None for a tombstone. `window`: set if the key is windowed. `raw_key` and `raw_value` are the
    bytes. A record of a topic that no stream or table reads has its bytes as key and value, and so
    has one that cannot be decoded: `error` says why.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers = ()
    window: Window | None = None
    row: dict[str, Any] | None = None
    """All columns by name, those of the key first; those of a tombstone but the key are None."""
    tombstone: bool = False
    """Whether the record has no value: of a table, the deletion of the key."""
    raw_key: bytes | None = None
    raw_value: bytes | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """Records of one partition, as they are on the log."""

    topic: str
    partition: int
    batch: pa.Table


def raw_headers(headers: GivenHeaders) -> RawHeaders | None:
    """Headers as they are written. Raises TypeError for those that are not names with bytes."""
    found: RawHeaders = []
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        if not isinstance(name, str) or not (value is None or isinstance(value, bytes | str)):
            raise TypeError(f"The header {name!r}: {value!r} is not a name with bytes")
        found.append({"key": name, "value": value.encode() if isinstance(value, str) else value})
    return found or None


def output_records(
    fetched: Iterable[FetchedRecords], source: Source | None, store: Store, schemas: Schemas | None
) -> list[OutputRecord]:
    """The records in the order in which the records arrived that caused them, those of each
    partition in their order. `source`: what reads the topic, if anything does."""
    partitions = [_numbered(each, source, store, schemas) for each in fetched]
    return [record for _, record in merge(*partitions, key=lambda pair: pair[0])]


def _numbered(
    fetched: FetchedRecords, source: Source | None, store: Store, schemas: Schemas | None
) -> Iterable[tuple[int, OutputRecord]]:
    batch = fetched.batch
    records = _bare(fetched) if source is None else _decoded(fetched, source, store, schemas)
    arrivals = batch[ARRIVAL].to_pylist() if ARRIVAL in batch.column_names else [0] * len(batch)
    return zip(arrivals, records, strict=True)


def _bare(fetched: FetchedRecords, errors: dict[int, str] | None = None) -> list[OutputRecord]:
    return [
        OutputRecord(
            fetched.topic,
            fetched.partition,
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            tuple((each["key"], each["value"]) for each in row["headers"] or ()),
            tombstone=row["value"] is None,
            raw_key=row["key"],
            raw_value=row["value"],
            error=None if errors is None else errors.get(row["offset"], "the record is bad"),
        )
        for row in fetched.batch.to_pylist()
    ]


def _decoded(
    fetched: FetchedRecords, source: Source, store: Store, schemas: Schemas | None
) -> Iterator[OutputRecord]:
    key, columns = source.schema.key, (*source.schema.key, *source.schema.value)
    bounds = WINDOW_BOUNDS if source.window is not None else ()
    picked = tuple((str(n), name) for n, name in enumerate((*(c.name for c in columns), *bounds)))
    form = (source.key_format, source.value_format)
    spec = DecodeSpec(*form, source.schema, picked, source.window, schemas=schemas)
    partition = np.full(len(fetched.batch), fetched.partition, np.int32)
    raw = fetched.batch.append_column(PART, pa.array(partition))
    cursor = store.cursor()
    try:
        decoded = decode(cursor, raw, spec, fetched.topic)
    finally:
        cursor.close()
    errors = {problem.offset: problem.message for problem in decoded.problems}
    table = decoded.table
    values = [_objects(table[name]) for name, _ in picked]
    valued, offsets = table[DIFF].to_pylist(), table[OFFSET].to_pylist()
    rows = {offset: index for index, offset in enumerate(offsets)}
    names = [column.name for column in columns]
    for bare in _bare(fetched, errors):
        index = rows.get(bare.offset)
        if index is None:
            yield bare
            continue
        found = [column[index] for column in values]
        row = dict(zip(names, found, strict=False))
        keys = tuple(row[column.name] for column in key)
        yield OutputRecord(
            bare.topic,
            bare.partition,
            bare.offset,
            bare.timestamp,
            keys[0] if len(keys) == 1 else (keys or None),
            {column.name: row[column.name] for column in source.schema.value}
            if valued[index]
            else None,
            bare.headers,
            Window(*found[-2:]) if bounds and found[-1] is not None else None,
            row,
            not valued[index],
            bare.raw_key,
            bare.raw_value,
        )


def _objects(column: pa.ChunkedArray) -> list[Any]:
    """The values with maps as dicts, which Arrow gives as lists of pairs."""
    values = python_values(column)
    return [_object(value, column.type) for value in values] if _nested(column.type) else values


def _nested(kind: pa.DataType) -> bool:
    return bool(kinds.is_map(kind) or kinds.is_list(kind) or kinds.is_struct(kind))


def _object(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if kinds.is_map(kind):
        return {key: _object(item, kind.item_type) for key, item in value}
    if kinds.is_list(kind):
        return [_object(item, kind.value_type) for item in value]
    if kinds.is_struct(kind):
        return {field.name: _object(value[field.name], field.type) for field in kind}
    return value
