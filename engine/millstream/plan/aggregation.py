"""GROUP BY: plans one row per key, and checks what may be selected (reference §8, §9)."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from millstream.catalog.formats import internal_format
from millstream.catalog.rules import RESERVED, WINDOW_BOUNDS
from millstream.model import refusals
from millstream.model.expressions import AggregateCall, ColumnRef, Expression, Literal, children
from millstream.model.schema import Column, Role, Schema, WindowKind
from millstream.model.types import BIGINT, INTEGER, contains_null
from millstream.plan import wordings
from millstream.plan.group_rules import refuse_in_sessions, refuse_on_tables, refuse_ungrouped
from millstream.plan.keys import Key, KeyColumn
from millstream.plan.nodes import (
    Aggregate,
    Filter,
    Named,
    Node,
    Project,
    Repartition,
    Window,
)
from millstream.plan.places import placed, span_of
from millstream.plan.projection import Selected, with_expression
from millstream.plan.rewrite import substitute
from millstream.plan.sources import BindContext, functions_in, unique
from millstream_parser import LONGEST_MS, statements

DAY_MS = 86_400_000
FORGETFUL = "millstream.emit.final.forgetful"


def make_window(clause: statements.WindowClause | None, *, final: bool) -> Window | None:
    """The window of an aggregation with its grace period and retention computed.

    Without GRACE PERIOD a window stays open until a day after its start, with EMIT FINAL it
    closes at its end.
    """
    if clause is None:
        return None
    size = clause.size.milliseconds
    advance = clause.advance.milliseconds if clause.advance else None
    if size <= 0:
        raise wordings.WINDOW_SIZE_ZERO()
    if advance is not None and not 0 < advance <= size:
        raise wordings.ADVANCE_TOO_LONG()
    default = 0 if final else max(DAY_MS - size, 0)
    grace = clause.grace.milliseconds if clause.grace else default
    check_total("WINDOW", size, grace)
    retention = clause.retention.milliseconds if clause.retention else size + grace
    if retention < size + grace:
        raise wordings.RETENTION_TOO_SHORT(retention=retention, size=size, grace=grace)
    return Window(WindowKind[clause.kind], size, advance, grace, retention)


def check_total(clause: str, *lengths: int) -> None:
    """Refuse durations whose sum overflows when added to a time."""
    if sum(lengths) > LONGEST_MS:
        raise refusals.WINDOW_TOO_LONG(clause=clause, ms=sum(lengths), longest=LONGEST_MS)


def aggregate(
    query: statements.Query,
    context: BindContext,
    node: Node,
    below: Key,
    selected: tuple[Selected, ...],
    *,
    persistent: bool,
) -> tuple[Node, tuple[Selected, ...], Key]:
    """The grouped relation, the SELECT list over it, and its key.

    `below` is the key of the rows that are grouped: grouping by it needs no repartition.
    """
    grouping = _grouping(query, context)
    having = None if query.having is None else context.predicate(query.having, "HAVING")
    refuse_ungrouped(selected, having, query, grouping, context)
    if not grouping and persistent:
        known = context.catalogue.aggregate
        used = [name for item in query.items for name in functions_in(item.expression, known)]
        raise wordings.GROUP_BY_MISSING(used=", ".join(dict.fromkeys(used)))
    final = query.emit == "FINAL"
    with placed(query.window.span if query.window else None):
        window = make_window(query.window, final=final)
    if window is not None and context.properties.get(FORGETFUL, "").lower() == "true":
        window = replace(window, forgetful=True)
    keys = _key_names(grouping, node.schema)
    keyed = _keyed(node, keys, below, context)
    calls = _calls([item.expression for item in selected] + ([having] if having else []))
    refuse_on_tables(node, calls, context)
    if window is not None and window.kind is WindowKind.SESSION:
        refuse_in_sessions(calls, context)
    taken = {key.name for key in keys} | set(WINDOW_BOUNDS)
    outputs = {call: unique(f"KSQL_AGG_{i}", taken) for i, call in enumerate(calls)}
    schema = _schema(keys, window, outputs)
    named = tuple((name, _configured(call, context)) for call, name in outputs.items())
    result: Node = Aggregate(keyed, named, window, final, schema)

    def over_result(part: Expression) -> Expression | None:
        if isinstance(part, AggregateCall):
            return ColumnRef(outputs[part], part.type)
        key = next((key for key in keys if key.expression == part), None)
        return None if key is None else ColumnRef(key.name, part.type)

    if having is not None:
        result = Filter(result, substitute(having, over_result))
    items = tuple(
        with_expression(item, substitute(item.expression, over_result)) for item in selected
    )
    return result, items, _result_key(query, context, keys)


def _configured(call: AggregateCall, context: BindContext) -> AggregateCall:
    """The call with the session's setting that its function depends on as a last constant."""
    function = context.catalogue.aggregate[call.function]
    setting = function.variants[call.variant].setting
    if not setting:
        return call
    value = int(context.properties.get(setting, "-1"))
    return replace(call, constants=(*call.constants, value))


def _grouping(
    query: statements.Query, context: BindContext
) -> tuple[tuple[exp.Expression, Expression], ...]:
    result: list[tuple[exp.Expression, Expression]] = []
    for tree in query.group_by:
        expression = context.typed(tree, "GROUP BY")
        span = span_of(tree, context.script)
        if contains_null(expression.type):
            raise refusals.UNTYPED_NULL(span=span)
        if any(expression == other for _, other in result):
            text = context.text(tree, qualified=True)
            raise wordings.GROUPED_TWICE(text=text, span=span)
        result.append((tree, expression))
    return tuple(result)


def _key_names(
    grouping: tuple[tuple[exp.Expression, Expression], ...], schema: Schema
) -> tuple[Named, ...]:
    taken, result = set(schema.names), []
    for position, (_, expression) in enumerate(grouping):
        if isinstance(expression, ColumnRef) and expression.name not in RESERVED:
            name = expression.name
        else:
            name = unique(f"KSQL_KEY_{position}", taken)
            taken.add(name)
        result.append(Named(name, expression))
    if not result:
        result.append(Named(unique("KSQL_KEY_0", taken), Literal(1, INTEGER)))
    return tuple(result)


def _keyed(node: Node, keys: tuple[Named, ...], below: Key, context: BindContext) -> Node:
    """The rows keyed by their grouping columns: repartitioned unless they are already."""
    names = {key.name for key in keys}
    columns = tuple(Column(key.name, key.expression.type, Role.KEY) for key in keys)
    others = tuple(
        Column(column.name, column.type)
        for column in node.schema.columns
        if column.name not in names
    )
    schema = Schema(columns + others)
    moved = any(
        s.source.window or s.processor or s.source.partition_column for s in context.sources
    )
    if _lies_by(keys, below) and not moved:
        values = tuple(ColumnRef(column.name, column.type) for column in others)
        return Project(node, tuple(key.expression for key in keys) + values, schema)
    return Repartition(
        node,
        keys,
        internal_format(tuple(column.type for column in columns)),
        schema,
        drop_null_keys=True,
    )


def _lies_by(keys: tuple[Named, ...], below: Key) -> bool:
    if len(keys) != len(below.columns):
        return False
    return all(
        any(key.expression == expression for expression, _ in column.matches)
        for key, column in zip(keys, below.columns, strict=True)
    )


def _calls(expressions: list[Expression]) -> tuple[AggregateCall, ...]:
    found: dict[AggregateCall, None] = {}

    def collect(expression: Expression) -> None:
        if isinstance(expression, AggregateCall):
            found[expression] = None
            return
        for child in children(expression):
            collect(child)

    for expression in expressions:
        collect(expression)
    return tuple(found)


def _schema(
    keys: tuple[Named, ...], window: Window | None, outputs: dict[AggregateCall, str]
) -> Schema:
    columns = [Column(key.name, key.expression.type, Role.KEY) for key in keys]
    if window is not None:
        columns += [Column(name, BIGINT, Role.KEY) for name in WINDOW_BOUNDS]
    columns += [Column(name, call.type) for call, name in outputs.items()]
    return Schema(tuple(columns))


def _result_key(query: statements.Query, context: BindContext, keys: tuple[Named, ...]) -> Key:
    if not query.group_by:
        return Key((), "grouping expression")
    columns = []
    for key, tree in zip(keys, query.group_by, strict=True):
        reference = ColumnRef(key.name, key.expression.type)
        text = context.text(tree, qualified=False)
        columns.append(KeyColumn(key.name, reference, ((reference, text),)))
    return Key(tuple(columns), "grouping expression")
