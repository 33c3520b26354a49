"""Decodes records into columns and encodes columns as records, for the input and output of every
program.

`decode` and `encode` handle the whole record (key, value, headers, window, event time); each format
handles one side of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.catalog import wordings
from millstream.catalog.formats import CAPABILITIES
from millstream.catalog.source import Format, TimestampColumn
from millstream.formats.delimited import read_delimited, write_delimited
from millstream.formats.event_time import event_times, usable
from millstream.formats.header_columns import header_column
from millstream.formats.json import read_json
from millstream.formats.json_text import write_json
from millstream.formats.kafka import read_kafka, write_kafka
from millstream.formats.msgpack import NO_FIELDS, read_msgpack, write_msgpack
from millstream.formats.none import read_none, write_none
from millstream.formats.payload import (
    Bytes,
    Layout,
    Read,
    Subject,
    Written,
    one_array,
    present_rows,
)
from millstream.formats.protobuf import read_protobuf, write_protobuf
from millstream.formats.registered import subject_of
from millstream.formats.schema_formats import SCHEMA_FORMATS, write_registered
from millstream.formats.schema_headers import with_prefixes, without_ids
from millstream.formats.window_keys import join_window, split_window
from millstream.model.batch import ARRIVAL, DIFF, HEADERS, MOMENT, PART, ROWTIME
from millstream.model.errors import StatementError
from millstream.model.event_time import LATEST
from millstream.model.physical import physical_names
from millstream.model.problem import Problem
from millstream.model.row_text import row_text
from millstream.model.schema import Column, Role, Schema, WindowedKey
from millstream.model.schema_text import Schemas

OFFSET = "$offset"
"""INT64: the offset of the record a decoded row comes from."""
WINDOW_BOUNDS = ("WINDOWSTART", "WINDOWEND")
_SIDES = {Role.KEY: "key", Role.VALUE: "value"}
_NO_FIELDS = {"JSON": b"{}", "MSGPACK": NO_FIELDS}
"""The record without fields, of formats that can write one."""


@dataclass(frozen=True, slots=True)
class DecodeSpec:
    """How to read a source. `columns` are pairs (name in the result, column or pseudo column):

    ROWTIME, ROWPARTITION, ROWOFFSET, and WINDOWSTART, WINDOWEND of windowed keys. `schema` is the
    source's full schema: a record that does not match it is bad, whichever columns are requested.
    """

    key_format: Format
    value_format: Format
    schema: Schema
    columns: tuple[tuple[str, str], ...]
    window: WindowedKey | None = None
    timestamp: TimestampColumn | None = None
    is_table: bool = False
    schemas: Schemas | None = field(default=None, compare=False)
    """The registry; None if there is none."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The readable rows in order: the requested columns, `$part`, `$offset`, `$rowtime`, `$diff` (0
    where the value is NULL) and `$headers`, of numbered records `$m`; and the problems of the
    others."""

    table: pa.Table
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class EncodeSpec:
    """How to write a sink. The table's columns have the physical names of `schema`, and also
    WINDOWSTART and WINDOWEND for a windowed key. `null_parts`: a key of several columns, all NULL,
    is written as a record."""

    key_format: Format
    value_format: Format
    schema: Schema
    window: WindowedKey | None = None
    null_parts: bool = False
    schemas: Schemas | None = field(default=None, compare=False)
    source: str = ""
    """The name of the stream or table that is written."""
    inserting: bool = False
    """Whether the rows are those of a client; see `Subject`."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Key and value bytes of each row. Where `keep` is false the row cannot be written. `bare` is
    the key without its window, which determines the partition: all windows of a key are in one."""

    key: Bytes
    bare: Bytes
    value: Bytes
    keep: pa.Array
    problems: tuple[Problem, ...] = ()


def decode(
    con: duckdb.DuckDBPyConnection,
    raw: pa.Table,
    spec: DecodeSpec,
    topic: str,
    partition_column: str = PART,
) -> Decoded:
    """Read a raw batch. Invalid rows are left out and reported; they never raise."""
    partitions = one_array(raw[partition_column])
    keys, values = one_array(raw["key"]), one_array(raw["value"])
    log = _Log(topic, partitions, one_array(raw["offset"]), keys, values)
    asked = {name for _, name in spec.columns} | (
        set() if spec.timestamp is None else {spec.timestamp.name}
    )
    found: dict[str, pa.Array] = {}
    bare = keys
    if spec.window is not None:
        bare, start, end, bad = split_window(keys, spec.window)
        found |= dict(zip(WINDOW_BOUNDS, (start, end), strict=True))
        log.refuse("DESERIALIZATION", bad)
    valued = present_rows(values)
    for role, format_, payload in (
        (Role.KEY, spec.key_format, bare),
        (Role.VALUE, spec.value_format, values),
    ):
        layout = _layout(spec.schema, role, format_, asked, spec.window)
        layout = _with_subject(layout, role, format_, spec.schemas, topic)
        if role is Role.KEY and not layout.columns:
            # A source without key columns ignores the keys of its records.
            continue
        given = payload
        if layout.subject is not None:
            named = with_prefixes(payload, one_array(raw["headers"]), role, layout.subject.schemas)
            given, nameless = named
            log.refuse("DESERIALIZATION", nameless, _SIDES[role])
        read = read_payload(con, given, layout, format_.name)
        log.refuse("DESERIALIZATION", read.bad, _SIDES[role])
        found |= {c.name: array for c, array in zip(layout.picked, read.columns, strict=True)}
        if role is Role.VALUE and read.absent:
            valued[list(read.absent)] = False
        if role is Role.KEY and spec.is_table:
            missing = ~present_rows(keys)
            missing[list(read.absent)] = True
            reason = "a row of a table needs a key"
            log.refuse("NULL_KEY", dict.fromkeys(np.flatnonzero(missing).tolist(), reason))
    times = _row_times(raw, spec, found, valued, log)
    headers = one_array(raw["headers"])
    known = found | {
        column.name: header_column(headers, column)
        for column in spec.schema.headers
        if column.name in asked
    }
    pseudo = {
        "ROWTIME": pa.array(times),
        "ROWPARTITION": partitions,
        "ROWOFFSET": log.offsets,
    }
    columns = {out: known[name] if name in known else pseudo[name] for out, name in spec.columns}
    columns |= {PART: partitions, OFFSET: log.offsets, ROWTIME: pa.array(times)}
    columns |= {DIFF: pa.array(valued.astype(np.int8)), HEADERS: without_ids(headers)}
    if ARRIVAL in raw.column_names:
        columns[MOMENT] = one_array(raw[ARRIVAL])
    table = pa.table(columns)
    return Decoded(table if log.keep.all() else table.filter(pa.array(log.keep)), log.found())


def encode(
    con: duckdb.DuckDBPyConnection, table: pa.Table, spec: EncodeSpec, topic: str
) -> Encoded:
    """Write every row; the caller sets the values of deletions to NULL.

    A key whose columns are all NULL is a NULL key, unless the spec says otherwise.
    """
    names = dict(zip(spec.schema.columns, physical_names(spec.schema.names), strict=True))
    written: dict[Role, Bytes] = {}
    keep = np.ones(table.num_rows, np.bool_)
    problems: list[Problem] = []
    for role, format_ in ((Role.KEY, spec.key_format), (Role.VALUE, spec.value_format)):
        layout = _layout(spec.schema, role, format_, set(), spec.window)
        layout = _with_subject(layout, role, format_, spec.schemas, topic, spec)
        columns = [one_array(table[names[column]]) for column in layout.columns]
        side = write_payload(con, columns, layout, format_.name, table.num_rows)
        written[role] = side.payload
        if role is Role.KEY and layout.wrapped and columns and not spec.null_parts:
            written[role] = _null_where_all_null(side.payload, columns)
        for row, reason in side.bad.items():
            keep[row] = False
            message = f"Cannot write the record's {_SIDES[role]} to {topic}: {reason}"
            side_text, shown = _SIDES[role], row_text(table, row)
            found = Problem("SERIALIZATION", message, topic, -1, side=side_text, row=shown)
            problems.append(found)
    key = bare = written[Role.KEY]
    if spec.window is not None:
        start, end = (one_array(table[name]) for name in WINDOW_BOUNDS)
        key = join_window(bare, start, end, spec.window)
    return Encoded(key, bare, written[Role.VALUE], pa.array(keep), tuple(problems))


def read_payload(con: duckdb.DuckDBPyConnection, payload: Bytes, layout: Layout, name: str) -> Read:
    """Read one side of the records in the named format."""
    match name:
        case "JSON":
            return read_json(con, payload, layout)
        case "KAFKA":
            return read_kafka(payload, layout)
        case "DELIMITED":
            return read_delimited(con, payload, layout)
        case "MSGPACK":
            return read_msgpack(payload, layout)
        case "PROTOBUF_NOSR":
            return read_protobuf(payload, layout)
        case "NONE":
            return read_none(payload, layout)
        case _ if name in SCHEMA_FORMATS:
            return SCHEMA_FORMATS[name].read(con, payload, layout)
    raise _unknown(name)


def write_payload(
    con: duckdb.DuckDBPyConnection,
    columns: list[pa.Array],
    layout: Layout,
    name: str,
    rows: int,
) -> Written:
    """Write one side of the records in the named format."""
    if not columns and name in _NO_FIELDS:
        return Written(pa.array([_NO_FIELDS[name]] * rows, pa.binary()))
    if not columns or name == "NONE":
        return Written(write_none(rows))
    match name:
        case "JSON":
            return Written(write_json(con, columns, layout))
        case "KAFKA":
            return Written(write_kafka(columns, layout))
        case "DELIMITED":
            return Written(write_delimited(con, columns, layout))
        case "MSGPACK":
            return Written(write_msgpack(columns, layout))
        case "PROTOBUF_NOSR":
            return write_protobuf(columns, layout)
        case _ if name in SCHEMA_FORMATS:
            return write_registered(con, columns, layout, name)
    raise _unknown(name)


def is_wrapped(format_: Format, role: Role, columns: int) -> bool:
    """Whether the columns are in a record of their own (reference: wrapping of single fields)."""
    if columns != 1:
        return True
    wraps = CAPABILITIES[format_.name].wraps
    if len(wraps) < 2:
        return True in wraps
    if role is Role.KEY:
        return False
    return format_.wrap is not False


@dataclass(slots=True)
class _Log:
    """The rows of one batch that are rejected so far."""

    topic: str
    partitions: pa.Array
    offsets: pa.Array
    keys: Bytes
    values: Bytes
    keep: npt.NDArray[np.bool_] = None  # type: ignore[assignment]
    problems: list[tuple[int, Problem]] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.keep = np.ones(len(self.keys), np.bool_)
        self.problems = []

    def refuse(self, kind: str, reasons: Mapping[int, str], side: str = "") -> None:
        """Reject rows, each for its first reason."""
        for row, reason in reasons.items():
            if not self.keep[row]:
                continue
            self.keep[row] = False
            offset, partition = self.offsets[row].as_py(), self.partitions[row].as_py()
            where = f"{self.topic}, partition {partition}, offset {offset}"
            side_text = f" {side}" if side else ""
            message = f"Cannot use the record's{side_text} bytes ({where}): {reason}"
            if kind != "DESERIALIZATION":
                message = f"Left out the record ({where}): {reason}"
            key, value = self.keys[row].as_py(), self.values[row].as_py()
            problem = Problem(
                kind,
                message,
                self.topic,
                partition,
                offset,
                raw_key=key,
                raw_value=value,
                side=side,
            )
            self.problems.append((row, problem))

    def found(self) -> tuple[Problem, ...]:
        """The problems in the order of the rows."""
        return tuple(problem for _, problem in sorted(self.problems, key=lambda item: item[0]))


def _layout(
    schema: Schema, role: Role, format_: Format, asked: set[str], window: WindowedKey | None
) -> Layout:
    columns: tuple[Column, ...] = schema.key if role is Role.KEY else schema.value
    if window is not None and role is Role.KEY:
        columns = tuple(column for column in columns if column.name not in WINDOW_BOUNDS)
    wanted = tuple(index for index, column in enumerate(columns) if column.name in asked)
    wrapped = is_wrapped(format_, role, len(columns))
    return Layout(columns, wanted, wrapped, format_.properties)


def _with_subject(
    layout: Layout,
    role: Role,
    format_: Format,
    schemas: Schemas | None,
    topic: str,
    writing: EncodeSpec | None = None,
) -> Layout:
    """The layout with the registry, if its format has schemas there."""
    if format_.name not in SCHEMA_FORMATS or schemas is None:
        return layout
    source, inserting = ("", False) if writing is None else (writing.source, writing.inserting)
    name = subject_of(topic, _SIDES[role])
    subject = Subject(schemas, name, source, role is Role.KEY, inserting)
    return replace(layout, subject=subject)


def _row_times(
    raw: pa.Table,
    spec: DecodeSpec,
    found: Mapping[str, pa.Array],
    valued: npt.NDArray[np.bool_],
    log: _Log,
) -> npt.NDArray[np.int64]:
    times = np.asarray(one_array(raw["timestamp"]).to_numpy(zero_copy_only=False), np.int64)
    if spec.timestamp is not None:
        column = spec.schema.find(spec.timestamp.name)
        assert column is not None  # refused where the source was made
        own = event_times(found[column.name], column.type, spec.timestamp)
        # A record without a value has no timestamp column: it keeps the record's timestamp.
        times = np.where(valued | (column.role is Role.KEY), own, times)
    late = np.flatnonzero(~usable(times) & log.keep)
    if len(late):
        where = f"column {spec.timestamp.name}" if spec.timestamp else "the record's timestamp"
        reason = f"{where} is not a time from 1970 on, or later than {LATEST}"
        log.refuse("TIMESTAMP", dict.fromkeys(late.tolist(), reason))
    return times


def _null_where_all_null(keys: Bytes, columns: list[pa.Array]) -> Bytes:
    present = present_rows(columns[0])
    for column in columns[1:]:
        present |= present_rows(column)
    if present.all():
        return keys
    return pc.if_else(pa.array(present), keys, pa.scalar(None, pa.binary()))


def _unknown(name: str) -> StatementError:
    return wordings.UNKNOWN_FORMAT(name=name)
