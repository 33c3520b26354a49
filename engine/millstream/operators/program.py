"""The result of compiling a sub-topology: DuckDB statements over batches and state tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from millstream.model.types import SqlType
from millstream.plan.nodes import Node, Process

Nodes = tuple[Node, ...]
"""The logical nodes whose work a step does, in the order of the rows: several where neighbours are
fused into one SELECT."""


@dataclass(frozen=True, slots=True)
class Nested:
    """A SELECT inside of a statement: the hash of its text, and the nodes whose work it does."""

    text_hash: int
    nodes: Nodes


@dataclass(frozen=True, slots=True)
class Expiry:
    """When rows are no longer needed, by the stream time of their partition: as soon as their
    column `time` is more than `after_ms` behind `column` of the state table `clock`. No result
    depends on when they are removed, and their removal is on no changelog."""

    time: str
    clock: str
    column: str
    after_ms: int


@dataclass(frozen=True, slots=True)
class StateTable:
    """A table of the store: primary key `$part` + `key`, further columns `value`.

    Column names are physical. Every row also has `$rowtime` (BIGINT) unless `plain`.
    """

    name: str
    key: tuple[tuple[str, str], ...]
    """(column, DuckDB type) pairs."""
    value: tuple[tuple[str, str], ...]
    plain: bool = False
    nullable: bool = False
    """Some of the key columns may be NULL (never all of them): compared as values, no index."""
    appended: bool = False
    """Rows have unique keys and are removed only when they expire: no index."""
    expiry: Expiry | None = None


@dataclass(frozen=True, slots=True)
class Sql:
    """A SELECT whose result becomes the relation `target`, or (target None) a DML statement."""

    target: str | None
    text: str
    nodes: Nodes = ()
    nested: tuple[Nested, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A vectorised Python step: it takes Arrow tables by name and returns the relation `target`.

    For what SQL cannot express (sequential sums, users' functions), or not as fast.
    """

    target: str
    label: str
    function: Callable[[Mapping[str, pa.Table]], pa.Table]
    inputs: tuple[str, ...]
    shown: str
    """A SELECT of the same rows, for EXPLAIN; where SQL has none, of the same columns."""
    stub: bool = False
    """Whether `shown` has only the columns."""
    nodes: Nodes = ()
    nested: tuple[Nested, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreTable:
    """A store of a processor: its state table, and the relation of its changes in a run."""

    name: str
    table: str
    changes: str
    keys: tuple[SqlType, ...]
    """The types of the parts of its keys."""
    value: SqlType

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the parts."""
        return ("key", *(f"key_{number}" for number in range(1, len(self.keys))))


@dataclass(frozen=True, slots=True)
class ProcessorCall:
    """Pass the rows of relation `source`, those of each task in their order, through the task's
    processor. It makes the relation `target`, one of the changes of each store, `times_new` with
    what each task remembers of time, which table `times` holds, and `skipped` with the records that
    it could not process (as in `Program.problems`)."""

    target: str
    source: str
    node: Process
    stores: tuple[StoreTable, ...]
    times: str
    times_new: str
    skipped: str
    carried: tuple[str, ...]
    shown: str
    """A SELECT of the same columns, for EXPLAIN."""
    nodes: Nodes = ()


@dataclass(frozen=True, slots=True)
class Upsert:
    """Write the rows of relation `source` into state table `table` by primary key; rows with
    `$deleted` = TRUE are removed. The executor sends the same rows to the changelog.

    `fresh`: no key is in the table yet. `deletes`: the source has `$deleted`.
    """

    table: str
    source: str
    fresh: bool = False
    deletes: bool = False
    nodes: Nodes = ()


@dataclass(frozen=True, slots=True)
class Repeat:
    """Repeat `steps` while relation `until_empty` has rows. They may redefine relations made
    before."""

    until_empty: str
    steps: tuple[Sql | Call, ...]
    nodes: Nodes = ()


Step = Sql | Call | ProcessorCall | Upsert | Repeat


@dataclass(frozen=True, slots=True)
class Program:
    """Ordered steps over `in_<i>` relations and state tables, ending in the relation `out`.

    `exact` is the same program with guards (TRY, wrapping integers): run when a step of the fast
    one fails on some row.
    """

    steps: tuple[Step, ...]
    exact: tuple[Step, ...]
    tables: tuple[StateTable, ...]
    inputs: tuple[str, ...]
    late: tuple[str, ...] = ()
    """Relations that count dropped late rows (`$part`, `late`)."""
    problems: tuple[str, ...] = ()
    """Relations of the exact program that list failed rows (`$part`, `$seq`, `message`); `$seq` is
    -1 where the input record is unknown."""
    traced: bool = False
    """Whether `$seq` in `out` is that of the input row that caused the row."""
    carried: tuple[str, ...] = ()
    """The columns, besides `$part`, `$seq`, `$rowtime` and `$diff`, that inputs and `out` carry of
    the record that caused a row."""


@dataclass(frozen=True, slots=True)
class ActiveProgram:
    """The current program of a sub-topology, selected from its variants.

    `cached`, `headers`: what it was compiled with. `exact`: its guarded steps run, because a row of
    a recent batch has failed.
    """

    program: Program
    cached: bool = False
    headers: bool = False
    exact: bool = False
