"""Queries -> canonical text, one clause per line."""

from __future__ import annotations

from sqlglot import exp

from .history import AsOf, Moment, OffsetRange, Range, TimeRange
from .names import quote, quote_string
from .print_expressions import print_expression
from .statements import (
    AliasedSource,
    Duration,
    Join,
    Query,
    SelectItem,
    WindowClause,
)


def print_query(query: Query) -> str:
    """The canonical text of a query."""
    lines = _branch(query)
    for branch in query.union:
        lines += ["UNION ALL", *_branch(branch)]
    if query.order_by:
        order = (f"{print_expression(e)}{' DESC' if down else ''}" for e, down in query.order_by)
        lines.append(f"ORDER BY {', '.join(order)}")
    if query.emit is not None:
        lines.append(f"EMIT {query.emit}")
    if query.limit is not None:
        lines.append(f"LIMIT {query.limit}")
    return "\n".join(lines)


def _branch(query: Query) -> list[str]:
    items = [_item(item) for item in query.items]
    select = f"SELECT {items[0]}" if len(items) == 1 else "SELECT\n  " + ",\n  ".join(items)
    lines = [select, f"FROM {_source(query.source)}", *(_join(join) for join in query.joins)]
    if query.window is not None:
        lines.append(f"WINDOW {_window(query.window)}")
    if query.where is not None:
        lines.append(f"WHERE {print_expression(query.where)}")
    if query.group_by:
        lines.append(f"GROUP BY {_listed(query.group_by)}")
    if query.partition_by:
        lines.append(f"PARTITION BY {_listed(query.partition_by)}")
    if query.having is not None:
        lines.append(f"HAVING {print_expression(query.having)}")
    return lines


def print_duration(duration: Duration) -> str:
    """`n UNIT`."""
    return f"{duration.amount} {duration.unit}"


def _listed(items: tuple[exp.Expression, ...]) -> str:
    return ", ".join(print_expression(item) for item in items)


def _item(item: SelectItem) -> str:
    alias = "" if item.alias is None else f" {quote(item.alias)}"
    return f"{print_expression(item.expression)}{alias}"


def _source(source: AliasedSource) -> str:
    alias = "" if source.alias is None else f" {quote(source.alias)}"
    if source.processor is not None:
        names = ", ".join(map(quote, (source.name, *source.others)))
        return f"PROCESS({names}, {quote_string(source.processor)}){alias}"
    ranged = "" if source.range is None else f" {_range(source.range)}"
    return f"{quote(source.name)}{ranged}{alias}"


def _range(ranged: Range) -> str:
    match ranged:
        case AsOf(time):
            return f"AS OF TIMESTAMP {_moment(time)}"
        case OffsetRange(first, last):
            return f"BETWEEN OFFSETS {_offsets(first)} AND {_offsets(last)}"
        case TimeRange(begin, end):
            return f"FROM TIMESTAMP {_moment(begin)} TO {_moment(end)}"


def _moment(time: Moment) -> str:
    return quote_string(time) if isinstance(time, str) else str(time)


def _offsets(offsets: tuple[int, ...]) -> str:
    return str(offsets[0]) if len(offsets) == 1 else f"({', '.join(map(str, offsets))})"


def _join(join: Join) -> str:
    kind = join.kind if join.kind == "INNER" else f"{join.kind} OUTER"
    text = f"{kind} JOIN {_source(join.source)}"
    if join.within is not None:
        before, after = print_duration(join.within.before), print_duration(join.within.after)
        text += f" WITHIN {before}" if before == after else f" WITHIN ({before}, {after})"
        if join.within.grace is not None:
            text += f" GRACE PERIOD {print_duration(join.within.grace)}"
    return f"{text} ON {print_expression(join.condition)}"


def _window(window: WindowClause) -> str:
    parts = [("" if window.kind == "SESSION" else "SIZE ") + print_duration(window.size)]
    if window.advance is not None:
        parts.append(f"ADVANCE BY {print_duration(window.advance)}")
    if window.retention is not None:
        parts.append(f"RETENTION {print_duration(window.retention)}")
    if window.grace is not None:
        parts.append(f"GRACE PERIOD {print_duration(window.grace)}")
    name = "" if window.name is None else f"{quote(window.name)} "
    return f"{name}{window.kind} ({', '.join(parts)})"
