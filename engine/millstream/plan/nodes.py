"""The logical plan: immutable nodes, each a relation derived from others.

Every node has `schema` (key columns, then value columns, under logical names) and `kind`.
A relation at run time has the physical columns of its schema in order (model.physical), then
`$part, $seq, $rowtime, $diff` and, in programs compiled with headers, `$headers`.
A windowed relation carries WINDOWSTART and WINDOWEND (BIGINT) as its last key columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

from millstream.catalog.source import Format, Source, TimestampColumn
from millstream.functions.function import ProcessorFunction
from millstream.model.expressions import AggregateCall, Expression, TableCall
from millstream.model.schema import Schema, SourceKind, WindowedKey, WindowKind


class JoinKind(Enum):
    """Which unmatched rows survive."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL OUTER"


@dataclass(frozen=True, slots=True)
class Window:
    """A window clause. `size_ms` is the gap of a session; `grace_ms` is None when not given.

    `forgetful`: EMIT FINAL skips windows that start more than size and grace before the newest one
    by the time they close.
    """

    kind: WindowKind
    size_ms: int
    advance_ms: int | None = None
    grace_ms: int | None = None
    retention_ms: int | None = None
    forgetful: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """An expression with the name of the column it becomes."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Read:
    """The records of a stream or the changes of a table.

    `schema` holds the source's columns that the query uses (all keys always), renamed with `prefix`
    in joins (`L_` + name), followed by the pseudo columns in use (ROWTIME, ROWPARTITION, ROWOFFSET
    as value columns, prefixed too; WINDOWSTART, WINDOWEND as keys of windowed sources). `columns`
    gives the source column of each schema column. A table is materialised (its earlier value known,
    updates being -1/+1 pairs) when `materialised`, else every record is a +1 or, for a tombstone, a
    0. It is materialised where a later step needs differences, and where CREATE TABLE AS SELECT has
    no other state for pull queries.
    """

    source: Source
    prefix: str
    schema: Schema
    columns: tuple[str, ...]
    kind: SourceKind
    materialised: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """Keeps the rows for which the predicate is TRUE; drops `$diff` = 0."""

    input: Node
    predicate: Expression

    @property
    def schema(self) -> Schema:
        """That of the input."""
        return self.input.schema

    @property
    def kind(self) -> SourceKind:
        """That of the input."""
        return self.input.kind


@dataclass(frozen=True, slots=True)
class Project:
    """Computes the columns of `schema`, one expression each, in order.

    It may change the key (PARTITION BY, or grouping by the existing key) without a repartition.
    Where `$diff` is 0 there are no values: a key column whose expression reads a value column of
    the input is then NULL, even if its expression is not (COALESCE). Under a Deliver the schema is
    in the order of the SELECT list, keys not first.
    """

    input: Node
    expressions: tuple[Expression, ...]
    schema: Schema

    @property
    def kind(self) -> SourceKind:
        """That of the input."""
        return self.input.kind


@dataclass(frozen=True, slots=True)
class Flatten:
    """Table functions: each row times the zip of their outputs; `schema` is the input's columns
    followed by one value column per call."""

    input: Node
    calls: tuple[TableCall, ...]
    schema: Schema

    @property
    def kind(self) -> SourceKind:
        """Only streams can be flattened."""
        return SourceKind.STREAM


@dataclass(frozen=True, slots=True)
class ProcessedStream:
    """What a processor reads: a stream, or the changes of a `table`. ROWOFFSET may follow."""

    name: str
    topic: str
    schema: Schema
    table: bool = False


@dataclass(frozen=True, slots=True)
class Process:
    """The rows that a processor makes of those of a stream, which it gets in the order of the task.

    They stay in the partition of the rows that caused them, whatever their key is. `schema`: the
    columns of its output, then ROWTIME. `streams`: those that are read; with several, `input` has
    the number of the row's stream, then the columns of all of them.
    """

    input: Node
    processor: ProcessorFunction
    schema: Schema
    streams: tuple[ProcessedStream, ...]
    kind: SourceKind = SourceKind.STREAM


@dataclass(frozen=True, slots=True)
class Repartition:
    """Rows move to the partition of their new key. `split` cuts the plan here.

    `keys` are computed first and become the key columns of `schema`; the value columns are those
    of the input that later nodes use, under their own names (an old key column becomes a value
    column). `key_format` serialises the key to find the partition (None: no key, partition kept).
    Rows whose key is NULL (or, with `drop_null_keys`, any key column of which is NULL) are dropped
    when `drop_null_keys`. Table changes (-1 and +1) move separately.
    """

    input: Node
    keys: tuple[Named, ...]
    key_format: Format | None
    schema: Schema
    drop_null_keys: bool
    topic: str = "repartition"
    """The suffix of its topic's name."""

    @property
    def kind(self) -> SourceKind:
        """That of the input."""
        return self.input.kind


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row per key (and window), updated by each input row.

    The input is keyed by the grouping columns already (a Repartition or a Project of keys is below
    where needed). `schema`: key columns (+ WINDOWSTART, WINDOWEND), then one value column per
    aggregate, then ROWTIME is the greatest event time of the group. Rows with `$diff` = 0 and with
    a NULL in a key column (struct keys excepted) are ignored. `final`: EMIT FINAL.
    """

    input: Node
    aggregates: tuple[tuple[str, AggregateCall], ...]
    window: Window | None
    final: bool
    schema: Schema
    kind: SourceKind = SourceKind.TABLE


@dataclass(frozen=True, slots=True)
class Merge:
    """The rows of two streams with the same columns as one stream (UNION ALL), in the order of the
    task."""

    left: Node
    right: Node
    schema: Schema
    kind: SourceKind = SourceKind.STREAM


@dataclass(frozen=True, slots=True)
class StreamTableJoin:
    """Each left row with the right row of its key at that time; the table's changes emit nothing.

    Both inputs are keyed by the join key; prefixes already distinguish the columns of both sides.
    `schema`: key column, then left value columns, then the right's.
    """

    left: Node
    right: Node
    join: JoinKind
    schema: Schema
    kind: SourceKind = SourceKind.STREAM


@dataclass(frozen=True, slots=True)
class Within:
    """How far apart in event time the rows of two streams may be, ends included.

    A right row joins a left row at t when its time is in [t - before_ms, t + after_ms]. `grace_ms`
    None: an unmatched row of an outer side is emitted at once, padded, and its matches follow on
    arrival (the rule of WITHIN without GRACE PERIOD); both sides are stored for 24 h. Otherwise it
    is held back until stream time has passed its window and the grace.
    """

    before_ms: int
    after_ms: int
    grace_ms: int | None


@dataclass(frozen=True, slots=True)
class StreamStreamJoin:
    """Each pair of rows of two streams that are near in time; a pair belongs to the later arrival.

    Both inputs are keyed by the join key (and WINDOWSTART, WINDOWEND of windowed sources), and
    prefixes distinguish their columns. `schema`: the key columns of the left, filled from the side
    that is present, then the left's value columns, then the right's.
    """

    left: Node
    right: Node
    join: JoinKind
    within: Within
    schema: Schema
    kind: SourceKind = SourceKind.STREAM


@dataclass(frozen=True, slots=True)
class TableTableJoin:
    """One row per key that either or both sides have, updated by every change of either side.

    Keys and `schema` as in StreamStreamJoin; it stores the rows of both sides itself. The time of a
    row is the later of both.
    """

    left: Node
    right: Node
    join: JoinKind
    schema: Schema
    kind: SourceKind = SourceKind.TABLE


@dataclass(frozen=True, slots=True)
class ForeignKeyJoin:
    """Each row of a table with the row of another table whose primary key is given by an
    expression.

    `left` is keyed by its own primary key, which is the key of the result; `right` by the join key.
    `split` cuts it in three: left rows move to the partition of `foreign_key`, are joined with the
    right table there, and move back. INNER or LEFT. `schema`: the left's columns, then the right's
    value columns.
    """

    left: Node
    right: Node
    foreign_key: Named
    key_format: Format
    join: JoinKind
    schema: Schema
    kind: SourceKind = SourceKind.TABLE


@dataclass(frozen=True, slots=True)
class SubscriptionSend:
    """The first step of a ForeignKeyJoin, created by `split`: each change of the left table goes to
    the partition of the row's foreign key, and also to that of the foreign key it leaves.

    `schema`: the column `foreign_key` of the input as key, then its other columns as values, then
    `$version` (which grows), `$home` (the left row's partition) and `$asked` (requests a response).
    """

    input: Node
    foreign_key: str
    schema: Schema
    kind: SourceKind = SourceKind.TABLE


@dataclass(frozen=True, slots=True)
class SubscriptionStoreJoin:
    """The second step: joins every subscribed left row with the right table, again at each change
    of that, and sends the response to the left row's partition.

    `left` is keyed by the foreign key, `right` too. `schema`: the left's key, its value columns,
    the right's, then `$version` and `$found`. `key_format`: by its bytes the rows of one change
    are ordered.
    """

    left: Node
    right: Node
    schema: Schema
    key_format: Format
    kind: SourceKind = SourceKind.TABLE


@dataclass(frozen=True, slots=True)
class SubscriptionResolve:
    """The last step: the newest response to each left row; older ones are ignored. `schema` is that
    of the ForeignKeyJoin."""

    input: Node
    join: JoinKind
    schema: Schema
    kind: SourceKind = SourceKind.TABLE


@dataclass(frozen=True, slots=True)
class Write:
    """Writes rows to a topic: diffs become upserts and tombstones.

    Event time and partition come from `timestamp` and `partition_column`, if they are given.
    `null_parts`: a key of NULLs is a record of them, not the NULL key.
    """

    input: Node
    name: str
    topic: str
    key_format: Format
    value_format: Format
    window: WindowedKey | None
    timestamp: TimestampColumn | None
    partition_column: str | None = None
    null_parts: bool = False

    @property
    def schema(self) -> Schema:
        """That of the input."""
        return self.input.schema

    @property
    def kind(self) -> SourceKind:
        """That of the input."""
        return self.input.kind


@dataclass(frozen=True, slots=True)
class Deliver:
    """Delivers rows to a client: the sink of a push query. `limit` rows, or all."""

    input: Node
    limit: int | None

    @property
    def schema(self) -> Schema:
        """That of the input."""
        return self.input.schema

    @property
    def kind(self) -> SourceKind:
        """That of the input."""
        return self.input.kind


Node = (
    Read
    | Filter
    | Project
    | Flatten
    | Process
    | Repartition
    | Aggregate
    | Merge
    | StreamTableJoin
    | StreamStreamJoin
    | TableTableJoin
    | ForeignKeyJoin
    | SubscriptionSend
    | SubscriptionStoreJoin
    | SubscriptionResolve
    | Write
    | Deliver
)


def inputs(node: Node) -> tuple[Node, ...]:
    """The input relations of a node."""
    match node:
        case Read():
            return ()
        case Merge() | StreamTableJoin() | StreamStreamJoin() | TableTableJoin():
            return (node.left, node.right)
        case ForeignKeyJoin() | SubscriptionStoreJoin():
            return (node.left, node.right)
        case _:
            return (node.input,)


def with_inputs(node: Node, rewrite: Callable[[Node], Node]) -> Node:
    """The same node over rewritten inputs."""
    match node:
        case Read():
            return node
        case Merge() | StreamTableJoin() | StreamStreamJoin() | TableTableJoin():
            return replace(node, left=rewrite(node.left), right=rewrite(node.right))
        case ForeignKeyJoin() | SubscriptionStoreJoin():
            return replace(node, left=rewrite(node.left), right=rewrite(node.right))
        case _:
            return replace(node, input=rewrite(node.input))


def own_expressions(node: Node) -> tuple[Expression, ...]:
    """The expressions that a node evaluates itself."""
    match node:
        case Filter():
            return (node.predicate,)
        case Project():
            return node.expressions
        case Flatten():
            return node.calls
        case Repartition():
            return tuple(named.expression for named in node.keys)
        case Aggregate():
            return tuple(call for _, call in node.aggregates)
        case ForeignKeyJoin():
            return (node.foreign_key.expression,)
        case StreamTableJoin() | StreamStreamJoin() | TableTableJoin():
            return ()
        case Read() | Process() | Merge() | Write() | Deliver():
            return ()
        case SubscriptionSend() | SubscriptionStoreJoin() | SubscriptionResolve():
            return ()
    assert_never(node)


def holds_results(node: Node) -> bool:
    """Whether a node, or one below it in its sub-topology, keeps results back until stream time has
    passed their windows."""
    match node:
        case Aggregate() if node.final:
            return True
        case StreamStreamJoin() if node.join is not JoinKind.INNER:
            if node.within.grace_ms is not None:
                return True
    below = (child for child in inputs(node) if not isinstance(child, Repartition))
    return any(map(holds_results, below))


def is_stateful(node: Node) -> bool:
    """Whether a node keeps a state table."""
    match node:
        case Read():
            return node.materialised
        case Filter() | Project() | Flatten() | Repartition() | Merge() | Write() | Deliver():
            return False
        case Process() | SubscriptionResolve():
            # A processor has at least its stream time.
            return True
        case Aggregate() | StreamTableJoin() | StreamStreamJoin() | TableTableJoin():
            return True
        case ForeignKeyJoin() | SubscriptionSend() | SubscriptionStoreJoin():
            return True
    assert_never(node)
