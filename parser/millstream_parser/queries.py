"""SELECT and its clauses, in the fixed order of the grammar."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from millstream_grammar.keywords import CALENDAR_UNITS

from .cursor import Cursor
from .durations import LONGEST_MS, too_long
from .expressions import expression, value_expression
from .failure import SyntaxFailure
from .names import identifier
from .primaries import primary
from .ranges import history_range
from .statements import AliasedSource, Duration, Join, Query, SelectItem, WindowClause, Within
from .tokens import Kind

_NOT_AN_ALIAS = {
    "EMIT": ("CHANGES", "FINAL"),
    "PARTITION": ("BY",),
    "UNION": ("ALL",),
}
"""Soft keywords that start a clause where one of these words follows."""

_GROUPING_ENDS = ("HAVING", "PARTITION", "UNION", "EMIT", "LIMIT", "ORDER", ";", "")


def query(cursor: Cursor, *, persistent: bool = False) -> Query:
    """`query`. Without EMIT a query is a pull query, unless it is `persistent`: then it emits
    changes."""
    start = cursor.at
    first = _branch(cursor)
    union: list[Query] = []
    # Without EMIT, UNION ALL is more than the dialect has: it is left to the pull engine.
    if persistent or (cursor.looking_at("UNION", "ALL") and emits(cursor)):
        while cursor.accept("UNION", "ALL"):
            union.append(_branch(cursor))
    pull = cursor.extended and not persistent and not union
    order_by = _order_by(cursor) if pull and cursor.accept("ORDER", "BY") else ()
    ending = cursor.at
    emitted = not order_by and cursor.accept("EMIT")
    emit = cursor.expect_one("CHANGES", "FINAL") if emitted else None
    limit = _limit(cursor, emit) if cursor.accept("LIMIT") else None
    emit = emit or ("CHANGES" if persistent else None)
    return replace(
        first,
        emit=emit,
        limit=limit,
        order_by=order_by,
        union=tuple(replace(branch, emit=emit) for branch in union),
        span=cursor.span_from(start),
        end=cursor.span_from(ending) if cursor.at > ending else None,
    )


def emits(cursor: Cursor) -> bool:
    """Whether EMIT comes before the end of the statement."""
    at = cursor.at
    while cursor.tokens[at].kind is not Kind.END and cursor.tokens[at].upper != ";":
        following = cursor.tokens[at + 1].upper
        if cursor.tokens[at].upper == "EMIT" and following in ("CHANGES", "FINAL"):
            return True
        at += 1
    return False


def _branch(cursor: Cursor) -> Query:
    """A query without EMIT and what follows it."""
    start = cursor.at
    cursor.expect("SELECT")
    items = [_item(cursor)]
    while cursor.accept(","):
        items.append(_item(cursor))
    cursor.expect("FROM")
    source = _aliased(cursor)
    joins: list[Join] = []
    while (kind := _join_kind(cursor)) is not None:
        joins.append(_join(cursor, kind))
    window = _window(cursor) if cursor.accept("WINDOW") else None
    where = expression(cursor) if cursor.accept("WHERE") else None
    group_by = _grouping(cursor) if cursor.accept("GROUP", "BY") else ()
    partition_by = _grouping(cursor) if cursor.accept("PARTITION", "BY") else ()
    having = expression(cursor) if cursor.accept("HAVING") else None
    return Query(
        tuple(items),
        source,
        tuple(joins),
        window,
        where,
        group_by,
        partition_by,
        having,
        span=cursor.span_from(start),
    )


def _limit(cursor: Cursor, emit: str | None) -> int:
    if cursor.looking_at("-") and cursor.ahead(1).kind is Kind.INTEGER:
        kind = "Push" if emit else "Pull"
        raise cursor.fail(
            f"{kind} queries don't support negative integers in the LIMIT clause."
            " See https://cnfl.io/queries for more info."
        )
    return cursor.integer()


def _item(cursor: Cursor) -> SelectItem:
    """`item`: `*`, `source.*`, `struct->*` or an expression with an optional alias."""
    start = cursor.at
    if cursor.accept("*"):
        star = cursor.marked(exp.Star(), start)
        return SelectItem(star, span=cursor.span_from(start))
    if cursor.is_name() and cursor.ahead(1).upper == "." and cursor.ahead(2).upper == "*":
        table = cursor.marked(identifier(cursor.name()), start)
        cursor.expect(".", "*")
        column = cursor.marked(exp.Column(this=exp.Star(), table=table), start)
        return SelectItem(column, span=cursor.span_from(start))
    tree = expression(cursor)
    if cursor.looking_at("->", "*"):
        # Only a bare struct may be expanded: `a + s->*` has no meaning, so read it again as one.
        cursor.at = start
        struct = primary(cursor, negative=False)
        cursor.expect("->", "*")
        dot = cursor.marked(exp.Dot(this=struct, expression=exp.Star()), start)
        return SelectItem(dot, span=cursor.span_from(start))
    alias = _alias(cursor)
    return SelectItem(tree, alias, cursor.span_from(start))


def _alias(cursor: Cursor) -> str | None:
    """`[[AS] name]`."""
    if cursor.accept("AS"):
        # Only here may a name start with a digit without quotes.
        digits = cursor.token.kind is Kind.DIGIT_WORD
        return cursor.advance().text.upper() if digits else cursor.name()
    following = cursor.ahead(1).upper
    if not cursor.is_name() or following in _NOT_AN_ALIAS.get(cursor.token.upper, ()):
        return None
    if cursor.extended and cursor.looking_at("ORDER", "BY"):
        return None
    alias = cursor.name()
    if alias == "ORDER" and cursor.looking_at("BY"):
        raise cursor.unexpected(hint="Streams have no order: the dialect has no ORDER BY.")
    return alias


def _aliased(cursor: Cursor) -> AliasedSource:
    start = cursor.at
    if cursor.looking_at("PROCESS", "("):
        return _processed(cursor)
    name = cursor.name()
    store = cursor.name() if cursor.accept(".") else None
    ranged = history_range(cursor)
    alias = _alias(cursor)
    if store is not None:
        name, alias = f"{name}.{store}", alias or store
    return AliasedSource(name, alias, ranged, span=cursor.span_from(start))


def _processed(cursor: Cursor) -> AliasedSource:
    """`PROCESS(source, …, 'processor')`."""
    start = cursor.at
    cursor.expect("PROCESS", "(")
    name, *others = _processed_names(cursor)
    processor = cursor.string()
    cursor.expect(")")
    alias = _alias(cursor)
    return AliasedSource(name, alias, None, processor, tuple(others), cursor.span_from(start))


def _processed_names(cursor: Cursor) -> Iterator[str]:
    """The names before the processor, at least one."""
    while True:
        yield cursor.name()
        if cursor.looking_at(")"):
            raise cursor.unexpected(
                "','", hint="The name of the processor follows, between single quotes."
            )
        cursor.expect(",")
        if not cursor.is_name():
            return


def _join_kind(cursor: Cursor) -> str | None:
    """The kind of the join that follows, consumed together with JOIN."""
    if cursor.accept("JOIN"):
        return "INNER"
    word = cursor.token.upper
    if word == "INNER":
        cursor.expect("INNER", "JOIN")
        return word
    if word in ("LEFT", "RIGHT", "FULL"):
        cursor.advance()
        if not cursor.accept("OUTER") and not cursor.looking_at("JOIN"):
            raise cursor.unexpected("'OUTER'", "'JOIN'")
        cursor.expect("JOIN")
        return word
    return None


def _join(cursor: Cursor, kind: str) -> Join:
    start = cursor.at
    source = _aliased(cursor)
    within = _within(cursor) if cursor.accept("WITHIN") else None
    cursor.expect("ON")
    return Join(kind, source, expression(cursor), within, cursor.span_from(start))


def _within(cursor: Cursor) -> Within:
    if cursor.accept("("):
        before = duration(cursor)
        cursor.expect(",")
        after = duration(cursor)
        cursor.expect(")")
    else:
        before = after = duration(cursor)
    grace = duration(cursor) if cursor.accept("GRACE", "PERIOD") else None
    return Within(before, after, grace)


def duration(cursor: Cursor) -> Duration:
    """`integer unit`."""
    token = cursor.token
    amount = cursor.integer()
    if cursor.token.upper in CALENDAR_UNITS:
        raise cursor.fail(
            f"{cursor.token.upper} has no fixed length and cannot be used here",
            hint="Use DAYS, HOURS, MINUTES, SECONDS or MILLISECONDS.",
        )
    found = Duration(amount, cursor.time_unit())
    if found.milliseconds > LONGEST_MS:
        raise cursor.fail(too_long(f"{found.amount} {found.unit}"), token)
    return found


def _window(cursor: Cursor) -> WindowClause:
    start = cursor.at
    name = None
    unnamed = any(cursor.looking_at(kind, "(") for kind in ("SESSION", "SLIDING"))
    if not unnamed and cursor.is_name():
        name = cursor.name()
    kind = cursor.expect_one("TUMBLING", "HOPPING", "SESSION", "SLIDING")
    cursor.expect("(")
    if kind != "SESSION":
        cursor.expect("SIZE")
    size = duration(cursor)
    advance = None
    if kind == "HOPPING":
        cursor.expect(",", "ADVANCE", "BY")
        advance = duration(cursor)
    retention = duration(cursor) if cursor.accept(",", "RETENTION") else None
    grace = duration(cursor) if cursor.accept(",", "GRACE", "PERIOD") else None
    if not cursor.accept(")"):
        raise cursor.unexpected("','", "')'")
    span = cursor.span_from(start)
    return WindowClause(kind, size, advance, retention, grace, name, span)


def _grouping(cursor: Cursor) -> tuple[exp.Expression, ...]:
    """`value, …` or `(value, …)`. A leading parenthesis belongs to the list only if the clause
    ends with its partner; otherwise it belongs to the first expression."""
    start, depth = cursor.at, cursor.depth
    if cursor.looking_at("(", ")"):
        cursor.advance()
        raise cursor.unexpected(hint="The list needs at least one expression.")
    if cursor.accept("("):
        try:
            items = _values(cursor)
        except SyntaxFailure:
            items = ()  # Something like (NOT a): the second attempt raises the error, if any.
        if items and cursor.accept(")") and cursor.token.upper in _GROUPING_ENDS:
            return items
        cursor.at, cursor.depth = start, depth
    return _values(cursor)


def _values(cursor: Cursor) -> tuple[exp.Expression, ...]:
    items = [value_expression(cursor)]
    while cursor.accept(","):
        items.append(value_expression(cursor))
    return tuple(items)


def _order_by(cursor: Cursor) -> tuple[tuple[exp.Expression, bool], ...]:
    items = [_order_item(cursor)]
    while cursor.accept(","):
        items.append(_order_item(cursor))
    return tuple(items)


def _order_item(cursor: Cursor) -> tuple[exp.Expression, bool]:
    tree = expression(cursor)
    descending = cursor.accept("DESC")
    if not descending:
        cursor.accept("ASC")
    return tree, descending


def starts_query(cursor: Cursor) -> bool:
    """Whether there is a SELECT at the cursor."""
    return cursor.token.kind is Kind.WORD and cursor.looking_at("SELECT")
