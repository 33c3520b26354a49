"""FROM with JOIN: the join keys and the repartitions that they need (reference §10)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.catalog.formats import ANY_COLUMNS, INFERRING, internal_format
from millstream.catalog.rules import WINDOW_BOUNDS, check_key_types
from millstream.catalog.source import Format
from millstream.model.expressions import Arithmetic, ColumnRef, Expression, Literal
from millstream.model.schema import Column, Role, Schema, SourceKind, WindowedKey
from millstream.model.types import BIGINT
from millstream.plan import wordings
from millstream.plan.aggregation import check_total
from millstream.plan.join_rules import Side, Step, checked, is_primary_key, refuse_value_formats
from millstream.plan.keys import Key, KeyColumn
from millstream.plan.nodes import (
    ForeignKeyJoin,
    JoinKind,
    Named,
    Node,
    Project,
    Read,
    Repartition,
    StreamStreamJoin,
    StreamTableJoin,
    TableTableJoin,
    Within,
)
from millstream.plan.places import placed
from millstream.plan.sources import BindContext, NamedSource, column_reference, unique
from millstream_parser import statements


@dataclass(frozen=True, slots=True)
class From:
    """The relation that the clauses after FROM work on.

    `key_format` is the one its rows are partitioned by, None where no other source can be
    co-partitioned (no key, or a format that writes ids of schemas into keys); `window` is that of
    its keys. `same` are the expressions that equal the key in every row; `placed` those that equal
    the key or are NULL. `synthetic` is the key column of a join that is no column of a source.
    """

    node: Node
    key: Key
    key_format: Format | None
    same: tuple[Expression, ...] = ()
    placed: tuple[Expression, ...] = ()
    synthetic: Column | None = None
    window: WindowedKey | None = None


@dataclass(frozen=True, slots=True)
class _JoinKey:
    """The co-partitioning of a join: the column of the join key, the format that determines the
    partition, and the window that is part of the key."""

    name: str
    key_format: Format
    window: WindowedKey | None


def read_source(source: NamedSource) -> From:
    """A single source as it is."""
    columns = []
    for column in source.source.schema.key:
        reference = column_reference(source, column.name)
        columns.append(KeyColumn(column.name, reference, ((reference, column.name),)))
    given = source.source.key_format
    # A processor may give its rows any key, and leaves them where they are.
    placed = source.processor is None and source.source.partition_column is None
    key_format = given if columns and placed and given.name not in INFERRING else None
    same = (columns[0].value,) if len(columns) == 1 and placed else ()
    window = source.source.window
    return From(source.read(), Key(tuple(columns)), key_format, same, same, window=window)


def read_joined(query: statements.Query, context: BindContext) -> From:
    """All sources of a query joined from left to right."""
    refuse_value_formats(context, "JOIN")
    steps = []
    for position, join in enumerate(query.joins, start=1):
        with placed(join.span, context.script):
            steps.append(checked(join, position, context))
    result = read_source(context.sources[0])
    for step in steps:
        with placed(step.join.span, context.script):
            result = _joined(result, step, context)
    return result


def materialised(node: Node) -> Node:
    """A table's rows with their earlier values; any other relation unchanged."""
    if isinstance(node, Read) and node.kind is SourceKind.TABLE:
        return replace(node, materialised=True)
    return node


def _joined(left: From, step: Step, context: BindContext) -> From:
    """The sources so far with one more."""
    right = read_source(step.right.source)
    names = {
        name for s in context.sources for c in s.columns for name in (c.name, s.prefix + c.name)
    }
    name = unique("ROWKEY", names)
    if _is_table(left) and not is_primary_key(step.left):
        return _by_foreign_key(left, right, step, name)
    _refuse_moving_windows(left, right, step)
    meeting = _JoinKey(name, _common_format(left, right, step), left.window)
    inner = step.join.kind == "INNER"
    drop = inner or _is_table(left) or not _is_table(right)
    left_node = _keyed(left, step.left, meeting, drop_null_keys=drop)
    right_node = _keyed(right, step.right, meeting, drop_null_keys=True)
    node = _join_node(step, left_node, right_node)
    key = _key(left, step, name, context)
    check_key_types([Column(key.columns[0].name, step.left.expression.type)])
    synthetic = node.schema.find(name) if key.synthetic else None
    same, placed = _equal_to_key(left, step)
    key_format = None if left.window and left.key_format is None else meeting.key_format
    return From(node, key, key_format, same, placed, synthetic, left.window)


def _is_table(side: From) -> bool:
    return side.node.kind is SourceKind.TABLE


def _join_node(step: Step, left: Node, right: Node) -> Node:
    kind = JoinKind[step.join.kind]
    schema = Schema(left.schema.columns + right.schema.value)
    if left.kind is SourceKind.TABLE:
        return TableTableJoin(left, right, kind, schema)
    if right.kind is SourceKind.TABLE:
        return StreamTableJoin(left, right, kind, schema)
    given = step.join.within
    assert given is not None
    grace = given.grace.milliseconds if given.grace else None
    within = Within(given.before.milliseconds, given.after.milliseconds, grace)
    check_total("WITHIN", within.before_ms, within.after_ms, grace or 0)
    return StreamStreamJoin(left, right, kind, within, schema)


def _by_foreign_key(left: From, right: From, step: Step, name: str) -> From:
    """The left table with the right one's rows; it keeps its key and partitioning."""
    column = Column(name, step.right.expression.type)
    key_format = right.key_format or internal_format((column.type,))
    left_node = materialised(left.node)
    right_node = _keyed(right, step.right, _JoinKey(name, key_format, None), drop_null_keys=True)
    schema = Schema(left_node.schema.columns + right_node.schema.value)
    foreign_key, kind = Named(name, step.left.expression), JoinKind[step.join.kind]
    node = ForeignKeyJoin(left_node, right_node, foreign_key, key_format, kind, schema)
    prefix = step.left.source.prefix
    columns = tuple(replace(column, name=prefix + column.name) for column in left.key.columns)
    key = Key(columns, table=step.left.source.alias)
    return replace(left, node=node, key=key)


def _common_format(left: From, right: From, step: Step) -> Format:
    """The format that partitions both sides: that of a side that need not move, if there is one.

    A table joined with a stream is not repartitioned.
    """
    sides = [(left, step.left), (right, step.right)]
    if _is_table(right) and not _is_table(left):
        sides.reverse()
    for side, of in sides:
        if side.key_format is not None and of.expression in side.placed:
            return side.key_format
    if left.window is not None:
        return ANY_COLUMNS
    return internal_format((step.left.expression.type,))


def _refuse_moving_windows(left: From, right: From, step: Step) -> None:
    """Windowed rows are not repartitioned, unless their keys carry schema ids: then both sides are
    repartitioned by key and window, and windows of different lengths join by their start."""
    if left.window is None:
        return
    by_key = step.left.expression in left.placed and step.right.expression in right.placed
    alike = left.window == right.window and _same_format(left.key_format, right.key_format)
    if not by_key or not (alike or left.key_format is right.key_format is None):
        raise wordings.WINDOWS_MOVED()


def _keyed(side: From, of: Side, meeting: _JoinKey, *, drop_null_keys: bool) -> Node:
    """A side repartitioned by its join expression, which becomes the join key column."""
    node = materialised(side.node)
    if _is_table(side) and of.expression not in side.same:
        raise wordings.TABLE_MOVED(columns=side.key.columns[0].name)
    keys = (Named(meeting.name, of.expression), *_bounds(node, of.source, meeting.window))
    schema = _keyed_schema(node, keys)
    if of.expression not in side.placed or not _same_format(side.key_format, meeting.key_format):
        return Repartition(node, keys, meeting.key_format, schema, drop_null_keys)
    if meeting.name in node.schema.names and of.expression in side.same:
        return node
    values = tuple(ColumnRef(column.name, column.type) for column in schema.value)
    return Project(node, (*(key.expression for key in keys), *values), schema)


def _same_format(one: Format | None, other: Format | None) -> bool:
    """Whether the two write a key as the same bytes."""
    if one is None or other is None:
        return False
    return (one.name, dict(one.properties)) == (other.name, dict(other.properties))


def _bounds(node: Node, source: NamedSource, window: WindowedKey | None) -> tuple[Named, ...]:
    """The window bounds, which are part of the key of windowed sources. The window of the result is
    that of its left side, as long as it is that one's."""
    if window is None:
        return ()
    start, end = (
        ColumnRef(name if name in node.schema.names else source.prefix + name, BIGINT)
        for name in WINDOW_BOUNDS
    )
    closing: Expression = end
    if window.size_ms is not None and source.source.window != window:
        closing = Arithmetic("+", start, Literal(window.size_ms, BIGINT), BIGINT)
    return Named(WINDOW_BOUNDS[0], start), Named(WINDOW_BOUNDS[1], closing)


def _keyed_schema(node: Node, keys: tuple[Named, ...]) -> Schema:
    names = {key.name for key in keys}
    columns = tuple(Column(key.name, key.expression.type, Role.KEY) for key in keys)
    others = tuple(Column(c.name, c.type) for c in node.schema.columns if c.name not in names)
    return Schema(columns + others)


def _key(left: From, step: Step, name: str, context: BindContext) -> Key:
    """The key of a join: the columns that may stand for it, the preferred one first."""
    own = [
        (side.expression, context.text(side.tree, qualified=True))
        for side in (step.left, step.right)
        if isinstance(side.expression, ColumnRef)
    ]
    kept = left.key.columns[0].matches if step.left.expression in left.same else ()
    kept = kept if step.position > 1 else ()
    matches = [*kept, *own]
    match step.join.kind:
        case "RIGHT":
            matches.sort(key=lambda pair: pair[0] != step.right.expression)
        case "FULL":
            matches = []
    value = ColumnRef(name, step.left.expression.type)
    distinct = tuple(dict(matches).items())
    if not distinct:
        column = KeyColumn(name, value, ((value, name),))
        return Key((column,), "join expression", synthetic=True)
    first = distinct[0][0]
    default = first.name if isinstance(first, ColumnRef) else name
    return Key((KeyColumn(default, value, distinct),), "join expression")


def _equal_to_key(left: From, step: Step) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """The expressions that equal the key of the result in every row, and those that equal it or are
    NULL."""
    ours, theirs = step.left.expression, (step.right.expression,)
    kept = ours in left.same
    same = left.same if kept else (ours,)
    placed = left.placed if kept else (ours,)
    match step.join.kind:
        case "INNER":
            same += theirs
        case "RIGHT":
            same = theirs
        case "FULL":
            same = ()
    return same, placed + theirs
