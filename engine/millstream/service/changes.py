"""The rows of a push query: results, and deletions of results that came before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.model.batch import DIFF
from millstream.model.python_values import tuples
from millstream.model.schema import Role, Schema

_BOUNDS = ("WINDOWSTART", "WINDOWEND")


class Row(tuple[Any, ...]):
    """A row of a push query: a tuple that says whether it is a deletion."""

    __slots__ = ()
    deleted: ClassVar[bool] = False
    """Whether the row says that the result with its key no longer exists."""


class Deletion(Row):
    """The result with these key columns no longer exists. All other columns are None."""

    __slots__ = ()
    deleted: ClassVar[bool] = True


def changed_rows(table: pa.Table) -> Iterator[Row]:
    """The rows of a table of changes. `$diff` less than 1 marks deletions; it is no column."""
    if DIFF not in table.column_names:
        return map(Row, tuples(table))
    kinds = (Row if diff == 1 else Deletion for diff in table[DIFF].to_pylist())
    found = tuples(table.drop_columns([DIFF]))
    return (kind(values) for kind, values in zip(kinds, found, strict=True))


def without_deletions(table: pa.Table) -> pa.Table:
    """The results among changes, without `$diff`."""
    if DIFF not in table.column_names:
        return table
    return table.filter(pc.equal(table[DIFF], 1)).drop_columns([DIFF])


def key_names(schema: Schema) -> tuple[str, ...]:
    """The columns that a deletion keeps: the key, and the bounds of its window."""
    return tuple(c.name for c in schema.columns if c.role is Role.KEY or c.name in _BOUNDS)


def key_alone(table: pa.Table, change: pa.ChunkedArray, schema: Schema) -> pa.Table:
    """The rows in the columns of a schema, deletions (`change` less than 1) with NULL for all but
    the key: the operators pass on the values that the deleted result had."""
    kept = key_names(schema)
    gone = change.to_numpy() < 1
    places = pa.array(np.arange(table.num_rows), mask=gone)
    columns = [
        column if name in kept else column.take(places)
        for name, column in zip(schema.names, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=list(schema.names))
