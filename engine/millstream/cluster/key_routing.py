"""Finds the partitions that contain the rows of given keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import duckdb
import pyarrow as pa

from millstream.catalog.formats import INFERRING, NO_COLUMNS
from millstream.catalog.source import Format, Source
from millstream.formats.codec import EncodeSpec, encode
from millstream.formats.partition import partition_of
from millstream.model.expressions import ColumnRef
from millstream.model.physical import arrow_type, physical_names
from millstream.model.schema import Column, Schema
from millstream.plan.nodes import (
    Aggregate,
    Deliver,
    Filter,
    Node,
    Project,
    Read,
    Repartition,
    Write,
)
from millstream.topology.topology import SubTopology

Key = tuple[int | str, ...]


def partitions_of_keys(
    sub: SubTopology,
    columns: Sequence[str],
    keys: Sequence[Key],
    con: duckdb.DuckDBPyConnection,
    is_written: Callable[[Source], bool],
) -> frozenset[int] | None:
    """The partitions of `sub` that contain the rows of its result with these `keys`; None if
    unknown. `columns` are the names of the key columns.

    Only rows that this engine has partitioned are certain to be in the partition of their key:
    other programs may partition differently. `is_written` returns whether a query writes a source.
    """
    partitioning = _partitioning(sub.root, {name: name for name in columns}, is_written)
    if partitioning is None:
        return None
    format_, schema, names = partitioning
    arrays = [
        pa.array([key[columns.index(names[column.name])] for key in keys], arrow_type(column.type))
        for column in schema.columns
    ]
    table = pa.table(dict(zip(physical_names(schema.names), arrays, strict=True)))
    encoded = encode(con, table, EncodeSpec(format_, NO_COLUMNS, schema), sub.inputs[0].topic)
    if not all(encoded.keep.to_pylist()):
        return None
    return frozenset(partition_of(encoded.key, sub.partitions).tolist()) - {-1}


def _partitioning(
    node: Node, names: Mapping[str, str], is_written: Callable[[Source], bool]
) -> tuple[Format, Schema, Mapping[str, str]] | None:
    """The key and the format by which the input of `node` is partitioned; None if unknown. `names`
    maps each column of `node` that holds a key column of the result to that column's name."""
    match node:
        case Write() | Deliver() | Filter() | Aggregate():
            return _partitioning(node.input, names, is_written)
        case Project():
            below = {
                expression.name: names[column.name]
                for column, expression in zip(node.schema.columns, node.expressions, strict=True)
                if column.name in names and isinstance(expression, ColumnRef)
            }
            return _partitioning(node.input, below, is_written)
        case Repartition(key_format=Format() as format_):
            return _complete(format_, node.schema.key, names)
        case Read() if node.source.key_format.name in INFERRING:
            return None  # The bytes of a key depend on the schema that it was written by.
        case Read() if is_written(node.source) and node.source.window is None:
            back = dict(zip(node.schema.names, node.columns, strict=True))
            below = {back[name]: given for name, given in names.items() if name in back}
            return _complete(node.source.key_format, node.source.schema.key, below)
    return None


def _complete(
    format_: Format, key: tuple[Column, ...], names: Mapping[str, str]
) -> tuple[Format, Schema, Mapping[str, str]] | None:
    if not key or any(column.name not in names for column in key):
        return None
    return format_, Schema(key), names
