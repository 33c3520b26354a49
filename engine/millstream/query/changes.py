"""The rows of a push query: results, and deletions of earlier results."""

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
    """A row of a push query: a tuple with a flag for deletions."""

    __slots__ = ()
    deleted: ClassVar[bool] = False
    """Whether the result with the key of this row no longer exists."""


class Deletion(Row):
    """The result with these key columns no longer exists. All other columns are None."""

    __slots__ = ()
    deleted: ClassVar[bool] = True


def changed_rows(table: pa.Table) -> Iterator[Row]:
    """The rows of a table of changes. `$diff` less than 1 marks deletions; the rows do not contain
    it."""
    if DIFF not in table.column_names:
        return map(Row, tuples(table))
    row_types = (Row if diff == 1 else Deletion for diff in table[DIFF].to_pylist())
    found = tuples(table.drop_columns([DIFF]))
    return (row_type(values) for row_type, values in zip(row_types, found, strict=True))


def without_deletions(table: pa.Table) -> pa.Table:
    """The results in a table of changes, without `$diff`."""
    if DIFF not in table.column_names:
        return table
    return table.filter(pc.equal(table[DIFF], 1)).drop_columns([DIFF])


def key_names(schema: Schema) -> tuple[str, ...]:
    """The columns that a deletion keeps: the key, and the bounds of the window."""
    return tuple(c.name for c in schema.columns if c.role is Role.KEY or c.name in _BOUNDS)


def null_deleted_values(table: pa.Table, change: pa.ChunkedArray, schema: Schema) -> pa.Table:
    """The rows in the columns of a schema; deletions (`change` less than 1) have NULL in all
    columns but the key. In the output of the operators, they have the values of the deleted
    result."""
    kept = key_names(schema)
    deleted = change.to_numpy() < 1
    indexes = pa.array(np.arange(table.num_rows), mask=deleted)
    columns = [
        column if name in kept else column.take(indexes)
        for name, column in zip(schema.names, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=list(schema.names))
