"""Which joins there are: the checks on a join's condition, kind, sources and WITHIN clause."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from millstream.catalog.formats import CAPABILITIES
from millstream.model import refusals
from millstream.model.errors import StatementError
from millstream.model.expressions import Expression
from millstream.model.schema import SourceKind, WindowKind
from millstream.plan.sources import (
    NamedSource,
    Surroundings,
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
    """One JOIN that is allowed; `right` is the side of the source it adds, `position` its place."""

    join: statements.Join
    left: Side
    right: Side
    condition: exp.EQ
    position: int


def checked(join: statements.Join, position: int, surroundings: Surroundings) -> Step:
    """A join whose condition and kind are allowed."""
    condition = _condition(join, surroundings)
    source, earlier = surroundings.sources[position], surroundings.sources[:position]
    left, right = _sides(condition, source, earlier, surroundings)
    step = Step(join, left, right, condition, position)
    tables = all(item.source.kind is SourceKind.TABLE for item in earlier)
    match (tables, source.source.kind is SourceKind.TABLE):
        case (True, False):
            raise StatementError(
                "Invalid join order: table-stream joins are not supported; only stream-table "
                f"joins. Got {left.source.alias} {_written(join.kind)} {source.alias}."
            )
        case (False, False):
            _check_stream_join(step)
        case (True, True):
            _check_table_join(step, surroundings)
        case _:
            _check_stream_table(step, surroundings)
    return step


def refuse_value_formats(surroundings: Surroundings, clause: str) -> None:
    """Refuse a clause over values in formats that it does not work with."""
    for name, able in CAPABILITIES.items():
        read = [item.source for item in surroundings.sources]
        names = [source.name for source in read if source.value_format.name == name]
        if names and not able.clauses:
            raise refusals.VALUE_FORMAT_CLAUSE(sources=", ".join(names), format=name, clause=clause)


def _condition(join: statements.Join, surroundings: Surroundings) -> exp.EQ:
    for column in columns_in(join.condition):
        surroundings.resolve(column, "JOIN ON")
    text = surroundings.text(join.condition, qualified=True)
    match join.condition:
        case exp.EQ() as condition:
            return condition
        case exp.And() | exp.Or():
            raise StatementError(
                "Invalid join condition: joins on multiple conditions are not yet supported. "
                f"Got {text}."
            )
        case _:
            raise StatementError(
                f"Invalid join condition: only equality is supported. Got {text}.",
                hint="Join on <left expression> = <right expression>.",
            )


def _sides(
    condition: exp.EQ,
    joined: NamedSource,
    earlier: tuple[NamedSource, ...],
    surroundings: Surroundings,
) -> tuple[Side, Side]:
    """The side of the sources so far and the side of the newly joined one."""
    whole = surroundings.text(condition, qualified=True)
    first = _side(condition.this, whole, surroundings)
    second = _side(condition.expression, whole, surroundings)
    if second.source.alias == joined.alias and first.source in earlier:
        left, right = first, second
    elif first.source.alias == joined.alias and second.source in earlier:
        left, right = second, first
    else:
        raise StatementError(
            f"A join criteria is expected to reference the source (`{joined.alias}`) in the FROM "
            f"clause, instead the right source references `{second.source.alias}` and the left "
            f"source references `{first.source.alias}`"
        )
    if left.expression.type != right.expression.type:
        raise StatementError(
            "Invalid join condition: types don't match. Got "
            f"{_bare(condition.this, surroundings)}{{{first.expression.type}}} = "
            f"{_bare(condition.expression, surroundings)}{{{second.expression.type}}}.",
            hint="Use CAST to make both sides one type.",
        )
    return left, right


def _side(tree: exp.Expression, whole: str, surroundings: Surroundings) -> Side:
    owners = {surroundings.resolve(column, "JOIN ON").alias for column in columns_in(tree)}
    if len(owners) != 1:
        text = surroundings.text(tree, qualified=True)
        raise StatementError(
            f"Invalid comparison expression '{text}' in join '{whole}'. Each side of the join "
            "comparision must contain references from exactly one source."
        )
    alias = owners.pop()
    source = next(item for item in surroundings.sources if item.alias == alias)
    return Side(tree, surroundings.typed(tree, "JOIN ON"), source)


def _bare(tree: exp.Expression, surroundings: Surroundings) -> str:
    return surroundings.text(tree, qualified=True)


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


def _got(condition: exp.EQ, surroundings: Surroundings) -> str:
    left, right = condition.this, condition.expression
    return f"Got {_bare(left, surroundings)} = {_bare(right, surroundings)}."


def _check_stream_join(step: Step) -> None:
    _check_windows(step.left.source, step.right.source)
    if step.join.within is None:
        raise refusals.WITHIN_MISSING(left=step.left.source.alias, right=step.right.source.alias)


def _check_stream_table(step: Step, surroundings: Surroundings) -> None:
    join, left, right = step.join, step.left, step.right
    if join.within is not None:
        raise refusals.WITHIN_MISPLACED(left="Stream", right="Table")
    if join.kind not in ("INNER", "LEFT"):
        raise StatementError(
            "Invalid join type encountered: "
            f"{_written(join.kind)}. Stream-table joins are INNER or LEFT."
        )
    _check_windows(left.source, right.source)
    if not is_primary_key(right):
        raise StatementError(
            "Invalid join condition: stream-table joins require to join on the table's primary "
            f"key. {_got(step.condition, surroundings)}"
        )


def _check_table_join(step: Step, surroundings: Surroundings) -> None:
    join, left, right = step.join, step.left, step.right
    if join.within is not None:
        raise refusals.WITHIN_MISPLACED(left="Table", right="Table")
    if not is_primary_key(right):
        raise StatementError(
            "Invalid join condition: table-table joins require to join on the primary key of the "
            f"right input table. {_got(step.condition, surroundings)}"
        )
    if is_primary_key(left):
        _check_windows(left.source, right.source)
        return
    if step.position > 1:
        raise StatementError(
            "Invalid join condition: foreign-key table-table joins are not supported as part of "
            f"n-way joins. {_got(step.condition, surroundings)}"
        )
    if left.source.source.window is not None or right.source.source.window is not None:
        raise StatementError("Foreign-key table-table joins are not supported on windowed tables.")
    if join.kind in ("RIGHT", "FULL"):
        raise StatementError(f"{join.kind} OUTER JOIN on a foreign key is not supported")


def _check_windows(left: NamedSource, right: NamedSource) -> None:
    ours, theirs = left.source.window, right.source.window
    if (ours is None) != (theirs is None):
        raise StatementError(
            "Can not join windowed source to non-windowed source.\n"
            f"{_windowing(left)}\n{_windowing(right)}"
        )
    if ours is None or theirs is None:
        return
    if (ours.kind is WindowKind.SESSION) != (theirs.kind is WindowKind.SESSION):
        raise StatementError(
            "Incompatible windowed sources.\n"
            f"Left source: {ours.kind.value}\nRight source: {theirs.kind.value}\n"
            "Session windowed sources can only be joined to other session windowed sources, and "
            "may still not result in expected behaviour as session bounds must be an exact match "
            "for the join to work\n"
            "Hopping and tumbling windowed sources can only be joined to other hopping and "
            "tumbling windowed sources"
        )


def _windowing(item: NamedSource) -> str:
    window = item.source.window
    return f"`{item.alias}` is {f'{window.kind.value} windowed' if window else 'not windowed'}"
