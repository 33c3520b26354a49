"""The supported joins: the checks on a join's condition, kind, sources and WITHIN clause."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from millstream.catalog.formats import CAPABILITIES
from millstream.model import refusals
from millstream.model.expressions import Expression
from millstream.model.schema import SourceKind, WindowKind
from millstream.plan import wordings
from millstream.plan.places import placed
from millstream.plan.sources import (
    BindContext,
    NamedSource,
    column_reference,
    columns_in,
)
from millstream_parser import statements


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a join's condition as written, typed, and the only source it names."""

    tree: exp.Expression
    expression: Expression
    source: NamedSource


@dataclass(frozen=True, slots=True)
class Step:
    """One valid JOIN; `right` is the side of the source that it adds, `position` its position in
    the script."""

    join: statements.Join
    left: Side
    right: Side
    condition: exp.EQ
    position: int


def checked(join: statements.Join, position: int, context: BindContext) -> Step:
    """A join after the checks of its condition and kind."""
    source, earlier = context.sources[position], context.sources[:position]
    with placed(join.condition, context.script):
        condition = _condition(join, context)
        left, right = _sides(condition, source, earlier, context)
    step = Step(join, left, right, condition, position)
    tables = all(item.source.kind is SourceKind.TABLE for item in earlier)
    match (tables, source.source.kind is SourceKind.TABLE):
        case (True, False):
            raise wordings.JOIN_ORDER(
                alias=left.source.alias, written=_written(join.kind), alias_2=source.alias
            )
        case (False, False):
            _check_stream_join(step)
        case (True, True):
            _check_table_join(step, context)
        case _:
            _check_stream_table(step, context)
    return step


def refuse_value_formats(context: BindContext, clause: str) -> None:
    """Refuse a clause over values in formats that it does not work with."""
    for name, able in CAPABILITIES.items():
        read = [item.source for item in context.sources]
        names = [source.name for source in read if source.value_format.name == name]
        if names and not able.clauses:
            raise refusals.VALUE_FORMAT_CLAUSE(sources=", ".join(names), format=name, clause=clause)


def _condition(join: statements.Join, context: BindContext) -> exp.EQ:
    for column in columns_in(join.condition):
        context.resolve(column, "JOIN ON")
    text = context.text(join.condition, qualified=True)
    match join.condition:
        case exp.EQ() as condition:
            return condition
        case exp.And() | exp.Or():
            raise wordings.JOIN_ON_SEVERAL(text=text)
        case _:
            raise wordings.JOIN_ON_INEQUALITY(
                text=text, hint="Join on <left expression> = <right expression>."
            )


def _sides(
    condition: exp.EQ,
    joined: NamedSource,
    earlier: tuple[NamedSource, ...],
    context: BindContext,
) -> tuple[Side, Side]:
    """The side of the sources so far and the side of the newly joined one."""
    whole = context.text(condition, qualified=True)
    first = _side(condition.this, whole, context)
    second = _side(condition.expression, whole, context)
    if second.source.alias == joined.alias and first.source in earlier:
        left, right = first, second
    elif first.source.alias == joined.alias and second.source in earlier:
        left, right = second, first
    else:
        raise wordings.JOIN_SOURCE(
            alias=joined.alias, alias_2=second.source.alias, alias_3=first.source.alias
        )
    if left.expression.type != right.expression.type:
        raise wordings.JOIN_TYPES_DIFFER(
            side=_bare(condition.this, context),
            type=first.expression.type,
            side_2=_bare(condition.expression, context),
            type_2=second.expression.type,
            hint="Use CAST to make both sides one type.",
        )
    return left, right


def _side(tree: exp.Expression, whole: str, context: BindContext) -> Side:
    owners = {context.resolve(column, "JOIN ON").alias for column in columns_in(tree)}
    if len(owners) != 1:
        text = context.text(tree, qualified=True)
        raise wordings.JOIN_SIDE(text=text, whole=whole)
    alias = owners.pop()
    source = next(item for item in context.sources if item.alias == alias)
    return Side(tree, context.typed(tree, "JOIN ON"), source)


def _bare(tree: exp.Expression, context: BindContext) -> str:
    return context.text(tree, qualified=True)


def _written(kind: str) -> str:
    return {
        "INNER": "[INNER] JOIN",
        "LEFT": "LEFT [OUTER] JOIN",
        "RIGHT": "RIGHT [OUTER] JOIN",
        "FULL": "FULL [OUTER] JOIN",
    }[kind]


def is_primary_key(side: Side) -> bool:
    """Whether a side of a condition is the one key column of its source."""
    key = side.source.source.schema.key
    return len(key) == 1 and side.expression == column_reference(side.source, key[0].name)


def _got(condition: exp.EQ, context: BindContext) -> str:
    left, right = condition.this, condition.expression
    return f"Got {_bare(left, context)} = {_bare(right, context)}."


def _check_stream_join(step: Step) -> None:
    _check_windows(step.left.source, step.right.source)
    if step.join.within is None:
        raise refusals.WITHIN_MISSING(left=step.left.source.alias, right=step.right.source.alias)


def _check_stream_table(step: Step, context: BindContext) -> None:
    join, left, right = step.join, step.left, step.right
    if join.within is not None:
        raise refusals.WITHIN_MISPLACED(left="Stream", right="Table")
    if join.kind == "FULL":
        raise wordings.STREAM_TABLE_FULL_JOIN()
    if join.kind not in ("INNER", "LEFT"):
        raise wordings.STREAM_TABLE_JOIN_KIND(written=_written(join.kind))
    _check_windows(left.source, right.source)
    if not is_primary_key(right):
        raise wordings.STREAM_TABLE_JOIN_KEY(got=_got(step.condition, context))


def _check_table_join(step: Step, context: BindContext) -> None:
    join, left, right = step.join, step.left, step.right
    if join.within is not None:
        raise refusals.WITHIN_MISPLACED(left="Table", right="Table")
    if not is_primary_key(right):
        raise wordings.TABLE_TABLE_JOIN_KEY(got=_got(step.condition, context))
    if is_primary_key(left):
        _check_windows(left.source, right.source)
        return
    if step.position > 1:
        raise wordings.FOREIGN_KEY_AMONG_MANY(got=_got(step.condition, context))
    if left.source.source.window is not None or right.source.source.window is not None:
        raise wordings.FOREIGN_KEY_ON_WINDOWS()
    if join.kind in ("RIGHT", "FULL"):
        raise wordings.FOREIGN_KEY_JOIN_KIND(kind=join.kind)


def _check_windows(left: NamedSource, right: NamedSource) -> None:
    ours, theirs = left.source.window, right.source.window
    if (ours is None) != (theirs is None):
        raise wordings.ONE_SIDE_WINDOWED(left=_windowing(left), right=_windowing(right))
    if ours is None or theirs is None:
        return
    if (ours.kind is WindowKind.SESSION) != (theirs.kind is WindowKind.SESSION):
        raise wordings.WINDOWS_DIFFER(left=ours.kind.value, right=theirs.kind.value)


def _windowing(item: NamedSource) -> str:
    window = item.source.window
    return f"`{item.alias}` is {f'{window.kind.value} windowed' if window else 'not windowed'}"
