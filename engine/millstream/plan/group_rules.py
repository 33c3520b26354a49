"""What GROUP BY, aggregates and windows cannot be combined with (reference §8, §9)."""

from __future__ import annotations

from sqlglot import exp

from millstream.catalog.rules import WINDOW_BOUNDS
from millstream.model import refusals
from millstream.model.errors import StatementError
from millstream.model.expressions import AggregateCall, ColumnRef, Expression, children
from millstream.model.schema import SourceKind
from millstream.model.types import BIGINT
from millstream.plan import wordings
from millstream.plan.keys import enumerate_words
from millstream.plan.nodes import Node
from millstream.plan.places import span_of
from millstream.plan.projection import Selected
from millstream.plan.scope import location
from millstream.plan.sources import BindContext, columns_in, functions_in
from millstream_parser import statements


def is_aggregation(query: statements.Query, context: BindContext) -> bool:
    """Whether the query groups rows. Refuses GROUP BY and aggregates without each other."""
    known = context.catalogue.aggregate
    trees = [item.expression for item in query.items]
    having = () if query.having is None else (query.having,)
    aggregates = any(functions_in(tree, known) for tree in (*trees, *having))
    if query.group_by and not aggregates:
        raise wordings.AGGREGATE_MISSING(span=span_of(query.group_by[0], context.script))
    if query.having is not None and not query.group_by:
        raise wordings.HAVING_WITHOUT_GROUP_BY(span=span_of(query.having, context.script))
    return aggregates


def check_clauses(query: statements.Query, context: BindContext) -> None:
    """Refuse aggregates and window bounds where rows are not grouped yet."""
    known = context.catalogue.aggregate
    for tree in query.group_by:
        for name in functions_in(tree, known):
            raise _misplaced("GROUP BY", name, tree, context)
    for clause, trees in (
        ("WHERE", () if query.where is None else (query.where,)),
        ("PARTITION BY", query.partition_by),
    ):
        for tree in trees:
            _refuse_bounds_in_rows(tree, context)
            for name in functions_in(tree, known):
                raise _misplaced(clause, name, tree, context)
    if not context.windowed:
        return
    having = () if query.having is None else (query.having,)
    arguments = [
        argument
        for item in (*query.items,)
        for call in item.expression.find_all(exp.Anonymous)
        if call.name.upper() in known
        for argument in call.expressions
    ]
    for tree in (*query.group_by, *having, *arguments):
        for column in columns_in(tree):
            if column.name in WINDOW_BOUNDS and not context.sources[0].has(column.name):
                raise wordings.BOUND_OUTSIDE_SELECT(
                    column=column.name, span=location(column, context.script)[0]
                )


def _misplaced(
    clause: str, function: str, tree: exp.Expression, context: BindContext
) -> StatementError:
    calls = (node for node in tree.find_all(exp.Anonymous) if node.name.upper() == function)
    span = span_of(next(calls, tree), context.script)
    return refusals.AGGREGATE_MISPLACED(clause=clause, function=function, span=span)


def _refuse_bounds_in_rows(tree: exp.Expression, context: BindContext) -> None:
    for column in columns_in(tree):
        bound = column.name in WINDOW_BOUNDS and context.windowed
        if bound and not context.resolve(column, "WHERE").has(column.name):
            raise wordings.UNKNOWN_BOUND(column=column.name, span=span_of(column, context.script))


def refuse_ungrouped(
    selected: tuple[Selected, ...],
    having: Expression | None,
    query: statements.Query,
    grouping: tuple[tuple[exp.Expression, Expression], ...],
    context: BindContext,
) -> None:
    """Refuse values of single rows above the aggregation."""
    grouped = [expression for _, expression in grouping]
    if context.windowed:
        grouped += [ColumnRef(name, BIGINT) for name in WINDOW_BOUNDS]
    bare = [item.tree for item in selected if _is_ungrouped(item.expression, grouped)]
    if bare:
        listed = ", ".join(context.text(tree, qualified=False) for tree in bare)
        span = span_of(bare[0], context.script)
        raise wordings.UNGROUPED_SELECT(listed=listed, span=span)
    if having is not None and query.having is not None and _is_ungrouped(having, grouped):
        text = context.text(query.having, qualified=False)
        span = span_of(query.having, context.script)
        raise wordings.UNGROUPED_HAVING(expression=text, span=span)


def _is_ungrouped(expression: Expression, grouped: list[Expression]) -> bool:
    """Whether a value depends on single rows of a group."""
    if expression in grouped or isinstance(expression, AggregateCall):
        return False
    if isinstance(expression, ColumnRef):
        return True
    return any(_is_ungrouped(child, grouped) for child in children(expression))


def refuse_on_tables(node: Node, calls: tuple[AggregateCall, ...], context: BindContext) -> None:
    """Refuse windows over tables, and aggregates that cannot undo a row."""
    if node.kind is not SourceKind.TABLE:
        return
    if context.windowed:
        raise wordings.WINDOW_ON_TABLE()
    known = context.catalogue.aggregate
    used = dict.fromkeys((call.function, call.variant) for call in calls)
    refused = list(dict.fromkeys(f for f, v in used if not known[f].variants[v].undo))
    if refused:
        plural = "s" if len(refused) > 1 else ""
        raise wordings.AGGREGATE_ON_TABLE(plural=plural, refused=enumerate_words(refused, "and"))


def refuse_in_sessions(calls: tuple[AggregateCall, ...], context: BindContext) -> None:
    """Two sessions become one when a row falls between them, and so must their states."""
    known = context.catalogue.aggregate
    for call in calls:
        variant = known[call.function].variants[call.variant]
        if variant.state and not variant.merge:
            raise wordings.AGGREGATE_IN_SESSIONS(
                function=call.function, hint="Use a TUMBLING or HOPPING window."
            )
