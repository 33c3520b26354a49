"""FROM with JOIN: which rows meet, on what key, and what moves for it (reference §10)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from millstream.catalog.source import Format
from millstream.model.errors import StatementError
from millstream.model.expressions import ColumnRef, Expression
from millstream.model.schema import Column, Role, Schema, SourceKind, WindowKind
from millstream.plan.nodes import (
    JoinKind,
    Named,
    Node,
    Project,
    Read,
    Repartition,
    StreamTableJoin,
)
from millstream.plan.projection import Key, KeyColumn
from millstream.plan.sources import (
    NamedSource,
    Surroundings,
    column_reference,
    columns_in,
    unique,
)
from millstream_parser import statements


@dataclass(frozen=True, slots=True)
class From:
    """The relation that the clauses after FROM work on.

    `key_format` is the one its rows are partitioned by (None for a source without a key).
    """

    node: Node
    key: Key
    key_format: Format | None


@dataclass(frozen=True, slots=True)
class _Side:
    tree: exp.Expression
    expression: Expression
    source: NamedSource


@dataclass(frozen=True, slots=True)
class _Step:
    join: statements.Join
    left: _Side
    right: _Side
    condition: exp.EQ
    position: int


def read_source(source: NamedSource) -> From:
    """A single source as it is."""
    columns = []
    for column in source.source.schema.key:
        reference = column_reference(source, column.name)
        columns.append(KeyColumn(column.name, reference, ((reference, column.name),)))
    key_format = source.source.key_format if columns else None
    return From(source.read(), Key(tuple(columns)), key_format)


def read_joined(query: statements.Query, surroundings: Surroundings) -> From:
    """All sources of a query joined from left to right."""
    _refuse_kafka_values(surroundings, "JOIN")
    steps = [
        _checked(join, position, surroundings) for position, join in enumerate(query.joins, start=1)
    ]
    result = read_source(surroundings.sources[0])
    for step in steps:
        result = _joined(result, step, surroundings)
    return result


def _checked(join: statements.Join, position: int, surroundings: Surroundings) -> _Step:
    """A join whose condition and kind are allowed."""
    condition = _condition(join, surroundings)
    source, earlier = surroundings.sources[position], surroundings.sources[:position]
    left, right = _sides(condition, source, earlier, surroundings)
    step = _Step(join, left, right, condition, position)
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


def _refuse_kafka_values(surroundings: Surroundings, clause: str) -> None:
    names = [s.source.name for s in surroundings.sources if s.source.value_format.name == "KAFKA"]
    if names:
        raise StatementError(
            f"Source(s) {', '.join(names)} are using the 'KAFKA' value format. "
            f"This format does not yet support {clause}."
        )


def refuse_kafka_grouping(surroundings: Surroundings) -> None:
    """Refuse GROUP BY over values that have no field names."""
    _refuse_kafka_values(surroundings, "GROUP BY")


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
) -> tuple[_Side, _Side]:
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


def _side(tree: exp.Expression, whole: str, surroundings: Surroundings) -> _Side:
    owners = {surroundings.resolve(column, "JOIN ON").alias for column in columns_in(tree)}
    if len(owners) != 1:
        text = surroundings.text(tree, qualified=True)
        raise StatementError(
            f"Invalid comparison expression '{text}' in join '{whole}'. Each side of the join "
            "comparision must contain references from exactly one source."
        )
    alias = owners.pop()
    source = next(item for item in surroundings.sources if item.alias == alias)
    return _Side(tree, surroundings.typed(tree, "JOIN ON"), source)


def _bare(tree: exp.Expression, surroundings: Surroundings) -> str:
    return surroundings.text(tree, qualified=True)


def _joined(result: From, step: _Step, surroundings: Surroundings) -> From:
    match (result.node.kind, step.right.source.source.kind):
        case (SourceKind.STREAM, SourceKind.TABLE):
            return _stream_table(result, step, surroundings)
        case (SourceKind.STREAM, _):
            raise StatementError("Stream-stream joins are not supported yet.")
        case _:
            raise StatementError("Table-table joins are not supported yet.")


def _written(kind: str) -> str:
    return {
        "INNER": "[INNER] JOIN",
        "LEFT": "LEFT [OUTER] JOIN",
        "RIGHT": "RIGHT [OUTER] JOIN",
        "FULL": "FULL [OUTER] JOIN",
    }[kind]


def _primary_key(side: _Side) -> bool:
    key = side.source.source.schema.key
    return len(key) == 1 and side.expression == column_reference(side.source, key[0].name)


def _got(condition: exp.EQ, surroundings: Surroundings) -> str:
    left, right = condition.this, condition.expression
    return f"Got {_bare(left, surroundings)} = {_bare(right, surroundings)}."


def _check_stream_join(step: _Step) -> None:
    _check_windows(step.left.source, step.right.source)
    if step.join.within is None:
        raise StatementError(
            f"{step.left.source.alias} and {step.right.source.alias} are streams: stream-stream "
            "joins must have a WITHIN clause specified. None was provided."
        )


def _check_stream_table(step: _Step, surroundings: Surroundings) -> None:
    join, left, right = step.join, step.left, step.right
    if join.within is not None:
        raise StatementError(
            "A window definition was provided for a Stream-Table join. These joins are not "
            "windowed. Please drop the window definition (i.e. the WITHIN clause) and try to "
            "execute your join again."
        )
    if join.kind not in ("INNER", "LEFT"):
        raise StatementError(
            "Invalid join type encountered: "
            f"{_written(join.kind)}. Stream-table joins are INNER or LEFT."
        )
    _check_windows(left.source, right.source)
    if not _primary_key(right):
        raise StatementError(
            "Invalid join condition: stream-table joins require to join on the table's primary "
            f"key. {_got(step.condition, surroundings)}"
        )
    if right.source.source.window is not None:
        raise StatementError("Joins with windowed tables are not supported yet.")


def _check_table_join(step: _Step, surroundings: Surroundings) -> None:
    join, left, right = step.join, step.left, step.right
    if join.within is not None:
        raise StatementError(
            "A window definition was provided for a Table-Table join. These joins are not "
            "windowed. Please drop the window definition (i.e. the WITHIN clause) and try to "
            "execute your join again."
        )
    if not _primary_key(right):
        raise StatementError(
            "Invalid join condition: table-table joins require to join on the primary key of the "
            f"right input table. {_got(step.condition, surroundings)}"
        )
    if _primary_key(left):
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


def _stream_table(result: From, step: _Step, surroundings: Surroundings) -> From:
    join, left, right = step.join, step.left, step.right
    names = {s.prefix + c.name for s in surroundings.sources for c in s.columns}
    name = unique("ROWKEY", names)
    table_format = right.source.source.key_format
    left_node, kept = _left_by_key(result, left, name, table_format, join.kind, surroundings)
    right_read = replace(right.source.read(), materialised=True)
    right_node = _by_key(right_read, Named(name, right.expression))
    schema = Schema(
        left_node.schema.columns + tuple(c for c in right_node.schema.columns if c.name != name)
    )
    node = StreamTableJoin(left_node, right_node, JoinKind[join.kind], schema)
    matches = [
        *kept,
        *(
            (side.expression, surroundings.text(side.tree, qualified=True))
            for side in (left, right)
            if isinstance(side.expression, ColumnRef)
        ),
    ]
    value = ColumnRef(name, left.expression.type)
    distinct = tuple(dict(matches).items())
    default = distinct[0][0].name if isinstance(distinct[0][0], ColumnRef) else name
    key = Key((KeyColumn(default, value, distinct),), "join expression")
    return From(node, key, table_format)


def _left_by_key(
    result: From,
    left: _Side,
    name: str,
    table_format: Format,
    kind: str,
    surroundings: Surroundings,
) -> tuple[Node, list[tuple[Expression, str]]]:
    """The left rows keyed by the join expression, and what stood for that key before."""
    columns = result.key.columns
    lies = len(columns) == 1 and any(left.expression == e for e, _ in columns[0].matches)
    same_format = result.key_format is not None and (
        result.key_format.name,
        dict(result.key_format.properties),
    ) == (table_format.name, dict(table_format.properties))
    joined = isinstance(result.node, StreamTableJoin)
    if lies and same_format:
        if joined:
            return result.node, list(columns[0].matches)
        return _by_key(result.node, Named(name, left.expression)), []
    if any(item.source.window is not None for item in surroundings.sources):
        raise StatementError(
            "Implicit repartitioning of windowed sources is not supported. "
            "See https://github.com/confluentinc/ksql/issues/4385."
        )
    schema = _keyed_schema(result.node, Named(name, left.expression))
    key = (Named(name, left.expression),)
    moved = Repartition(result.node, key, table_format, schema, drop_null_keys=kind == "INNER")
    return moved, list(columns[0].matches) if lies and joined else []


def _keyed_schema(node: Node, key: Named) -> Schema:
    others = tuple(Column(c.name, c.type) for c in node.schema.columns if c.name != key.name)
    return Schema((Column(key.name, key.expression.type, Role.KEY), *others))


def _by_key(node: Read | Node, key: Named) -> Project:
    """The rows with the join key in front; they lie by it already, its column stays beside it."""
    schema = _keyed_schema(node, key)
    values = tuple(ColumnRef(column.name, column.type) for column in schema.value)
    return Project(node, (key.expression, *values), schema)
