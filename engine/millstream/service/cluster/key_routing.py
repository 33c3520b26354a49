"""Which partitions the rows of known keys lie in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import duckdb
import pyarrow as pa

from millstream.catalog.formats import NO_COLUMNS
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
    own: Callable[[Source], bool],
) -> frozenset[int] | None:
    """The partitions of `sub` that its result's rows with these `keys` lie in; `columns` are the
    names of the key columns. None where it is not known.

    Only what this engine has put into partitions is in the one of its key for certain: other
    programs may write to theirs as they like. `own` tells which sources are written by a query.
    """
    found = _partitioning(sub.root, {name: name for name in columns}, own)
    if found is None:
        return None
    format_, schema, names = found
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
    node: Node, names: Mapping[str, str], own: Callable[[Source], bool]
) -> tuple[Format, Schema, Mapping[str, str]] | None:
    """By which key and format the rows below were put into partitions. `names` gives the result's
    name of each column of `node` that holds a key column of the result."""
    match node:
        case Write() | Deliver() | Filter() | Aggregate():
            return _partitioning(node.input, names, own)
        case Project():
            below = {
                expression.name: names[column.name]
                for column, expression in zip(node.schema.columns, node.expressions, strict=True)
                if column.name in names and isinstance(expression, ColumnRef)
            }
            return _partitioning(node.input, below, own)
        case Repartition(key_format=Format() as format_):
            return _complete(format_, node.schema.key, names)
        case Read() if own(node.source) and node.source.window is None:
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
